//===- RecordedRunsTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Likeness.h"
#include "llvm/Support/Error.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace culprit;

namespace {

// A tree of c over sixteen runs, in log-odds: -ln 3 without the symptom, with it
// ln 3 where the loss fell far and 0 where it did not.
constexpr llvm::StringLiteral One = R"(# made up
ask symptom large
ask shape loss_end -0.5
class healthy 0
class unknown -40
class c 0
tree 2
0 0.5
= -1.0986122887 8
1 -0.25
= 1.0986122887 4
= 0 4
)";

SymptomEvidence evidence(const char *Symptom, Presence State,
                         double Score = 0) {
  SymptomEvidence E;
  E.Symptom = Symptom;
  E.State = State;
  E.Score = Score;
  return E;
}

RecordedRuns recorded(llvm::StringRef Text = One) {
  return llvm::cantFail(RecordedRuns::parse(Text, "f.txt"));
}

std::string problem(llvm::StringRef Text) {
  llvm::Expected<RecordedRuns> R = RecordedRuns::parse(Text, "f.txt");
  return R ? "" : llvm::toString(R.takeError());
}

// A run with the symptom and without the figure, whose median goes for it: the
// odds of c are 3.
TEST(RecordedRunsTest, TreesAddUp) {
  RecordedRuns R = recorded();
  std::vector<double> S =
      R.shares(R.answersOf({evidence("large", Presence::Present, 0.9)}, {}));
  ASSERT_EQ(S.size(), 3u);
  EXPECT_NEAR(S[0], 0.25, 1e-9);
  EXPECT_NEAR(S[1], 0, 1e-9);
  EXPECT_NEAR(S[2], 0.75, 1e-9);
  // A loss that ends at its start.
  S = R.shares(R.answersOf({evidence("large", Presence::Present, 0.9)},
                           {{"loss_end", 0.0}}));
  EXPECT_NEAR(S[2], 0.5, 1e-9);
  // A second tree, without a question, of healthy: ln 2.
  S = recorded((One + "tree 0\n= 0.6931471806 16\n").str())
          .shares(R.answersOf({}, {{"loss_end", 0.0}}));
  EXPECT_NEAR(S[0], 6.0 / 7, 1e-9);
}

// Nobody looked for it, or it is not there: the same to a tree. A threshold
// belongs to the first branch.
TEST(RecordedRunsTest, UnknownIsNotThere) {
  RecordedRuns R = recorded();
  for (Presence State : {Presence::Unknown, Presence::Absent})
    EXPECT_NEAR(R.shares(R.answersOf({evidence("large", State)}, {}))[2], 0.25,
                1e-9);
  EXPECT_NEAR(
      R.shares(R.answersOf({evidence("large", Presence::Present, 0.5)}, {}))[2],
      0.25, 1e-9);
}

// Means of what is below, by runs: .549306 of those with the symptom, -.274653
// of all. A share of .75 for .5 is ln 3 in log-odds: .227560 for each. So it is
// .823959 * .227560 of the symptom and .549306 * .227560 of the loss.
TEST(RecordedRunsTest, ReasonsAddUp) {
  RecordedRuns R = recorded();
  auto Why = R.reasons(
      R.answersOf({evidence("large", Presence::Present, 0.9)}, {}), 2, 0.75);
  ASSERT_EQ(Why.size(), 2u);
  EXPECT_EQ(Why[0].Asked->Name, "large");
  EXPECT_NEAR(Why[0].Share, 0.1875, 1e-6);
  EXPECT_EQ(Why[1].Asked->Name, "loss_end");
  EXPECT_TRUE(Why[1].Asked->OfShape);
  EXPECT_DOUBLE_EQ(Why[1].Answer, -0.5);
  EXPECT_NEAR(Why[1].Share, 0.125, 1e-6);
}

