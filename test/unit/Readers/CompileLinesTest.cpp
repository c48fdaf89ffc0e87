//===- CompileLinesTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CompileLines.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace llvm;

/// The rows of a log as "kind|function|site|reason|frame|rank|seconds|place".
class CompileLinesTest : public testing::Test {
protected:
  std::string rows(StringRef Log, StringRef Path = "train.log") {
    StringPool Pool;
    Source S(Path.str(), Pool);
    CompileLines Lines(S);
    LogLineParser Parser;
    int64_t Number = 0;
    while (!Log.empty()) {
      auto [Line, Rest] = Log.split('\n');
      Lines.line(Parser.parse(Line, ++Number));
      Log = Rest;
    }
    Lines.finish();
    TableBuilder *T = S.existing(TableId::compilations);
    std::string Out;
    namespace column = compilations;
    for (size_t Row = 0; T && Row != T->rows(); ++Row) {
      for (unsigned C : {column::kind, column::function, column::site,
                         column::reason, column::frame, column::rank,
                         column::seconds, column::place}) {
        bool Known = T->touched(C) && !T->finished(C).isNull(Row);
        Out += (C == column::kind ? "" : "|") +
               (Known ? T->finished(C).cell(Row, Pool).text() : "-");
      }
      Out += "\n";
    }
    return Out;
  }
};

TEST_F(CompileLinesTest, TakesTheGuardOfTheYoungestVersion) {
  // As PyTorch 2.13 prints it: the youngest version first.
  EXPECT_EQ(
      rows("V1122 01:32:42.637000 12218 torch/_dynamo/guards.py:5396] [0/2] "
           "[__recompiles] Recompiling function scale in /w/rec.py:4\n"
           "V1122 01:32:42.637000 12218 torch/_dynamo/guards.py:5396] [0/2] "
           "[__recompiles]     triggered by the following guard failure(s):\n"
           "V1122 01:32:42.637000 12218 torch/_dynamo/guards.py:5396] [0/2] "
           "[__recompiles]     - 0/1: self.calls == 1            # self.calls "
           "+= 1  # w/rec.py:11 in f (HINT: torch.compile considers\n"
           "V1122 01:32:42.637000 12218 torch/_dynamo/guards.py:5396] [0/2] "
           "[__recompiles]     - User stack trace:\n"
           "V1122 01:32:42.637000 12218 torch/_dynamo/guards.py:5396] [0/2] "
           "[__recompiles]     - 0/0: tensor 'x' size mismatch at index 0. "
           "expected 4, actual 6\n"),
      "recompile|scale|/w/rec.py:4|self.calls == 1 # self.calls += 1 # "
      "w/rec.py:11 in f|0/2|-|-|1\n");
}

TEST_F(CompileLinesTest, ReadsOlderForms) {
  // 2.0: a tuple; 2.1 and 2.2: the logger's name behind the frame; 2.3: no
  // frame and no version.
  EXPECT_EQ(
      rows("[2023-04-13 21:42:57,808] torch._dynamo.convert_frame.__recompiles:"
           " [DEBUG] ('Recompiling function step in /d/a.py', \"triggered by "
           "the following guard failure: L['t'] == 0\")\n"
           "[2024-02-06 10:32:24,334] [3/1] torch._dynamo.guards.__recompiles: "
           "[DEBUG] Recompiling function f in /w/a.py:7\n"
           "[2024-02-06 10:32:24,334] [3/1] torch._dynamo.guards.__recompiles: "
           "[DEBUG]     triggered by the following guard failure(s):\n"
           "[2024-02-06 10:32:24,334] [3/1] torch._dynamo.guards.__recompiles: "
           "[DEBUG]     - tensor 'L['x']' rank mismatch. expected 2, actual 1\n"
           "V0410 16:18:11.049000 139689102684672 torch/_dynamo/guards.py:2199]"
           " [__recompiles] Recompiling function fn in /h/g.py:3\n"
           "V0410 16:18:11.049000 139689102684672 torch/_dynamo/guards.py:2199]"
           " [__recompiles]     triggered by the following guard failure(s):\n"
           "V0410 16:18:11.049000 139689102684672 torch/_dynamo/guards.py:2199]"
           " [__recompiles]     - ___check_global_state()\n"),
      "recompile|step|/d/a.py|L['t'] == 0|-|-|-|1\n"
      "recompile|f|/w/a.py:7|tensor 'L['x']' rank mismatch. expected 2, actual "
      "1|3/1|-|-|2\n"
      "recompile|fn|/h/g.py:3|___check_global_state()|-|-|-|5\n");
}

