//===- GoodRunTest.cpp - Evidence beside a good run -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/GoodRun.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

SymptomEvidence shownBy(const char *Id, double Score) {
  SymptomEvidence E;
  E.Symptom = Id;
  E.State = Presence::Present;
  E.Score = Score;
  E.Message = "seen";
  return E;
}

SymptomEvidence lookedFor(const char *Id, Presence State) {
  SymptomEvidence E;
  E.Symptom = Id;
  E.State = State;
  return E;
}

/// The state of the one symptom of a bad run, of \p Bad, beside \p Good.
std::pair<Presence, std::vector<SymptomBeside>>
weighed(SymptomEvidence Bad, std::vector<SymptomEvidence> Good) {
  std::vector<GoodFindings> Runs;
  for (SymptomEvidence &G : Good) {
    Runs.emplace_back();
    Runs.back().Path = "good" + std::to_string(Runs.size());
    Runs.back().Symptoms.push_back(std::move(G));
  }
  std::vector<SymptomEvidence> Symptoms{std::move(Bad)};
  std::vector<LogEvidence> Quotes;
  auto Out = weighAgainst(Runs, Symptoms, Quotes, {});
  return {Symptoms[0].State, Out};
}

TEST(GoodRunTest, AsMuchIsTakenOut) {
  // 0.9 - 0.8 is less than the margin of 0.15.
  auto [State, Beside] = weighed(shownBy("s", 0.9), {shownBy("s", 0.8)});
  EXPECT_EQ(State, Presence::Unknown);
  ASSERT_EQ(Beside.size(), 1u);
  EXPECT_EQ(Beside[0].How, SymptomBeside::Shared);
  EXPECT_EQ(Beside[0].Score, 0.9);
  EXPECT_EQ(Beside[0].GoodScore, 0.8);
  EXPECT_EQ(Beside[0].Path, "good1");
}

TEST(GoodRunTest, ClearlyMoreStays) {
  auto [State, Beside] = weighed(shownBy("s", 0.9), {shownBy("s", 0.7)});
  EXPECT_EQ(State, Presence::Present);
  EXPECT_EQ(Beside[0].How, SymptomBeside::Stronger);
  // What is no fault in the good run may be one here.
  SymptomEvidence Info = shownBy("s", 0.9);
  Info.Informational = true;
  EXPECT_EQ(weighed(shownBy("s", 0.9), {Info}).first, Presence::Present);
  // A setting that makes causes possible is no sign that one is there.
  EXPECT_EQ(weighed(Info, {Info}).first, Presence::Present);
  EXPECT_TRUE(weighed(Info, {Info}).second.empty());
}

TEST(GoodRunTest, WhatTheGoodRunLacksStays) {
  auto [State, Beside] =
      weighed(shownBy("s", 0.5), {lookedFor("s", Presence::Absent)});
  EXPECT_EQ(State, Presence::Present);
  EXPECT_EQ(Beside[0].How, SymptomBeside::Own);
  // Nobody looked.
  EXPECT_TRUE(
      weighed(shownBy("s", 0.5), {lookedFor("s", Presence::Unknown)})
          .second.empty());
  EXPECT_TRUE(weighed(shownBy("s", 0.5), {shownBy("other", 0.5)})
                  .second.empty());
}

// One of several good runs that lives with it is enough, wherever it stands.
TEST(GoodRunTest, SeveralGoodRuns) {
  EXPECT_EQ(weighed(shownBy("s", 0.9), {shownBy("s", 0.5), shownBy("s", 0.9)})
                .first,
            Presence::Unknown);
  EXPECT_EQ(weighed(shownBy("s", 0.9), {shownBy("s", 0.9), shownBy("s", 0.5)})
                .first,
            Presence::Unknown);
  EXPECT_EQ(weighed(shownBy("s", 0.9), {lookedFor("s", Presence::Absent),
                                        shownBy("s", 0.9)})
                .first,
            Presence::Unknown);
  auto Stronger = weighed(shownBy("s", 0.9), {lookedFor("s", Presence::Absent),
                                              shownBy("s", 0.2)});
  EXPECT_EQ(Stronger.first, Presence::Present);
  EXPECT_EQ(Stronger.second[0].How, SymptomBeside::Stronger);
}

