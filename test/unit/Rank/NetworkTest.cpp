//===- NetworkTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Network.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace culprit;

namespace {

std::vector<CausePosterior> ranked(const Network &N,
                                   std::vector<SymptomObservation> Seen) {
  return culprit::posterior(N, llvm::ArrayRef<SymptomObservation>(Seen)).Causes;
}

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

const SymptomObservation Seen{Presence::Present, 1.0};
const SymptomObservation Clear{Presence::Absent, 0.0};
const SymptomObservation Unknown{};

// on = 1 - 0.98 * 0.05 = 0.951.
// present: 0.951 * 200/201 + 0.049 / 201 = 0.946512
// absent:  0.02  * 200/201 + 0.98  / 201 = 0.024776
// odds = 0.02/0.98 * 38.2026 = 0.779645
TEST(NetworkTest, OneSymptomByHand) {
  auto P = ranked(oneCause(1), {Seen});
  ASSERT_EQ(P.size(), 1u);
  EXPECT_NEAR(P[0].Probability, 0.438090, 1e-6);
  ASSERT_EQ(P[0].Influences.size(), 1u);
  EXPECT_NEAR(P[0].Influences[0].LogOdds, std::log(38.202611), 1e-6);
}

// A second symptom multiplies the odds by the same 38.2026.
TEST(NetworkTest, TwoSymptomsMultiply) {
  auto P = ranked(oneCause(2), {Seen, Seen});
  ASSERT_EQ(P.size(), 1u);
  double Odds = 0.779645 * 38.202611;
  EXPECT_NEAR(P[0].Probability, Odds / (1 + Odds), 1e-6);
}

// Clear: present 0.951/201 + 0.049 * 200/201 = 0.053488,
//        absent  0.02/201  + 0.98  * 200/201 = 0.975224; ratio 0.0548465.
TEST(NetworkTest, ClearSymptomSpeaksAgainst) {
  auto P = ranked(oneCause(2), {Seen, Clear});
  ASSERT_EQ(P.size(), 1u);
  double Odds = 0.779645 * 0.0548465;
  EXPECT_NEAR(P[0].Probability, Odds / (1 + Odds), 1e-5);
  EXPECT_NEAR(P[0].Influences[1].LogOdds, std::log(0.0548465), 1e-4);
}

TEST(NetworkTest, UnknownSymptomSaysNothing) {
  auto With = ranked(oneCause(2), {Seen, Unknown});
  auto Alone = ranked(oneCause(1), {Seen});
  ASSERT_EQ(With.size(), 1u);
  EXPECT_DOUBLE_EQ(With[0].Probability, Alone[0].Probability);
}

// A score of 0 is a likelihood ratio of 1 and leaves the prior.
TEST(NetworkTest, ScoreZeroLeavesThePrior) {
  auto P = ranked(oneCause(1), {{Presence::Present, 0.0}});
  ASSERT_EQ(P.size(), 1u);
  EXPECT_NEAR(P[0].Probability, 0.02, 1e-12);
}

TEST(NetworkTest, NothingPresentGivesNoHypothesis) {
  EXPECT_TRUE(ranked(oneCause(2), {Clear, Unknown}).empty());
}

// Two causes share s0; only A shows s1. Seeing both lets A explain s0, so B
// falls below what s0 alone would make of it.
TEST(NetworkTest, ExplainingAway) {
  Network N;
  N.Symptoms = {{"s0", 0.02}, {"s1", 0.02}};
  N.Causes = {{"a", 0.02, {{0, 0.95, false}, {1, 0.95, false}}},
              {"b", 0.02, {{0, 0.95, false}}}};
  auto Both = ranked(N, {Seen, Seen});
  auto One = ranked(N, {Seen, Unknown});
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
  auto Before = ranked(N, {Seen, Unknown});
  N.Causes[0].Links.push_back({1, 0.01, true});
  auto After = ranked(N, {Seen, Seen});
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
  EXPECT_TRUE(ranked(N, {Clear, Seen}).empty());
  EXPECT_EQ(ranked(N, {Unknown, Seen}).size(), 1u);
  auto P = ranked(N, {Seen, Unknown});
  ASSERT_EQ(P.size(), 1u);
  double Odds = 0.02 / 0.98 * 0.995025 / 0.024776;
  EXPECT_NEAR(P[0].Probability, Odds / (1 + Odds), 1e-5);
}

// Prior ln(0.02/0.98), the symptom's own weight ln 38.2026 and no rival.
// What nearly every run has makes no cause a candidate; what the run lacks
// takes a cause out that requires it, whatever else speaks for it.
TEST(NetworkTest, WhatARunHas) {
  Network N = oneCause(2);
  N.Symptoms[1].Leak = 0.95;
  N.Causes[0].Links[1].Weight = 1;
  N.Causes[0].Links[1].Required = true;
  EXPECT_TRUE(ranked(N, {Clear, Seen}).empty());
  EXPECT_EQ(ranked(N, {Seen, Seen}).size(), 1u);
  EXPECT_EQ(ranked(N, {Seen, Unknown}).size(), 1u);
  EXPECT_TRUE(ranked(N, {Seen, Clear}).empty());
}

TEST(NetworkTest, LogOddsAreTheSumOfTheirParts) {
  auto Alone = ranked(oneCause(1), {Seen});
  ASSERT_EQ(Alone.size(), 1u);
  EXPECT_NEAR(Alone[0].Prior, std::log(0.02 / 0.98), 1e-12);
  EXPECT_NEAR(Alone[0].Influences[0].Typical, std::log(38.202611), 1e-6);
  EXPECT_NEAR(Alone[0].Rivals, 0, 1e-9);
  // A twin explains the same symptom: the sum still holds, rivals are below 0.
  Network N = oneCause(1);
  N.Causes.push_back({"twin", 0.02, {{0, 0.95, false}}});
  auto Both = ranked(N, {Seen});
  ASSERT_EQ(Both.size(), 2u);
  const CausePosterior &P = Both[0];
  EXPECT_LT(P.Rivals, 0);
  EXPECT_NEAR(std::log(P.Probability / (1 - P.Probability)),
              P.Prior + P.Influences[0].Typical + P.Rivals, 1e-9);
}

// Each of six causes has a symptom of its own, so that it stays a candidate;
// five more are named by two to six of them, now and then as `never`. What a
// symptom does is what the posterior loses once nobody has looked for it.
TEST(NetworkTest, AnInfluenceIsWhatIsLostWithoutTheSymptom) {
  Network N;
  std::vector<SymptomObservation> All;
  for (unsigned S = 0; S != 11; ++S) {
    N.Symptoms.push_back({"s" + std::to_string(S), 0.02 + 0.03 * S});
    bool There = S < 6 || S % 2;
    All.push_back(There ? SymptomObservation{Presence::Present, 0.3 + 0.06 * S}
                        : Clear);
  }
  for (unsigned C = 0; C != 6; ++C) {
    CauseNode Cause{"c" + std::to_string(C), 0.01 * (C + 1), {{C, 0.7, false}}};
    for (unsigned S = 6; S != 11; ++S)
      if (C <= S - 5)
        Cause.Links.push_back({S, 0.1 + 0.05 * (C + S), (C + S) % 5 == 0});
    N.Causes.push_back(Cause);
  }
  N.Together = 0.4;
  auto logOdds = [](double P) { return std::log(P / (1 - P)); };
  std::vector<CausePosterior> With = ranked(N, All);
  ASSERT_EQ(With.size(), 6u);
  unsigned Compared = 0;
  for (unsigned S = 6; S != 11; ++S) {
    std::vector<SymptomObservation> Less = All;
    Less[S] = Unknown;
    for (const CausePosterior &After : ranked(N, Less))
      for (const CausePosterior &Before : With)
        for (const Influence &I : Before.Influences)
          if (Before.Cause == After.Cause && I.Symptom == S) {
            EXPECT_NEAR(I.LogOdds,
                        logOdds(Before.Probability) -
                            logOdds(After.Probability),
                        1e-9);
            ++Compared;
          }
  }
  EXPECT_EQ(Compared, 2u + 3 + 4 + 5 + 6);
}

// Where each set that is kept has a cause, it is no less certain without one of
// its symptoms, and what rounding leaves is no reason for hundreds of nats. By
// lot, as it takes sums that round up; the first cause shows nearly all of it.
TEST(NetworkTest, InfluencesBesideACertainCauseStaySmall) {
  std::mt19937 Random(1);
  auto lot = [&] { return double(Random() % 10000) / 10000; };
  for (unsigned Round = 0; Round != 400; ++Round) {
    Network N;
    std::vector<SymptomObservation> All;
    for (unsigned S = 0; S != 60; ++S) {
      N.Symptoms.push_back({"s" + std::to_string(S), 0.001 + 0.05 * lot()});
      All.push_back(lot() < 0.9 ? Seen : lot() < 0.9 ? Clear : Unknown);
    }
    for (unsigned C = 0; C != 8; ++C) {
      CauseNode Cause{"c" + std::to_string(C), 0.001 + 0.1 * lot(), {}};
      for (unsigned S = 0; S != 60; ++S)
        if (lot() < (C == 0 ? 0.9 : 0.15)) {
          bool Never = lot() < 0.1;
          double Weight = C == 0 ? 0.97 : 0.05 + 0.95 * lot();
          Cause.Links.push_back({S, Never ? 0 : Weight, Never});
        }
      N.Causes.push_back(Cause);
    }
    N.Together = 0.1 + 0.9 * lot();
    for (const CausePosterior &P : ranked(N, All))
      for (const Influence &I : P.Influences)
        EXPECT_LT(std::fabs(I.LogOdds), 100) << Round;
  }
}

// Odds of the sets {a}, {b} and {a, b} against the empty one, by hand. One
// symptom, both show it always: L1 = 38.2026 of one cause; of two
// on = 1 - 0.98 * 0.05^2 = 0.99755: 0.99755 * 200/201 + 0.00245/201 = 0.992599,
// ratio 0.992599 / 0.024776 = 40.0629. Prior odds o = 0.0204082.
//   together: P(a) = (oL1 + o^2 40.0629) / (1 + 2 oL1 + o^2 40.0629)
//                  = (0.779645 + 0.0166859) / (2.575976) = 0.309137
//   apart:    P(a) = 0.779645 / (1 + 2 * 0.779645) = 0.304624
TEST(NetworkTest, CausesThatExcludeEachOther) {
  Network N = oneCause(1);
  N.Causes.push_back({"twin", 0.02, {{0, 0.95, false}}});
  EXPECT_NEAR(ranked(N, {Seen})[0].Probability, 0.309137, 1e-5);
  N.Causes[0].Exclusive = N.Causes[1].Exclusive = 4;
  EXPECT_NEAR(ranked(N, {Seen})[0].Probability, 0.304624, 1e-5);
  N.Causes[1].Exclusive = 2; // other groups do not meet
  EXPECT_NEAR(ranked(N, {Seen})[0].Probability, 0.309137, 1e-5);
}

// The unknown cause shows any symptom with 0.15: on = 1 - 0.98 * 0.85 = 0.167,
// 0.167 * 200/201 + 0.833/201 = 0.170313, ratio 6.87412 against 38.2026. With
// priors of 0.1 and 0.02 the odds of {u} are 0.763791, of {c} 0.779645; both at
// once is left out.
//   P(u) = 0.763791 / 2.543436 = 0.300299
//   P(c) = 0.779645 / 2.543436 = 0.306532
TEST(NetworkTest, UnknownCauseTakesItsShare) {
  Network N = oneCause(1);
  N.Causes.push_back({"unknown", 0.1, {{0, 0.15, false}}});
  N.Unknown = 1;
  auto P = ranked(N, {Seen});
  ASSERT_EQ(P.size(), 2u);
  EXPECT_NEAR(P[0].Probability, 0.306532, 1e-4);
  EXPECT_NEAR(P[1].Probability, 0.300299, 1e-4);
}

// P = 0.5, right 19 times in 20: yes and no are as likely, each leaves
// H(0.95) = 0.286397 bits of 1.
TEST(NetworkTest, InformationOfAnExperiment) {
  EXPECT_NEAR(informationOf(0.5, 0.95), 1 - 0.286397, 1e-6);
  EXPECT_NEAR(informationOf(0.5, 0.5), 0, 1e-12);
  EXPECT_EQ(informationOf(0, 0.95) > 1e-12, false);
  // On half the time; .5 * H(.75) + .5 * H(.25) = .811278 bits are noise.
  EXPECT_NEAR(informationOf(0.5, 0.75, 0.25), 1 - 0.811278, 1e-6);
  EXPECT_NEAR(informationOf(0.5, 0.3, 0.3), 0, 1e-12);
}

// Twins that share s0; only a shows s1. Looking for s1 tells them apart, and
// an experiment on a moves the twin the other way.
TEST(NetworkTest, WhatAnOutcomeWouldDo) {
  Network N;
  N.Symptoms = {{"s0", 0.02}, {"s1", 0.02}, {"s2", 0.02}};
  N.Causes = {{"a", 0.02, {{0, 0.95, false}, {1, 0.95, false}}},
              {"b", 0.02, {{0, 0.95, false}}}};
  std::vector<SymptomObservation> Looked{Seen, Unknown, Unknown};
  Beliefs B = culprit::posterior(N, Looked);
  EXPECT_GT(informationOf(N, B, 1), 0.1);
  EXPECT_NEAR(informationOf(N, B, 2), 0, 1e-12); // nobody shows it
  ASSERT_EQ(B.Candidates.size(), 2u);
  unsigned A = B.Candidates[0] == 0 ? 0 : 1;
  auto Yes = Pairs(B).after(A, 0.95, true);
  auto No = Pairs(B).after(A, 0.95, false);
  EXPECT_GT(Yes[A], 0.85);
  EXPECT_LT(Yes[1 - A], No[1 - A]);
  // Seeing s1 is what the network says of it: the chance given is that of the
  // observation with a certain detector.
  auto On = B.after([&](const CauseSet &S) { return chanceOf(N, B, S, 1); });
  std::vector<SymptomObservation> Both{Seen, Seen, Unknown};
  N.CertainRatio = 1e12;
  B = culprit::posterior(
      N, std::vector<SymptomObservation>{Seen, Unknown, Unknown});
  On = B.after([&](const CauseSet &S) { return chanceOf(N, B, S, 1); });
  auto Later = culprit::posterior(N, Both);
  EXPECT_NEAR(On[B.Candidates[0] == 0 ? 0 : 1], Later.Causes[0].Probability,
              1e-6);
}

// The weights of all sets add up to 1, and the chance of any cause is 1 less
// that of the empty set.
TEST(NetworkTest, SetsAddUp) {
  Network N = oneCause(2);
  N.Causes.push_back({"twin", 0.02, {{0, 0.95, false}}});
  Beliefs B =
      culprit::posterior(N, std::vector<SymptomObservation>{Seen, Clear});
  double Sum = 0, Empty = 0;
  for (const CauseSet &S : B.Sets) {
    Sum += S.Weight;
    if (!S.Size)
      Empty += S.Weight;
  }
  EXPECT_NEAR(Sum, 1, 1e-9);
  EXPECT_NEAR(B.anyOf([](unsigned) { return true; }), 1 - Empty, 1e-9);
}

TEST(NetworkTest, TiesGoByClass) {
  Network N;
  N.Symptoms = {{"s", 0.02}};
  N.Causes = {{"zebra", 0.02, {{0, 0.7, false}}},
              {"ant", 0.02, {{0, 0.7, false}}}};
  auto P = ranked(N, {Seen});
  ASSERT_EQ(P.size(), 2u);
  EXPECT_EQ(N.Causes[P[0].Cause].Class, "ant");
}

} // namespace
