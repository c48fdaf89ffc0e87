//===- YamlConfig.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/YamlConfig.h"
#include "llvm/ADT/StringExtras.h"
#include <utility>
#include <vector>

using namespace llvm;

namespace culprit {

namespace {
/// One line, taken apart.
struct YamlLine {
  enum class Kind { Blank, Pair, Item, Other };
  Kind What = Kind::Blank;
  int64_t Indent = 0; ///< Of the key, or of the text behind the dashes.
  SmallVector<int64_t, 2> Dashes; ///< Columns of the dashes.
  StringRef Key, Value;           ///< Value is empty where a block follows.
};
} // namespace

/// Removes a comment, which needs a blank before it, outside quotes.
static StringRef withoutComment(StringRef Text) {
  char Quote = 0;
  for (size_t I = 0; I != Text.size(); ++I) {
    char C = Text[I];
    if (Quote)
      Quote = C == Quote ? 0 : Quote;
    else if (C == '"' || C == '\'')
      Quote = I == 0 || StringRef(" [{,:").contains(Text[I - 1]) ? C : 0;
    else if (C == '#' && (I == 0 || Text[I - 1] == ' ' || Text[I - 1] == '\t'))
      return Text.take_front(I).rtrim();
  }
  return Text.rtrim();
}

/// Where the colon behind a key stands, or npos.
static size_t colonOf(StringRef Text) {
  if (Text.starts_with("\"") || Text.starts_with("'")) {
    size_t Close = Text.find(Text[0], 1);
    if (Close == StringRef::npos)
      return StringRef::npos;
    size_t Colon = Text.find_first_not_of(' ', Close + 1);
    return Colon != StringRef::npos && Text[Colon] == ':' ? Colon
                                                          : StringRef::npos;
  }
  for (size_t I = 0; I != Text.size(); ++I)
    if (Text[I] == ':' && (I + 1 == Text.size() || Text[I + 1] == ' '))
      return I;
    else if (StringRef("{}[]&*!|>%@`,\"'").contains(Text[I]))
      return StringRef::npos;
  return StringRef::npos;
}

static StringRef unquoted(StringRef Text) {
  if (Text.size() >= 2 && (Text[0] == '"' || Text[0] == '\'') &&
      Text.back() == Text[0])
    return Text.drop_front().drop_back();
  return Text;
}

/// A tag or an anchor before a value says nothing to us.
static StringRef withoutTags(StringRef Value) {
  while (Value.starts_with("!") || Value.starts_with("&"))
    Value = Value.drop_until([](char C) { return C == ' '; }).ltrim();
  return Value;
}

static YamlLine parseLine(StringRef Line) {
  YamlLine Out;
  StringRef Text = withoutComment(Line);
  StringRef Body = Text.ltrim();
  Out.Indent = Text.size() - Body.size();
  if (Body.empty() || Body == "---" || Body == "..." || Body.starts_with("%"))
    return Out;
  // "----- Options -----" and "----- End -----" of printed options.
  if (Body.starts_with("-----") && Body.ends_with("---"))
    return Out;
  // The whole is an object, as configs that Python has dumped say first.
  if (Out.Indent == 0 && withoutTags(Body).empty())
    return Out;
  while (Body == "-" || Body.starts_with("- ")) {
    Out.Dashes.push_back(Out.Indent);
    StringRef Rest = Body.drop_front().ltrim();
    Out.Indent += Body.size() - Rest.size();
    Body = Rest;
  }
  size_t Colon = colonOf(Body);
  if (Colon == StringRef::npos) {
    Out.What =
        !Out.Dashes.empty() ? YamlLine::Kind::Item : YamlLine::Kind::Other;
    Out.Value = Body;
    return Out;
  }
  Out.What = YamlLine::Kind::Pair;
  Out.Key = unquoted(Body.take_front(Colon).trim());
  Out.Value = Body.drop_front(Colon + 1).trim();
  Out.Value = withoutTags(Out.Value);
  // Printed options have what they would be behind what they are.
  if (size_t At = Out.Value.find("[default: "); Out.Value.ends_with("]") &&
                                                At != StringRef::npos && At > 0)
    Out.Value = Out.Value.take_front(At).rtrim();
  return Out;
}

/// Whether a key in capitals is what tools and people call out, RUN:,
/// CHECK-NEXT:, WARNING:, or stands before a sentence, and is no setting of
/// Detectron2 and its kin, BASE_LR: 0.02.
static bool isOutcry(StringRef Key, StringRef Value) {
  if (Key.contains('-') || Key.starts_with("CHECK"))
    return true;
  for (StringRef Word :
       {"RUN", "REQUIRES", "UNSUPPORTED", "XFAIL", "PASS", "FAIL", "WARNING",
        "WARN", "ERROR", "FATAL", "CRITICAL", "INFO", "NOTE", "NOTICE", "TODO",
        "FIXME", "XXX", "HINT", "TIP"})
    if (Key == Word)
      return true;
  // A sentence; lists and quoted texts may have blanks.
  return Value.contains(' ') && !StringRef("[({\"'").contains(Value[0]) &&
         !Key.contains('_');
}

/// Whether a pair is as programs write them; the keys of prose and log lines
/// have blanks in them.
static bool isSetting(const YamlLine &L) {
  if (L.What != YamlLine::Kind::Pair)
    return false;
  StringRef Key = L.Key;
  bool Shouts = Key.size() > 1 && none_of(Key, isLower);
  return !Key.empty() && Key.size() <= 80 && !Key.contains(' ') &&
         !Key.contains('(') && !isDigit(Key[0]) &&
         !(Shouts && isOutcry(Key, L.Value));
}

/// Brackets that are opened in \p Flow and not closed there.
static int64_t openIn(StringRef Flow) {
  return int64_t(Flow.count('[') + Flow.count('{')) -
         int64_t(Flow.count(']') + Flow.count('}'));
}

static bool isBalanced(StringRef Flow) { return openIn(Flow) <= 0; }

Match YamlConfigReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (Head.starts_with("{") || Head.starts_with("<") || Head.contains('\0'))
    return Match::No;
  // A lock of golden checks says what a run should be, not what it was.
  if (Head.take_front(1024).contains("\nculprit_golden:"))
    return Match::No;
  unsigned Pairs = 0, Other = 0;
  bool Whole = Head.size() < InputFile::HeadBytes;
  std::optional<int64_t> Block; // indent of the key of a text over lines
  std::string Flow;             // a list over lines
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t) {
    const int64_t Indent = Line.size() - Line.ltrim().size();
    if (Block && (Line.trim().empty() || Indent > *Block))
      return true;
    Block = std::nullopt;
    if (!Flow.empty()) {
      Flow += withoutComment(Line);
      if (isBalanced(Flow) || Flow.size() > 4096)
        Flow.clear();
      return true;
    }
    YamlLine L = parseLine(Line);
    const bool Setting = isSetting(L);
    if (Setting) {
      if (L.Value.starts_with("|") || L.Value.starts_with(">"))
        Block = L.Dashes.empty() ? L.Indent : L.Dashes.front();
      else if ((L.Value.starts_with("[") || L.Value.starts_with("{")) &&
               !isBalanced(L.Value))
        Flow = L.Value.str();
    }
    // A value that ends in a comma is an element of some program's list.
    if (Setting &&
        (!L.Value.ends_with(",") || L.Value.starts_with("[") ||
         L.Value.starts_with("{")))
      ++Pairs;
    else if (L.What == YamlLine::Kind::Pair || L.What == YamlLine::Kind::Other)
      ++Other;
    return Pairs + Other < 400;
  });
  return Pairs > 0 && Pairs >= 9 * Other ? Match::Possible : Match::No;
}