// Scores are alike, and the share of the window is 40 % against 10 or 30 %.
TEST(GoodRunTest, SharesTellMore) {
  auto outcome = [](double Share) {
    Outcome O;
    O.Detector = "d";
    O.Kind = OutcomeKind::Matched;
    Report R;
    R.Symptom = "s";
    R.Score = 0.9;
    R.Share = Share;
    O.Reports.push_back(R);
    return O;
  };
  for (const auto &[Share, State] :
       {std::pair(0.1, Presence::Present), std::pair(0.3, Presence::Unknown)}) {
    SymptomEvidence E = shownBy("s", 0.9);
    E.Outcome = E.Report = 0;
    std::vector<GoodFindings> Good(1);
    Good[0].Symptoms = {E};
    Good[0].Outcomes.push_back(outcome(Share));
    std::vector<Outcome> Bad;
    Bad.push_back(outcome(0.4));
    std::vector<SymptomEvidence> Symptoms{E};
    std::vector<LogEvidence> Quotes;
    weighAgainst(Good, Symptoms, Quotes, Bad);
    EXPECT_EQ(Symptoms[0].State, State);
  }
}

// Twice as many lines are more.
TEST(GoodRunTest, Quotes) {
  Entry E;
  std::vector<GoodFindings> Good(1);
  Good[0].Quotes = {{&E, "text", "good.log", 3, 2}};
  std::vector<SymptomEvidence> None;
  std::vector<LogEvidence> Three{{&E, "text", "bad.log", 7, 3}},
      Four{{&E, "text", "bad.log", 7, 4}};
  ASSERT_EQ(weighAgainst(Good, None, Three, {}).size(), 1u);
  EXPECT_TRUE(Three.empty());
  EXPECT_TRUE(weighAgainst(Good, None, Four, {}).empty());
  EXPECT_EQ(Four.size(), 1u);
}

Vocabulary twoWords() {
  return cantFail(Vocabulary::parse(
      "- `s`: it shows\n- `one-setting-changed`: one\n"
      "- `packages-changed`: p\n",
      "layer\tclass\tdefinition\ntraining\tbroken\tit is broken\n"));
}

/// P(broken) with `s` seen surely, and its setting changed or the same.
double withSetting(bool Changed, size_t Things, const char *Cause = "broken") {
  const Vocabulary Words = twoWords();
  std::vector<SymptomEvidence> Symptoms{
      lookedFor("one-setting-changed", Presence::Unknown), shownBy("s", 1)};
  Weights W;
  SettingFindings Found;
  Found.HasSettings = true;
  Found.Things = Things;
  Found.ByCause = {{Cause, Changed, "lr 1 -> 2"}, {"no-class", true, "x"}};
  std::vector<Entry> Entries(1);
  Entries[0].Id = "e";
  Entries[0].Class = "broken";
  Entries[0].Signals = {{"s", Frequency::Always}};
  SettingEvidence Settings(Found, Entries, Words, Symptoms, W);
  EXPECT_EQ(Settings.added(), 1u);
  EXPECT_EQ(Symptoms[0].State,
            Things == 1 ? Presence::Present : Presence::Absent);
  Diagnosis D = Settings.diagnose(Symptoms, {}, Entries, Words, W, {});
  EXPECT_EQ(D.Hypotheses.size(), 1u);
  EXPECT_EQ(D.Hypotheses[0].Entries[0], &Entries[0]);
  EXPECT_EQ(Entries[0].Signals.size(), 1u);
  return D.Hypotheses[0].Probability;
}

// Prior 0.05, leaks 0.02. With `s` (always) the odds grow by
//   (0.951 * 200 + 0.049) / (0.02 * 200 + 0.98) = 38.2026      as in NetworkTest
// and with the setting (sometimes; on = 1 - 0.98 * 0.7 = 0.314) by
//   (0.314 * 200 + 0.686) / 4.98 = 12.7482                     changed
//   (0.686 * 200 + 0.314) / (0.98 * 200 + 0.02) = 0.701530     the same
// Of ten things changed the leak is 1 - 0.98^10 = 0.182927, and
//   on = 1 - 0.817073 * 0.7 = 0.428049:
//   (0.428049 * 200 + 0.571951) / (0.182927 * 200 + 0.817073) = 2.30417
TEST(GoodRunTest, SettingsSpeak) {
  const double Prior = 0.05 / 0.95 * 38.2026;
  auto probability = [](double Odds) { return Odds / (1 + Odds); };
  EXPECT_NEAR(withSetting(true, 1), probability(Prior * 12.7482), 1e-5);
  // The same of a setting that brings about what the cause always shows.
  EXPECT_NEAR(withSetting(true, 1, "s"), probability(Prior * 12.7482), 1e-5);
  EXPECT_NEAR(withSetting(false, 1), probability(Prior * 0.701530), 1e-5);
  EXPECT_NEAR(withSetting(true, 10), probability(Prior * 2.30417), 1e-5);
}

} // namespace
