//===- Blocks.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The same bits on every machine. Counts and extremes do not depend on order.
// The sums do, so their order is fixed: element i of a block goes to partial
// sum i mod 16, whether those sixteen doubles lie in two vectors or in eight,
// and the sixteen are added up pairwise. A fused multiply-add rounds once
// where the others round twice, so it is used for squares of floats alone,
// which are exact in double precision; CMakeLists.txt tells the compiler not
// to contract the rest.
//
// Nearly every block of floats is done in one walk: |x| below the normal range
// is counted, extremes are taken and x and x^2 are added up. The sums tell
// whether that was enough. They are finite only if every value is; their
// difference shows whether the mean is so far from zero that the sums must be
// taken about a pivot; and the extremes show values near the largest. Only a
// block that fails one of these is walked through again. The walk asks for the
// next block meanwhile: the processor's own prefetching ends at every page.
//
//===----------------------------------------------------------------------===//

#include "Tensor/Blocks.h"
#include "Tensor/Dispatch.h"
#include "hwy/cache_control.h"
#include <algorithm>

// Vectors of unknown length cannot be kept in arrays; those machines have
// NEON as well, or fall back on the emulation.
#define HWY_DISABLED_TARGETS                                                   \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "Tensor/Blocks.cpp"
#include "hwy/foreach_target.h" // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace culprit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t Lanes = 16; // partial sums; see the top of the file

/// Adds up the sixteen partial sums pairwise, destroying them.
HWY_INLINE double reduce(double *Partial) {
  for (size_t Half = Lanes / 2; Half; Half /= 2)
    for (size_t I = 0; I != Half; ++I)
      Partial[I] += Partial[I + Half];
  return Partial[0];
}

/// The bits of |X|.
template <class T> constexpr auto magnitude(T X) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<int32_t>(X) & 0x7fffffff;
  else
    return std::bit_cast<int64_t>(X) & 0x7fffffffffffffff;
}

/// Sums about the pivot; with \p Masked, over the finite elements.
template <bool Masked, class T>
HWY_INLINE void addUp(const T *X, size_t Count, BlockSummary &S) {
  const hn::CappedTag<double, 8> D;
  using V = hn::Vec<decltype(D)>;
  const hn::Rebind<T, decltype(D)> Narrow;
  constexpr size_t L = hn::MaxLanes(D);
  constexpr size_t Parts = Lanes / L;
  static_assert(Lanes % L == 0);

  V Sums[Parts], Squares[Parts];
  for (size_t P = 0; P != Parts; ++P)
    Sums[P] = Squares[P] = hn::Zero(D);
  const V Pivot = hn::Set(D, S.Pivot);
  const V Infinity = hn::Set(D, std::numeric_limits<double>::infinity());
  size_t I = 0;
  for (; I + Lanes <= Count; I += Lanes) {
#pragma GCC unroll 16
    for (size_t P = 0; P != Parts; ++P) {
      V Value;
      if constexpr (sizeof(T) == 4)
        Value = hn::PromoteTo(D, hn::LoadU(Narrow, X + I + P * L));
      else
        Value = hn::LoadU(D, X + I + P * L);
      V Delta = hn::Sub(Value, Pivot);
      if constexpr (Masked)
        Delta = hn::IfThenElseZero(hn::Lt(hn::Abs(Value), Infinity), Delta);
      Sums[P] = hn::Add(Sums[P], Delta);
      Squares[P] = hn::Add(Squares[P], hn::Mul(Delta, Delta));
    }
  }
  HWY_ALIGN double Sum[Lanes];
  HWY_ALIGN double Square[Lanes];
  for (size_t P = 0; P != Parts; ++P) {
    hn::Store(Sums[P], D, Sum + P * L);
    hn::Store(Squares[P], D, Square + P * L);
  }
  for (; I < Count; ++I) {
    if (Masked && !std::isfinite(X[I]))
      continue;
    double Delta = double(X[I]) - S.Pivot;
    Sum[I % Lanes] += Delta;
    Square[I % Lanes] += Delta * Delta;
  }
  S.Sum = reduce(Sum);
  S.SumOfSquares = reduce(Square);
}

