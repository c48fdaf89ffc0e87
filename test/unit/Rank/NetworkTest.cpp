//===- NetworkTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Network.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace culprit;

namespace {

Network oneCause(unsigned Symptoms) {
  Network N;
  CauseNode Cause{"cause", 0.02, {}};
  for (unsigned S = 0; S != Symptoms; ++S) {
    N.Symptoms.push_back({"s" + std::to_string(S), 0.02});
    Cause.Links.push_back({S, 0.95, false});
  }
  N.Causes.push_back(Cause);
  return N;
}

const Observation Seen{Presence::Present, 1.0};
const Observation Clear{Presence::Absent, 0.0};
const Observation Unknown{};

// on = 1 - 0.98 * 0.05 = 0.951.
// present: 0.951 * 200/201 + 0.049 / 201 = 0.946512
// absent:  0.02  * 200/201 + 0.98  / 201 = 0.024776
// odds = 0.02/0.98 * 38.2026 = 0.779645
TEST(NetworkTest, OneSymptomByHand) {
  auto P = posterior(oneCause(1), {Seen});
  ASSERT_EQ(P.size(), 1u);
  EXPECT_NEAR(P[0].Probability, 0.438090, 1e-6);
  ASSERT_EQ(P[0].Influences.size(), 1u);
  EXPECT_NEAR(P[0].Influences[0].LogOdds, std::log(38.202611), 1e-6);
}

// A second symptom multiplies the odds by the same 38.2026.
TEST(NetworkTest, TwoSymptomsMultiply) {
  auto P = posterior(oneCause(2), {Seen, Seen});
  ASSERT_EQ(P.size(), 1u);
  double Odds = 0.779645 * 38.202611;
  EXPECT_NEAR(P[0].Probability, Odds / (1 + Odds), 1e-6);
}

// Clear: present 0.951/201 + 0.049 * 200/201 = 0.053488,
//        absent  0.02/201  + 0.98  * 200/201 = 0.975224; ratio 0.0548465.
TEST(NetworkTest, ClearSymptomSpeaksAgainst) {
  auto P = posterior(oneCause(2), {Seen, Clear});
  ASSERT_EQ(P.size(), 1u);
  double Odds = 0.779645 * 0.0548465;
  EXPECT_NEAR(P[0].Probability, Odds / (1 + Odds), 1e-5);
  EXPECT_NEAR(P[0].Influences[1].LogOdds, std::log(0.0548465), 1e-4);
}

TEST(NetworkTest, UnknownSymptomSaysNothing) {
  auto With = posterior(oneCause(2), {Seen, Unknown});
  auto Alone = posterior(oneCause(1), {Seen});
  ASSERT_EQ(With.size(), 1u);
  EXPECT_DOUBLE_EQ(With[0].Probability, Alone[0].Probability);
}

// A score of 0 is a likelihood ratio of 1 and leaves the prior.
TEST(NetworkTest, ScoreZeroLeavesThePrior) {
  auto P = posterior(oneCause(1), {{Presence::Present, 0.0}});
  ASSERT_EQ(P.size(), 1u);
  EXPECT_NEAR(P[0].Probability, 0.02, 1e-12);
}

TEST(NetworkTest, NothingPresentGivesNoHypothesis) {
  EXPECT_TRUE(posterior(oneCause(2), {Clear, Unknown}).empty());
}

// Two causes share s0; only A shows s1. Seeing both lets A explain s0, so B
// falls below what s0 alone would make of it.
TEST(NetworkTest, ExplainingAway) {
  Network N;
  N.Symptoms = {{"s0", 0.02}, {"s1", 0.02}};
  N.Causes = {{"a", 0.02, {{0, 0.95, false}, {1, 0.95, false}}},
              {"b", 0.02, {{0, 0.95, false}}}};
  auto Both = posterior(N, {Seen, Seen});
  auto One = posterior(N, {Seen, Unknown});
  auto find = [](const std::vector<CausePosterior> &P, unsigned Cause) {
    for (const CausePosterior &C : P)
      if (C.Cause == Cause)
        return C.Probability;
    return 0.0;
  };
  EXPECT_GT(find(Both, 0), 0.9);
  EXPECT_LT(find(Both, 1), 0.1);
  EXPECT_NEAR(find(One, 0), find(One, 1), 1e-12); // nothing tells them apart
}

// `never` suppresses the leak: seeing the symptom lowers the cause.
TEST(NetworkTest, NeverSpeaksAgainst) {
  Network N = oneCause(1);
  N.Symptoms.push_back({"forbidden", 0.02});
  auto Before = posterior(N, {Seen, Unknown});
  N.Causes[0].Links.push_back({1, 0.01, true});
  auto After = posterior(N, {Seen, Seen});
  ASSERT_EQ(After.size(), 1u);
  // Leak 0.02 * 0.05 = 0.001: 0.001*200/201 + 0.999/201 = 0.0059652 against
  // 0.0247761 without the cause: odds times 0.240764.
  double Odds = 0.779645 * 0.240764;
  EXPECT_NEAR(After[0].Probability, Odds / (1 + Odds), 1e-5);
  EXPECT_LT(After[0].Probability, Before[0].Probability);
}

// A required symptom that is clear rules the cause out, however much else
// speaks for it; one that nobody could check does not. Seen it counts with
// P = 1: on = 1, 200/201 = 0.995025, odds 0.02/0.98 * 0.995025/0.024776.
TEST(NetworkTest, RequiredAndClearIsOut) {
  Network N = oneCause(2);
  N.Causes[0].Links[0] = {0, 1, false, true};
  EXPECT_TRUE(posterior(N, {Clear, Seen}).empty());
  EXPECT_EQ(posterior(N, {Unknown, Seen}).size(), 1u);
  auto P = posterior(N, {Seen, Unknown});
  ASSERT_EQ(P.size(), 1u);
  double Odds = 0.02 / 0.98 * 0.995025 / 0.024776;
  EXPECT_NEAR(P[0].Probability, Odds / (1 + Odds), 1e-5);
}

TEST(NetworkTest, TiesGoByClass) {
  Network N;
  N.Symptoms = {{"s", 0.02}};
  N.Causes = {{"zebra", 0.02, {{0, 0.7, false}}},
              {"ant", 0.02, {{0, 0.7, false}}}};
  auto P = posterior(N, {Seen});
  ASSERT_EQ(P.size(), 2u);
  EXPECT_EQ(N.Causes[P[0].Cause].Class, "ant");
}

} // namespace
