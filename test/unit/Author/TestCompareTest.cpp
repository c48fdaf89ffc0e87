//===- TestCompareTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/TestRun.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

Report report(std::string Symptom, int64_t Device, std::string Message) {
  Report R;
  R.Symptom = std::move(Symptom);
  R.Message = std::move(Message);
  R.Score = 0.7878;
  R.Share = 0.394;
  R.At.push_back({"device", Device});
  R.At.push_back({"time", 0.25});
  EvidenceRef E;
  E.Total = 3;
  R.Evidence = {E, E};
  return R;
}

Outcome matched(std::vector<Report> Reports) {
  Outcome O;
  O.Kind = OutcomeKind::Matched;
  O.Reports = std::move(Reports);
  return O;
}

Expectation expect(llvm::StringRef Text) {
  TestFile F = parseTestFile(
      "a.test", ("name: a\ncase: {}\nexpect: " + Text + "\n").str());
  EXPECT_TRUE(F.Mistakes.empty()) << F.Mistakes[0].Message;
  return F.Cases.empty() ? Expectation() : F.Cases[0].Expected;
}

/// The rows as lines "! left | right".
std::string compared(llvm::StringRef Expected, const Outcome &Got) {
  std::vector<SideRow> Rows;
  bool Same = compareOutcome(expect(Expected), Got, Rows);
  std::string Out = Same ? "same\n" : "";
  for (const SideRow &R : Rows)
    if (R.Differs)
      Out += R.Left + " | " + R.Right + "\n";
  return Out;
}

TEST(TestCompare, OnlyWhatIsNamed) {
  Outcome O = matched({report("idle", 3, "GPU 3 is idle 39 %")});
  EXPECT_EQ(compared("\n- symptom: idle", O), "same\n");
  EXPECT_EQ(compared("\n- symptom: idle\n  at: {device: 3, time: 0.2}\n"
                     "  message: \"GPU ? is *\"\n  score: 0.79\n"
                     "  share: 0.394\n  severity: error\n  evidence: 6",
                     O),
            "same\n")
      << "0.25 rounds to 0.2 or 0.3";
  EXPECT_EQ(compared("\n- symptom: idle\n  at: {rank: 0, device: 2}\n"
                     "  score: 0.8\n  recoverable: 7\n  evidence: 5",
                     O),
            "  at.rank: 0 |   at.rank: (none)\n"
            "  at.device: 2 |   at.device: 3\n"
            "  recoverable: 7 |   recoverable: (none)\n"
            "  evidence: 5 |   evidence: 6\n");
}

TEST(TestCompare, AnyOrderAndNoneMissingNoneMore) {
  Outcome O = matched({report("idle", 0, "a"), report("busy", 1, "b"),
                       report("idle", 2, "c")});
  EXPECT_EQ(compared("\n- symptom: busy\n- symptom: idle\n- symptom: idle", O),
            "same\n");
  EXPECT_EQ(compared("\n- symptom: busy\n- symptom: idle", O),
            "(no such report) | - symptom: idle\n"
            " |   at.device: 2\n |   at.time: 0.25\n |   message: c\n"
            " |   score: 0.7878\n");
  EXPECT_EQ(compared("\n- symptom: busy\n- symptom: idle\n- symptom: idle\n"
                     "- symptom: busy\n  message: x",
                     O),
            "- symptom: busy | (no such report)\n  message: x | \n");
}

TEST(TestCompare, AGlobLeavesTheOtherItsReport) {
  // The first that fits `*` is the only one that fits `a`.
  Outcome O = matched({report("idle", 0, "a"), report("idle", 1, "b")});
  EXPECT_EQ(compared("\n- symptom: idle\n  message: \"*\"\n"
                     "- symptom: idle\n  message: a",
                     O),
            "same\n");
}

TEST(TestCompare, TheClosestStandsBeside) {
  Outcome O = matched({report("idle", 0, "GPU 0 waits for the loader"),
                       report("idle", 1, "GPU 1 is idle 39 %")});
  EXPECT_EQ(compared("\n- symptom: idle\n  message: GPU 1 is idle 40 %\n"
                     "- symptom: idle\n  message: \"* loader\"",
                     O),
            "  message: GPU 1 is idle 40 % |   message: GPU 1 is idle 39 %\n");
}

TEST(TestCompare, OtherOutcomes) {
  Outcome Clear, Skipped, Failed;
  Skipped.Kind = OutcomeKind::Skipped;
  Skipped.Missing = {"gpu_work", "scalars.loss"};
  Failed.Kind = OutcomeKind::Failed;
  Failed.Error.emplace();
  Failed.Error->Message = "unknown column 'stopp'";

  EXPECT_EQ(compared("clear", Clear), "same\n");
  EXPECT_EQ(compared("clear", Skipped),
            "clear | skipped: gpu_work; scalars.loss\n");
  EXPECT_EQ(compared("skipped", Skipped), "same\n");
  EXPECT_EQ(compared("{skipped: [\"scalars.*\", gpu_work]}", Skipped),
            "same\n");
  EXPECT_EQ(compared("{skipped: gpu_work}", Skipped),
            " | skipped: scalars.loss\n");
  EXPECT_EQ(compared("{skipped: tensors}", Clear),
            "skipped: tensors | clear\n");
  EXPECT_EQ(compared("{failed: \"unknown column *\"}", Failed), "same\n");
  EXPECT_EQ(compared("failed", Failed), "same\n");
  EXPECT_EQ(compared("clear", Failed),
            "clear | failed: unknown column 'stopp'\n");
  EXPECT_EQ(compared("\n- symptom: idle\n  score: 1", Clear),
            "- symptom: idle | clear\n  score: 1 | \n");
}

TEST(TestCompare, Unjudged) {
  Outcome O;
  O.Symptoms = {"a", "b"};
  O.Unjudged = {{"b", "scalars.loss"}};
  // Nobody looked for b, so the case is not clear of it.
  EXPECT_EQ(compared("clear", O), " | unjudged.b: scalars.loss\n");
  EXPECT_EQ(compared("{clear: true, unjudged: {b: \"scalars.*\"}}", O),
            "same\n");
  EXPECT_EQ(compared("{unjudged: {b: tensors}}", O),
            "unjudged.b: tensors | unjudged.b: scalars.loss\n");
  EXPECT_EQ(compared("{unjudged: {a: x}}", O), "unjudged.a: x | (judged)\n");
  // Of reports only what is named counts.
  O = matched({report("a", 0, "m")});
  O.Unjudged = {{"b", "scalars.loss"}};
  EXPECT_EQ(compared("\n- symptom: a", O), "same\n");
}

} // namespace
