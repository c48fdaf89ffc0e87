//===- StrategyTests.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/StrategyTests.h"
#include "KB/Lexer.h"
#include "KB/WordForms.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

static constexpr uint64_t MostBytes = 2 << 20;
/// A test speaks of a prevention when it has this many of its words, and they
/// are this share of the words of the test's name.
static constexpr size_t SharedWords = 2;
static constexpr double SharedShare = 0.6;

/// Whether \p Name by itself sounds like a test or an assertion.
static bool soundsLikeTest(StringRef Name) {
  std::string Lower = Name.lower();
  for (StringRef Part : {"test", "assert", "check", "expect", "golden",
                         "verify", "validate", "ensure"})
    if (StringRef(Lower).contains(Part))
      return true;
  return false;
}

std::vector<std::string> testNames(StringRef Item) {
  std::vector<std::string> Out;
  bool InCode = false;
  for (size_t I = 0; I < Item.size();) {
    char C = Item[I];
    if (C == '`')
      InCode = !InCode;
    if (!isAlpha(C) && C != '_') {
      ++I;
      continue;
    }
    size_t End = I;
    while (End < Item.size() && isNameChar(Item[End]))
      ++End;
    StringRef Name = Item.slice(I, End);
    bool Called = Item.drop_front(End).starts_with("(");
    bool IsFile = Item.drop_front(End).starts_with(".py");
    I = End;
    // Plain words, such as "test" and "checks", are no names.
    bool Compound = Name.contains('_') ||
                    (soundsLikeTest(Name) && Name.drop_front().lower() !=
                                                 Name.drop_front().str());
    bool IsName = Name.starts_with("test_") || (Compound && Called);
    if (InCode)
      IsName |= Called || IsFile || (Compound && soundsLikeTest(Name));
    if (IsName && Name.size() > 4 && !is_contained(Out, Name))
      Out.push_back(Name.str());
  }
  return Out;
}

/// The stems of the parts of \p Text but for those every test has.
static std::set<std::string> tellingStems(StringRef Text) {
  static const StringSet<> Common = {"test",  "tests",  "check", "assert",
                                     "run",   "should", "case",  "def",
                                     "func",  "fn",     "void",  "async",
                                     "self",  "it",     "same",  "compare",
                                     "after", "before", "fail",  "add"};
  std::set<std::string> Out;
  for (const Word &W : lex(Text)) {
    if (W.K != Word::Kind::Name)
      continue;
    for (const std::string &Part : splitIdentifier(W.Text))
      if (!isStopWord(Part) && !Common.contains(Part))
        Out.insert(stem(Part));
  }
  return Out;
}

void TestIndex::addTest(StringRef Line, StringRef Path, unsigned Number) {
  StringRef Bare = Line.trim();
  Bare.consume_front("async ");
  StringRef Name;
  if (Bare.consume_front("def test") || Bare.consume_front("fn test") ||
      Bare.consume_front("func Test"))
    Name = StringRef(Bare.data() - 4, Bare.size() + 4).take_while(isNameChar);
  else if (Bare.starts_with("TEST(") || Bare.starts_with("TEST_F(") ||
           Bare.starts_with("TEST_P("))
    Name = Bare.split('(').second.split(')').first;
  else if (Bare.starts_with("it(") || Bare.starts_with("test("))
    Name = Bare.split('(').second.drop_front().take_until(
        [](char C) { return C == '\'' || C == '"' || C == '`'; });
  if (Name.size() > 4)
    Tests.push_back({Name.str(), tellingStems(Name), {Path.str(), Number}});
}

void TestIndex::readFile(StringRef Path, StringRef Text) {
  ++Files;
  unsigned Number = 0;
  // The file itself may be what a prevention names.
  auto Named = Names.find(sys::path::stem(Path));
  if (Named != Names.end() && !Named->second.Line)
    Named->second = {Path.str(), 1};
  while (!Text.empty()) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    ++Number;
    addTest(Line, Path, Number);
    for (size_t I = 0; I < Line.size();) {
      if (!isNameChar(Line[I])) {
        ++I;
        continue;
      }
      size_t Begin = I;
      while (I < Line.size() && isNameChar(Line[I]))
        ++I;
      auto At = Names.find(Line.slice(Begin, I));
      if (At != Names.end() && !At->second.Line)
        At->second = {Path.str(), Number};
    }
  }
}

static bool isSource(StringRef Path) {
  static const StringSet<> Known = {
      ".py", ".pyi", ".rs",  ".c",    ".cc", ".cpp", ".cxx", ".h",   ".hpp",
      ".cu", ".cuh", ".go",  ".js",   ".ts", ".tsx", ".jl",  ".java", ".kt",
      ".rb", ".lua", ".sh",  ".test", ".swift", ".scala", ".yaml", ".yml",
      ".ipynb", ".toml", ".cmake", ".mojo", ".m", ".mm", ".r", ".R"};
  return Known.contains(sys::path::extension(Path));
}

static bool isSkipped(StringRef Folder) {
  StringRef Name = sys::path::filename(Folder);
  return Name.starts_with(".") || Name == "node_modules" || Name == "build" ||
         Name == "__pycache__" || Name == "site-packages" || Name == "target" ||
         Name == "venv";
}

Expected<TestIndex> TestIndex::read(StringRef Folder,
                                    ArrayRef<std::string> Wanted) {
  TestIndex Out;
  for (const std::string &Name : Wanted)
    Out.Names[Name];
  std::vector<std::string> Paths;
  if (!sys::fs::exists(Folder))
    return failure(Folder + ": no such file or folder",
                   "--tests names the folder of your tests");
  if (!sys::fs::is_directory(Folder))
    Paths.push_back(Folder.str());
  std::error_code Code;
  for (sys::fs::recursive_directory_iterator
           It(Folder, Code, /*follow_symlinks=*/false),
       End;
       Paths.empty() || It != End; It.increment(Code)) {
    if (Code || It == End)
      break;
    if (It->type() == sys::fs::file_type::directory_file) {
      if (isSkipped(It->path()))
        It.no_push();
    } else if (It->type() == sys::fs::file_type::regular_file &&
               isSource(It->path())) {
      Paths.push_back(It->path());
    }
  }
  llvm::sort(Paths); // a folder lists its files in any order
  for (const std::string &Path : Paths) {
    uint64_t Size = 0;
    if (sys::fs::file_size(Path, Size) || Size > MostBytes)
      continue;
    if (auto Text = MemoryBuffer::getFile(Path))
      Out.readFile(Path, (*Text)->getBuffer());
  }
  return Out;
}

TestedPrevention TestIndex::look(StringRef Item) const {
  TestedPrevention Out;
  Out.Text = Item.str();
  Out.Names = testNames(Item);
  for (const std::string &Name : Out.Names) {
    auto At = Names.find(Name);
    if (At == Names.end() || !At->second.Line)
      continue;
    Out.Found = Name;
    Out.Where = At->second;
    return Out;
  }
  std::set<std::string> Asked = tellingStems(Item);
  size_t Best = 0;
  for (const Test &T : Tests) {
    auto IsAsked = [&](const std::string &S) { return Asked.count(S) != 0; };
    size_t Shared = static_cast<size_t>(count_if(T.Stems, IsAsked));
    if (Shared < SharedWords || Shared <= Best ||
        static_cast<double>(Shared) < SharedShare * T.Stems.size())
      continue;
    Best = Shared;
    Out.Candidate = T.Name;
    Out.Where = T.Where;
  }
  return Out;
}

} // namespace culprit
