//===- LintTest.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Lint.h"
#include "Script/LuaDetector.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

/// What is said against \p Source but for the doc comment, a line each:
/// "7 unused-option: text".
std::string said(llvm::StringRef Source) {
  LoadSettings Settings;
  DetectorSet Set;
  auto Loaded = loadDetector("my/one", "one.lua", Source, Settings);
  const DetectorInfo *Info = nullptr;
  const DetectorError *Problem = nullptr;
  if (auto *D = std::get_if<std::unique_ptr<Detector>>(&Loaded))
    Info = &(*D)->info();
  else
    Problem = &std::get<BrokenDetector>(Loaded).Error;
  std::string Out;
  for (const LintRemark &R : lintDetector("one.lua", Source, Info, Problem))
    if (!llvm::StringRef(R.Check).starts_with("doc-"))
      Out += std::to_string(R.Line) + " " + R.Check + ": " + R.Text + "\n";
  return Out;
}

/// A detector whose `run` does \p Body, from line 4 on.
std::string detector(llvm::StringRef Body, llvm::StringRef Declared = "") {
  return ("return { api = 1, summary = 's', needs = { gpu_work = {'start'} },\n"
          "  symptoms = { 'gpu-idle' }, " +
          Declared + "\n  run = function(case)\n" + Body +
          "\n  local s = 'gpu-idle' .. tostring(case.gpu_work)\n  end }")
      .str();
}

TEST(Lint, SaysNothingAgainstWhatIsRight) {
  EXPECT_EQ(said(detector("")), "");
  EXPECT_EQ(said(detector("for i, x in ipairs({ a = 1, b = function(c) return "
                          "c end }) do local y, z = i, x; y = z end")),
            "");
  // A local function, called before the place where it is defined.
  EXPECT_EQ(said(detector("local f  local function g() return f() end  f = "
                          "function() return g end")),
            "");
}

TEST(Lint, OneRemarkForOneName) {
  EXPECT_EQ(said(detector("local a = nothing\nlocal b = nothing")),
            "4 unknown-name: unknown name 'nothing'\n");
  EXPECT_EQ(said(detector("local a = case.gpu_work:sum('x', nothing)")),
            "4 unknown-name: unknown name 'nothing'\n"
            "4 unknown-column: unknown column 'x' of 'gpu_work'\n");
}

TEST(Lint, QuotesWithoutControlCharacters) {
  EXPECT_EQ(said(detector("local a = case.gpu_work:sum('\x1b[2J')")),
            "4 unknown-column: unknown column '\\x1b[2J' of 'gpu_work'\n");
}

TEST(Lint, FollowsWhatIsPlainlyATable) {
  EXPECT_EQ(said(detector("local w = case.gpu_work:where { kind = 'copy' }\n"
                          "for row in w:top(3, 'dur'):rows() do local x = "
                          "row.durr end")),
            "5 unknown-column: unknown column 'durr' of 'gpu_work'\n");
  EXPECT_EQ(said(detector("for d, w in case.gpu_work:group('device') do\n"
                          "local x = w:max('ende') end")),
            "5 unknown-column: unknown column 'ende' of 'gpu_work'\n");
  EXPECT_EQ(said(detector("local x = case.gpu_work:where(\"`stopp` > ? and "
                          "match(nam, 'a*')\", 1)")),
            "4 unknown-column: unknown column 'stopp' of 'gpu_work'\n"
            "4 unknown-column: unknown column 'nam' of 'gpu_work'\n");
}

TEST(Lint, DoesNotFollowFurther) {
  // A column that is added, a name for two things, a parameter.
  for (const char *Body :
       {"local x = case.gpu_work:with { idle = 'stop - start' }:sum('idle')",
        "local w = case.gpu_work  w = w:gaps()  local x = w:sum('next')",
        "local w = case.gpu_work\nlocal function f(w) return w:sum('any') end "
        " local x = f(w)",
        "local x = case.gpu_work:where('start' .. ' > 0')",
        "local c = 'a'  local x = case.gpu_work:sum(c)"})
    EXPECT_EQ(said(detector(Body)), "") << Body;
}

