//===- SandboxHolesTest.cpp - The holes of other sandboxes ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One test for each way in which scripts have got out of a sandbox, or hung
// or exhausted its host: limits that a script catches, the metatable of texts,
// patterns, repetition, recursion, large tables, tostring, metamethods, loops
// in Lua and loops within a verb. Each ends with an error that names the line,
// or does no harm; SandboxTest.cpp has what is refused by name.
//
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"
#include <chrono>

using namespace culprit;

namespace {

struct SandboxHolesTest : ScriptTest {
  SandboxHolesTest() {
    Bounds.Time = std::chrono::milliseconds(200);
    Bounds.Memory = size_t(16) << 20;
  }

  /// As failureOf(), and that it took no longer than the watchdog waits.
  std::string promptFailureOf(llvm::StringRef Body) {
    auto Begin = std::chrono::steady_clock::now();
    std::string Error = failureOf(Body);
    EXPECT_GT(std::chrono::seconds(20),
              std::chrono::steady_clock::now() - Begin)
        << Body.str();
    return Error;
  }
};

// Swallowed limits: there is nothing that catches an error ------------------//

TEST_F(SandboxHolesTest, NothingCatchesALimit) {
  for (const char *Name : {"pcall", "xpcall", "coroutine", "debug"})
    EXPECT_TRUE(startsWith(
        failureOf(std::string(Name) + "(function() while true do end end)"),
        std::string("6: detectors have no '") + Name + "'"));
  // Functions that call back let errors and limits through.
  EXPECT_TRUE(startsWith(
      promptFailureOf("table.sort({ 1, 2 }, function() while true do end end)"),
      "6: ran longer than 200 ms"));
  EXPECT_EQ("6: mine",
            failureOf("table.sort({ 1, 2 }, function() error('mine') end)"));
  EXPECT_TRUE(startsWith(
      failureOf("table.sort({ 1, 2 }, function(a) return a.x.y end)"),
      "6: attempt to index a number value"));
  // What was reported before a limit struck is dropped.
  Outcome O = run("report { symptom = 'gpu-idle', score = 1, message = 'm', "
                  "evidence = case.gpu_work }\nwhile true do end");
  EXPECT_EQ(OutcomeKind::Failed, O.Kind);
  EXPECT_TRUE(O.Reports.empty());
}

TEST_F(SandboxHolesTest, VariablesThatAreClosedRunNothing) {
  // __close would run code while an error unwinds; it takes a metatable.
  EXPECT_EQ("6: variable 'x' got a non-closable value",
            failureOf("local x <close> = {}"));
  EXPECT_EQ("6: variable 'x' got a non-closable value",
            failureOf("local x <close> = case.gpu_work"));
  EXPECT_TRUE(startsWith(
      failureOf("for i in next, nil, nil, {} do end"),
      "6: variable '(for state)' got a non-closable value"));
}

// The metatable of texts ----------------------------------------------------//

TEST_F(SandboxHolesTest, MethodsOfTextsAreThoseOfTheSandbox) {
  EXPECT_TRUE(startsWith(failureOf("local s = ('x'):rep(5e7)"),
                         "6: rep() would make a text of more than 1.00 MiB"));
  for (const char *Method : {"find", "match", "gmatch", "gsub"})
    EXPECT_TRUE(startsWith(
        failureOf(std::string("local s = ('x'):") + Method + "('.')"),
        std::string("6: detectors have no 'string.") + Method + "'"));
  for (const char *Method : {"dump", "pack", "unpack", "packsize", "reverse",
                             "char", "__index", "__metatable"})
    EXPECT_TRUE(startsWith(
        failureOf(std::string("local s = ('x').") + Method),
        std::string("6: unknown name 'string.") + Method + "'"));
  EXPECT_EQ("6: 'string' cannot be changed",
            failureOf("string.upper = function() return 'mine' end"));
  EXPECT_TRUE(
      startsWith(failureOf("('x').upper = 1"), "6: attempt to index a string"));
  EXPECT_TRUE(startsWith(failureOf("local n = 'x' + 1"), "6: attempt to "));
}

// Patterns ------------------------------------------------------------------//

TEST_F(SandboxHolesTest, SearchIsLinear) {
  Bounds.Time = std::chrono::seconds(10); // a quadratic one takes minutes
  // A text of a million a's and a needle of half as many and a b: every place
  // agrees for half a million characters.
  EXPECT_EQ("false nil 1",
            eval("('a'):rep(1000000):contains(('a'):rep(500000) .. 'b'), "
                 "('a'):rep(1000000):index(('a'):rep(500000) .. 'b'), "
                 "#('a'):rep(1000000):split(('a'):rep(500000) .. 'b')"));
  EXPECT_EQ("1000000",
            eval("#('a'):rep(1000000):replace(('a'):rep(500000) .. 'b', '')"));
  EXPECT_EQ("no error",
            promptFailureOf("case.gpu_work:where('match(name, ?)', "
                            "('*a'):rep(500) .. 'b')"));
  EXPECT_TRUE(startsWith(
      failureOf("local b = ('a'):rep(100):glob(('a*'):rep(10000))"),
      "6: glob() wants a pattern of at most 4,096 characters"));
}

// Memory --------------------------------------------------------------------//

TEST_F(SandboxHolesTest, TextsAreBounded) {
  Bounds.Time = std::chrono::seconds(10);
  EXPECT_TRUE(startsWith(
      failureOf("local s = ('a'):rep(1e6):replace('a', ('b'):rep(1e6))"),
      "6: replace() would make a text of more than 1.00 MiB"));
  EXPECT_TRUE(startsWith(failureOf("local s = ('%99999d'):format(1)"),
                         "6: '%999' is no directive of 'format'"));
  EXPECT_EQ("300000", eval("#('%s'):rep(1e5):format(table.unpack({}, 1, 1e5))"));
  EXPECT_TRUE(startsWith(failureOf("local s = ('x'):rep(1e6)\n"
                                   "while true do s = s .. s end"),
                         "7: needs more than 16.0 MiB of script memory"));
  EXPECT_TRUE(startsWith(failureOf("local t = {}\nfor i = 1, 1e9 do\n"
                                   "  t[i] = ('x'):rep(1000) .. i end"),
                         "8: needs more than 16.0 MiB of script memory"));
  EXPECT_TRUE(startsWith(failureOf("local t = ('a,'):rep(5e5):split(',')\n"
                                   "local u = table.concat(t, ('x'):rep(1e5))"),
                         "7: needs more than 16.0 MiB"));
}

TEST_F(SandboxHolesTest, TablesOfLuaAreBounded) {
  Bounds.Time = std::chrono::seconds(10);
  EXPECT_TRUE(startsWith(failureOf("local t = {}\nfor i = 1, 1e9 do t[i] = i "
                                   "end"),
                         "7: needs more than 16.0 MiB of script memory"));
  EXPECT_TRUE(startsWith(failureOf("local t = {}\nwhile true do t = { t, t } "
                                   "end"),
                         "7: needs more than 16.0 MiB"));
  EXPECT_TRUE(startsWith(failureOf("local t = {}\nwhile true do\n"
                                   "  t[#t + 1] = function() return t end end"),
                         "8: needs more than 16.0 MiB"));
  EXPECT_TRUE(startsWith(failureOf("local u = { table.unpack({}, 1, 1e8) }"),
                         "6: too many results to unpack"));
  EXPECT_TRUE(startsWith(failureOf("table.insert({}, 1e9, 1)"),
                         "6: bad argument #2 to 'insert'"));
  EXPECT_TRUE(startsWith(failureOf("local s = table.concat({}, '', 1, 1e15)"),
                         "6: invalid value (nil) at index 1"));
}

TEST_F(SandboxHolesTest, CopiesThatAJoinMakesAreCounted) {
  // 65,536 rows of one column and their index are 1 MiB. Without a partner for
  // any, the join copies a score of columns, 0.5 MiB each.
  Bounds.Time = std::chrono::seconds(10);
  Bounds.Tables = size_t(4) << 20;
  std::string Rows = "local t = case.gpu_work:select('start')\n"
                     "for i = 1, 14 do t = t:concat(t) end\n";
  EXPECT_EQ("no error", failureOf(Rows + "local u = t:join(case.gpu_work, "
                                         "'start', 'left')"));
  EXPECT_TRUE(startsWith(
      failureOf(Rows + "local none = case.gpu_work:where('start < -1')\n"
                       "local u = t:join(none, 'start', 'left')"),
      "9: holds more than "));
}

TEST_F(SandboxHolesTest, RowsAreCounted) {
  Bounds.Rows = 100;
  EXPECT_EQ("7: went over more than 100 rows one by one (let verbs do the "
            "work: where, group, aggregate, join)",
            failureOf("for i = 1, 26 do\n  for row in case.gpu_work:rows() do "
                      "end end"));
  EXPECT_EQ("no error", failureOf("for i = 1, 25 do\n  for row in "
                                  "case.gpu_work:rows() do end end"));
}

// Recursion -----------------------------------------------------------------//

TEST_F(SandboxHolesTest, RecursionOfEveryKindEnds) {
  Bounds.Time = std::chrono::seconds(10);
  Bounds.Memory = size_t(256) << 20;
  EXPECT_EQ("6: stack overflow (a function calls itself without end)",
            failureOf("local f, g\nf = function() return 1 + g() end\n"
                      "g = function() return 1 + f() end\nf()")
                .replace(0, 1, "6"));
  // By way of C: the comparison of a sort sorts.
  EXPECT_TRUE(startsWith(
      failureOf("local function f() table.sort({ 1, 2 }, f) end f()"),
      "6: "));
  // A declaration and a report nested beyond all sense.
  std::string Deep = "local t = {}\nfor i = 1, 1e5 do t = { t } end\n";
  EXPECT_TRUE(startsWith(failureOf(Deep + "report { symptom = 'gpu-idle', "
                                          "score = 1, message = 'm', "
                                          "evidence = t }"),
                         "8: evidence must be rows, tables or columns"));
  EXPECT_TRUE(startsWith(failureOf(Deep + "case.gpu_work:where { name = t }"),
                         "8: "));
  EXPECT_TRUE(startsWith(
      error(runFile(Deep + "return { api = t }")), "3: `api` must be a whole"));
  EXPECT_TRUE(startsWith(failureOf("local x = " + std::string(500, '{') +
                                   std::string(500, '}')),
                         "0: "));
}

// tostring ------------------------------------------------------------------//

TEST_F(SandboxHolesTest, NoAddressIsShown) {
  for (const char *Value :
       {"{}", "function() end", "case", "case.gpu_work", "case.options",
        "case.gpu_work:row(0)", "case.gpu_work:col('dur')", "log", "units",
        "case.gpu_work:rows()", "_ENV", "string"}) {
    std::string Text = eval("tostring(" + std::string(Value) + ")");
    EXPECT_EQ(std::string::npos, Text.find("0x")) << Value << ": " << Text;
    EXPECT_EQ(Text, eval("('%s'):format(" + std::string(Value) + ")"));
  }
  EXPECT_TRUE(startsWith(failureOf("local s = ('%p'):format({})"),
                         "6: '%p' is no directive of 'format'"));
  EXPECT_TRUE(startsWith(failureOf("local s = {} .. 'x'"),
                         "6: attempt to concatenate a table value"));
}

TEST_F(SandboxHolesTest, MessagesAreShort) {
  Bounds.Time = std::chrono::seconds(10);
  // A text of a megabyte is not quoted in full: where the mistake stands is.
  std::string Error =
      failureOf("case.gpu_work:where(('dur > 1 and '):rep(8e4) .. 'name')");
  EXPECT_TRUE(startsWith(Error, "6: in \"..."));
  // The last "and": 80,000 x 12 - 4 + 1.
  EXPECT_NE(std::string::npos, Error.find("1 and name\": ")) << Error;
  EXPECT_NE(std::string::npos, Error.find(" at column 959997")) << Error;
  EXPECT_GT(size_t(600), Error.size());
  for (const char *Body :
       {"error(('x'):rep(1e6))", "require(('x'):rep(1e6))",
        "log(_ENV[('x'):rep(1e6)])", "case.gpu_work:col(('\\xff'):rep(1e6))",
        "case.gpu_work:where(('?,'):rep(1e5))",
        "case.gpu_work:compute('1' .. ('0'):rep(1e6))"}) {
    Error = failureOf(Body);
    EXPECT_TRUE(startsWith(Error, "6: "));
    // Half of what \\xff becomes is more.
    EXPECT_GT(size_t(2 * 3 * 2000 + 100), Error.size()) << Body;
  }
}

TEST_F(SandboxHolesTest, MessagesDoNotMoveTheCursor) {
  EXPECT_EQ("6: \\x1b[2Ja\xef\xbf\xbd", failureOf("error('\\27[2Ja\\xff')"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:col('\\27[2J')"),
                         "6: unknown column '\\x1b[2J' in 'gpu_work'"));
  Outcome O = run("return skip('\\27[2J\\xff')");
  EXPECT_EQ(std::vector<std::string>{"\\x1b[2J\xef\xbf\xbd"}, O.Missing);
}

TEST_F(SandboxHolesTest, LongFilesAreRefused) {
  // Lua walks all jumps to the end for each `elseif`: minutes for these.
  std::string Long = "if a then ";
  for (int I = 0; I != 200000; ++I)
    Long += "elseif a then ";
  // 10 + 200,000 x 14 + 3 bytes.
  const char *Wanted = "0: 'plugins/t/d.lua' has 2.67 MiB; Lua of a detector "
                       "may have 256 KiB";
  EXPECT_TRUE(startsWith(error(runFile(Long + "end")), Wanted));
  Modules.add("long", {"plugins/lib/long.lua", Long + "end"});
  EXPECT_TRUE(startsWith(failureOf("require('long')"),
                         "6: 'plugins/lib/long.lua' has 2.67 MiB"));
}

// Metamethods ---------------------------------------------------------------//

TEST_F(SandboxHolesTest, MetatablesAreOutOfReach) {
  for (const char *Name :
       {"__index", "__newindex", "__gc", "__metatable", "__len", "__close"}) {
    EXPECT_TRUE(startsWith(failureOf(std::string("log(case.gpu_work.") + Name +
                                     ")"),
                           "6: unknown method '"))
        << Name;
    EXPECT_TRUE(startsWith(
        failureOf(std::string("log(case.gpu_work:row(0).") + Name + ")"),
        "6: unknown column '"))
        << Name;
    EXPECT_TRUE(startsWith(failureOf(std::string("log(case.") + Name + ")"),
                           "6: the case has no table '"))
        << Name;
    EXPECT_TRUE(startsWith(failureOf(std::string("log(math.") + Name + ")"),
                           "6: unknown name '"))
        << Name;
    EXPECT_TRUE(startsWith(failureOf(std::string("log(") + Name + ")"),
                           "6: unknown name '"))
        << Name;
  }
  // A field of that name in a table of one's own means nothing.
  EXPECT_TRUE(startsWith(
      failureOf("local t = { __index = function() return 1 end }\n"
                "log(t.x + 1)"),
      "7: attempt to perform arithmetic on a nil value"));
  EXPECT_EQ("no error",
            failureOf("local t = { __gc = function() error('x') end } t = "
                      "nil"));
}

TEST_F(SandboxHolesTest, MethodsOnTheWrongReceiverAreErrors) {
  EXPECT_TRUE(startsWith(
      failureOf("local f = case.gpu_work.count\nf(case.gpu_work:row(0))"),
      "7: 'count' was called on a row"));
  EXPECT_TRUE(startsWith(
      failureOf("local f = case.gpu_work.count\nf(case.gpu_work:col('dur'))"),
      "7: 'count' was called on a column"));
  EXPECT_TRUE(startsWith(failureOf("local f = case.gpu_work.count\nf({})"),
                         "7: 'count' was called on a Lua table"));
  EXPECT_TRUE(startsWith(failureOf("local f = case.gpu_work.count\nf()"),
                         "7: 'count' was called on "));
  EXPECT_TRUE(startsWith(failureOf("log(case.gpu_work + 1)"),
                         "6: attempt to perform arithmetic"));
  EXPECT_TRUE(startsWith(failureOf("log(#case)"), "6: attempt to get length"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work()"), "6: attempt to call"));
  // An iterator that is kept and called out of turn.
  EXPECT_EQ("nil nil", eval("(function() local n = case.gpu_work:rows()\n"
                            "for _ = 1, 10 do n() end return n(), n() end)()"));
}

// Endless loops -------------------------------------------------------------//

TEST_F(SandboxHolesTest, LoopsInLuaEnd) {
  for (const char *Loop :
       {"while true do end", "repeat until false", "::a:: goto a",
        "for i = 1, math.huge do end", "for i = 1, 0, -0.0 + 1e-300 do end "
                                       "while 1 do end",
        "local function f() return f() end f()",
        "local s = 'x' while s do s = s:upper() end",
        "local t = { 1 } while #t == 1 do t[1] = t[1] + 1 end",
        "for _ in function() return 1 end do end",
        "while true do case.gpu_work:where('dur > 1') end",
        "while true do require('samples') end"}) {
    Modules.add("samples", {"plugins/lib/samples.lua", "return {}"});
    EXPECT_TRUE(
        startsWith(promptFailureOf(Loop), "6: ran longer than 200 ms"))
        << Loop;
  }
  // In a module the line is the module's.
  Modules.add("loop", {"plugins/lib/loop.lua", "\nwhile true do end"});
  Outcome O = run("require('loop')");
  EXPECT_EQ("plugins/lib/loop.lua", O.Error->File);
  EXPECT_EQ(2u, O.Error->Line);
}

TEST_F(SandboxHolesTest, LoopsWithinAVerbEnd) {
  // 50,000 texts of a megabyte, alike but for the last letter: no instruction
  // of Lua runs while they are compared.
  EXPECT_TRUE(startsWith(
      promptFailureOf("local s, u = ('a'):rep(1e6) .. 'b', ('a'):rep(1e6) .. "
                      "'c'\nlocal t = {}\nfor i = 1, 5e4 do t[i] = i % 2 == 0 "
                      "and s or u end\ntable.sort(t)"),
      "9: ran longer than 200 ms"));
  // A median of half a million values for each of a million rows: keeping them
  // in order moves 2 MB a row, a minute in all.
  Bounds.Tables = size_t(1) << 30;
  EXPECT_TRUE(startsWith(
      promptFailureOf("local t = case.gpu_work:select('dur')\n"
                      "for i = 1, 18 do t = t:concat(t) end\n"
                      "local v = t:with { n = t:col('dur'):cumsum() * 7919 }\n"
                      "local m = v:compute('n % 1000003'):rolling(524288, "
                      "'median')"),
      "9: ran longer than 200 ms"));
}

} // namespace