TEST(RecordedRunsTest, WhatIsNoSuchFile) {
  EXPECT_EQ(problem("what\n"), "f.txt:1: 'what' is no line of such a file");
  EXPECT_EQ(problem("# nothing\n"), "f.txt:1: no class in it");
  EXPECT_EQ(problem("ask shape loss_end much\n"),
            "f.txt:1: 'much' is no number");
  EXPECT_EQ(problem("class c\n"),
            "f.txt:1: 'c' is no class and what it begins with");
  EXPECT_EQ(problem("class c 1e308\n"),
            "f.txt:1: 'c 1e308' is no class and what it begins with");
  EXPECT_EQ(problem("class c 0\ntree 1\n= 0 1\n"),
            "f.txt:2: '1' is no class");
  EXPECT_EQ(problem("class c 0\ntree 0\n0 1\n= 0 1\n= 0 1\n"),
            "f.txt:3: '0 1' is no question and its threshold");
  EXPECT_EQ(problem("class c 0\ntree 0\n= nan 1\n"),
            "f.txt:3: 'nan 1' is no value and its number of runs");
  EXPECT_EQ(problem("class c 0\ntree 0\n= 0 -1\n"),
            "f.txt:3: '0 -1' is no value and its number of runs");
  EXPECT_EQ(problem("class c 0\ntree 0\n= 0 1e308\n"),
            "f.txt:3: '0 1e308' is no value and its number of runs");
  EXPECT_EQ(problem("class c 0\nclass c 0\n"),
            "f.txt:2: 'c' is a class already");
  EXPECT_EQ(problem("ask symptom s\nask symptom s\n"),
            "f.txt:2: 's' is asked about already");
  std::string Deep = "ask symptom s\nclass c 0\ntree 0\n";
  for (unsigned I = 0; I != 1001; ++I)
    Deep += "0 1\n";
  EXPECT_EQ(problem(Deep),
            "f.txt:1004: a branch of more than 1000 questions");
  EXPECT_EQ(problem("class c 0\nask symptom s\ntree 0\n0 1\n= 0 1\n"),
            "f.txt:5: a tree that ends in the middle");
}

/// One class c with one symptom, `large`, at prior 0.05; no calibration.
struct Asked {
  explicit Asked(Presence State, Frequency Word = Frequency::Often) {
    W.OfRecorded = {0.5, 1, 0.2};
    W.OfOthers = {1, 0.7, 0};
    Seen = {evidence("large", State, 0.9)};
    Entries.resize(1);
    Entries[0].Id = "e";
    Entries[0].Class = "c";
    Entries[0].Signals = {{"large", Word}};
  }

  Diagnosis diagnosis(llvm::StringRef Runs, ShapeFigures Shape) {
    W.Recorded = std::make_shared<const RecordedRuns>(recorded(Runs));
    return diagnose(Seen, {}, Entries, Words, W, Shape);
  }

  Weights W;
  Vocabulary Words;
  std::vector<SymptomEvidence> Seen;
  std::vector<Entry> Entries;
};

const ShapeFigures Fell = {{"loss_end", -0.5}};

// The share of c is .75, ln 3 = 1.098612. The network has the odds o; what is
// said is .5 ln o + 1.098612 + .2.
TEST(LikenessTest, NetworkAndRunsAddUp) {
  Asked A(Presence::Present);
  Diagnosis Alone = A.diagnosis(One, {});
  ASSERT_EQ(Alone.Hypotheses.size(), 1u);
  EXPECT_FALSE(Alone.Sound);
  double P = Alone.Hypotheses[0].Probability;
  Diagnosis D = A.diagnosis(One, Fell);
  ASSERT_EQ(D.Hypotheses.size(), 1u);
  double LogOdds = 0.5 * std::log(P / (1 - P)) + 1.098612 + 0.2;
  EXPECT_NEAR(D.Hypotheses[0].Probability, 1 / (1 + std::exp(-LogOdds)), 1e-6);
  EXPECT_NEAR(D.Hypotheses[0].Recorded, 1.098612, 1e-6);
  EXPECT_NEAR(*D.Sound, 0.25, 1e-9);
  const Hypothesis &H = D.Hypotheses[0];
  EXPECT_NEAR(H.Prior + H.Evidence + H.Rivals + H.Recorded + H.Calibration,
              LogOdds, 1e-6);
  EXPECT_TRUE(llvm::any_of(H.Supports, [](const EvidenceItem &E) {
    return E.Symptom == RecordedRunsItem &&
           E.Message.starts_with("of recorded runs that look like this one "
                                 "75 % had it, 25 % were sound");
  }));
}

// Nobody could look for the symptom of c, d and e, of which the runs like this
// one had a third each.
TEST(LikenessTest, ManyThatFitALittleShareOne) {
  constexpr llvm::StringLiteral Three =
      "class healthy -40\nclass c 0\nclass d 0\nclass e 0\n";
  Asked A(Presence::Unknown);
  for (const char *Class : {"d", "e"}) {
    A.Entries.push_back(A.Entries[0]);
    A.Entries.back().Id = Class;
    A.Entries.back().Class = Class;
  }
  auto sum = [](const Diagnosis &D) {
    double Sum = 0;
    for (const Hypothesis &H : D.Hypotheses)
      Sum += H.Probability;
    for (const Hypothesis &H : D.Leads)
      Sum += H.Probability;
    return Sum;
  };
  // -.5 * 4.595120 + ln (1/2) + 2.2 = -.790707, a probability of .312020.
  A.W.OfRecorded = {0.5, 1, 2.2};
  EXPECT_NEAR(sum(A.diagnosis(Three, Fell)), 3 * 0.312020, 1e-5);
  // With 2.6 it is -.390707, .403547.
  A.W.OfRecorded = {0.5, 1, 2.6};
  EXPECT_NEAR(sum(A.diagnosis(Three, Fell)), 1, 1e-9);
}

