//===- KeyValueConfig.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KeyValueConfig.h"
#include "Readers/ConfigRows.h"
#include "Readers/TextLines.h"
#include "Support/Error.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;

namespace culprit {

/// Without a comment, which stands outside quotes, behind a blank.
static StringRef withoutRemark(StringRef Text) {
  char Quote = 0;
  for (size_t I = 0; I != Text.size(); ++I) {
    const char C = Text[I];
    if (Quote)
      Quote = C == Quote ? 0 : Quote;
    else if (C == '"' || C == '\'')
      Quote = C;
    else if ((C == '#' || C == ';') && (I == 0 || isSpace(Text[I - 1])))
      return Text.take_front(I).rtrim();
  }
  return Text.rtrim();
}

static bool isName(StringRef Key) {
  return !Key.empty() && Key.size() <= 80 &&
         (isAlpha(Key[0]) || Key[0] == '_') && all_of(Key, [](char C) {
           return isAlnum(C) || StringRef("_-.\"'").contains(C);
         });
}

/// Whether \p Value is one that needs no program to be read.
static bool isPlainValue(StringRef Value) {
  if (Value.empty() || StringRef("\"'[{(").contains(Value[0]) ||
      Value.starts_with("dict("))
    return true;
  return none_of(Value, [](char C) {
    return isSpace(C) || StringRef("()`=<>|&").contains(C);
  });
}

namespace {
/// The settings of a text, line by line.
class Assignments {
public:
  enum class Kind { Blank, Section, Pair, Part, Other };

  /// Key, Value and Line hold a setting where it returns Pair, which for a
  /// value over several lines is at the last of them.
  Kind line(StringRef Raw, int64_t Number);

  std::string Key, Value, Section;
  int64_t Line = 0;

private:
  Kind openValue();