/// Folds the lanes of \p V with \p Fold.
template <class D, class V, class Op>
HWY_INLINE auto fold(D d, V Vector, Op Fold) {
  HWY_ALIGN hn::TFromD<D> Values[hn::MaxLanes(d)];
  hn::Store(Vector, d, Values);
  auto Out = Values[0];
  for (size_t I = 1; I != hn::Lanes(d); ++I)
    Out = Fold(Out, Values[I]);
  return Out;
}

/// Of a block that holds large numbers: tells NaN, infinity and values near
/// the largest apart, and takes the extremes over the finite values.
template <class T>
HWY_NOINLINE void countLarge(const T *X, size_t Count, const Bounds<T> &B,
                             BlockSummary &S) {
  constexpr T Infinity = std::numeric_limits<T>::infinity();
  const hn::ScalableTag<T> D;
  const hn::RebindToSigned<decltype(D)> DI;
  using V = hn::Vec<decltype(D)>;
  using VI = hn::Vec<decltype(DI)>;
  using Bits = hn::TFromD<decltype(DI)>;
  constexpr Bits InfinityBits = magnitude(Infinity);

  const VI NotSign = hn::Set(DI, std::numeric_limits<Bits>::max());
  const VI Inf = hn::Set(DI, InfinityBits);
  const VI Near = hn::Set(DI, B.NearMax);
  VI NaNs = hn::Zero(DI), Infs = NaNs, Nears = NaNs, Largest = NaNs;
  V Least = hn::Set(D, Infinity), Greatest = hn::Set(D, -Infinity);
  size_t I = 0;
  for (; I + hn::Lanes(D) <= Count; I += hn::Lanes(D)) {
    const V Value = hn::LoadU(D, X + I);
    const VI Abs = hn::And(hn::BitCast(DI, Value), NotSign);
    const auto Finite = hn::Lt(Abs, Inf);
    NaNs = hn::Sub(NaNs, hn::VecFromMask(DI, hn::Gt(Abs, Inf)));
    Infs = hn::Sub(Infs, hn::VecFromMask(DI, hn::Eq(Abs, Inf)));
    Nears =
        hn::Sub(Nears, hn::VecFromMask(DI, hn::And(hn::Gt(Abs, Near), Finite)));
    Largest = hn::Max(Largest, hn::IfThenElseZero(Finite, Abs));
    const auto FiniteT = hn::RebindMask(D, Finite);
    Least =
        hn::Min(Least, hn::IfThenElse(FiniteT, Value, hn::Set(D, Infinity)));
    Greatest = hn::Max(Greatest,
                       hn::IfThenElse(FiniteT, Value, hn::Set(D, -Infinity)));
  }
  const auto Plus = [](Bits A, Bits B) { return A + B; };
  const auto Max = [](auto A, auto B) { return std::max(A, B); };
  const auto Min = [](auto A, auto B) { return std::min(A, B); };
  S.NaN = fold(DI, NaNs, Plus);
  S.Inf = fold(DI, Infs, Plus);
  S.NearMax = fold(DI, Nears, Plus);
  Bits AbsMax = fold(DI, Largest, Max);
  T Lowest = fold(D, Least, Min);
  T Highest = fold(D, Greatest, Max);
  for (; I < Count; ++I) {
    Bits Abs = magnitude(X[I]);
    S.NaN += Abs > InfinityBits;
    S.Inf += Abs == InfinityBits;
    if (Abs >= InfinityBits)
      continue;
    S.NearMax += Abs > B.NearMax;
    AbsMax = std::max(AbsMax, Abs);
    Lowest = std::min(Lowest, X[I]);
    Highest = std::max(Highest, X[I]);
  }
  S.AbsMax = std::bit_cast<T>(AbsMax);
  S.Min = Lowest;
  S.Max = Highest;
}

