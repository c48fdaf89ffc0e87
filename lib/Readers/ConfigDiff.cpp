//===- ConfigDiff.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ConfigDiff.h"
#include "Readers/ConfigRows.h"
#include "Readers/PackageList.h"
#include "Readers/TextLines.h"
#include "Readers/YamlConfig.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

/// Lines of one side that are kept; a diff of configurations is far shorter.
static constexpr size_t MaxLinesOfSide = 100'000;

namespace {
enum class LineKind { Removed, Added, Common, File, Hunk, Header, Other };

struct DiffLine {
  LineKind Kind;
  StringRef Text; ///< Behind the mark; of File the name of the file.
};
} // namespace

static bool startsWithAny(StringRef Text, ArrayRef<StringRef> Begins) {
  return any_of(Begins, [&](StringRef B) { return Text.starts_with(B); });
}

static DiffLine parseDiffLine(StringRef Line) {
  Line = Line.rtrim('\r');
  if (Line.starts_with("+++ ") || Line.starts_with("--- ")) {
    // "--- a/train.yaml", perhaps with a time behind a tab.
    StringRef Name = Line.drop_front(4).split('\t').first.trim();
    if (Name != "/dev/null" && !Name.consume_front("a/"))
      Name.consume_front("b/");
    return {LineKind::File, Name};
  }
  if (Line.starts_with("@@"))
    return {LineKind::Hunk, ""};
  if (startsWithAny(Line, {"diff ", "index ", "old mode", "new mode",
                           "new file", "deleted file", "similarity ",
                           "rename ", "\\ No newline"}))
    return {LineKind::Header, ""};
  if (Line.empty())
    return {LineKind::Common, ""};
  if (Line[0] == '-')
    return {LineKind::Removed, Line.drop_front()};
  if (Line[0] == '+')
    return {LineKind::Added, Line.drop_front()};
  if (Line[0] == ' ')
    return {LineKind::Common, Line.drop_front()};
  return {LineKind::Other, Line};
}

/// Whether a file of this name holds settings, as far as the name tells.
static bool mayHoldSettings(StringRef Name) {
  static constexpr StringRef Ends[] = {
      "",      ".yaml", ".yml", ".json", ".toml", ".cfg",   ".ini",
      ".conf", ".env",  ".txt", ".args", ".jsonc", ".properties"};
  return is_contained(Ends, sys::path::extension(Name)) ||
         sys::path::filename(Name).starts_with(".env");
}

/// A key as programs write them, and something behind it.
static bool isKey(StringRef Key) {
  Key = Key.trim("\"' ");
  Key.consume_front("export ");
  return !Key.empty() && Key.size() <= 80 && !isDigit(Key[0]) &&
         Key.find_if_not([](char C) {
           return isAlnum(C) || C == '_' || C == '-' || C == '.' || C == '/';
         }) == StringRef::npos;
}

/// A line of JSON, TOML or of a shell in the words of YAML; as it is where it
/// is YAML already. \p Section is TOML's, with a dot behind.
static std::string asYaml(StringRef Line, std::string &Section) {
  StringRef Body = Line.trim();
  const std::string Indent =
      Line.take_front(Line.size() - Line.ltrim(" \t").size()).str();
  if (Body.empty() || startsWithAny(Body, {"//", "#", ";"}) ||
      Body.find_if_not([](char C) { return StringRef("{}[],").contains(C); }) ==
          StringRef::npos)
    return "";
  if (Body.size() > 2 && Body.front() == '[' && Body.back() == ']' &&
      isKey(Body.drop_front().drop_back())) {
    Section = Body.drop_front().drop_back().str() + ".";
    return "";
  }
  const size_t Colon = Body.find(':'), Equals = Body.find('=');
  if (Equals != StringRef::npos &&
      (Colon == StringRef::npos || Equals < Colon)) {
    StringRef Key = Body.take_front(Equals).trim();
    StringRef Value = Body.drop_front(Equals + 1).trim();
    if (Value.starts_with("=") || !isKey(Key))
      return Line.str(); // a==1 is a package
    Key.consume_front("export ");
    Key = Key.trim().ltrim('-');
    return Section + Key.str() + ": " + Value.str();
  }
  // "lr": 1e-4, of JSON: blanks and commas are not of the value, and a brace
  // opens a block.
  if (Body.starts_with("\"") && Body.contains("\":")) {
    StringRef Value = Body.drop_front(Body.find("\":") + 2).trim();
    StringRef Key = Body.take_front(Body.find("\":") + 1);
    if (Value.size() > 1 || !StringRef("{[").contains(Value))
      Value = Value.rtrim().ends_with(",") ? Value.rtrim().drop_back() : Value;
    else
      Value = "";
    return Indent + Key.str() + ": " + Value.str();
  }
  return Line.str();
}

/// Whether \p Text, a changed line, is a setting.
static bool isSetting(StringRef Text) {
  std::string Section;
  const std::string Line = asYaml(Text, Section);
  StringRef Body = StringRef(Line).trim();
  while (Body.consume_front("- "))
    Body = Body.ltrim();
  const size_t Colon = Body.find(':');
  return Colon != StringRef::npos &&
         (Colon + 1 == Body.size() || Body[Colon + 1] == ' ') &&
         isKey(Body.take_front(Colon)) &&
         !startsWithAny(Body, {"def ", "class ", "if ", "for "});
}