namespace {
/// Follows the indentation and adds a row for each leaf.
class YamlWalker {
public:
  /// With \p Parts, lines that are no settings are not told of.
  YamlWalker(Source &Into, ConfigRows &Config, bool WandB, bool Parts = false)
      : Into(Into), Config(Config), WandB(WandB), Parts(Parts) {}

  void line(StringRef Text, int64_t Number);
  void finish();
  unsigned broken() const { return Broken; }

private:
  /// A key whose block is open, or a list element.
  struct Level {
    int64_t Indent;
    std::string Path;
    bool Item;
    int64_t Items = 0; ///< List elements seen under Path.
  };

  bool continues(StringRef Text, int64_t Number);
  void endFlow();
  void endText();
  bool addParts(StringRef Path, StringRef Map, int64_t Number);
  void openItems(ArrayRef<int64_t> Dashes);
  void leave(int64_t Indent);
  void add(StringRef Path, StringRef Value, int64_t Number);
  void tellBroken(int64_t Number);

  Source &Into;
  ConfigRows &Config;
  bool WandB, Parts;
  std::vector<Level> Levels = {{-1, "", false}};
  std::optional<int64_t> BlockText; ///< Indent of the key of a | or > text.
  std::string TextPath, TextValue;  ///< Of that text.
  int64_t TextLine = 0;
  std::string FlowPath, Flow;       ///< A [ or { that goes on over lines.
  int64_t FlowLine = 0, FlowOpen = 0; ///< Where it began; brackets still open.
  size_t FlowBegin = 0;               ///< Bytes of its first line.
  /// Its lines behind the first, for one that is never closed.
  std::vector<std::pair<StringRef, int64_t>> FlowLines;
  bool FlowsEnd = true; ///< No value has been found that is never closed.
  unsigned Broken = 0;
};
} // namespace