/// Tells zeros from subnormal numbers, which S.Subnormal counts together.
template <class T>
HWY_NOINLINE void countZeros(const T *X, size_t Count, BlockSummary &S) {
  const hn::ScalableTag<T> D;
  const hn::RebindToSigned<decltype(D)> DI;
  using Bits = hn::TFromD<decltype(DI)>;
  const auto NotSign = hn::Set(DI, std::numeric_limits<Bits>::max());
  auto Zeros = hn::Zero(DI);
  size_t I = 0;
  for (; I + hn::Lanes(D) <= Count; I += hn::Lanes(D)) {
    const auto Abs = hn::And(hn::BitCast(DI, hn::LoadU(D, X + I)), NotSign);
    Zeros = hn::Sub(Zeros, hn::VecFromMask(DI, hn::Eq(Abs, hn::Zero(DI))));
  }
  S.Zero = fold(DI, Zeros, [](Bits A, Bits B) { return A + B; });
  for (; I < Count; ++I)
    S.Zero += magnitude(X[I]) == 0;
  S.Subnormal -= S.Zero;
}

/// The sums of a block whose first walk was not enough.
template <class T>
HWY_NOINLINE void addUpAgain(const T *X, size_t Count, BlockSummary &S) {
  if (S.NaN + S.Inf == 0) {
    S.Pivot = X[0];
    addUp<false>(X, Count, S);
    return;
  }
  while (std::isfinite(X[S.FirstNonFinite]))
    ++S.FirstNonFinite;
  S.Sum = S.SumOfSquares = 0;
  if (size_t(S.NaN + S.Inf) == Count)
    return;
  size_t First = 0;
  while (!std::isfinite(X[First]))
    ++First;
  S.Pivot = X[First];
  addUp<true>(X, Count, S);
}

BlockSummary summarizeFloats(const float *X, size_t Count,
                             const Bounds<float> &B, Ahead Next) {
  constexpr float Infinity = std::numeric_limits<float>::infinity();
  const hn::CappedTag<float, Lanes> D;
  const hn::RebindToSigned<decltype(D)> DI;
  const hn::CappedTag<double, 8> DD;
  const hn::Rebind<float, decltype(DD)> Narrow;
  using V = hn::Vec<decltype(D)>;
  using VD = hn::Vec<decltype(DD)>;
  constexpr size_t L = hn::MaxLanes(D), LD = hn::MaxLanes(DD);
  constexpr size_t Parts = Lanes / LD;
  static_assert(Lanes % L == 0 && Lanes % LD == 0);

  VD Sums[Parts], Squares[Parts];
  for (size_t P = 0; P != Parts; ++P)
    Sums[P] = Squares[P] = hn::Zero(DD);
  const auto NotSign = hn::Set(DI, 0x7fffffff);
  const auto Normal = hn::Set(DI, B.SmallestNormal);
  auto Tinies = hn::Zero(DI);
  V Least = hn::Set(D, Infinity), Greatest = hn::Set(D, -Infinity);
  size_t I = 0;
  for (; I + Lanes <= Count; I += Lanes) {
    hwy::Prefetch(Next.Bytes + I * Next.Size);
#pragma GCC unroll 16
    for (size_t At = 0; At != Lanes; At += L) {
      const V Value = hn::LoadU(D, X + I + At);
      const auto Abs = hn::And(hn::BitCast(DI, Value), NotSign);
      Tinies = hn::Sub(Tinies, hn::VecFromMask(DI, hn::Lt(Abs, Normal)));
      Least = hn::Min(Least, Value);
      Greatest = hn::Max(Greatest, Value);
    }
#pragma GCC unroll 16
    for (size_t P = 0; P != Parts; ++P) {
      const VD Value = hn::PromoteTo(DD, hn::LoadU(Narrow, X + I + P * LD));
      Sums[P] = hn::Add(Sums[P], Value);
      Squares[P] = hn::MulAdd(Value, Value, Squares[P]);
    }
  }
  HWY_ALIGN double Sum[Lanes];
  HWY_ALIGN double Square[Lanes];
  for (size_t P = 0; P != Parts; ++P) {
    hn::Store(Sums[P], DD, Sum + P * LD);
    hn::Store(Squares[P], DD, Square + P * LD);
  }
  BlockSummary S;
  S.Subnormal = fold(DI, Tinies, [](int32_t A, int32_t B) { return A + B; });
  float Lowest =
      fold(D, Least, [](float A, float B) { return std::min(A, B); });
  float Highest =
      fold(D, Greatest, [](float A, float B) { return std::max(A, B); });
  for (; I < Count; ++I) {
    const double Value = double(X[I]);
    Sum[I % Lanes] += Value;
    Square[I % Lanes] += Value * Value;
    S.Subnormal += magnitude(X[I]) < B.SmallestNormal;
    Lowest = std::min(Lowest, X[I]);
    Highest = std::max(Highest, X[I]);
  }
  S.Sum = reduce(Sum);
  S.SumOfSquares = reduce(Square);
  S.Min = Lowest;
  S.Max = Highest;
  S.AbsMax = std::max(std::fabs(Lowest), std::fabs(Highest));

  if (S.Subnormal)
    countZeros(X, Count, S);
  const bool Finite = std::isfinite(S.Sum);
  if (!Finite || magnitude(float(S.AbsMax)) > B.NearMax)
    countLarge(X, Count, B, S);
  const double Squared = S.Sum * (S.Sum / double(Count));
  if (!Finite || S.SumOfSquares - Squared < 0x1p-10 * S.SumOfSquares)
    addUpAgain(X, Count, S);
  return S;
}

