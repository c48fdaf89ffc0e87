//===- Network.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Network.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

namespace {

constexpr unsigned MaxCandidates = 40;
/// What `never` leaves of a leak.
constexpr double SuppressedShare = 0.05;
/// A link this strong lets a present symptom speak for a cause.
constexpr double SpeaksFor = 0.2;

/// Likelihoods of what the detector said, given the symptom on or off.
struct Likelihood {
  double On = 1, Off = 1;
};

Likelihood likelihoodOf(const Observation &O) {
  if (O.State == Presence::Unknown)
    return {};
  double Ratio =
      O.State == Presence::Present
          ? std::pow(CertainRatio, std::clamp(O.Score, 0.0, 1.0))
          : 1 / CertainRatio;
  return {Ratio / (1 + Ratio), 1 / (1 + Ratio)};
}

/// Evaluates sets of active causes against what was seen. Works with the
/// candidates' links turned into dense rows over the observed symptoms.
class SetScorer {
public:
  SetScorer(const Network &N, ArrayRef<Observation> Seen,
            ArrayRef<unsigned> Candidates) {
    std::vector<int> Slot(N.Symptoms.size(), -1);
    for (unsigned S = 0; S != N.Symptoms.size(); ++S) {
      if (Seen[S].State == Presence::Unknown)
        continue;
      Slot[S] = static_cast<int>(Leaks.size());
      Symptoms.push_back(S);
      Leaks.push_back(N.Symptoms[S].Leak);
      Likelihoods.push_back(likelihoodOf(Seen[S]));
    }
    for (unsigned C : Candidates) {
      std::vector<double> Off(Leaks.size(), 1.0);
      std::vector<char> Never(Leaks.size(), 0);
      for (const Link &L : N.Causes[C].Links)
        if (Slot[L.Symptom] >= 0) {
          if (L.Never)
            Never[Slot[L.Symptom]] = 1;
          else
            Off[Slot[L.Symptom]] = 1 - L.Weight;
        }
      OffRows.push_back(std::move(Off));
      NeverRows.push_back(std::move(Never));
      double Prior = N.Causes[C].Prior;
      PriorOdds.push_back(std::log(Prior / (1 - Prior)));
    }
  }

  size_t observed() const { return Leaks.size(); }
  unsigned symptom(size_t Slot) const { return Symptoms[Slot]; }

  /// Log weight of the set \p Active, and in \p Terms the log likelihood of
  /// each observed symptom, so that leaving one out is a subtraction.
  double score(ArrayRef<unsigned> Active, MutableArrayRef<double> Terms) const {
    double Sum = 0;
    for (unsigned C : Active)
      Sum += PriorOdds[C];
    for (size_t S = 0; S != Leaks.size(); ++S) {
      double Leak = Leaks[S], Off = 1;
      for (unsigned C : Active) {
        Off *= OffRows[C][S];
        if (NeverRows[C][S])
          Leak = Leaks[S] * SuppressedShare;
      }
      double On = 1 - (1 - Leak) * Off;
      Terms[S] = std::log(On * Likelihoods[S].On +
                          (1 - On) * Likelihoods[S].Off);
      Sum += Terms[S];
    }
    return Sum;
  }

  /// Log likelihood ratio of the observation at \p Slot for the candidate
  /// \p C alone against no cause.
  double typical(unsigned C, size_t Slot) const {
    auto seen = [&](double On) {
      return On * Likelihoods[Slot].On + (1 - On) * Likelihoods[Slot].Off;
    };
    double Leak = Leaks[Slot];
    double With = NeverRows[C][Slot]
                      ? Leak * SuppressedShare
                      : 1 - (1 - Leak) * OffRows[C][Slot];
    return std::log(seen(With) / seen(Leak));
  }

private:
  std::vector<unsigned> Symptoms;
  std::vector<double> Leaks, PriorOdds;
  std::vector<Likelihood> Likelihoods;
  std::vector<std::vector<double>> OffRows;
  std::vector<std::vector<char>> NeverRows;
};

/// Weights of all sets that hold one cause and of all that do not, with all
/// evidence (slot 0) and with each observed symptom left out; relative to the
/// heaviest set of the slot.
struct Tally {
  explicit Tally(size_t Observed) : With(Observed + 1), Without(Observed + 1) {}
  std::vector<double> With, Without;

