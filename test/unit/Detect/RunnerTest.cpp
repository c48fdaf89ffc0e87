//===- RunnerTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Runner.h"
#include "Detect/Options.h"
#include "Detect/Timing.h"
#include "gtest/gtest.h"
#include <atomic>
#include <functional>
#include <thread>

using namespace culprit;

namespace {

using Body =
    std::function<void(const Case &, llvm::ArrayRef<Scalar>, Outcome &)>;

class FakeDetector : public Detector {
public:
  FakeDetector(std::string Id, Body Run)
      : Detector(describe(std::move(Id))), Run(std::move(Run)) {}

  static DetectorInfo describe(std::string Id) {
    DetectorInfo Info;
    Info.Id = std::move(Id);
    Info.Symptoms = {"gpu-idle"};
    Info.Options = {{"count", int64_t(3), "d"},
                    {"name", std::string("x"), "d"},
                    {"on", true, "d"},
                    {"share", 0.5, "d"}};
    return Info;
  }

  void run(const Case &C, llvm::ArrayRef<Scalar> Options, const Limits &,
           Outcome &Result) const override {
    Run(C, Options, Result);
  }

private:
  Body Run;
};

struct RunnerTest : testing::Test {
  void add(const char *Id, Body Run = [](auto &&...) {}) {
    Set.add(std::make_unique<FakeDetector>(Id, std::move(Run)));
  }

  std::string run(const RunSettings &Settings) {
    Case C = CaseBuilder().build();
    llvm::Expected<std::vector<Outcome>> Out = runDetectors(Set, C, Settings);
    if (!Out) {
      Diagnostic D = toDiagnostics(Out.takeError()).front();
      return D.Message + " (" + D.Hint + ")";
    }
    std::string Text;
    for (const Outcome &O : *Out)
      Text += O.Detector + "=" + toString(O.Kind).str() + " ";
    return Text;
  }
  std::string run(std::string Only) {
    RunSettings Settings;
    Settings.Only = std::move(Only);
    return run(Settings);
  }
  std::string set(std::string Option) {
    RunSettings Settings;
    Settings.Options = {std::move(Option)};
    return run(Settings);
  }

