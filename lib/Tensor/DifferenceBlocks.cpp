//===- DifferenceBlocks.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// As in Blocks.cpp, element i goes to partial sum i mod 8 and nothing is fused,
// so that every machine gives the same bits. Floats are compared as floats,
// twice as many at a time as doubles, and widened for the sums: ours may be a
// small part of the reference, and y = x + d must not lose it.
//
//===----------------------------------------------------------------------===//

#include "Tensor/DifferenceBlocks.h"
#include "Tensor/Dispatch.h"
#include "hwy/cache_control.h"
#include <algorithm>
#include <cmath>

#define HWY_DISABLED_TARGETS                                                   \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "Tensor/DifferenceBlocks.cpp"
#include "hwy/foreach_target.h" // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace culprit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t PartialSums = 8; // see the top of the file

/// Adds up the eight partial sums pairwise, destroying them.
HWY_INLINE double reduceEight(double *Partial) {
  for (size_t Half = PartialSums / 2; Half; Half /= 2)
    for (size_t I = 0; I != Half; ++I)
      Partial[I] += Partial[I + Half];
  return Partial[0];
}

/// The six sums of a vector of doubles: elements of one residue class.
template <class V> struct Sums {
  V X, XX, D, Abs, DD, XD;

  HWY_INLINE void add(V A, V B) {
    const V Delta = hn::Sub(B, A);
    X = hn::Add(X, A);
    XX = hn::Add(XX, hn::Mul(A, A));
    D = hn::Add(D, Delta);
    Abs = hn::Add(Abs, hn::Abs(Delta));
    DD = hn::Add(DD, hn::Mul(Delta, Delta));
    XD = hn::Add(XD, hn::Mul(A, Delta));
  }
};

