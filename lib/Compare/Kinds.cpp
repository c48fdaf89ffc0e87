//===- Kinds.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "Support/Parallel.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <numeric>

using namespace llvm;

namespace culprit {

/// Elements judged before the others are looked at.
static constexpr int64_t FewElements = 64;
/// Elements judged before all of a sample are.
static constexpr int64_t SomeElements = 2048;
/// Elements of a sample; smaller tensors are judged whole.
static constexpr int64_t SampleSize = 100'000;
/// A tensor of more elements is confirmed on MostConfirmed/4 of them.
static constexpr int64_t MostConfirmed = int64_t(1) << 26;

/// An odd step near the golden section of \p Numel that shares no divisor with
/// it: its multiples visit every element once and spread evenly.
static int64_t scramblingStep(int64_t Numel) {
  int64_t Step = std::max<int64_t>(1, int64_t(double(Numel) * 0.6180339887));
  while (std::gcd(Step, Numel) != 1)
    ++Step;
  return Step;
}

KindSearch::KindSearch(const KindQuery &Query)
    : Q(Query), Numel(Query.Ref.numel()) {
  // The expected value is near ours if the guess is right.
  Absolute = Q.Tolerance.elements(Q.Sums.oursRms()).Absolute;
  const int64_t Count =
      Numel > SampleSize + SampleSize / 4 ? SampleSize : Numel;
  const int64_t Step = scramblingStep(Numel);
  Sample.reserve(size_t(Count));
  for (int64_t I = 0, At = 0; I != Count; ++I) {
    Sample.push_back(At);
    At = int64_t((uint64_t(At) + uint64_t(Step)) % uint64_t(Numel));
  }
  for (auto [Axis, Size] : enumerate(Q.Ref.Shape))
    if (Size != 1) {
      Dims.push_back(Size);
      Axes.push_back(int64_t(Axis));
    }
}

namespace {
/// What judging adds up.
struct Judgement {
  int64_t Count = 0, Within = 0;
  double Left = 0, Before = 0, Ours = 0;
};
} // namespace

/// Judges indices \p Begin to \p End of those that \p At gives. Stops early
/// when a guess is plainly wrong.
template <class F>
static Judgement judgeRange(const KindSearch &S, Prediction P, int64_t Begin,
                            int64_t End, F At) {
  Judgement J;
  for (int64_t I = Begin; I != End; ++I) {
    const int64_t Index = At(I);
    const double Predicted = P(Index);
    if (std::isnan(Predicted))
      continue;
    const double Ours = S.ours(Index), Ref = S.ref(Index);
    if (!std::isfinite(Ours) || !std::isfinite(Ref) ||
        !std::isfinite(Predicted)) {
      // An infinity that turns up where it should agrees.
      ++J.Count;
      J.Within += Ours == Predicted || (std::isnan(Ours) && std::isnan(Ref));
      continue;
    }
    ++J.Count;
    J.Within += S.close(Ours, Predicted);
    J.Left += (Ours - Predicted) * (Ours - Predicted);
    J.Before += (Ours - Ref) * (Ours - Ref);
    J.Ours += Ours * Ours;
  }
  return J;
}

template <class F>
Fit KindSearch::judgeAt(Prediction P, int64_t Count, F At,
                        int64_t Free) const {
  Judgement J = judgeRange(*this, P, 0, std::min(Count, FewElements), At);
  const auto Hopeless = [&](const Judgement &Now) {
    return Now.Within * 10 < Now.Count * 9;
  };
  // Of differences near the tolerance any guess undoes most elements and
  // nothing of their squares.
  if (!Hopeless(J) && Count > 4 * SomeElements) {
    const Judgement Some = judgeRange(*this, P, 0, SomeElements, At);
    if (Some.Within * 100 < Some.Count * 99 || Some.Left > 0.8 * Some.Before) {
      J = Some;
      Count = FewElements; // that is enough
    }
  }
  if (!Hopeless(J) && Count > FewElements) {
    // The parts do not depend on the threads, so neither do the sums.
    const int64_t NumParts = Count < 1'000'000 ? 1 : 64;
    std::vector<Judgement> Parts(static_cast<size_t>(NumParts));
    const int64_t Rest = Count - FewElements;
    inParallel(Parts.size(), Q.Threads, [&](size_t I) {
      const int64_t T = int64_t(I);
      Parts[I] = judgeRange(*this, P, FewElements + Rest * T / NumParts,
                            FewElements + Rest * (T + 1) / NumParts, At);
    });
    for (const Judgement &Each : Parts) {
      J.Count += Each.Count;
      J.Within += Each.Within;
      J.Left += Each.Left;
      J.Before += Each.Before;
      J.Ours += Each.Ours;
    }
  }
  Fit Out;
  Out.Count = J.Count;
  if (J.Count == 0)
    return Out;
  Out.Share = double(J.Within) / double(J.Count);
  Out.Explained = J.Before > 0 ? std::max(0.0, 1 - J.Left / J.Before) : 0;
  Out.Residual = J.Ours > 0 ? std::sqrt(J.Left / J.Ours)
                 : J.Left > 0 ? std::numeric_limits<double>::infinity()
                              : 0;
  // A guess with as many numbers as there are elements fits everything.
  const bool Tested = J.Count - Free >= 4 && J.Count >= 2 * Free;
  const bool Everywhere =
      J.Count < 1000 ? J.Within == J.Count : Out.Share >= 0.999;
  Out.Good = Tested && Everywhere &&
             (Out.Explained >= 0.99 ||
              (Out.Explained >= 0.5 &&
               Out.Residual <= 2 * Q.Tolerance.RelL2));
  return Out;
}

Fit KindSearch::judge(Prediction P, int64_t Free) const {
  return judgeAt(P, int64_t(Sample.size()),
                 [this](int64_t I) { return Sample[size_t(I)]; }, Free);
}

Fit KindSearch::confirm(Prediction P, int64_t Free) const {
  if (Numel <= MostConfirmed)
    return judgeAt(P, Numel, [](int64_t I) { return I; }, Free);
  const uint64_t Step = uint64_t(scramblingStep(Numel));
  // I * Step may exceed 64 bits; the quotient is not needed.
  return judgeAt(P, MostConfirmed / 4,
                 [&](int64_t I) {
                   return int64_t(__uint128_t(I) * Step % uint64_t(Numel));
                 },
                 Free);
}

std::string shortNumber(double Value) { return formatNumber(Value, 4); }

bool isWeight(const KindQuery &Q) { return Q.Role == "weight"; }

bool isAttention(const KindQuery &Q) {
  StringRef Name = Q.Name;
  for (StringRef Word : {"attn", "attention", "score", "qk", "q_proj",
                         "k_proj", "query", "key", "rope", "rotary"})
    if (Name.contains_insensitive(Word))
      return true;
  return false;
}

bool isCache(const KindQuery &Q) {
  StringRef Name = Q.Name;
  for (StringRef Word : {"cache", "past_key", "past_value", "past_kv"})
    if (Name.contains_insensitive(Word))
      return true;
  return false;
}

StringRef positionClass(const KindQuery &Q) {
  return isCache(Q) ? "kv-cache-stale-position" : "off-by-one-position";
}

DifferenceKind explained(StringRef Kind, StringRef Class, const Twine &Says,
                         const Fit &F) {
  DifferenceKind Out;
  Out.Kind = Kind.str();
  Out.Class = Class.str();
  Out.Says = Says.str();
  Out.Explained = F.Explained;
  Out.Residual = F.Residual;
  Out.Confidence = std::clamp(F.Explained * F.Share, 0.0, 0.99);
  return Out;
}

/// From the simplest to the most elaborate. What only says where tensors
/// differ, or that an order is lost, comes last.
static constexpr MaybeKind (*Finders[])(const KindSearch &) = {
    findRounding,         findFewElements,      findSoftmax,
    findMask,             findSign,             findScale,
    findNoiseLevels,      findOffset,           findAffine,
    findZeroBlock,        findOtherTensor,      findMissingTerm,
    findPositionTable,    findFlip,             findShift,
    findShiftFrom,        findAxisPermutation,  findInterleave,
    findHeadMerge,        findSlicePermutation, findMixedSlices,
    findActivation,       findEpsilon,          findVariance,
    findAxisOffset,       findAxisFactor,       findEpsilonWithBias,
    findRotaryLayout,     findRotation,         findGrid};
static constexpr MaybeKind (*LastFinders[])(const KindSearch &) = {
    findNonFinite, findNotLoaded, findReorder, findPartial, findPrecision};

DifferenceKind findKind(const KindQuery &Q) {
  DifferenceKind None;
  None.Kind = "unexplained";
  None.Says = "no single change that was looked for explains the difference";
  // Tolerances rest on squares.
  if (!std::isfinite(Q.Sums.Squares + Q.Sums.DSquares)) {
    None.Says = "the values are too large for a search: their squares overflow";
    return None;
  }
  KindSearch S(Q);
  MaybeKind Best;
  for (auto Find : Finders) {
    if (Best && Best->Residual <= Q.Tolerance.RelL2)
      break;
    MaybeKind Found = Find(S);
    if (Found && (!Best || Found->Residual < 0.2 * Best->Residual))
      Best = std::move(Found);
  }
  for (auto Find : LastFinders)
    if (!Best)
      Best = Find(S);
  if (Best)
    return std::move(*Best);
  return None;
}

} // namespace culprit