  StringMap<unsigned> Elements; ///< Of each list of tables.
  StringRef Until;              ///< What ends a value over several lines.
};
} // namespace

/// Brackets that are open in \p Text, outside quotes.
static int openBrackets(StringRef Text) {
  int Depth = 0;
  char Quote = 0;
  for (char C : Text) {
    if (Quote)
      Quote = C == Quote ? 0 : Quote;
    else if (C == '"' || C == '\'')
      Quote = C;
    else if (C == '[' || C == '{' || C == '(')
      ++Depth;
    else if (C == ']' || C == '}' || C == ')')
      --Depth;
  }
  return Depth;
}

/// What stands in "dict(...)", as OpenMMLab's configs in Python have it.
static std::optional<StringRef> insideDict(StringRef Value) {
  if (!Value.consume_front("dict(") || !Value.consume_back(")"))
    return std::nullopt;
  return Value;
}

/// Adds a setting, and of a dict() each that stands in it: type and lr of
/// "optimizer = dict(type='AdamW', lr=0.001)".
static void addSetting(ConfigRows &Config, const Twine &Key, StringRef Value,
                       int64_t Line) {
  const std::string Name = Key.str();
  std::optional<StringRef> List = insideDict(Value);
  if (!List)
    return Config.add(Name, withoutQuotes(Value), Line);
  while (!List->empty()) {
    size_t End = 0;
    while (End != List->size() &&
           ((*List)[End] != ',' || openBrackets(List->take_front(End)) > 0))
      ++End;
    auto [Left, Right] = List->take_front(End).split('=');
    if (isName(Left.trim()) && !Right.trim().empty())
      addSetting(Config, Name + "." + Left.trim(), Right.trim(), Line);
    *List = List->drop_front(std::min(End + 1, List->size()));
  }
}

/// Whether the value goes on; takes its quotes off where it does not.
Assignments::Kind Assignments::openValue() {
  StringRef V = Value;
  for (StringRef Marks : {"\"\"\"", "'''"})
    if (V.starts_with(Marks)) {
      if (V.size() < 6 || !V.ends_with(Marks)) {
        Until = Marks;
        return Kind::Part;
      }
      Value = V.drop_front(3).drop_back(3).str();
      return Kind::Pair;
    }
  const bool Opens = V.starts_with("[") || V.starts_with("{") ||
                     V.starts_with("(") || V.starts_with("dict(");
  if (Opens && openBrackets(V) > 0) {
    Until = "]";
    return Kind::Part;
  }
  if (V.size() >= 2 && (V[0] == '"' || V[0] == '\'') && V.back() == V[0])
    Value = V.drop_front().drop_back().str();
  return Kind::Pair;
}

Assignments::Kind Assignments::line(StringRef Raw, int64_t Number) {
  if (!Until.empty()) {
    const bool Text = Until != "]";
    Value += (Text ? "\n" : " ") +
             (Text ? Raw.rtrim() : withoutRemark(Raw).trim()).str();
    if (Text ? !StringRef(Value).ends_with(Until) : openBrackets(Value) > 0)
      return Kind::Part;
    Until = "";
    return openValue();
  }
  StringRef Body = withoutRemark(Raw).trim();
  if (Body.empty())
    return Kind::Blank;
  if (Body.starts_with("[") && Body.ends_with("]") && !Body.contains('=')) {
    const bool List = Body.starts_with("[[") && Body.ends_with("]]");
    StringRef Name = List ? Body.drop_front(2).drop_back(2)
                          : Body.drop_front().drop_back();
    if (!isName(Name.trim()))
      return Kind::Other;
    Section = Name.trim().str() + ".";
    if (List)
      Section += utostr(Elements[Name.trim()]++) + ".";
    return Kind::Section;
  }
  if (Body.starts_with("import ") || Body.starts_with("from "))
    return Kind::Blank; // of gin and of Python
  Body.consume_front("export ");
  Body.consume_front("--"); // a flagfile of absl
  auto [Left, Right] = Body.split('=');
  Left = Left.trim();
  if (Body.find('=') == StringRef::npos || !isName(Left) ||
      Right.starts_with("=") || !isPlainValue(Right.trim()))
    return Kind::Other;
  Key.clear();
  for (char C : Section + Left.str())
    if (C != '"' && C != '\'')
      Key += C;
  Value = Right.trim().str();
  Line = Number;
  return openValue();
}

/// Sections of files about packages, which hold no settings of a run.
static bool isOfPackage(StringRef Section) {
  return Section.starts_with("tool.") ||
         is_contained({"build-system.", "project.", "package.", "metadata.",
                       "tox.", "dependencies.", "workspace.", "options.",
                       "bdist_wheel.", "egg_info.", "flake8.", "mypy."},
                      Section);
}

Match KeyValueConfigReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (Head.starts_with("{") || Head.starts_with("<") ||
      Head.starts_with("#!") || Head.contains('\0'))
    return Match::No;
  unsigned Pairs = 0, Other = 0;
  bool Package = false;
  Assignments In;
  const bool Whole = Head.size() < InputFile::HeadBytes;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t Number) {
    const Assignments::Kind K = In.line(Line, Number);
    Pairs += K == Assignments::Kind::Pair;
    Other += K == Assignments::Kind::Other;
    Package |= K == Assignments::Kind::Section && isOfPackage(In.Section);
    return Pairs + Other < 400 && !Package;
  });
  return !Package && Pairs > 1 && Pairs >= 9 * Other ? Match::Possible
                                                     : Match::No;
}

Error KeyValueConfigReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  ConfigRows Config(Into, "", optionName);
  Assignments In;
  size_t Broken = 0;
  int64_t First = 0;
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    const Assignments::Kind K = In.line(Line, Number);
    if (K == Assignments::Kind::Pair)
      addSetting(Config, In.Key, In.Value, In.Line);
    else if (K == Assignments::Kind::Other && ++Broken == 1)
      First = Number;
    return true;
  });
  if (Broken)
    Into.warn(Into.path() + ":" + Twine(First) +
                  ": neither 'key = value' nor a section" +
                  (Broken > 1 ? ", like " + formatCount(Broken - 1) +
                                    " lines behind it"
                              : std::string()),
              "the line was skipped, the settings around it were read");
  Config.finish();
  if (Config.rows() == 0)
    return failure(Into.path() + ": no setting in it",
                   "a setting is a line such as 'lr = 0.0003'");
  return Error::success();
}

} // namespace culprit