TEST_F(CompileLinesTest, TellsAGraphBreakOnce) {
  // 2.13 warns of item() by itself, then logs the same break.
  EXPECT_EQ(
      rows("W1122 01:32:42.750000 7 torch/_dynamo/variables/tensor.py:1759] "
           "[1/0] Graph break from `Tensor.item()`, consider setting:\n"
           "W1122 01:32:42.750000 7 torch/_dynamo/variables/tensor.py:1759] "
           "[1/0]     torch._dynamo.config.capture_scalar_outputs = True\n"
           "W1122 01:32:42.750000 7 torch/_dynamo/variables/tensor.py:1759] "
           "[1/0] Graph break: from user code at:\n"
           "W1122 01:32:42.750000 7 torch/_dynamo/variables/tensor.py:1759] "
           "[1/0]   File \"/w/rec.py\", line 13, in forward\n"
           "V1122 01:32:42.755000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[1/0] [__graph_breaks] Graph break in user code at /w/rec.py:13\n"
           "V1122 01:32:42.755000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[1/0] [__graph_breaks] Graph Break Reason: Encountered graph break "
           "when attempting to trace CALL: a function call, e.g. f(x, y):\n"
           "V1122 01:32:42.826000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[2/0] [__graph_breaks] Graph break in user code at /w/rec.py:15\n"
           "V1122 01:32:42.826000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[2/0] [__graph_breaks] Graph Break Reason: Encountered graph break "
           "when attempting to trace CALL: a function call, e.g. f(x, y):\n"
           "V1122 01:32:42.826000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[2/0] [__graph_breaks] \n"
           "V1122 01:32:42.826000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[2/0] [__graph_breaks] Failed to trace builtin operator\n"
           "V1122 01:32:42.826000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[2/0] [__graph_breaks]   Explanation: Dynamo does not know\n"
           "V1122 01:32:42.826000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[2/0] [__graph_breaks]   File \"/w/t.py\", line 21, in <module>\n"
           "V1122 01:32:42.826000 7 torch/_dynamo/symbolic_convert.py:5124] "
           "[2/0] [__graph_breaks]   File \"/w/rec.py\", line 15, in f\n"),
      "graph-break|forward|/w/rec.py:13|Tensor.item()|1/0|-|-|1\n"
      "graph-break|f|/w/rec.py:15|Failed to trace builtin operator: Dynamo does "
      "not know|2/0|-|-|7\n");
}

TEST_F(CompileLinesTest, FindsTheUsersFrameBeforePyTorchsOwn) {
  // 2.2 prints the traceback inside the compiler behind the user's frames.
  const char *P =
      "[2024-02-06 10:32:24,334] [0/0_1] torch._dynamo.symbolic_convert."
      "__graph_breaks: [DEBUG] ";
  std::string Log;
  for (const char *Line :
       {"Graph break: call_function print from user code at:",
        "  File \"/w/a.py\", line 30, in <module>", "    foo(a, b)",
        "  File \"/w/a.py\", line 9, in foo", "    print(z)",
        "Traceback (most recent call last):",
        "  File \"/p/torch/_dynamo/symbolic_convert.py\", line 87, in call",
        "torch._dynamo.exc.Unsupported: builtin: print"})
    Log += std::string(P) + Line + "\n";
  EXPECT_EQ(rows(Log),
            "graph-break|foo|/w/a.py:9|call_function print|0/0|-|-|1\n");
}