/// Whether the line belongs to a value that began before it.
bool YamlWalker::continues(StringRef Text, int64_t Number) {
  StringRef Body = Text.trim();
  if (!Flow.empty()) {
    StringRef Part = withoutComment(Body);
    Flow += ' ';
    Flow += Part;
    FlowOpen += openIn(Part);
    FlowLines.emplace_back(Text, Number);
    if (FlowOpen <= 0) {
      if (!addParts(FlowPath, Flow, FlowLine))
        add(FlowPath, Flow, FlowLine);
      Flow.clear();
      FlowLines.clear();
    }
    return true;
  }
  if (!BlockText)
    return false;
  int64_t Indent = Text.size() - Text.ltrim().size();
  if (Body.empty() || Indent > *BlockText) {
    // A prompt is long and no novel.
    if (TextValue.size() < 65536)
      TextValue += (TextValue.empty() ? "" : "\n") + Body.str();
    return true;
  }
  endText();
  return false;
}

/// A list or a map that is not closed by the end of the file is one of its first
/// line alone: what follows was taken for a part of it.
void YamlWalker::endFlow() {
  if (Flow.empty())
    return;
  if (!Parts)
    Into.warn(Into.path() + ":" + Twine(FlowLine) +
                  ": a list or a map that is not closed",
              "the lines behind it were read as settings of their own; close "
              "its bracket");
  FlowsEnd = false;
  add(FlowPath, StringRef(Flow).take_front(FlowBegin), FlowLine);
  Flow.clear();
  for (auto [Text, Number] : std::exchange(FlowLines, {}))
    line(Text, Number);
}

void YamlWalker::finish() {
  endFlow();
  endText();
}

/// The text over several lines is complete.
void YamlWalker::endText() {
  if (BlockText && !TextValue.empty())
    add(TextPath, StringRef(TextValue).rtrim(), TextLine);
  BlockText = std::nullopt;
  TextValue.clear();
}

/// Adds the members of \p Map, "{lr: 1e-4, betas: [0.9, 0.95]}", as the lines
/// that they might have been; false where it is none.
bool YamlWalker::addParts(StringRef Path, StringRef Map, int64_t Number) {
  if (!Map.starts_with("{") || !Map.ends_with("}"))
    return false;
  Map = Map.drop_front().drop_back();
  SmallVector<StringRef, 8> Members;
  int Depth = 0;
  char Quote = 0;
  size_t Begin = 0;
  for (size_t I = 0; I <= Map.size(); ++I) {
    const char C = I == Map.size() ? ',' : Map[I];
    if (I == Map.size() && (Quote || Depth))
      return false;
    if (Quote)
      Quote = C == Quote ? 0 : Quote;
    else if (C == '"' || C == '\'')
      Quote = C;
    else if (C == '[' || C == '{')
      ++Depth;
    else if (C == ']' || C == '}')
      --Depth;
    else if (C == ',' && Depth == 0) {
      if (StringRef One = Map.slice(Begin, I).trim(); !One.empty())
        Members.push_back(One);
      Begin = I + 1;
    }
  }
  for (StringRef One : Members)
    if (colonOf(One) == StringRef::npos)
      return false;
  for (StringRef One : Members) {
    const size_t Colon = colonOf(One);
    const std::string Key =
        (Path + (Path.empty() ? "" : ".") +
         unquoted(One.take_front(Colon).trim()))
            .str();
    const StringRef Value = One.drop_front(Colon + 1).trim();
    if (Key.size() > 400 || !addParts(Key, Value, Number))
      add(Key, Value, Number);
  }
  return !Members.empty();
}

