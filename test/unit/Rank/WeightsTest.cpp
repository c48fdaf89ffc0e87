//===- WeightsTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Weights.h"
#include "Support/Error.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

std::string problemOf(llvm::Expected<Weights> W) {
  if (W)
    return "";
  return toDiagnostics(W.takeError()).front().Message;
}

TEST(WeightsTest, ReadsOverridesAndKeepsDefaults) {
  auto W = Weights::parse("words: {always: 0.9}\n"
                          "prior: 0.05\n"
                          "leaks: {gpu-idle: 0.1}\n"
                          "generic: [gpu-idle, tiny-kernels]\n",
                          "w.yaml");
  ASSERT_TRUE(bool(W));
  EXPECT_EQ(W->Always, 0.9);
  EXPECT_EQ(W->Often, 0.7);
  EXPECT_EQ(W->prior("anything"), 0.05);
  EXPECT_EQ(W->leak("gpu-idle"), 0.1);
  EXPECT_EQ(W->leak("other"), 0.02);
  EXPECT_TRUE(W->isGeneric("tiny-kernels"));
  EXPECT_FALSE(W->isGeneric("other"));
}

// Where nothing is said of generic sights they are as all others.
TEST(WeightsTest, GenericSightsOfTheUnknownCause) {
  auto Plain = Weights::parse("unknown: {prior: 0.04, shows: 15}\n", "w.yaml");
  ASSERT_TRUE(bool(Plain));
  EXPECT_EQ(Plain->UnknownShowsGeneric, 15);
  auto Own = Weights::parse("unknown: {shows: 15, shows_generic: 5}\n",
                            "w.yaml");
  ASSERT_TRUE(bool(Own));
  EXPECT_EQ(Own->UnknownShowsGeneric, 5);
  EXPECT_EQ(problemOf(Weights::parse("unknown: {shows_generic: 0}\n",
                                     "w.yaml")),
            "w.yaml: 'unknown.shows_generic' is 0");
}

// Nothing decides by itself unless the file says what does.
TEST(WeightsTest, WhatDecides) {
  auto Plain = Weights::parse("prior: 0.05\n", "w.yaml");
  ASSERT_TRUE(bool(Plain));
  EXPECT_EQ(Plain->Decisive.Leak, 0);
  auto Own = Weights::parse("decisive: {score: 0.8, weight: 0.6, leak: 0.01}\n",
                            "w.yaml");
  ASSERT_TRUE(bool(Own));
  EXPECT_EQ(Own->Decisive.Score, 0.8);
  EXPECT_EQ(Own->Decisive.Weight, 0.6);
  EXPECT_EQ(Own->Decisive.Leak, 0.01);
  EXPECT_EQ(problemOf(Weights::parse("decisive: {leak: 2}\n", "w.yaml")),
            "w.yaml: 'decisive' has a number that is not from 0 to 1");
}

// Causes that no recorded run has are weighed by numbers of their own.
TEST(WeightsTest, CausesThatNoRecordedRunHas) {
  auto W = Weights::parse(
      "not_recorded: {network: 0.9, runs: 0.4, offset: -0.5}\n", "w.yaml");
  ASSERT_TRUE(bool(W));
  EXPECT_EQ(W->OfOthers.Network, 0.9);
  EXPECT_EQ(W->OfOthers.Runs, 0.4);
  EXPECT_EQ(W->OfOthers.Offset, -0.5);
  EXPECT_EQ(W->OfRecorded.Network, 1);
}

TEST(WeightsTest, RefusesWhatIsNoProbability) {
  EXPECT_EQ(problemOf(Weights::parse("prior: 1.5\n", "w.yaml")),
            "w.yaml: 'prior' is 1.5, not a probability");
  EXPECT_EQ(problemOf(Weights::parse("leaks: {x: 0}\n", "w.yaml")),
            "w.yaml: 'x' is 0, not a probability");
}