TEST_F(CompileLinesTest, ReadsLimitsOfEachRank) {
  // Two ranks in turns; 2.4 says cache_size_limit.
  const char *A = "[rank0]:W0729 13:35:08.486000 91 torch/_dynamo/"
                  "convert_frame.py:795] [8/8] ";
  const char *B = "[rank1]:W0729 13:35:08.530000 92 torch/_dynamo/"
                  "convert_frame.py:795] [8/8] ";
  std::string Log;
  for (const char *Line : {"torch._dynamo hit config.cache_size_limit (8)",
                           "   function: 'forward' (/w/wrap.py:146)",
                           "   last reason: 8/0: L['self'].n == 3"})
    Log += std::string(A) + Line + "\n" + B + Line + "\n";
  EXPECT_EQ(rows(Log), "limit|forward|/w/wrap.py:146|cache_size_limit (8): "
                       "L['self'].n == 3|8/8|0|-|1\n"
                       "limit|forward|/w/wrap.py:146|cache_size_limit (8): "
                       "L['self'].n == 3|8/8|1|-|2\n");
}

TEST_F(CompileLinesTest, AddsUpTheStepsOfACompilation) {
  // 0.5 s of tracing, 1.5 s in the backend of which Inductor's step is a part;
  // then 0.25 s for the backward graph, whenever that is asked for.
  const char *P = " 7 torch/_dynamo/output_graph.py:1] [0/0] ";
  auto Line = [&](const char *Time, const char *Text) {
    return std::string("I1122 01:00:") + Time + P + Text + "\n";
  };
  EXPECT_EQ(
      rows(Line("00.000000",
                "Step 1: torchdynamo start tracing scale /w/rec.py:4") +
           Line("00.500000", "Step 1: torchdynamo done tracing scale") +
           Line("00.500000", "Step 2: calling compiler function inductor") +
           Line("00.700000",
                "Step 3: torchinductor compiling FORWARDS graph 0") +
           Line("01.900000",
                "Step 3: torchinductor done compiling FORWARDS graph 0") +
           Line("02.000000", "Step 2: done compiler function inductor") +
           Line("20.000000",
                "Step 3: torchinductor compiling BACKWARDS graph 0") +
           Line("20.250000",
                "Step 3: torchinductor done compiling BACKWARDS graph 0")),
      "compile|scale|/w/rec.py:4|-|0/0|-|2.25|1\n");
}

TEST_F(CompileLinesTest, ReadsCachesAndServers) {
  EXPECT_EQ(
      rows("I1122 01:00:00.1 7 torch/_inductor/codecache.py:2299] [0/0] fx "
           "graph cache hit for key fabc\n"
           "I1122 01:00:00.2 7 torch/_functorch/_aot_autograd/"
           "autograd_cache.py:1055] [1/0] AOTAutograd cache miss for key aq\n"
           "INFO 10-07 16:12:30 [backends.py:215] Compiling a graph for "
           "dynamic shape takes 24.18 s\n"
           "INFO 10-07 16:12:30 [backends.py:164] Directly load the compiled "
           "graph(s) for shape None from the cache, took 1.803 s\n",
           "rank3.log"),
      "cache-hit|-|-|fx graph cache, key fabc|0/0|3|-|1\n"
      "cache-miss|-|-|AOTAutograd cache, key aq|1/0|3|-|2\n"
      "compile|-|-|graph for dynamic shape|-|3|24.18|3\n"
      "cache-hit|-|-|graph(s) for shape None|-|3|1.803|4\n");
}

TEST_F(CompileLinesTest, LeavesOtherLinesAlone) {
  EXPECT_EQ(rows("Recompiling function names in a sentence\n"
                 "2026-01-01 10:00:00 INFO Graph break in user code at a.py:1\n"
                 "torch/_dynamo is a folder\n"
                 "torch.py:3] x\ntorch/a.py:3]\ntorch/a.py:3] [0/1\n"
                 "torch._dynamo: [\ntorch._dynamo: []\ntorch\n"
                 "  File \"/p/torch/_dynamo/x.py\", line 87, in call\n"),
            "");
  // A message that breaks off counts as far as it goes.
  EXPECT_EQ(rows("V1122 01:32:42.637000 1 torch/_dynamo/guards.py:5] [0/2] "
                 "[__recompiles] Recompiling function scale in"),
            "recompile|scale in|-|-|0/2|-|-|1\n");
}