BlockSummary summarizeDoubles(const double *X, size_t Count,
                              const Bounds<double> &B) {
  constexpr double Infinity = std::numeric_limits<double>::infinity();
  const hn::ScalableTag<double> D;
  const hn::RebindToSigned<decltype(D)> DI;
  using V = hn::Vec<decltype(D)>;
  using VI = hn::Vec<decltype(DI)>;

  const VI NotSign = hn::Set(DI, std::numeric_limits<int64_t>::max());
  const VI Normal = hn::Set(DI, B.SmallestNormal);
  VI Tinies = hn::Zero(DI), Largest = Tinies;
  V Least = hn::Set(D, Infinity), Greatest = hn::Set(D, -Infinity);
  size_t I = 0;
  for (; I + hn::Lanes(D) <= Count; I += hn::Lanes(D)) {
    const V Value = hn::LoadU(D, X + I);
    const VI Abs = hn::And(hn::BitCast(DI, Value), NotSign);
    Largest = hn::Max(Largest, Abs);
    Tinies = hn::Sub(Tinies, hn::VecFromMask(DI, hn::Lt(Abs, Normal)));
    Least = hn::Min(Least, Value);
    Greatest = hn::Max(Greatest, Value);
  }
  const auto Max = [](auto A, auto B) { return std::max(A, B); };
  const auto Min = [](auto A, auto B) { return std::min(A, B); };
  BlockSummary S;
  S.Subnormal = fold(DI, Tinies, [](int64_t A, int64_t B) { return A + B; });
  int64_t AbsMax = fold(DI, Largest, Max);
  S.Min = fold(D, Least, Min);
  S.Max = fold(D, Greatest, Max);
  for (; I < Count; ++I) {
    const int64_t Abs = magnitude(X[I]);
    S.Subnormal += Abs < B.SmallestNormal;
    AbsMax = std::max(AbsMax, Abs);
    S.Min = std::min(S.Min, X[I]);
    S.Max = std::max(S.Max, X[I]);
  }
  S.AbsMax = std::bit_cast<double>(AbsMax);
  if (S.Subnormal)
    countZeros(X, Count, S);
  if (AbsMax > B.NearMax)
    countLarge(X, Count, B, S);
  addUpAgain(X, Count, S);
  return S;
}

} // namespace HWY_NAMESPACE
} // namespace culprit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

using namespace llvm;

namespace culprit {

HWY_EXPORT(summarizeFloats);
HWY_EXPORT(summarizeDoubles);

BlockSummary summarize(const float *X, size_t Count, const Bounds<float> &B,
                       Ahead Next) {
  return HWY_DYNAMIC_DISPATCH(summarizeFloats)(X, Count, B, Next);
}

BlockSummary summarize(const double *X, size_t Count, const Bounds<double> &B) {
  return HWY_DYNAMIC_DISPATCH(summarizeDoubles)(X, Count, B);
}

} // namespace culprit

#endif // HWY_ONCE
