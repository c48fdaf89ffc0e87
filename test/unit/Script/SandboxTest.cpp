//===- SandboxTest.cpp - Every way out is shut ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"

using namespace culprit;

namespace {

struct SandboxTest : ScriptTest {
  SandboxTest() {
    Bounds.Time = std::chrono::milliseconds(100);
    Bounds.Memory = size_t(8) << 20;
  }
};

TEST_F(SandboxTest, NamesOutsideTheAllowListAreRefusedWithAWord) {
  for (const char *Name : {"pcall",
                           "xpcall",
                           "coroutine",
                           "load",
                           "loadstring",
                           "loadfile",
                           "dofile",
                           "setmetatable",
                           "getmetatable",
                           "debug",
                           "io",
                           "os",
                           "collectgarbage",
                           "print",
                           "rawset",
                           "rawget",
                           "utf8",
                           "_G",
                           "string.match",
                           "string.gmatch",
                           "string.find",
                           "string.gsub",
                           "math.random",
                           "math.randomseed",
                           "table.move"}) {
    std::string Error = failureOf(std::string("local x = ") + Name);
    EXPECT_TRUE(startsWith(Error, std::string("6: detectors have no '") + Name +
                                      "' ("));
  }
  EXPECT_TRUE(startsWith(failureOf("string.dump(log)"),
                         "6: unknown name 'string.dump' ("));
}

TEST_F(SandboxTest, UnknownNamesGetASuggestion) {
  EXPECT_TRUE(startsWith(failureOf("reprot { }"),
                         "6: unknown name 'reprot' (did you mean 'report'? "
                         "names: assert, error,"));
  EXPECT_TRUE(startsWith(failureOf("local x = math.flor(1)"),
                         "6: unknown name 'math.flor' (did you mean "
                         "'floor'? names: abs,"));
  EXPECT_TRUE(startsWith(failureOf("local x = ('x'):uper()"),
                         "6: unknown name 'string.uper' (did you mean "
                         "'upper'?"));
  EXPECT_TRUE(startsWith(failureOf("local x = units.sec"),
                         "6: unknown name 'units.sec'"));
}

TEST_F(SandboxTest, TheEnvironmentCannotBeChanged) {
  EXPECT_EQ("6: assignment to the global 'x' (write local x)",
            failureOf("x = 1"));
  EXPECT_EQ("6: 'math' cannot be changed", failureOf("math.huge = 1"));
  EXPECT_EQ("6: 'string' cannot be changed", failureOf("string.rep = nil"));
  EXPECT_EQ("6: assignment to the global 'x' (write local x)",
            failureOf("_ENV.x = 1"));
  EXPECT_EQ("6: options cannot be changed", failureOf("case.options.x = 1"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work = 1"),
                         "6: the case cannot be changed"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:first().start = 1"),
                         "6: rows, tables and columns cannot be changed"));
  EXPECT_TRUE(startsWith(failureOf("table.insert(_ENV, 1)"),
                         "6: assignment to the global"));
  EXPECT_EQ("0", eval("#_ENV"));
}

TEST_F(SandboxTest, BytecodeIsRefused) {
  Outcome Out = runFile("\x1bLua\x54");
  EXPECT_TRUE(startsWith(error(Out), "0: attempt to load a binary chunk"));
}

TEST_F(SandboxTest, EndlessLoopsEnd) {
  EXPECT_TRUE(
      startsWith(failureOf("while true do end"), "6: ran longer than 100 ms"));
  EXPECT_TRUE(startsWith(failureOf("\nlocal n = 0\ngoto a ::b:: n = n + 1 "
                                   "::a:: goto b"),
                         "8: ran longer than"));
  // At load too.
  EXPECT_TRUE(
      startsWith(error(runFile("while true do end")), "1: ran longer than"));
  // Verbs look at the clock themselves: the loop has few instructions.
  EXPECT_TRUE(startsWith(failureOf("for i = 1, 1e9 do "
                                   "case.gpu_work:sort('dur') end"),
                         "6: ran longer than"));
}

TEST_F(SandboxTest, RecursionEnds) {
  // Whether the stack or the memory ends first.
  Bounds.Time = std::chrono::seconds(10);
  for (size_t Megabytes : {8, 256}) {
    Bounds.Memory = Megabytes << 20;
    EXPECT_EQ("6: stack overflow (a function calls itself without end)",
              failureOf("local function f() return 1 + f() end f()"));
  }
  // A tail call takes no stack, and time ends it.
  Bounds.Time = std::chrono::milliseconds(100);
  EXPECT_TRUE(startsWith(failureOf("local function f() return f() end f()"),
                         "6: ran longer than"));
  std::string Nested(10000, '(');
  EXPECT_TRUE(startsWith(failureOf("local x = " + Nested),
                         "0: C stack overflow (the code is nested"));
}

TEST_F(SandboxTest, MemoryEnds) {
  Bounds.Time = std::chrono::seconds(60); // not time, on a loaded machine
  EXPECT_TRUE(
      startsWith(failureOf("local t = {}\nfor i = 1, 1e9 do t[i] = { i } end"),
                 "7: needs more than 8.00 MiB of script memory (keep rows"));
  EXPECT_TRUE(startsWith(failureOf("local s = 'x'\n"
                                   "while true do s = s .. s end"),
                         "7: needs more than 8.00 MiB"));
  EXPECT_TRUE(startsWith(failureOf("local s = ('x'):rep(1e6)\nlocal t = {}\n"
                                   "for i = 1, 100 do t[i] = s .. i end"),
                         "8: needs more than 8.00 MiB"));
  EXPECT_TRUE(startsWith(failureOf("local s = ('x'):rep(1e6)\nlocal t = {}\n"
                                   "for i = 1, 1000 do t[i] = s end\n"
                                   "local u = table.concat(t)"),
                         "9: needs more than 8.00 MiB"));
}

TEST_F(SandboxTest, RepetitionIsCapped) {
  EXPECT_TRUE(startsWith(failureOf("local s = ('x'):rep(5e7)"),
                         "6: rep() would make a text of more than 1.00 MiB"));
  EXPECT_TRUE(
      startsWith(failureOf("local s = string.rep('', 1e15)"), "no error"));
  EXPECT_TRUE(startsWith(failureOf("local s = string.rep('x', 1e15, 'y')"),
                         "6: rep() would"));
  EXPECT_TRUE(
      startsWith(failureOf("local x = table.unpack({}, 1, 1e8)"), "6: "));
}

TEST_F(SandboxTest, GlobsAreLinear) {
  // The Lua pattern '.-.-.-.-b$' of this text hangs.
  EXPECT_EQ("false",
            eval("('a'):rep(10000):glob('*a*a*a*a*a*a*a*a*a*a*a*a*b')"));
}

TEST_F(SandboxTest, TablesAreCounted) {
  Bounds.Time = std::chrono::seconds(20);
  Bounds.Tables = size_t(100) << 20;
  EXPECT_TRUE(startsWith(
      failureOf("local t = case.gpu_work\nfor i = 1, 60 do t = t:concat(t) "
                "end"),
      "7: holds more than 100 MiB of tables at a time"));
  // What is dropped does not count: 1 GiB in all.
  EXPECT_EQ("no error",
            failureOf("local t = case.gpu_work\n"
                      "for i = 1, 14 do t = t:concat(t) end\n"
                      "for i = 1, 2000 do local u = t:slice(0, 65536) end"));
}

TEST_F(SandboxTest, AddressesStayHidden) {
  EXPECT_EQ("table function", eval("tostring({}), tostring(log)"));
  EXPECT_EQ("table gpu_work[4 rows] gpu_work#1",
            eval("('%s'):format({}), case.gpu_work, case.gpu_work:row(1)"));
  EXPECT_EQ("gpu_work.dur", eval("case.gpu_work:col('dur')"));
}

TEST_F(SandboxTest, OrderNeverDependsOnHashesOrTheClock) {
  EXPECT_EQ("1 2 10 a b c",
            run("local t = {}\n"
                "for k in pairs { c = 1, b = 1, [10] = 1, a = 1, 7, 8 } do\n"
                "  t[#t + 1] = tostring(k)\nend\n"
                "log(table.concat(t, ' '))")
                .Log.front());
  EXPECT_EQ("a nil", eval("(next { b = 1, a = 1 }), next {}"));
  EXPECT_EQ("a1 a2 a3 b1 b2",
            run("local t = { 'b1', 'a1', 'a2', 'b2', 'a3' }\n"
                "table.sort(t, function(x, y) return x:sub(1, 1) < "
                "y:sub(1, 1) end)\nlog(table.concat(t, ' '))")
                .Log.front());
  EXPECT_EQ("no error", failureOf("table.sort({ 3, 1, 2, 5, 4 }, function() "
                                  "return true end)"));
  EXPECT_TRUE(
      startsWith(failureOf("table.sort({ 1, 'x' })"), "6: attempt to compare"));
  EXPECT_EQ("nan", eval("0/0"));
}

TEST_F(SandboxTest, ErrorsKeepTheirPlace) {
  EXPECT_TRUE(startsWith(failureOf("\nlocal x = nil\nlog(x.y)"),
                         "8: attempt to index a nil value (local 'x') (a "
                         "field of a row is nil"));
  EXPECT_EQ("6: mine", failureOf("error('mine')"));
  EXPECT_EQ("6: error() was called without a message", failureOf("error()"));
  EXPECT_EQ("6: error() wants a text, not a value of another type",
            failureOf("error({})"));
  EXPECT_TRUE(startsWith(failureOf("local x = "), "7: unexpected symbol"));
  Outcome Out = run("local function f(t)\n  t:nosuch()\nend\n\n"
                    "f(case.gpu_work)");
  EXPECT_EQ(7u, Out.Error->Line);
  EXPECT_EQ((std::vector<CodePlace>{{"plugins/t/d.lua", 10}}),
            Out.Error->CalledFrom);
  EXPECT_EQ("plugins/t/d.lua", Out.Error->File);
}

TEST_F(SandboxTest, RunsShareNothing) {
  std::string Source = "local seen = 0\n" + file("seen = seen + 1 log(seen)");
  EXPECT_EQ("1", runFile(Source).Log.front());
  EXPECT_EQ("1", runFile(Source).Log.front());
}

} // namespace
