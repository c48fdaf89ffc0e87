//===- KindsSearch.h - Judging a guess at a difference ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the functions behind findKind() share: the sample, the judgement of a
/// prediction, and the list of the kinds themselves.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_KINDSSEARCH_H
#define CULPRIT_COMPARE_KINDSSEARCH_H

#include "Compare/Kinds.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cmath>
#include <limits>

namespace culprit {

/// What ours should be at a flat index if a guess is right; NaN where the
/// guess says nothing. Called from several threads.
using Prediction = llvm::function_ref<double(int64_t)>;

inline constexpr double NoPrediction = std::numeric_limits<double>::quiet_NaN();

/// How well a guess fits.
struct Fit {
  int64_t Count = 0;    ///< Elements it says something about.
  double Share = 0;     ///< Of those, within twice the tolerance.
  double Explained = 0; ///< Share of the squared difference that is undone.
  double Residual = 0;  ///< |ours - predicted| / |ours|.
  bool Good = false;
};

class KindSearch {
public:
  explicit KindSearch(const KindQuery &Query);

  const KindQuery &query() const { return Q; }
  const TensorTolerance &tolerance() const { return Q.Tolerance; }
  int64_t numel() const { return Numel; }
  double ref(int64_t I) const { return Q.Ref.at(I); }
  double ours(int64_t I) const { return Q.Ours.at(I); }
  /// Whether \p Value is \p Expected within twice the tolerance of an element.
  bool close(double Value, double Expected) const {
    return std::fabs(Value - Expected) <=
           2 * (Absolute + Q.Tolerance.Relative * std::fabs(Expected));
  }
  double absoluteTolerance() const { return Absolute; }

  /// Flat indices in a scrambled order: all of a small tensor, 10^5 of a large
  /// one.
  llvm::ArrayRef<int64_t> sample() const { return Sample; }

  /// Judges \p P on a few elements, and if they agree on the sample. \p Free
  /// numbers of the guess were fitted to the data.
  Fit judge(Prediction P, int64_t Free = 0) const;
  /// Judges \p P on all elements (of more than 2^26, on 2^24 of them).
  Fit confirm(Prediction P, int64_t Free = 0) const;
  /// judge() and, if that was good, confirm().
  Fit test(Prediction P, int64_t Free = 0) const {
    Fit Out = judge(P, Free);
    return Out.Good && int64_t(Sample.size()) != Numel ? confirm(P, Free) : Out;
  }

  /// The shape of the reference without dimensions of size 1, and which they
  /// were.
  llvm::ArrayRef<int64_t> dims() const { return Dims; }
  /// The axis of the reference that dims()[I] is.
  int64_t axis(size_t I) const { return Axes[I]; }

private:
  /// Judges \p P at \p Count indices given by \p At.
  template <class F>
  Fit judgeAt(Prediction P, int64_t Count, F At, int64_t Free) const;

  const KindQuery &Q;
  int64_t Numel;
  double Absolute;
  std::vector<int64_t> Sample;
  llvm::SmallVector<int64_t, 4> Dims, Axes;
};

/// A kind with the figures of \p F and a confidence from them.
DifferenceKind explained(llvm::StringRef Kind, llvm::StringRef Class,
                         const llvm::Twine &Says, const Fit &F);

/// Is a rounded number for sentences: four digits.
std::string shortNumber(double Value);

/// True for tensors that a model is made of.
bool isWeight(const KindQuery &Q);
/// True if the name is of attention scores, queries or keys.
bool isAttention(const KindQuery &Q);
/// True if the name is of a cache of keys and values.
bool isCache(const KindQuery &Q);
/// "off-by-one-position", or for a cache what makes positions stale there.
llvm::StringRef positionClass(const KindQuery &Q);

/// For each of S.dims() the first and last index at which elements differ
/// beyond the tolerance. Rests on the sample, the ends of what differs and
/// lines through some of it: right for boxes, nearly so for other shapes.
struct Box {
  llvm::SmallVector<int64_t, 4> First, Last;

  bool empty() const { return First.empty(); }
  /// Share of dimension \p D that it spans.
  double share(const KindSearch &S, size_t D) const {
    return double(Last[D] - First[D] + 1) / double(S.dims()[D]);
  }
  bool holds(const KindSearch &S, int64_t I) const {
    for (size_t D = First.size(); D-- != 0;) {
      const int64_t At = I % S.dims()[D];
      if (At < First[D] || At > Last[D])
        return false;
      I /= S.dims()[D];
    }
    return true;
  }
};
Box differingBox(const KindSearch &S);

/// A constant that a factor may be, by name.
struct NamedConstant {
  std::string Text;  ///< "sqrt(64)".
  std::string About; ///< "64 is a dimension of the tensor"; may be empty.
  std::string Class;
};
/// What input scalings multiply by at the noise level \p Sigma, by name.
std::vector<std::pair<double, llvm::StringRef>> inputScalings(double Sigma);
/// Everything that \p Factor may be within the precision that the tensors
/// allow, the likeliest first.
std::vector<NamedConstant> nameConstant(const KindQuery &Q, double Factor);

// The kinds. Each returns nothing when its guess does not hold.

using MaybeKind = std::optional<DifferenceKind>;

MaybeKind findRounding(const KindSearch &S);
MaybeKind findGrid(const KindSearch &S);
MaybeKind findFewElements(const KindSearch &S);
MaybeKind findSign(const KindSearch &S);
MaybeKind findScale(const KindSearch &S);
MaybeKind findNoiseLevels(const KindSearch &S);
MaybeKind findOffset(const KindSearch &S);
MaybeKind findAffine(const KindSearch &S);
MaybeKind findZeroBlock(const KindSearch &S);
MaybeKind findOtherTensor(const KindSearch &S);
MaybeKind findMissingTerm(const KindSearch &S);
MaybeKind findFlip(const KindSearch &S);
MaybeKind findShift(const KindSearch &S);
MaybeKind findAxisPermutation(const KindSearch &S);
MaybeKind findInterleave(const KindSearch &S);
MaybeKind findHeadMerge(const KindSearch &S);
MaybeKind findSlicePermutation(const KindSearch &S);
MaybeKind findActivation(const KindSearch &S);
MaybeKind findEpsilon(const KindSearch &S);
MaybeKind findEpsilonWithBias(const KindSearch &S);
MaybeKind findSoftmax(const KindSearch &S);
MaybeKind findMask(const KindSearch &S);
MaybeKind findPositionTable(const KindSearch &S);
MaybeKind findShiftFrom(const KindSearch &S);
MaybeKind findAxisOffset(const KindSearch &S);
MaybeKind findAxisFactor(const KindSearch &S);
MaybeKind findRotation(const KindSearch &S);
MaybeKind findRotaryLayout(const KindSearch &S);
MaybeKind findVariance(const KindSearch &S);
MaybeKind findMixedSlices(const KindSearch &S);
MaybeKind findNotLoaded(const KindSearch &S);
MaybeKind findReorder(const KindSearch &S);
MaybeKind findNonFinite(const KindSearch &S);
MaybeKind findPartial(const KindSearch &S);
MaybeKind findPrecision(const KindSearch &S);

} // namespace culprit

#endif // CULPRIT_COMPARE_KINDSSEARCH_H