TEST(WeightsTest, NamesTheLineOfAnUnknownKey) {
  EXPECT_EQ(problemOf(Weights::parse("prior: 0.1\nprio: 0.2\n", "w.yaml")),
            "w.yaml:2: unknown key 'prio'");
}

TEST(WeightsTest, ShippedFilesLoad) {
  auto W = Weights::load(CULPRIT_SOURCE_DIR "/kb/ranking.yaml");
  ASSERT_TRUE(bool(W)) << problemOf(std::move(W));
  EXPECT_FALSE(
      bool(W->loadFitted(CULPRIT_SOURCE_DIR "/kb/fitted.yaml")));
  EXPECT_FALSE(W->Fitted.empty());
  EXPECT_FALSE(
      bool(W->loadRecorded(CULPRIT_SOURCE_DIR "/kb/recorded-runs.txt")));
  EXPECT_TRUE(W->Recorded);
}

TEST(WeightsTest, FittedTakesThePlaceOfWordsAndLeaks) {
  auto W = Weights::parse("leaks: {a: 0.1, b: 0.2}\n", "w.yaml");
  ASSERT_TRUE(bool(W));
  EXPECT_FALSE(bool(W->parseFitted("date: \"2026-03-01\"\n"
                                   "leaks: {a: 0.3}\n"
                                   "links:\n  c:\n    a: 0.6\n",
                                   "f.yaml")));
  EXPECT_EQ(W->leak("a"), 0.3);
  EXPECT_EQ(W->leak("b"), 0.2);
  EXPECT_EQ(W->fitted("c", "a"), 0.6);
  EXPECT_EQ(W->fitted("c", "b"), std::nullopt);
  EXPECT_EQ(W->fitted("d", "a"), std::nullopt);
  EXPECT_NEAR(W->calibrated(0.4), 0.4, 1e-12); // no map in the file: as it is
  EXPECT_FALSE(bool(W->loadFitted("/nowhere/fitted.yaml")));
}

// Of 0.5 the log-odds become 2 ln .5 - .5 ln .5 + 1 = -.039721, of 0.2
// 2 ln .2 - .5 ln .8 + 1 = -2.107304, of 0.9 2 ln .9 - .5 ln .1 + 1 = 1.940572.
TEST(WeightsTest, CalibrationMovesLogOdds) {
  Weights W;
  EXPECT_FALSE(bool(W.parseFitted(
      "calibration: {low: 2, high: 0.5, offset: 1}\n", "f.yaml")));
  EXPECT_NEAR(W.calibrated(0.5), 0.490071, 1e-6);
  EXPECT_NEAR(W.calibrated(0.2), 0.108389, 1e-6);
  EXPECT_NEAR(W.calibrated(0.9), 0.874415, 1e-6);
  EXPECT_EQ(W.calibrated(0), 0);
  EXPECT_EQ(W.calibrated(1), 1);
}

// "tensors.rms" and "scalars, tensors" cost what their first table costs.
TEST(WeightsTest, MinutesGoByClassAndTable) {
  auto W = Weights::parse("experiments:\n  minutes: 7\n"
                          "  by_class: {a: 2}\n"
                          "  by_recording: {tensors: 15, scalars: 9}\n",
                          "w.yaml");
  ASSERT_TRUE(bool(W));
  EXPECT_EQ(W->minutesOf("a"), 2);
  EXPECT_EQ(W->minutesOf("b"), 7);
  EXPECT_EQ(W->minutesToRecord("tensors.rms"), 15);
  EXPECT_EQ(W->minutesToRecord("scalars, tensors"), 9);
  EXPECT_EQ(W->minutesToRecord("at least 32 pieces of work"), 7);
  EXPECT_EQ(problemOf(Weights::parse("experiments: {minutes: 0}\n", "w.yaml")),
            "w.yaml: 'experiments.minutes' is 0");
}

} // namespace
