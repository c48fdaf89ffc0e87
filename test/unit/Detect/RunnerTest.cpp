//===- RunnerTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Runner.h"
#include "Detect/Options.h"
#include "gtest/gtest.h"
#include <functional>

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
  EXPECT_EQ("detector  outcome      time   share    memory\n"
            "b/slow    matched   3.00 ms  75.0 %  1.50 KiB\n"
            "a/quick   clear     1.00 ms  25.0 %         -\n"
            "total               4.00 ms                  \n",
            timingTable({A, B}));
}

TEST_F(RunnerTest, FailuresAreDescribedInFull) {
  Outcome O;
  O.Detector = "gpu/idle-gaps";
  O.Error = DetectorError{"unknown column 'stopp' in 'gpu_work'",
                          "did you mean 'stop'? columns: start, stop",
                          "plugins/gpu/idle-gaps.lua",
                          13,
                          {40}};
  EXPECT_EQ("gpu/idle-gaps failed\n"
            "  plugins/gpu/idle-gaps.lua:13: unknown column 'stopp' in "
            "'gpu_work'\n"
            "  note: called from line 40\n"
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