  DetectorSet Set;
};

TEST_F(RunnerTest, OutcomesAreInTheOrderOfIdsForAnyNumberOfThreads) {
  for (int I = 50; I != 10; --I)
    add(("d/" + std::to_string(I)).c_str(), [I](auto &, auto, Outcome &O) {
      if (I % 2)
        O.Kind = OutcomeKind::Matched;
    });
  RunSettings Settings;
  Settings.Threads = 1;
  std::string One = run(Settings);
  EXPECT_EQ(0u, One.find("d/11=matched d/12=clear "));
  for (unsigned Threads : {2, 7, 100}) {
    Settings.Threads = Threads;
    EXPECT_EQ(One, run(Settings));
  }
}

TEST_F(RunnerTest, SelectsByGlobs) {
  add("gpu/idle");
  add("gpu/copies");
  add("training/spike");
  EXPECT_EQ("gpu/copies=clear gpu/idle=clear ", run("gpu/*"));
  EXPECT_EQ("gpu/copies=clear ", run("gpu/*,-gpu/i*"));
  EXPECT_EQ("no detector matches 'gpu/idel' (did you mean 'gpu/idle'?)",
            run("gpu/idel"));
}

TEST_F(RunnerTest, WhatDidNotLoadFails) {
  add("a/good");
  DetectorError E;
  E.Message = "unexpected symbol";
  Set.add(BrokenDetector{"a/bad", E});
  EXPECT_EQ("a/bad=failed a/good=clear ", run(""));
  EXPECT_EQ("a/good=clear ", run("a/g*"));
}

TEST_F(RunnerTest, ALaterDetectorTakesThePlaceOfAnEarlier) {
  add("a/x", [](auto &, auto, Outcome &O) { O.Kind = OutcomeKind::Matched; });
  add("a/x");
  EXPECT_EQ("a/x=clear ", run(""));
  Set.add(BrokenDetector{"a/x", {}});
  EXPECT_EQ("a/x=failed ", run(""));
  add("a/x");
  EXPECT_EQ("a/x=clear ", run(""));
}

TEST_F(RunnerTest, OptionsAreChecked) {
  std::vector<Scalar> Seen;
  add("gpu/idle", [&](auto &, llvm::ArrayRef<Scalar> Options, Outcome &) {
    Seen = Options.vec();
  });
  EXPECT_EQ("gpu/idle=clear ", set("gpu/idle.count=7"));
  EXPECT_EQ(7, std::get<int64_t>(Seen[0]));
  EXPECT_EQ("gpu/idle=clear ", set("gpu/idle.share=1"));
  EXPECT_EQ(1.0, std::get<double>(Seen[3]));
  EXPECT_EQ("gpu/idle=clear ", set("gpu/idle.name=a=b"));
  EXPECT_EQ("a=b", std::get<std::string>(Seen[1]));
  EXPECT_EQ("gpu/idle=clear ", set("gpu/idle.on=false"));
  EXPECT_FALSE(std::get<bool>(Seen[2]));

  EXPECT_EQ("option 'gpu/idle.count' wants a whole number, not '0.5' (its "
            "default is 3)",
            set("gpu/idle.count=0.5"));
  EXPECT_EQ("unknown option 'shares' of 'gpu/idle' (did you mean 'share'? "
            "options: count, name, on, share)",
            set("gpu/idle.shares=1"));
  EXPECT_EQ("unknown detector 'gpu/idel' (did you mean 'gpu/idle'?)",
            set("gpu/idel.share=1"));
  EXPECT_EQ("'share=1' does not set an option (write ID.NAME=VALUE, as in "
            "gpu/idle.min_idle=0.2)",
            set("share=1"));
}

TEST_F(RunnerTest, TimesAreShown) {
  Outcome A, B;
  A.Detector = "a/quick";
  A.ElapsedNs = 1000000;
  B.Detector = "b/slow";
  B.ElapsedNs = 3000000;
  B.Kind = OutcomeKind::Matched;
  B.PeakBytes = 1536;
  EXPECT_EQ("detector  outcome          time    share    memory\n"
            "b/slow    matched       3.00 ms   75.0 %  1.50 KiB\n"
            "a/quick   clear         1.00 ms   25.0 %         -\n"
            "total                   4.00 ms\n",
            timingTable({A, B}));
}

TEST_F(RunnerTest, SlowDetectorsAreTakenApart) {
  Outcome A, B;
  A.Detector = "a/quick"; // 1 of 21 ms: below a twentieth
  A.ElapsedNs = 1000000;
  A.Costs = {{{"a.lua", 1}, "where", 1, 900000, 0}};
  B.Detector = "b/slow";
  B.ElapsedNs = 20000000;
  B.Costs = {{{"plugins/b/slow.lua", 12}, "where", 3, 15000000, 2048},
             {{"plugins/lib/stats.lua", 9}, "", 0, 1000000, 0},
             {{"plugins/b/slow.lua", 0}, "", 0, 1000, 0}};
  for (unsigned Line = 1; Line != 8; ++Line) // two more than are shown
    B.Costs.push_back({{"plugins/b/slow.lua", Line}, "sum", 1, 500000, 0});
  EXPECT_EQ("detector                       outcome          time    share    memory\n"
            "b/slow                         clear         20.0 ms   95.2 %         -\n"
            "  line 12  where               3 calls       15.0 ms   75.0 %  2.00 KiB\n"
            "  lib/stats.lua:9  Lua itself                1.00 ms    5.0 %         -\n"
            "  starting Lua                               1.00 us    0.0 %         -\n"
            "  line 1  sum                  1 call         500 us    2.5 %         -\n"
            "  line 2  sum                  1 call         500 us    2.5 %         -\n"
            "  line 3  sum                  1 call         500 us    2.5 %         -\n"
            "  line 4  sum                  1 call         500 us    2.5 %         -\n"
            "  line 5  sum                  1 call         500 us    2.5 %         -\n"
            "  2 more                                     1.00 ms    5.0 %\n"
            "a/quick                        clear         1.00 ms    4.8 %         -\n"
            "total                                        21.0 ms\n",
            timingTable({A, B}));
}

TEST_F(RunnerTest, ADetectorThatHangsIsLeftBehind) {
  // What a thread left behind uses has to outlive this test.
  static std::atomic<bool> LetGo = false;
  add("a/good");
  add("b/hangs", [](auto &&...) {
    while (!LetGo)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  add("c/good");
  for (unsigned Threads : {1, 4}) {
    LetGo = false;
    RunSettings Settings;
    Settings.Threads = Threads;
    Settings.Bounds.Time = std::chrono::milliseconds(10);
    Case C = CaseBuilder().build();
    auto Out = llvm::cantFail(runDetectors(Set, C, Settings));
    LetGo = true;
    ASSERT_EQ(3u, Out.size());
    EXPECT_EQ(OutcomeKind::Clear, Out[0].Kind);
    EXPECT_EQ(OutcomeKind::Failed, Out[1].Kind);
    EXPECT_TRUE(Out[1].Abandoned);
    EXPECT_EQ("hangs in native code: still running after 1.01 s, without a "
              "look at the clock",
              Out[1].Error->Message);
    EXPECT_EQ(OutcomeKind::Clear, Out[2].Kind);
    EXPECT_FALSE(Out[2].Abandoned);
    // Its thread reads C once it is let go.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

TEST_F(RunnerTest, FailuresAreDescribedInFull) {
  Outcome O;
  O.Detector = "gpu/idle-gaps";
  O.Error = DetectorError{"unknown column 'stopp' in 'gpu_work'",
                          "did you mean 'stop'? columns: start, stop",
                          "plugins/gpu/idle-gaps.lua",
                          13,
                          {{"plugins/gpu/idle-gaps.lua", 40},
                           {"plugins/lib/gaps.lua", 7}}};
  EXPECT_EQ("gpu/idle-gaps failed\n"
            "  plugins/gpu/idle-gaps.lua:13: unknown column 'stopp' in "
            "'gpu_work'\n"
            "  note: called from line 40\n"
            "  note: called from plugins/lib/gaps.lua:7\n"
            "  note: did you mean 'stop'? columns: start, stop",
            describeFailure(O));
}

TEST_F(RunnerTest, GetSuggests) {
  add("gpu/idle");
  llvm::Expected<const Detector *> D = Set.get("idle");
  EXPECT_EQ("did you mean 'gpu/idle'?",
            toDiagnostics(D.takeError()).front().Hint);
}

} // namespace
