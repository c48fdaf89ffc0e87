//===- Information.cpp - What more would tell -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What follows from the joint posterior of Network.cpp: the chance of any cause
// of a kind, the ranking after one more observation, and the information that
// an observation is expected to give.
//
//===----------------------------------------------------------------------===//

#include "Rank/Network.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <tuple>

using namespace llvm;

namespace culprit {

static double entropy(double P) {
  return P <= 0 || P >= 1 ? 0
                          : -P * std::log2(P) - (1 - P) * std::log2(1 - P);
}

double Beliefs::anyOf(function_ref<bool(unsigned)> Counts) const {
  double Sum = 0;
  for (const CauseSet &S : Sets)
    if (llvm::any_of(S.members(),
                     [&](uint8_t C) { return Counts(Candidates[C]); }))
      Sum += S.Weight;
  return Sum;
}

Beliefs Beliefs::likeliest(size_t Most) const {
  Beliefs Out;
  Out.Candidates = Candidates;
  Out.Sets = Sets;
  if (Out.Sets.size() > Most) {
    auto End = Out.Sets.begin() + static_cast<ptrdiff_t>(Most);
    std::nth_element(Out.Sets.begin(), End, Out.Sets.end(),
                     [](const CauseSet &A, const CauseSet &B) {
                       return std::tie(B.Weight, A.Size, A.Members) <
                              std::tie(A.Weight, B.Size, B.Members);
                     });
    Out.Sets.erase(End, Out.Sets.end());
  }
  double Total = 0;
  for (const CauseSet &S : Out.Sets)
    Total += S.Weight;
  for (CauseSet &S : Out.Sets)
    S.Weight /= Total;
  return Out;
}

std::vector<double>
Beliefs::after(function_ref<double(const CauseSet &)> Given) const {
  std::vector<double> Out(Candidates.size());
  double Total = 0;
  for (const CauseSet &S : Sets) {
    double Weight = S.Weight * Given(S);
    Total += Weight;
    for (uint8_t C : S.members())
      Out[C] += Weight;
  }
  for (double &P : Out)
    P = Total > 0 ? P / Total : 0;
  return Out;
}

Pairs::Pairs(const Beliefs &B)
    : Count(B.Candidates.size()), Joint(Count * Count) {
  for (const CauseSet &S : B.Sets)
    for (uint8_t A : S.members())
      for (uint8_t C : S.members())
        Joint[A * Count + C] += S.Weight;
}

std::vector<double> Pairs::after(size_t Tested, double Right,
                                 bool SaysSo) const {
  double With = SaysSo ? Right : 1 - Right, Without = 1 - With;
  double P = both(Tested, Tested);
  double Total = With * P + Without * (1 - P);
  std::vector<double> Out(Count);
  for (size_t C = 0; C != Count && Total > 0; ++C)
    Out[C] = (With * both(C, Tested) +
              Without * (both(C, C) - both(C, Tested))) /
             Total;
  return Out;
}

/// The link of \p Cause to \p Symptom, of which there is one at most.
static const Link *linkTo(const CauseNode &Cause, unsigned Symptom) {
  auto It = llvm::find_if(
      Cause.Links, [&](const Link &L) { return L.Symptom == Symptom; });
  return It == Cause.Links.end() ? nullptr : &*It;
}

/// P(symptom on) with the members of \p S, whose links \p LinkOf gives.
static double chanceWith(const Network &N, const CauseSet &S, double Leak,
                         function_ref<const Link *(uint8_t)> LinkOf) {
  double Off = 1, Share = 1;
  for (uint8_t C : S.members())
    if (const Link *L = LinkOf(C)) {
      if (L->Never)
        Share = N.NeverLeaves;
      else
        Off *= 1 - L->Weight;
    }
  return 1 - (1 - Leak * Share) * Off;
}

double chanceOf(const Network &N, const Beliefs &B, const CauseSet &S,
                unsigned Symptom) {
  return chanceWith(N, S, N.Symptoms[Symptom].Leak, [&](uint8_t C) {
    return linkTo(N.Causes[B.Candidates[C]], Symptom);
  });
}

double informationOf(const Network &N, const Beliefs &B, unsigned Symptom) {
  // Few causes name a symptom, and no other one changes its chance: of most
  // sets nothing need be worked out.
  const double Leak = N.Symptoms[Symptom].Leak;
  std::vector<const Link *> Names(B.Candidates.size());
  for (size_t C = 0; C != Names.size(); ++C)
    Names[C] = linkTo(N.Causes[B.Candidates[C]], Symptom);
  if (llvm::none_of(Names, [](const Link *L) { return L; }))
    return 0;
  double On = 0, Inside = 0, Untouched = 0;
  for (const CauseSet &S : B.Sets) {
    if (llvm::none_of(S.members(), [&](uint8_t C) { return Names[C]; })) {
      Untouched += S.Weight;
      continue;
    }
    double P = chanceWith(N, S, Leak, [&](uint8_t C) { return Names[C]; });
    On += S.Weight * P;
    Inside += S.Weight * entropy(P);
  }
  On += Untouched * Leak;
  Inside += Untouched * entropy(Leak);
  return std::max(0.0, entropy(On) - Inside);
}

double informationOf(double P, double Right) {
  return informationOf(P, Right, 1 - Right);
}

double informationOf(double P, double IfSo, double IfNot) {
  return std::max(0.0, entropy(P * IfSo + (1 - P) * IfNot) -
                           P * entropy(IfSo) - (1 - P) * entropy(IfNot));
}

double entropyOf(const Beliefs &B) {
  double Sum = 0;
  for (const CauseSet &S : B.Sets)
    if (S.Weight > 0)
      Sum -= S.Weight * std::log2(S.Weight);
  return Sum;
}

} // namespace culprit