// A tree asks about seven figures, of which the run has one: less than a sixth.
TEST(LikenessTest, WhatIsHardlyKnownIsLikeNoRun) {
  std::string Seven;
  for (const char *Name : {"loss_end", "a", "b", "c", "d", "e"})
    Seven += "ask shape " + std::string(Name) + " 0\n";
  std::string Tree = "class healthy 0\nclass c 2.197224577\n";
  Asked A(Presence::Unknown);
  EXPECT_EQ(A.diagnosis(Seven + Tree, Fell).Hypotheses.size(), 1u);
  Diagnosis D = A.diagnosis(Seven + "ask shape f 0\n" + Tree, Fell);
  EXPECT_TRUE(D.Hypotheses.empty());
  EXPECT_TRUE(D.Leads.empty());
  EXPECT_FALSE(D.Sound);
}

// Of twenty runs c had ten, log-odds 0; six none of a class, ln (6/14) =
// -0.847298; the cause d four, ln (4/16) = -1.386294:
// 0 - .5 * -0.847298 - .3 * -1.386294 = 0.839537.
TEST(LikenessTest, WhatElseSuchRunsHadIsWeighed) {
  constexpr llvm::StringLiteral Four =
      "class healthy 0\nclass unknown 0.6931471806\nclass c 1.6094379124\n"
      "class d 0.6931471806\n";
  Asked A(Presence::Present);
  A.W.OfRecorded.None = -0.5;
  A.W.OfRecorded.Rival = -0.3;
  Diagnosis D = A.diagnosis(Four, Fell);
  ASSERT_EQ(D.Hypotheses.size(), 1u);
  EXPECT_NEAR(D.Hypotheses[0].Recorded, 0.839537, 1e-6);
  EXPECT_TRUE(
      llvm::any_of(D.Hypotheses[0].Supports, [](const EvidenceItem &E) {
        return llvm::StringRef(E.Message)
            .contains("50 % had it, 10 % were sound, 20 % had a fault that no "
                      "entry knows, 20 % had d");
      }));
}

// A tree asks about the symptom, which is as sure as .9 and has a leak of .02.
// Where a leak of that is proof the runs, of which one in ten had c, do not
// lower it.
TEST(LikenessTest, WhatProvesACauseIsNotOutvoted) {
  constexpr llvm::StringLiteral Few =
      "ask symptom large\nclass healthy 2.197224577\nclass c 0\n";
  Asked A(Presence::Present);
  double Alone = A.diagnosis(Few, {}).Hypotheses.at(0).Probability;
  A.W.Decisive = {0.9, 0.5, 0.019};
  EXPECT_LT(A.diagnosis(Few, Fell).Hypotheses.at(0).Probability, Alone);
  A.W.Decisive = {0.9, 0.5, 0.02};
  EXPECT_DOUBLE_EQ(A.diagnosis(Few, Fell).Hypotheses.at(0).Probability, Alone);
  A.W.Decisive = {0.91, 0.5, 0.02};
  EXPECT_LT(A.diagnosis(Few, Fell).Hypotheses.at(0).Probability, Alone);
}

// The symptom is as sure and seldom as a proof, but d shows it as well: which
// of the two it is, the runs may tell.
TEST(LikenessTest, WhatTwoCausesShowProvesNeither) {
  constexpr llvm::StringLiteral Few =
      "ask symptom large\nclass healthy 2.197224577\nclass c 0\n";
  Asked A(Presence::Present);
  A.Entries.push_back(A.Entries[0]);
  A.Entries[1].Id = "f";
  A.Entries[1].Class = "d";
  A.W.Decisive = {0.9, 0.5, 0.02};
  auto ofC = [](const Diagnosis &D) {
    for (const Hypothesis &H : D.Hypotheses)
      if (H.Class == "c")
        return H.Probability;
    return 0.0;
  };
  double Alone = ofC(A.diagnosis(Few, {}));
  ASSERT_GT(Alone, 0);
  EXPECT_LT(ofC(A.diagnosis(Few, Fell)), Alone);
}

// Of ten runs like this one nine had c, which never shows the symptom that is
// there. Where that is proof of something else the runs do not make c likely.
TEST(LikenessTest, WhatIsRefutedIsNotRaised) {
  constexpr llvm::StringLiteral Most =
      "ask symptom large\nclass healthy 0\nclass c 2.197224577\n";
  Asked A(Presence::Present, Frequency::Never);
  A.W.Decisive = {0.9, 0.5, 0.019};
  EXPECT_EQ(A.diagnosis(Most, Fell).Hypotheses.size(), 1u);
  A.W.Decisive = {0.9, 0.5, 0.02};
  Diagnosis D = A.diagnosis(Most, Fell);
  EXPECT_TRUE(D.Hypotheses.empty());
  EXPECT_TRUE(D.Leads.empty());
}

