//===- RecordingsTest.cpp - What recording more would tell ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Recordings.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

Vocabulary words() {
  return llvm::cantFail(Vocabulary::parse(
      "- `s`: a\n- `t1`: b\n- `t2`: c\n- `u`: d\n- `v`: e\n",
      "layer\tclass\tdefinition\ntraining\tfirst\tit is\n"
      "training\tother\tit is\nruntime\tfar\tit is\n"));
}

SymptomEvidence symptom(const char *Id, Presence State,
                        std::vector<std::string> Missing = {}) {
  SymptomEvidence E;
  E.Symptom = Id;
  E.State = State;
  E.Score = State == Presence::Present;
  E.Missing = std::move(Missing);
  return E;
}

Entry entry(const char *Class, std::vector<Signal> Signals) {
  Entry E;
  E.Id = E.Class = Class;
  E.Signals = std::move(Signals);
  return E;
}

/// `s` is there; `t1` and `t2` wait for tensors, `u` for words that nobody can
/// record, `v` for tensors and layers.
struct Suspected {
  explicit Suspected(bool Other) : Words(words()) {
    W.Cost.ByRecording = {{"tensors", 15}, {"scalars", 10}};
    Symptoms = {symptom("s", Presence::Present),
                symptom("t1", Presence::Unknown, {"tensors.value"}),
                symptom("t2", Presence::Unknown, {"tensors"}),
                symptom("u", Presence::Unknown, {"updates that are whole"}),
                symptom("v", Presence::Unknown, {"tensors", "scalars.layer"})};
    Entries = {entry("first", {{"s", Frequency::Always},
                               {"t1", Frequency::Always},
                               {"t2", Frequency::Often},
                               {"u", Frequency::Always}}),
               entry("far", {{"t1", Frequency::Always}})};
    if (Other)
      Entries.push_back(entry("other", {{"t1", Frequency::Often}}));
  }

  Vocabulary Words;
  Weights W;
  std::vector<SymptomEvidence> Symptoms;
  std::vector<Entry> Entries;
};

// Prior .05, `s` always: odds .05/.95 * 38.2026 (as in NetworkTest), so that
// P = .667847 and H(P) = .917111 bits. `t1` (always, leak .02) is on with .951
// or .02 and tells H(.641763) - P H(.951) - (1-P) H(.02) = .705806; `t2` (often)
// is on with .706 or .02 and tells .368055. Both of them:
//   H (1 - (1 - .705806/H)(1 - .368055/H)) = .790607.
TEST(RecordingsTest, SumsUpWhatOneRecordingShows) {
  Suspected S(false);
  Model M(S.Symptoms, {}, S.Entries, S.W);
  Beliefs B = posterior(M.N, M.Seen);
  Recordings R(M, B, S.Words, S.W);
  unsigned T1 = *M.symptom("t1"), T2 = *M.symptom("t2"), V = *M.symptom("v");
  EXPECT_NEAR(R.ofSymptom(T1), 0.705806, 1e-5);
  EXPECT_NEAR(R.ofSymptom(T2), 0.368055, 1e-5);
  EXPECT_NEAR(R.gain(T1, "training"), 0.790607, 1e-5);
  EXPECT_EQ(R.gain(T1, "training"), R.gain(T2, "training"));
  EXPECT_EQ(R.minutes(T1), 15);
  // Tensors with layers show what tensors alone show as well.
  EXPECT_EQ(R.gain(V, "training"), R.gain(T1, "training"));
  EXPECT_TRUE(R.isPossible(V));
  EXPECT_FALSE(R.isPossible(*M.symptom("u")));
  EXPECT_FALSE(R.isPossible(*M.symptom("s")));
}

// A cause of the layer that nothing speaks for, of prior .05, of which `t1`
// (often) tells .126329 bits: counts as far as `first` may not be it, 1 - P.
TEST(RecordingsTest, CountsOtherCausesOfTheLayer) {
  Suspected S(true);
  Model M(S.Symptoms, {}, S.Entries, S.W);
  Beliefs B = posterior(M.N, M.Seen);
  Recordings R(M, B, S.Words, S.W);
  EXPECT_NEAR(R.gain(*M.symptom("t1"), "training"),
              0.790607 + 0.332153 * 0.126329, 1e-5);
}

TEST(RecordingsTest, LikeliestSetsAddUpToOne) {
  Suspected S(false);
  Model M(S.Symptoms, {}, S.Entries, S.W);
  Beliefs B = posterior(M.N, M.Seen).likeliest(1);
  ASSERT_EQ(B.Sets.size(), 1u);
  EXPECT_EQ(B.Sets[0].Weight, 1);
  EXPECT_EQ(B.Sets[0].Size, 1); // `first`, which is likelier than nothing
}

} // namespace