template <class T>
HWY_INLINE DifferenceBlock blockDifference(const T *X, const T *Y,
                                           size_t Count, T Absolute,
                                           T Relative, Ahead NextX,
                                           Ahead NextY) {
  // Vectors of T, and of the doubles they are widened to, a half at a time.
  const hn::CappedTag<T, 64 / sizeof(T)> DT;
  const hn::RebindToSigned<decltype(DT)> DI;
#if HWY_TARGET == HWY_SCALAR
  const hn::Rebind<double, decltype(DT)> DD; // one element has no halves
#else
  const hn::Repartition<double, decltype(DT)> DD;
#endif
  using VT = hn::Vec<decltype(DT)>;
  using VI = hn::Vec<decltype(DI)>;
  using VD = hn::Vec<decltype(DD)>;
  constexpr size_t L = hn::MaxLanes(DT), LD = hn::MaxLanes(DD);
  constexpr size_t Parts = PartialSums / LD;
  constexpr size_t Round = L > PartialSums ? L : PartialSums;
  static_assert(PartialSums % LD == 0 && Round % L == 0);

  Sums<VD> S[Parts];
  for (size_t P = 0; P != Parts; ++P)
    S[P] = {hn::Zero(DD), hn::Zero(DD), hn::Zero(DD),
            hn::Zero(DD), hn::Zero(DD), hn::Zero(DD)};
  VT Largest = hn::Zero(DT);
  VI Differ = hn::Zero(DI), Above = Differ;
  const VT VAbsolute = hn::Set(DT, Absolute), VRelative = hn::Set(DT, Relative);
  size_t I = 0;
  for (; I + Round <= Count; I += Round) {
    hwy::Prefetch(NextX.Bytes + I * NextX.Size);
    hwy::Prefetch(NextY.Bytes + I * NextY.Size);
#pragma GCC unroll 8
    for (size_t At = 0; At != Round; At += L) {
      const VT A = hn::LoadU(DT, X + I + At);
      const VT B = hn::LoadU(DT, Y + I + At);
      const VT Abs = hn::Abs(hn::Sub(B, A));
      const VT Bound = hn::Add(VAbsolute, hn::Mul(VRelative, hn::Abs(A)));
      Largest = hn::Max(Largest, Abs);
      // Masks are -1, so subtracting them counts.
      const auto Moved = hn::RebindMask(DI, hn::Gt(Abs, hn::Zero(DT)));
      const auto Beyond = hn::RebindMask(DI, hn::Gt(Abs, Bound));
      Differ = hn::Sub(Differ, hn::VecFromMask(DI, Moved));
      Above = hn::Sub(Above, hn::VecFromMask(DI, Beyond));
#if HWY_TARGET == HWY_SCALAR
      if constexpr (sizeof(T) == 4)
        S[At % Parts].add(hn::PromoteTo(DD, A), hn::PromoteTo(DD, B));
#else
      if constexpr (sizeof(T) == 4) {
        const hn::Half<decltype(DT)> DH;
        S[At / LD % Parts].add(
            hn::PromoteTo(DD, hn::LowerHalf(DH, A)),
            hn::PromoteTo(DD, hn::LowerHalf(DH, B)));
        S[(At / LD + 1) % Parts].add(
            hn::PromoteTo(DD, hn::UpperHalf(DH, A)),
            hn::PromoteTo(DD, hn::UpperHalf(DH, B)));
      }
#endif
      if constexpr (sizeof(T) == 8)
        S[At / LD % Parts].add(A, B);
    }
  }
  DifferenceBlock Out;
  HWY_ALIGN hn::TFromD<decltype(DI)> Counts[L];
  hn::Store(Differ, DI, Counts);
  for (int64_t N : Counts)
    Out.Different += N;
  hn::Store(Above, DI, Counts);
  for (int64_t N : Counts)
    Out.Above += N;
  HWY_ALIGN T Maxima[L];
  hn::Store(Largest, DT, Maxima);
  T MaxAbs = 0;
  for (T M : Maxima)
    MaxAbs = std::max(MaxAbs, M);

  HWY_ALIGN double Partial[6][PartialSums];
  for (size_t P = 0; P != Parts; ++P) {
    hn::Store(S[P].X, DD, Partial[0] + P * LD);
    hn::Store(S[P].XX, DD, Partial[1] + P * LD);
    hn::Store(S[P].D, DD, Partial[2] + P * LD);
    hn::Store(S[P].Abs, DD, Partial[3] + P * LD);
    hn::Store(S[P].DD, DD, Partial[4] + P * LD);
    hn::Store(S[P].XD, DD, Partial[5] + P * LD);
  }
  for (; I < Count; ++I) {
    const T Abs = std::fabs(Y[I] - X[I]);
    const size_t P = I % PartialSums;
    MaxAbs = std::max(MaxAbs, Abs);
    Out.Different += Abs > 0;
    Out.Above += Abs > Absolute + Relative * std::fabs(X[I]);
    const double A = double(X[I]), D = double(Y[I]) - A;
    Partial[0][P] += A;
    Partial[1][P] += A * A;
    Partial[2][P] += D;
    Partial[3][P] += std::fabs(D);
    Partial[4][P] += D * D;
    Partial[5][P] += A * D;
  }
  Out.MaxAbs = double(MaxAbs);
  Out.Sum = reduceEight(Partial[0]);
  Out.Squares = reduceEight(Partial[1]);
  Out.DSum = reduceEight(Partial[2]);
  Out.DAbs = reduceEight(Partial[3]);
  Out.DSquares = reduceEight(Partial[4]);
  Out.Product = reduceEight(Partial[5]);
  // Whatever is not finite makes these so.
  Out.Whole = std::isfinite(Out.DAbs) && std::isfinite(Out.Sum);
  return Out;
}

DifferenceBlock differFloats(const float *X, const float *Y, size_t Count,
                             float Absolute, float Relative, Ahead NextX,
                             Ahead NextY) {
  return blockDifference(X, Y, Count, Absolute, Relative, NextX, NextY);
}
DifferenceBlock differDoubles(const double *X, const double *Y, size_t Count,
                              double Absolute, double Relative, Ahead NextX,
                              Ahead NextY) {
  return blockDifference(X, Y, Count, Absolute, Relative, NextX, NextY);
}

} // namespace HWY_NAMESPACE
} // namespace culprit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace culprit {

HWY_EXPORT(differFloats);
HWY_EXPORT(differDoubles);

DifferenceBlock differenceOfBlock(const float *X, const float *Y, size_t Count,
                                  ElementTolerance T, Ahead NextX,
                                  Ahead NextY) {
  return HWY_DYNAMIC_DISPATCH(differFloats)(X, Y, Count, float(T.Absolute),
                                            float(T.Relative), NextX, NextY);
}
DifferenceBlock differenceOfBlock(const double *X, const double *Y,
                                  size_t Count, ElementTolerance T, Ahead NextX,
                                  Ahead NextY) {
  return HWY_DYNAMIC_DISPATCH(differDoubles)(X, Y, Count, T.Absolute,
                                             T.Relative, NextX, NextY);
}

} // namespace culprit

#endif // HWY_ONCE
