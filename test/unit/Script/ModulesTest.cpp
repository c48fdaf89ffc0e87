//===- ModulesTest.cpp - Lua that detectors share ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"
#include "Script/Host.h"
#include <atomic>
#include <thread>

using namespace culprit;

namespace {

struct ModulesTest : ScriptTest {
  void add(const char *Name, const char *Source) {
    Modules.add(Name, {std::string("plugins/lib/") + Name + ".lua", Source});
  }
};

TEST_F(ModulesTest, AModuleIsReadOnceARun) {
  add("twice", "log('read')\nreturn { of = function(x) return 2 * x end }");
  Outcome Out = run("local a, b = require('twice'), require('twice')\n"
                    "log(a == b, a.of(21))");
  EXPECT_EQ((std::vector<std::string>{"read", "true 42"}), Out.Log);
  // Before `run` too, and again for the next run.
  std::string Early = "local twice = require('twice')\n" +
                      file("log(twice.of(4))");
  EXPECT_EQ((std::vector<std::string>{"read", "8"}), runFile(Early).Log);
  EXPECT_EQ((std::vector<std::string>{"read", "8"}), runFile(Early).Log);
}

TEST_F(ModulesTest, AModuleCallsVerbsAndReports) {
  add("say", "local say = {}\n"
             "function say.it(work)\n"
             "  report { symptom = 'gpu-idle', score = 1, message = 'm',\n"
             "           evidence = work:top(1, 'dur') }\n"
             "end\n"
             "return say");
  Outcome Out = run("require('say').it(case.gpu_work)");
  ASSERT_EQ(1u, Out.Reports.size());
  EXPECT_EQ("m", Out.Reports[0].Message);
}

TEST_F(ModulesTest, ModulesMayUseModules) {
  add("one", "return { n = 1 }");
  add("two", "return { n = 1 + require('one').n }");
  EXPECT_EQ("2", eval("require('two').n"));
}

TEST_F(ModulesTest, MistakesAreNamed) {
  EXPECT_EQ("6: there is no module 'samples' (a module is a file "
            "lib/samples.lua beside the groups of detectors)",
            failureOf("require('samples')"));
  add("samples", "return {}");
  add("number", "return 1");
  add("self", "return require('self')");
  add("ping", "return require('pong')");
  add("pong", "return require('ping')");
  EXPECT_EQ("6: there is no module 'sampels' (did you mean 'samples'? modules: "
            "number, ping, pong, samples, self)",
            failureOf("require('sampels')"));
  EXPECT_EQ("6: argument 1 of 'require' must be a text, not 1",
            failureOf("require(1)"));
  EXPECT_EQ("6: module 'number' must return a table, and returns 1 (end "
            "plugins/lib/number.lua with: return { name = name, ... })",
            failureOf("require('number')"));
  EXPECT_TRUE(startsWith(failureOf("require('self')"),
                         "1: module 'self' requires itself"));
  EXPECT_TRUE(startsWith(failureOf("require('ping')"),
                         "1: module 'ping' requires itself"));
  // There is no way out of the folder.
  EXPECT_TRUE(startsWith(failureOf("require('../gpu/idle')"),
                         "6: there is no module"));
}

TEST_F(ModulesTest, ErrorsNameTheModuleAndItsCaller) {
  add("fails", "local fails = {}\n\nfunction fails.now(t)\n"
               "  return t:wheer('x')\nend\n\nreturn fails");
  Outcome Out = run("\nlog(1)\nrequire('fails').now(case.gpu_work)");
  ASSERT_TRUE(Out.Error);
  EXPECT_EQ("plugins/lib/fails.lua", Out.Error->File);
  EXPECT_EQ(4u, Out.Error->Line);
  EXPECT_TRUE(startsWith(Out.Error->Message, "unknown method 'wheer'"));
  EXPECT_EQ((std::vector<CodePlace>{{"plugins/t/d.lua", 8}}),
            Out.Error->CalledFrom);
  // The same for an error of Lua itself, and one of syntax.
  add("nils", "local t\nreturn { t.x }");
  Out = run("require('nils')");
  EXPECT_EQ("plugins/lib/nils.lua", Out.Error->File);
  EXPECT_EQ(2u, Out.Error->Line);
  add("syntax", "\nlocal x = = 1");
  Out = run("require('syntax')");
  EXPECT_EQ("plugins/lib/syntax.lua", Out.Error->File);
  EXPECT_EQ(2u, Out.Error->Line);
  EXPECT_EQ("unexpected symbol near '='", Out.Error->Message);
  EXPECT_EQ((std::vector<CodePlace>{{"plugins/t/d.lua", 6}}),
            Out.Error->CalledFrom);
}

// The second state reads what the first one compiled.
TEST_F(ModulesTest, ByteCodeNamesTheSamePlaces) {
  add("nils", "local nils = {}\nfunction nils.of(t)\n  local it = t.missing\n"
              "  return it.x\nend\nreturn nils");
  const std::string Body = "require('nils').of({})";
  Outcome First = run(Body), Second = run(Body);
  ASSERT_TRUE(First.Error);
  ASSERT_TRUE(Second.Error);
  EXPECT_EQ("plugins/lib/nils.lua", Second.Error->File);
  EXPECT_EQ(4u, Second.Error->Line);
  EXPECT_EQ(First.Error->Message, Second.Error->Message);
  EXPECT_EQ(First.Error->Hint, Second.Error->Hint);
  EXPECT_EQ(First.Error->CalledFrom, Second.Error->CalledFrom);
  // A module in its place has code of its own.
  add("nils", "return { of = function() return 7 end }");
  EXPECT_EQ("7", eval("require('nils').of()"));
}

TEST_F(ModulesTest, CostsGoByVerbAndLine) {
  add("count", "return {\n  of = function(t) return t:count() end,\n}");
  Bounds.Timed = true;
  Outcome Out = run("local count = require('count').of\n"
                    "for i = 1, 5 do count(case.gpu_work) end\n"
                    "case.gpu_work:sort('dur')");
  uint64_t Counts = 0, Sorts = 0;
  size_t Bytes = 0;
  for (const VerbCost &C : Out.Costs) {
    if (C.Verb == "count" && C.At == CodePlace{"plugins/lib/count.lua", 2})
      Counts += C.Calls;
    if (C.Verb == "sort" && C.At == CodePlace{"plugins/t/d.lua", 8}) {
      Sorts += C.Calls;
      Bytes += C.Bytes;
    }
  }
  EXPECT_EQ(5u, Counts);
  EXPECT_EQ(1u, Sorts);
  EXPECT_LT(0u, Bytes);
  Bounds.Timed = false;
  EXPECT_TRUE(run("case.gpu_work:count()").Costs.empty());
}

// What one thread compiles the others read, whoever is first.
TEST(ByteCodeTest, ManyThreadsShareOne) {
  for (unsigned Round = 0; Round != 20; ++Round) {
    ByteCode Code;
    std::atomic<unsigned> Right{0};
    std::vector<std::thread> Threads;
    for (unsigned T = 0; T != 4; ++T)
      Threads.emplace_back([&] {
        for (unsigned I = 0; I != 5; ++I) {
          Host H("x.lua", Limits());
          H.run([&](lua_State *L) {
            H.load(L, "local n = 0\nfor i = 1, 9 do n = n + i end\nreturn n",
                   Code);
            Right += lua_tointeger(L, -1) == 45;
          });
        }
      });
    for (std::thread &T : Threads)
      T.join();
    EXPECT_EQ(Right, 20u);
    EXPECT_FALSE(Code.bytes().empty());
  }
}

} // namespace