TEST(Lint, OptionsByTheirAliases) {
  llvm::StringRef Declared = "options = { a = { default = 1, doc = 'd' } },";
  EXPECT_EQ(said(detector("local n, o = 0, case.options  local x = o.a + n",
                          Declared)),
            "");
  EXPECT_EQ(said(detector("local n, o = f(1, 2), case.options  local x = o.b",
                          Declared)),
            "2 unused-option: option 'a' is declared and never read\n"
            "4 unknown-name: unknown name 'f'\n"
            "4 undeclared-option: option 'b' is read and not declared\n");
  EXPECT_EQ(said(detector("local x = case.options['a']", Declared)), "");
}

TEST(Lint, SyntaxComesAlone) {
  EXPECT_EQ(said("return {\n  run = function(case) if nothing end\n}"),
            "2 syntax: 'then' expected near 'end'\n");
}

/// The remedy for a file that does not parse.
std::string remedy(llvm::StringRef Source) {
  std::vector<LintRemark> All = lintModule("a.lua", Source, nullptr);
  return All.size() == 1 && All[0].Check == "syntax" ? All[0].Hint : "none";
}

TEST(Lint, SyntaxNamesTheOpenBlock) {
  // Lua itself speaks of the last line in all of these.
  EXPECT_EQ(remedy("return {\n"
                   "  run = function(case)\n"
                   "    for _, work in case.gpu_work:group('device') do\n"
                   "      if work:count() > 3 then\n"
                   "        log('x')\n"
                   "    end\n"
                   "  end,\n"
                   "}\n"),
            "'if' of line 4 has no 'end'");
  EXPECT_EQ(remedy("local m = {}\n"
                   "function m.f()\n"
                   "  while m.go do\n"
                   "    m.go = not m.go\n"
                   "  end\n"
                   "return m\n"),
            "'function' of line 2 has no 'end'");
  EXPECT_EQ(remedy("return {\n  api = 1,\n  options = { a = { default = 1 },\n"
                   "  run = function(case) end,\n}\n"),
            "'{' of line 1 has no '}'");
  EXPECT_EQ(remedy("log(1)\nend\n"), "'end' of line 2 closes nothing");
  EXPECT_EQ(remedy("log((1)\nend\n"), "'(' of line 1 has no ')'");
  // A line as long as the file is looked at once, not for each word of it.
  EXPECT_EQ(remedy("return " + std::string(200000, '{')),
            "'{' of line 1 has no '}'");
  // A quote of a word processor, and a file of UTF-16.
  EXPECT_EQ(remedy("local a = \xe2\x80\x9cx\xe2\x80\x9d\n"),
            "save the file as UTF-8, and write quotes and signs as on a plain "
            "keyboard");
  EXPECT_EQ(remedy(llvm::StringRef("\xff\xfel\0o\0", 6)),
            "save the file as UTF-8, and write quotes and signs as on a plain "
            "keyboard");
  EXPECT_EQ(remedy("\xef\xbb\xbflocal m = {}\nreturn m\n"), "none");
  // All is closed: there is nothing to add.
  EXPECT_EQ(remedy("local a = 4KiB\n"), "");
}

TEST(Lint, TestsNeedBothSides) {
  auto Checks = [](llvm::StringRef Text) {
    std::string Out;
    for (const LintRemark &R : lintTest("a.lua", "a.test", Text, ""))
      Out += R.Check + " ";
    return Out;
  };
  llvm::StringRef Yes = "name: a\ncase: {scalars: {columns: [step], rows: "
                        "[[1]]}}\nexpect:\n- symptom: gpu-idle\n";
  llvm::StringRef No = "name: b\ncase: {scalars: {columns: [step], rows: "
                       "[[1]]}}\nexpect: clear\n";
  EXPECT_EQ(Checks((Yes + "---\n" + No).str()), "");
  EXPECT_EQ(Checks(Yes), "negative-case ");
  EXPECT_EQ(Checks(No), "positive-case ");
  EXPECT_EQ(Checks("name: c\nexpects: clear\n").find("test-form"), 0u);
}

TEST(Lint, AnyBeginningOfADetectorIsSafe) {
  auto File = llvm::MemoryBuffer::getFile(
      CULPRIT_SOURCE_DIR "/plugins/gpu/idle.lua", /*IsText=*/true);
  ASSERT_TRUE(!!File);
  llvm::StringRef Source = (*File)->getBuffer();
  DetectorInfo Info;
  for (size_t Size = 0; Size <= Source.size(); Size += 7) {
    // The checks behind the syntax are wanted here, so no run of Lua.
    lintModule("a.lua", Source.take_front(Size));
    lintDetector("a.lua", Source.take_front(Size), &Info, nullptr);
  }
}

} // namespace
