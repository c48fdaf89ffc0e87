//===- RunsTest.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Compare/RunsStatistics.h"
#include "Table/Series.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace culprit;

namespace {

// Tables of Student's t: two-sided 5 %.
TEST(RunsStatisticsTest, StudentBound) {
  EXPECT_NEAR(studentBound(0.05, 1), 12.7062, 1e-3);
  EXPECT_NEAR(studentBound(0.05, 4), 2.776445, 1e-5);
  EXPECT_NEAR(studentBound(0.05, 6), 2.446912, 1e-5);
  EXPECT_NEAR(studentBound(0.01, 10), 3.169273, 1e-5);
  EXPECT_NEAR(studentBound(0.05, 1e6), 1.959964, 1e-4); // normal
}

// I_x(1, b) = 1 - (1-x)^b; I_x(a, 1) = x^a; I_1/2(3, 2) = P(Bin(4, 1/2) >= 3).
TEST(RunsStatisticsTest, IncompleteBeta) {
  EXPECT_NEAR(incompleteBeta(0.5, 1, 3), 0.875, 1e-12);
  EXPECT_NEAR(incompleteBeta(0.3, 4, 1), std::pow(0.3, 4), 1e-12);
  EXPECT_NEAR(incompleteBeta(0.5, 3, 2), 5.0 / 16, 1e-12);
  EXPECT_EQ(incompleteBeta(0, 2, 2), 0);
  EXPECT_EQ(incompleteBeta(1, 2, 2), 1);
}

// 1, 2, 3, 4 against 1, 3, 2, 4: 1 - 6 * 2 / (4 * 15) = 0.8. Of 24 orders one
// reaches 1 and four reach 0.8: itself and the three exchanges of neighbours.
TEST(RunsStatisticsTest, RankCorrelation) {
  EXPECT_NEAR(*rankCorrelation({1, 2, 3, 4}, {10, 30, 20, 40}), 0.8, 1e-12);
  EXPECT_NEAR(rankCorrelationP(1, 4), 1.0 / 24, 1e-12);
  EXPECT_NEAR(rankCorrelationP(0.8, 4), 4.0 / 24, 1e-12);
  EXPECT_FALSE(rankCorrelation({1, 1, 1}, {1, 2, 3}));
  EXPECT_FALSE(rankCorrelation({1}, {1}));
}

// Alternating +1, -1 about a line: blocks of 10 have a median of 0 after the
// line, so only the error of a window of 10 is left, and slope costs nothing.
TEST(RunsStatisticsTest, PairNoise) {
  EXPECT_FALSE(pairNoise({1, 2, 3}));
  std::vector<double> Flat(100, 5.0), Rising;
  EXPECT_NEAR(pairNoise(Flat)->Nu, 0, 1e-12);
  for (int I = 0; I != 100; ++I)
    Rising.push_back(0.5 * I);
  EXPECT_NEAR(pairNoise(Rising)->Nu, 0, 1e-12);
  EXPECT_EQ(pairNoise(Rising)->Freedom, 3); // five blocks
  // Slow wandering: a sine of 50 points is no noise to neighbours, and is to
  // the level of ten. Block medians of amplitude 1 move by about 1.
  std::vector<double> Slow;
  for (int I = 0; I != 100; ++I)
    Slow.push_back(std::sin(2 * M_PI * I / 50));
  EXPECT_GT(pairNoise(Slow)->Nu, 0.3);
}

// A tenth is rounded up. Every length of four or more has its blocks; 11
// points have windows of 2, of which 5 are taken.
TEST(RunsStatisticsTest, PairNoiseOfEveryLength) {
  for (size_t Count = 4; Count != 200; ++Count) {
    std::vector<double> Zigzag;
    for (size_t I = 0; I != Count; ++I)
      Zigzag.push_back(I % 2 ? 1 : -1);
    std::optional<PairNoise> N = pairNoise(Zigzag);
    ASSERT_TRUE(N) << Count;
    EXPECT_GE(N->Freedom, 2) << Count;
  }
  EXPECT_EQ(pairNoise(std::vector<double>(11, 1.0))->Freedom, 3);
}

TEST(RunsMetricsTest, Kinds) {
  EXPECT_EQ(metricKind("val_loss").Better, MetricBetter::Lower);
  EXPECT_EQ(metricKind("val_loss/wikitext").Better, MetricBetter::Lower);
  EXPECT_EQ(metricKind("hellaswag/acc_norm,none").Better, MetricBetter::Higher);
  EXPECT_EQ(metricKind("tokens_per_sec").Better, MetricBetter::Higher);
  EXPECT_EQ(metricKind("tokens_per_sec").Role, MetricRole::Cost);
  EXPECT_EQ(metricKind("eval_runtime").Better, MetricBetter::Lower);
  EXPECT_EQ(metricKind("weird_number").Better, MetricBetter::Unknown);
  EXPECT_EQ(metricKind("grad_norm").Role, MetricRole::Signal);
  EXPECT_EQ(metricKind("lr").Role, MetricRole::Setting);
  EXPECT_EQ(metricKind("batch_hash").Phase, MetricPhase::Input);
}

TEST(RunsSetupTest, Kinds) {
  EXPECT_EQ(changeKind("seed"), "seed");
  EXPECT_EQ(changeKind("optimizer.lr"), "lr");
  EXPECT_EQ(changeKind("optimizer.lr.value"), "lr"); // W&B
  EXPECT_EQ(changeKind("optimizer.name"), "optimizer");
  EXPECT_EQ(changeKind("run_name"), "bookkeeping");
  EXPECT_EQ(changeKind("logging_steps"), "bookkeeping");
  EXPECT_EQ(changeKind("output_dir"), "bookkeeping");
  EXPECT_EQ(changeKind("data_dir"), "data");
  EXPECT_EQ(changeKind("per_device_train_batch_size"), "batch-size");
  EXPECT_EQ(changeKind("tokenizer"), "tokenizer");
  EXPECT_EQ(changeKind("eval_dataset"), "eval");
  EXPECT_EQ(changeKind("world_size"), "hardware");
  EXPECT_EQ(changeKind("bf16"), "precision");
  EXPECT_EQ(changeKind("warmup_steps"), "schedule");
}

RunRecord run(std::map<std::string, std::string> Config) {
  RunRecord Out;
  Out.Config = std::move(Config);
  return Out;
}

// 3e-4 and 0.0003 are one value; a seed alone is not a change; two are.
TEST(RunsSetupTest, Changes) {
  RunRecord A = run({{"lr", "3e-4"}, {"seed", "1"}, {"bf16", "True"}});
  RunRecord Same = run({{"lr", "0.0003"}, {"seed", "1"}, {"bf16", "true"}});
  RunRecord Seed = run({{"lr", "3e-4"}, {"seed", "2"}, {"bf16", "True"}});
  RunRecord One = run({{"lr", "1e-3"}, {"seed", "1"}, {"bf16", "True"}});
  RunRecord Two = run({{"lr", "1e-3"}, {"seed", "2"}, {"bf16", "True"}});
  RunRecord Bare;
  EXPECT_EQ(compareRunSetups({&A}, {&Same}).Kind, "same");
  EXPECT_EQ(compareRunSetups({&A}, {&Seed}).Kind, "seed");
  EXPECT_EQ(compareRunSetups({&A}, {&One}).Kind, "one");
  EXPECT_EQ(compareRunSetups({&A}, {&Two}).Kind, "confounded");
  // Two seeds a side are what noise is told by.
  EXPECT_EQ(compareRunSetups({&A, &Seed}, {&One, &Two}).Kind, "one");
  EXPECT_EQ(compareRunSetups({&Bare}, {&Bare}).Kind, "unknown");
}

// Beside a run without settings nothing was changed as far as anybody knows.
TEST(RunsSetupTest, OneSideWithoutSettings) {
  RunRecord A = run({{"lr", "3e-4"}, {"n_layer", "4"}}), Bare;
  RunSetup S = compareRunSetups({&A}, {&Bare});
  EXPECT_EQ(S.Kind, "unknown");
  EXPECT_TRUE(S.Changes.empty());
  EXPECT_NE(S.Says.find("the settings of B are not recorded"),
            std::string::npos);
}

// 57 bytes and "...": an e with an accent has two bytes and is not halved.
TEST(RunsSetupTest, LongValues) {
  std::string Accents;
  for (int I = 0; I != 40; ++I)
    Accents += "\xc3\xa9";
  EXPECT_EQ(changeText({"other", "k", Accents, "x", true}),
            "k " + Accents.substr(0, 56) + "... -> x");
}

TEST(RunsSetupTest, PackagesAreOneChange) {
  RunRecord A = run({{"lr", "1"}}), B = A;
  A.Packages = {{"torch", "2.1"}, {"numpy", "1.26"}, {"black", "1"}};
  B.Packages = {{"torch", "2.2"}, {"numpy", "2.0"}, {"black", "2"}};
  RunSetup S = compareRunSetups({&A}, {&B});
  EXPECT_EQ(S.Kind, "one");
  EXPECT_EQ(S.Changes.size(), 3u);
  EXPECT_FALSE(S.Changes.back().Semantic); // black
}

void log(RunRecord &R, const char *Name, std::vector<double> Values,
         int64_t First = 0) {
  ScalarSeries &S = R.Series[Name];
  S.Metric = Name;
  for (size_t I = 0; I != Values.size(); ++I) {
    S.Steps.push_back(First + int64_t(I));
    S.Values.push_back(Values[I]);
  }
}

// B begins at step 3, in the middle of A: its learning rate is that of a
// scheduler that began anew.
TEST(RunsFirstTest, LaterStartIsAResume) {
  RunRecord A, B;
  log(A, "loss", {4, 3, 2.5, 2.25, 2.125});
  log(A, "lr", {1, 1, 0.5, 0.5, 0.25});
  log(B, "loss", {2.25, 2.5}, 3);
  log(B, "lr", {1, 1}, 3);
  std::optional<FirstDifference> F = firstDifference(A, B);
  ASSERT_TRUE(F);
  EXPECT_EQ(F->Kind, "resume");
  EXPECT_EQ(F->Step, 3);
  EXPECT_NE(F->Says.find("the scheduler was not restored"), std::string::npos);
}

// One log is float32, the other a double of the same value.
TEST(RunsFirstTest, SinglePrecisionLogs) {
  RunRecord A, B;
  log(A, "loss", {double(float(1.1)), double(float(2.3)), double(float(3.7))});
  log(B, "loss", {1.1, 2.3, 3.7});
  EXPECT_EQ(firstDifference(A, B)->Kind, "none");
}

// Rounding at first, and then one side is not finite: that does not stay small.
TEST(RunsFirstTest, RoundingUntilNotFinite) {
  RunRecord A, B;
  const double Inf = std::numeric_limits<double>::infinity();
  log(A, "loss", {4, 3, 2, 2, 2, 2, 2, 2, 2, 2});
  log(B, "loss", {4, 3 + 3e-7, 2, 2, 2, 2, 2, Inf, Inf, Inf});
  std::optional<FirstDifference> F = firstDifference(A, B);
  ASSERT_TRUE(F);
  EXPECT_TRUE(F->Rounding);
  EXPECT_FALSE(F->StaysSmall);
  EXPECT_FALSE(F->TenfoldSteps);
}

// The narrowest format that settings name counts, wherever it stands.
TEST(RunsFirstTest, NarrowestFormat) {
  RunRecord A = run({{"dtype", "float32"}, {"mixed_precision", "bf16"}});
  RunRecord B = A;
  log(A, "loss", {4, 3, 2});
  log(B, "loss", {4, 3.003, 2}); // 1e-3 is below 2^-8
  EXPECT_TRUE(firstDifference(A, B)->Rounding);
  EXPECT_FALSE(firstDifference(A, B)->Narrow);
}

// A falls to 1 over 100 steps; B blows up at the fifth. A's level is that of
// its end, not that of step 4.
TEST(RunsLevelsTest, ABlownUpRunCutsNobodyShort) {
  RunRecord A, B;
  std::vector<double> Falling, Blown(100, std::nan(""));
  for (int I = 0; I != 100; ++I)
    Falling.push_back(I < 90 ? 10 - 0.1 * I : 1);
  std::fill_n(Blown.begin(), 5, 9.0);
  log(A, "loss", Falling);
  log(B, "loss", Blown);
  CandidateComparison C;
  compareMetrics({&A}, {&B}, C);
  ASSERT_EQ(C.Metrics.size(), 1u);
  EXPECT_EQ(C.Metrics[0].A, 1);
  EXPECT_TRUE(std::isnan(C.Metrics[0].B));
  EXPECT_EQ(C.Metrics[0].better(), -1);
  EXPECT_EQ(finalLevels({&A, &B}, "loss")[0], 1);
}

// Points of A lie at both ends, and of B between them: no range has some of
// both, which is no reason to call either not finite.
TEST(RunsLevelsTest, NoPointsInTheCommonRange) {
  RunRecord A, B;
  A.Series["val_loss"] = {"val_loss", "", {0, 100}, {3, 2}};
  B.Series["val_loss"] = {"val_loss", "", {20, 40, 60, 80}, {3, 3, 2, 2}};
  CandidateComparison C;
  compareMetrics({&A}, {&B}, C);
  EXPECT_TRUE(C.Metrics.empty());
}

TEST(RunsFirstTest, NothingInCommon) {
  RunRecord A, B;
  log(A, "loss", {1, 2});
  log(B, "loss", {1, 2}, 10);
  EXPECT_FALSE(firstDifference(A, B));
}

// A setting that no run has would make one group of all.
TEST(RunsGroupTest, UnknownSetting) {
  std::vector<RunRecord> Runs = {run({{"lr", "1"}}), run({{"lr", "2"}})};
  for (RunRecord &R : Runs)
    log(R, "loss", {3, 2});
  RunsOptions Options;
  Options.Group = "lr,colour";
  llvm::Expected<RunsComparison> C = compareRuns(Runs, Options);
  ASSERT_FALSE(C);
  EXPECT_NE(llvm::toString(C.takeError()).find("'colour'"), std::string::npos);
}

// "base-seed1" and "base_s2" are of one group, "gpt2" is no seed of "gpt".
TEST(RunsGroupTest, ByName) {
  std::vector<RunRecord> Runs(4);
  const char *Names[] = {"base-seed1", "gpt2", "base_s2", "gpt3"};
  for (size_t I = 0; I != 4; ++I)
    Runs[I].Name = Names[I];
  std::vector<RunGroup> G = groupRuns(Runs, "");
  ASSERT_EQ(G.size(), 3u);
  EXPECT_EQ(G[0].Name, "base");
  EXPECT_EQ(G[0].Runs, (std::vector<size_t>{0, 2}));
}

} // namespace
