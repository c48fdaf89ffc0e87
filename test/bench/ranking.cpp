//===- ranking.cpp - How long ranking takes ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// 500 causes, one entry each that names twelve of 300 symptoms, drawn by lot.
// Of the symptoms some are there, some could not be looked for, and the others
// are not there. Timed are the posterior alone and the whole diagnosis:
// network, posterior, explanations, and what to record next; and the same where
// recorded runs of 61 causes have a say, by 120 trees of 15 leaves for each.
//
//   ninja -C build ranking && build/bin/ranking
//
//===----------------------------------------------------------------------===//

#include "Rank/Diagnosis.h"
#include "Rank/Model.h"
#include "Rank/RecordedRuns.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <ctime>
#include <random>

using namespace culprit;

static constexpr unsigned Causes = 500, Symptoms = 300, Signals = 12;

static std::string symptomName(unsigned S) { return "s" + std::to_string(S); }

static Vocabulary makeWords() {
  std::string Seen, Classes = "layer\tclass\tdefinition\n";
  for (unsigned S = 0; S != Symptoms; ++S)
    Seen += "- `" + symptomName(S) + "`: it shows\n";
  for (unsigned C = 0; C != Causes; ++C)
    Classes += "layer" + std::to_string(C % 9) + "\tc" + std::to_string(C) +
               "\tit is broken\n";
  return llvm::cantFail(Vocabulary::parse(Seen, Classes));
}

static std::vector<Entry> makeEntries(std::mt19937 &Random) {
  std::vector<Entry> Out(Causes);
  for (unsigned C = 0; C != Causes; ++C) {
    Out[C].Id = Out[C].Class = "c" + std::to_string(C);
    Out[C].Confirm.Experiment = "Start it again with the flag turned.";
    std::vector<unsigned> All(Symptoms);
    for (unsigned S = 0; S != Symptoms; ++S)
      All[S] = S;
    std::shuffle(All.begin(), All.end(), Random);
    for (unsigned L = 0; L != Signals; ++L)
      Out[C].Signals.push_back({symptomName(All[L]),
                                L > 9   ? Frequency::Never
                                : L > 5 ? Frequency::Sometimes
                                : L > 2 ? Frequency::Often
                                        : Frequency::Always});
  }
  return Out;
}

static std::vector<SymptomEvidence> makeEvidence(std::mt19937 &Random,
                                                 unsigned There,
                                                 unsigned Unknown,
                                                 double Score) {
  std::vector<SymptomEvidence> Out(Symptoms);
  for (unsigned S = 0; S != Symptoms; ++S) {
    SymptomEvidence &E = Out[S];
    E.Symptom = symptomName(S);
    E.Detector = "d";
    unsigned Lot = Random() % 100;
    E.State = Lot < There             ? Presence::Present
              : Lot < There + Unknown ? Presence::Unknown
                                      : Presence::Absent;
    if (E.State == Presence::Present)
      E.Score = Score;
    if (E.State == Presence::Unknown)
      E.Missing = {Random() % 2 ? "tensors" : "scalars.layer"};
  }
  return Out;
}

/// A branch of \p Leaves leaves, each with what it adds and some runs.
static void addBranch(std::string &Out, std::mt19937 &Random, unsigned Leaves) {
  if (Leaves == 1) {
    Out += "= " + std::to_string(Random() % 2000 / 1e4 - 0.1) + " 20\n";
    return;
  }
  Out += std::to_string(Random() % Symptoms) + " 0.5\n";
  addBranch(Out, Random, Leaves / 2);
  addBranch(Out, Random, Leaves - Leaves / 2);
}

static std::shared_ptr<const RecordedRuns> makeRuns() {
  constexpr unsigned Rounds = 120, Known = 61, Leaves = 15;
  std::mt19937 Random(1);
  std::string Text;
  for (unsigned S = 0; S != Symptoms; ++S)
    Text += "ask symptom " + symptomName(S) + "\n";
  for (unsigned C = 0; C != Known; ++C)
    Text += "class c" + std::to_string(C) + " 0\n";
  for (unsigned T = 0; T != Rounds * Known; ++T) {
    Text += "tree " + std::to_string(T % Known) + "\n";
    addBranch(Text, Random, Leaves);
  }
  return std::make_shared<const RecordedRuns>(
      llvm::cantFail(RecordedRuns::parse(Text, "trees")));
}

/// The median of 31 runs of \p What, in ms of the processor.
static double median(llvm::function_ref<void()> What) {
  std::vector<double> Times;
  for (unsigned I = 0; I != 31; ++I) {
    const std::clock_t Start = std::clock();
    What();
    Times.push_back(1e3 * (std::clock() - Start) / CLOCKS_PER_SEC);
  }
  std::nth_element(Times.begin(), Times.begin() + 15, Times.end());
  return Times[15];
}

static void measure(const Vocabulary &Words, unsigned There, unsigned Unknown,
                    double Score) {
  std::mt19937 Random(1);
  std::vector<Entry> Entries = makeEntries(Random);
  std::vector<SymptomEvidence> Evidence =
      makeEvidence(Random, There, Unknown, Score);
  Weights W;
  Model M(Evidence, {}, Entries, W);
  size_t Sets = 0;
  double Posterior =
      median([&] { Sets = posterior(M.N, M.Seen).Sets.size(); });
  double Whole =
      median([&] { (void)diagnose(Evidence, {}, Entries, Words, W); });
  W.Recorded = makeRuns();
  W.OfRecorded = {0.25, 0.28, -0.73, -0.35, -0.28}; // as they were fitted
  W.OfOthers = {1, 0.7, 0};                             // kb/ranking.yaml
  double WithRuns = median([&] {
    (void)diagnose(Evidence, {}, Entries, Words, W, {{"loss_end", -1.0}});
  });
  llvm::outs() << llvm::format("%2u %% there at score %.1f, %2u %% unknown: "
                               "posterior %5.2f ms, diagnosis %5.2f ms, with "
                               "recorded runs %5.2f ms, %zu sets that count\n",
                               There, Score, Unknown, Posterior, Whole,
                               WithRuns, Sets);
}

int main() {
  const Vocabulary Words = makeWords();
  for (double Score : {0.9, 0.3})
    for (unsigned There : {2, 5, 10, 20})
      for (unsigned Unknown : {0, 50})
        measure(Words, There, Unknown, Score);
}