void YamlWalker::tellBroken(int64_t Number) {
  if (++Broken == 1 && !Parts)
    Into.warn(Into.path() + ":" + Twine(Number) +
                  ": neither 'key: value' nor a list element",
              "the line was skipped, the settings around it were read; mind "
              "the blank after the colon");
}

void YamlWalker::add(StringRef Path, StringRef Value, int64_t Number) {
  if (!WandB) {
    Config.add(Path, unquoted(Value), Number);
    return;
  }
  // W&B's config.yaml has a value and a description under each key, and notes
  // about itself under _wandb. A key of its own may have dots.
  if (Path.ends_with(".desc") || Path.starts_with("_wandb."))
    return;
  std::string Key = Path.str();
  if (size_t At = Path.find(".value."); At != StringRef::npos)
    Key.erase(At, StringRef(".value").size());
  else if (Path.ends_with(".value"))
    Key.resize(Path.size() - StringRef(".value").size());
  Config.add(Key, unquoted(Value), Number);
}

/// Closes what does not hold a key at \p Indent.
void YamlWalker::leave(int64_t Indent) {
  while (Levels.back().Indent >= Indent)
    Levels.pop_back();
}

static std::string joined(StringRef Path, const Twine &Key) {
  return (Path + (Path.empty() ? "" : ".") + Key).str();
}

void YamlWalker::openItems(ArrayRef<int64_t> Dashes) {
  for (int64_t Dash : Dashes) {
    // A list may stand at the indent of the key it belongs to.
    while (Levels.back().Indent > Dash ||
           (Levels.back().Indent == Dash && Levels.back().Item))
      Levels.pop_back();
    Level &Parent = Levels.back();
    std::string Path = joined(Parent.Path, Twine(Parent.Items++));
    Levels.push_back({Dash, std::move(Path), true});
  }
}

void YamlWalker::line(StringRef Text, int64_t Number) {
  if (continues(Text, Number))
    return;
  YamlLine L = parseLine(Text);
  if (L.What == YamlLine::Kind::Blank)
    return;
  if (L.What == YamlLine::Kind::Other) {
    tellBroken(Number);
    return;
  }
  openItems(L.Dashes);
  std::string Path = Levels.back().Path;
  if (L.What == YamlLine::Kind::Pair) {
    leave(L.Indent);
    Path = joined(Levels.back().Path, L.Key);
  }
  if (L.Value.starts_with("|") || L.Value.starts_with(">")) {
    BlockText = L.Dashes.empty() ? L.Indent : L.Dashes.front();
    TextPath = Path;
    TextLine = Number;
  } else if (FlowsEnd &&
             (L.Value.starts_with("[") || L.Value.starts_with("{")) &&
             !isBalanced(L.Value)) {
    FlowPath = Path, Flow = L.Value.str(), FlowLine = Number;
    FlowBegin = Flow.size(), FlowOpen = openIn(Flow);
  } else if (!L.Value.empty() && !addParts(Path, L.Value, Number))
    add(Path, L.Value, Number);
  else if (!L.Value.empty())
    return;
  else if (L.What == YamlLine::Kind::Pair)
    Levels.push_back({L.Indent, std::move(Path), false});
}

Error YamlConfigReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  ConfigRows Config(Into, "", settingName);
  // Since 0.18 W&B leaves the version out.
  bool WandB = Text->contains("wandb_version:") ||
               Text->starts_with("_wandb:") || Text->contains("\n_wandb:");
  YamlWalker Walker(Into, Config, WandB);
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    Walker.line(Line, Number);
    return true;
  });
  Walker.finish();
  if (Walker.broken() > 1)
    Into.warn(Into.path() + ": " + Twine(Walker.broken() - 1) +
              " more lines are neither 'key: value' nor list elements");
  Config.finish();
  if (Config.rows() == 0)
    return failure(Into.path() + ": no setting in it",
                   "a setting is a line such as 'lr: 0.0003'");
  return Error::success();
}

void readYamlLines(ArrayRef<NumberedLine> Lines, Source &Into,
                   ConfigRows &Config) {
  YamlWalker Walker(Into, Config, false, true);
  for (const NumberedLine &Line : Lines)
    Walker.line(Line.Text, Line.Number);
  Walker.finish();
}

} // namespace culprit