  double logOdds(size_t Slot) const {
    // What is lighter than the smallest number is as good as impossible; its
    // logarithm must stay finite, since odds are subtracted.
    auto log = [](double Sum) {
      return std::log(std::max(Sum, std::numeric_limits<double>::min()));
    };
    return log(With[Slot]) - log(Without[Slot]);
  }
};

/// Calls \p Visit with every set of at most three of \p K causes.
template <typename Function> void forEachSet(unsigned K, Function Visit) {
  Visit(ArrayRef<unsigned>());
  for (unsigned A = 0; A != K; ++A) {
    Visit(ArrayRef<unsigned>({A}));
    for (unsigned B = A + 1; B != K; ++B) {
      Visit(ArrayRef<unsigned>({A, B}));
      for (unsigned C = B + 1; C != K; ++C)
        Visit(ArrayRef<unsigned>({A, B, C}));
    }
  }
}

} // namespace

/// Causes that a present symptom speaks for and no clear one rules out, the
/// likeliest alone first.
static std::vector<unsigned> candidates(const Network &N,
                                        ArrayRef<Observation> Seen) {
  std::vector<std::pair<double, unsigned>> Scored;
  for (unsigned C = 0; C != N.Causes.size(); ++C) {
    bool Spoken = llvm::any_of(N.Causes[C].Links, [&](const Link &L) {
      return !L.Never && L.Weight >= SpeaksFor &&
             Seen[L.Symptom].State == Presence::Present;
    });
    bool Out = llvm::any_of(N.Causes[C].Links, [&](const Link &L) {
      return L.Required && Seen[L.Symptom].State == Presence::Absent;
    });
    if (!Spoken || Out)
      continue;
    SetScorer Alone(N, Seen, C);
    std::vector<double> Terms(Alone.observed());
    Scored.push_back({-Alone.score(0u, Terms), C});
  }
  llvm::sort(Scored);
  if (Scored.size() > MaxCandidates)
    Scored.resize(MaxCandidates);
  std::vector<unsigned> Out;
  for (auto &[Score, C] : Scored)
    Out.push_back(C);
  return Out;
}

std::vector<CausePosterior> posterior(const Network &N,
                                      ArrayRef<Observation> Seen) {
  assert(Seen.size() == N.Symptoms.size() && "one observation a symptom");
  std::vector<unsigned> Candidates = candidates(N, Seen);
  SetScorer Scorer(N, Seen, Candidates);
  size_t Observed = Scorer.observed();
  unsigned K = static_cast<unsigned>(Candidates.size());
  // Two rounds: the heaviest set of each slot, then all relative to it. So
  // a set needs one exponential a slot; adding logarithms of weights would
  // take one for each cause as well, 1 s for 40 causes and 60 symptoms.
  size_t Slots = Observed + 1;
  std::vector<double> Terms(Observed), Heaviest(Slots, -INFINITY),
      Weights(Slots), Logs; // of every set, slot by slot: 5 MB at most
  forEachSet(K, [&](ArrayRef<unsigned> Active) {
    double Total = Scorer.score(Active, Terms);
    for (size_t S = 0; S != Slots; ++S) {
      Logs.push_back(S == 0 ? Total : Total - Terms[S - 1]);
      Heaviest[S] = std::max(Heaviest[S], Logs.back());
    }
  });
  std::vector<Tally> Tallies(K, Tally(Observed));
  const double *Next = Logs.data();
  forEachSet(K, [&](ArrayRef<unsigned> Active) {
    for (size_t S = 0; S != Slots; ++S)
      Weights[S] = std::exp(*Next++ - Heaviest[S]);
    for (unsigned C = 0; C != K; ++C) {
      std::vector<double> &Sums =
          is_contained(Active, C) ? Tallies[C].With : Tallies[C].Without;
      for (size_t S = 0; S != Weights.size(); ++S)
        Sums[S] += Weights[S];
    }
  });

  std::vector<CausePosterior> Out;
  for (unsigned C = 0; C != K; ++C) {
    CausePosterior P;
    P.Cause = Candidates[C];
    double LogOdds = Tallies[C].logOdds(0);
    P.Probability = 1 / (1 + std::exp(-LogOdds));
    for (size_t S = 0; S != Observed; ++S) {
      unsigned Symptom = Scorer.symptom(S);
      if (llvm::any_of(N.Causes[P.Cause].Links,
                       [&](const Link &L) { return L.Symptom == Symptom; }))
        P.Influences.push_back({Symptom, LogOdds - Tallies[C].logOdds(S + 1),
                                Scorer.typical(C, S)});
    }
    llvm::stable_sort(P.Influences, [](const Influence &A, const Influence &B) {
      return std::fabs(A.Typical) > std::fabs(B.Typical);
    });
    Out.push_back(std::move(P));
  }
  llvm::stable_sort(Out, [&](const CausePosterior &A, const CausePosterior &B) {
    if (A.Probability != B.Probability)
      return A.Probability > B.Probability;
    return N.Causes[A.Cause].Class < N.Causes[B.Cause].Class;
  });
  return Out;
}

} // namespace culprit