// Nobody could look for its symptom. To the network it is .01 at most:
// .5 * -4.595120 + 1.098612 + .2 = -.998948, a probability of .269148, which is
// a lead. Where the trees say .9, ln 9 = 2.197225, it is .524896: a hypothesis.
TEST(LikenessTest, RunsAloneGiveALead) {
  constexpr llvm::StringLiteral Most = "class healthy 0\nclass c 2.197224577\n";
  constexpr llvm::StringLiteral Some = "class healthy 0\nclass c 1.098612289\n";
  Asked A(Presence::Unknown);
  Diagnosis D = A.diagnosis(Some, Fell);
  EXPECT_TRUE(D.Hypotheses.empty());
  ASSERT_EQ(D.Leads.size(), 1u);
  EXPECT_NEAR(D.Leads[0].Probability, 0.269148, 1e-6);
  EXPECT_TRUE(D.Leads[0].OnlyRecorded);
  D = A.diagnosis(Most, Fell);
  ASSERT_EQ(D.Hypotheses.size(), 1u);
  EXPECT_NEAR(D.Hypotheses[0].Probability, 0.524896, 1e-6);
  EXPECT_EQ(D.Result, Verdict::Diagnosed);
}

// A loss that is 0 or negative has other figures, and no say.
TEST(LikenessTest, WithoutACurveOfTheLossTheNetworkHasTheWord) {
  Asked A(Presence::Present);
  double Alone = A.diagnosis(One, {}).Hypotheses.at(0).Probability;
  EXPECT_DOUBLE_EQ(
      A.diagnosis(One, {{"grad_median", 0.1}}).Hypotheses.at(0).Probability,
      Alone);
}

// What the cause requires was looked for and is not there.
TEST(LikenessTest, WhatIsRuledOutIsNoLead) {
  constexpr llvm::StringLiteral Most = "class c 2.197224577\n";
  Asked A(Presence::Absent, Frequency::Required);
  Diagnosis D = A.diagnosis(Most, Fell);
  EXPECT_TRUE(D.Hypotheses.empty());
  EXPECT_TRUE(D.Leads.empty());
}

// The symptom is one that no tree asks about: no recorded run showed it.
TEST(LikenessTest, WhatNoRunShowedIsTheNetworks) {
  constexpr llvm::StringLiteral Other =
      "ask symptom other\nclass healthy 2.197224577\nclass c 0\n";
  Asked A(Presence::Present);
  double Alone = A.diagnosis(Other, {}).Hypotheses.at(0).Probability;
  Diagnosis D = A.diagnosis(Other, Fell);
  EXPECT_DOUBLE_EQ(D.Hypotheses.at(0).Probability, Alone);
  EXPECT_EQ(D.Hypotheses.at(0).Recorded, 0);
}

// They may raise the cause by what else they know: a share of .75, ln 3.
TEST(LikenessTest, WhatNoRunShowedIsRaisedByTheRuns) {
  constexpr llvm::StringLiteral Other =
      "ask symptom other\nclass healthy 0\nclass c 1.098612289\n";
  Asked A(Presence::Present);
  double Alone = A.diagnosis(Other, {}).Hypotheses.at(0).Probability;
  double LogOdds = 0.5 * std::log(Alone / (1 - Alone)) + 1.098612 + 0.2;
  double Both = 1 / (1 + std::exp(-LogOdds));
  ASSERT_GT(Both, Alone);
  Diagnosis D = A.diagnosis(Other, Fell);
  EXPECT_NEAR(D.Hypotheses.at(0).Probability, Both, 1e-6);
  EXPECT_NEAR(D.Hypotheses.at(0).Recorded, 1.098612, 1e-6);
}

// No recorded run had c: .7 of the log-odds of an unknown fault, of which one
// run in ten had one: ln (1/9) = -2.197225, .7 of it is -1.538057.
TEST(LikenessTest, WhatNoRunHadIsDoubtedLikeTheUnknown) {
  constexpr llvm::StringLiteral Sound =
      "ask symptom large\nclass healthy 2.197224577\nclass unknown 0\n";
  Asked A(Presence::Present);
  double P = A.diagnosis(Sound, {}).Hypotheses.at(0).Probability;
  double LogOdds = std::log(P / (1 - P)) - 1.538057;
  Diagnosis D = A.diagnosis(Sound, Fell);
  EXPECT_NEAR(D.Hypotheses.at(0).Probability, 1 / (1 + std::exp(-LogOdds)),
              1e-6);
}

} // namespace
