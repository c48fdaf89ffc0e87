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

double Beliefs::positive(const CauseSet &S, unsigned Tested, double Right) {
  return is_contained(S.members(), Tested) ? Right : 1 - Right;
}

double chanceOf(const Network &N, const Beliefs &B, const CauseSet &S,
                unsigned Symptom) {
  double Off = 1, Leak = N.Symptoms[Symptom].Leak, Share = 1;
  for (uint8_t C : S.members())
    for (const Link &L : N.Causes[B.Candidates[C]].Links) {
      if (L.Symptom != Symptom)
        continue;
      if (L.Never)
        Share = N.NeverLeaves;
      else
        Off *= 1 - L.Weight;
    }
  return 1 - (1 - Leak * Share) * Off;
}

double informationOf(const Network &N, const Beliefs &B, unsigned Symptom) {
  double On = 0, Inside = 0;
  for (const CauseSet &S : B.Sets) {
    double P = chanceOf(N, B, S, Symptom);
    On += S.Weight * P;
    Inside += S.Weight * entropy(P);
  }
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