Match ConfigDiffReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (Head.contains('\0'))
    return Match::No;
  unsigned Changed = 0, Added = 0, Removed = 0, Settings = 0, Other = 0;
  bool Headed = false, Wanted = true;
  const bool Whole = Head.size() < InputFile::HeadBytes;
  forEachLine(completeLines(Head, Whole), [&](StringRef Line, int64_t) {
    const DiffLine L = parseDiffLine(Line);
    switch (L.Kind) {
    case LineKind::File:
      Headed = true;
      if (L.Text != "/dev/null")
        Wanted = mayHoldSettings(L.Text);
      break;
    case LineKind::Hunk:
    case LineKind::Header:
      Headed = true;
      break;
    case LineKind::Removed:
    case LineKind::Added:
      if (!Wanted || L.Text.trim().empty())
        break;
      ++(L.Kind == LineKind::Added ? Added : Removed);
      ++Changed;
      Settings += isSetting(L.Text) || pinnedPackage(L.Text.trim());
      break;
    case LineKind::Common:
      break;
    case LineKind::Other:
      // Words of a mail stand before the first header alone.
      Other += !Headed;
      break;
    }
    return true;
  });
  if (Settings == 0 || Settings * 10 < Changed * 6)
    return Match::No;
  if (Headed)
    return Match::Likely;
  // "- a: 1" alone is a list of YAML; plus signs are no part of it.
  return Other == 0 && Added && (Removed || Added > 1) ? Match::Likely
                                                       : Match::No;
}

namespace {
/// The lines of both sides of one hunk, and where they go.
class DiffPass {
public:
  explicit DiffPass(Source &Into);
  void line(StringRef Text, int64_t Number);
  void finish();
  size_t rows() const {
    return Before.Config->rows() + After.Config->rows() + Packages;
  }

private:
  struct Side {
    std::string Run;
    std::optional<ConfigRows> Config;
    std::vector<NumberedLine> Lines;
    std::string Section; ///< Of TOML.
  };

  void add(Side &S, StringRef Text, int64_t Number);
  void flush(Side &S);

  Source &Into;
  Side Before, After;
  size_t Packages = 0, Kept = 0, Dropped = 0;
  bool Wanted = true;
};
} // namespace

DiffPass::DiffPass(Source &Into) : Into(Into) {
  const std::string Own = Into.Run;
  const std::string Prefix = Own.empty() ? "" : Own + "/";
  // A ConfigRows keeps the run that the source has while it is made.
  for (auto [S, Name] : {std::pair(&Before, "before"), {&After, "after"}}) {
    S->Run = Prefix + Name;
    Into.Run = S->Run;
    S->Config.emplace(Into);
  }
  Into.Run = Own;
}

void DiffPass::add(Side &S, StringRef Text, int64_t Number) {
  if (std::optional<PinnedPackage> P = pinnedPackage(Text.trim())) {
    TableBuilder &T = Into.table(TableId::packages);
    T.addRow();
    T.set(packages::name, P->Name);
    T.set(packages::version, P->Version);
    T.set(packages::place, Number);
    T.setId(packages::source, Into.pool().intern(Into.path()));
    T.setId(packages::run, Into.pool().intern(S.Run));
    ++Packages;
    return;
  }
  std::string Yaml = asYaml(Text, S.Section);
  if (!Yaml.empty())
    S.Lines.push_back({std::move(Yaml), Number});
}

void DiffPass::flush(Side &S) {
  readYamlLines(S.Lines, Into, *S.Config);
  S.Lines.clear();
}

void DiffPass::line(StringRef Text, int64_t Number) {
  const DiffLine L = parseDiffLine(Text);
  switch (L.Kind) {
  case LineKind::File:
    if (L.Text != "/dev/null")
      Wanted = mayHoldSettings(L.Text);
    Before.Section.clear();
    After.Section.clear();
    [[fallthrough]];
  case LineKind::Hunk:
    flush(Before);
    flush(After);
    return;
  case LineKind::Header:
  case LineKind::Other:
    return;
  case LineKind::Removed:
  case LineKind::Added:
  case LineKind::Common:
    break;
  }
  if (!Wanted)
    return;
  if (++Kept > MaxLinesOfSide) {
    ++Dropped;
    return;
  }
  // People paste a blank behind the mark; it is no indent, since it stands
  // before the keys of both sides alike.
  if (L.Kind != LineKind::Added)
    add(Before, L.Text, Number);
  if (L.Kind != LineKind::Removed)
    add(After, L.Text, Number);
}

void DiffPass::finish() {
  flush(Before);
  flush(After);
  Before.Config->finish();
  After.Config->finish();
  if (Dropped)
    Into.warn(Into.path() + ": " + Twine(Dropped) + " lines beyond the first " +
                  Twine(MaxLinesOfSide) + " were left out",
              "give the diff of the configuration alone");
}

Error ConfigDiffReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  DiffPass Pass(Into);
  forEachLine(*Text, [&](StringRef Line, int64_t Number) {
    Pass.line(Line, Number);
    return true;
  });
  Pass.finish();
  if (Pass.rows() == 0)
    return failure(Into.path() + ": no setting in this diff",
                   "give the diff of a file of settings");
  return Error::success();
}

} // namespace culprit
