//===- Difference.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Blocks are widened in the first-level cache and summarized by the kernels of
// DifferenceBlocks.cpp. What is rare (a value that is not finite, a new largest
// difference, the first element beyond the tolerance) is seen per block and
// then looked for one by one.
//
//===----------------------------------------------------------------------===//

#include "Tensor/Difference.h"
#include "Tensor/Blocks.h"
#include "Tensor/DifferenceBlocks.h"
#include <algorithm>
#include <array>
#include <cmath>

namespace culprit {

static const uint8_t *bytesAt(const TensorView &V, int64_t Begin) {
  return V.Bytes.data() + size_t(Begin) * sizeOf(V.Type);
}

/// The values of the 256 codes of \p Type, which has one byte.
static const float *valuesOf(DType Type) {
  using Tables = std::array<std::array<float, 256>, size_t(DType::Bool) + 1>;
  static const Tables All = [] {
    Tables Out = {};
    for (size_t T = 0; T != Out.size(); ++T)
      for (unsigned Code = 0; Code != 256 && sizeOf(DType(T)) == 1; ++Code) {
        const uint8_t Byte = uint8_t(Code);
        Out[T][Code] = float(
            TensorView{DType(T), {1}, llvm::ArrayRef<uint8_t>(Byte)}.at(0));
      }
    return Out;
  }();
  return All[size_t(Type)].data();
}

/// Types whose values are floats: into \p To.
static void readFloats(const TensorView &V, int64_t Begin, size_t Count,
                       float *To) {
  const uint8_t *Bytes = bytesAt(V, Begin);
  if (sizeOf(V.Type) != 1)
    return widen(V.Type, Bytes, Count, To);
  const float *Values = valuesOf(V.Type);
  for (size_t I = 0; I != Count; ++I)
    To[I] = Values[Bytes[I]];
}

void readElements(const TensorView &V, int64_t Begin, size_t Count,
                  double *To) {
  if (!fitsFloat(V.Type))
    return widen(V.Type, bytesAt(V, Begin), Count, To);
  float Buffer[BlockSize];
  for (size_t At = 0; At < Count; At += BlockSize) {
    size_t Some = std::min(BlockSize, Count - At);
    readFloats(V, Begin + int64_t(At), Some, Buffer);
    std::copy(Buffer, Buffer + Some, To + At);
  }
}

static void readInto(const TensorView &V, int64_t Begin, size_t Count,
                     float *To) {
  readFloats(V, Begin, Count, To);
}
static void readInto(const TensorView &V, int64_t Begin, size_t Count,
                     double *To) {
  readElements(V, Begin, Count, To);
}

/// Elements of \p V as T: where they lie if they are that, else in \p Buffer.
template <class T>
static const T *elements(const TensorView &V, int64_t Begin, size_t Count,
                         T *Buffer) {
  const uint8_t *Bytes = bytesAt(V, Begin);
  if (isFloating(V.Type) && sizeOf(V.Type) == sizeof(T) &&
      reinterpret_cast<uintptr_t>(Bytes) % alignof(T) == 0)
    return reinterpret_cast<const T *>(Bytes);
  readInto(V, Begin, Count, Buffer);
  return Buffer;
}

/// Element by element, for a block with values that are not finite.
template <class T>
static void addSlowly(DifferenceSums &S, const T *X, const T *Y, size_t Count,
                      int64_t At, ElementTolerance Tol) {
  for (size_t I = 0; I != Count; ++I) {
    const double A = double(X[I]), B = double(Y[I]);
    const bool FiniteA = std::isfinite(A), FiniteB = std::isfinite(B);
    const double D = B - A, Abs = std::fabs(D);
    bool Differs, Beyond;
    if (FiniteA && FiniteB) {
      Differs = D != 0;
      Beyond = Abs > Tol.Absolute + Tol.Relative * std::fabs(A);
      ++S.Finite;
      if (Abs > S.MaxAbs) {
        S.MaxAbs = Abs;
        S.MaxAt = At + int64_t(I);
      }
      S.Sum += A;
      S.Squares += A * A;
      S.DSum += D;
      S.DAbs += Abs;
      S.DSquares += D * D;
      S.Product += A * D;
    } else if (FiniteA != FiniteB) {
      ++(FiniteA ? S.OursNonFinite : S.RefNonFinite);
      Differs = Beyond = true;
    } else {
      ++S.BothNonFinite;
      // A NaN beside a NaN, or an infinity beside itself, is equal.
      Differs = Beyond = !(std::isnan(A) && std::isnan(B)) && !(A == B);
    }
    S.Different += Differs;
    S.Above += Beyond;
    if (Differs && !S.FirstDifferent)
      S.FirstDifferent = At + int64_t(I);
    if (Beyond && !S.FirstAbove)
      S.FirstAbove = At + int64_t(I);
    if (Beyond)
      S.LastAbove = At + int64_t(I);
  }
}

/// Adds a block of finite pairs and finds what it is first or largest in.
template <class T>
static void addBlock(DifferenceSums &S, const DifferenceBlock &B, const T *X,
                     const T *Y, size_t Count, int64_t At,
                     ElementTolerance Tol) {
  // In T, as the vectors have it.
  const auto Distance = [&](size_t I) { return std::fabs(Y[I] - X[I]); };
  const auto Beyond = [&](size_t I) {
    return Distance(I) >
           T(Tol.Absolute) + T(Tol.Relative) * std::fabs(X[I]);
  };
  if (B.Different && !S.FirstDifferent) {
    size_t I = 0;
    while (!(Distance(I) > 0))
      ++I;
    S.FirstDifferent = At + int64_t(I);
  }
  if (B.Above) {
    if (!S.FirstAbove) {
      size_t I = 0;
      while (!Beyond(I))
        ++I;
      S.FirstAbove = At + int64_t(I);
    }
    size_t I = Count - 1;
    while (!Beyond(I))
      --I;
    S.LastAbove = At + int64_t(I);
  }
  if (B.MaxAbs > S.MaxAbs) {
    size_t I = 0;
    while (double(Distance(I)) != B.MaxAbs)
      ++I;
    S.MaxAt = At + int64_t(I);
    S.MaxAbs = B.MaxAbs;
  }
  S.Finite += int64_t(Count);
  S.Different += B.Different;
  S.Above += B.Above;
  S.Sum += B.Sum;
  S.Squares += B.Squares;
  S.DSum += B.DSum;
  S.DAbs += B.DAbs;
  S.DSquares += B.DSquares;
  S.Product += B.Product;
}

template <class T>
static DifferenceSums ofWide(const TensorView &Ref, const TensorView &Ours,
                             int64_t Begin, int64_t End,
                             ElementTolerance Tol) {
  alignas(64) T BufferX[BlockSize];
  alignas(64) T BufferY[BlockSize];
  DifferenceSums S;
  for (int64_t At = Begin; At < End; At += int64_t(BlockSize)) {
    size_t Count = size_t(std::min<int64_t>(BlockSize, End - At));
    const T *X = elements(Ref, At, Count, BufferX);
    const T *Y = elements(Ours, At, Count, BufferY);
    const int64_t Next = At + int64_t(BlockSize);
    DifferenceBlock B = differenceOfBlock(
        X, Y, Count, Tol, {bytesAt(Ref, Next), sizeOf(Ref.Type)},
        {bytesAt(Ours, Next), sizeOf(Ours.Type)});
    if (B.Whole && std::isfinite(B.MaxAbs))
      addBlock(S, B, X, Y, Count, At, Tol);
    else
      addSlowly(S, X, Y, Count, At, Tol);
  }
  return S;
}

DifferenceSums differenceOf(const TensorView &Ref, const TensorView &Ours,
                            int64_t Begin, int64_t End, ElementTolerance T) {
  assert(0 <= Begin && End <= Ref.numel() && End <= Ours.numel());
  return fitsFloat(Ref.Type) && fitsFloat(Ours.Type)
             ? ofWide<float>(Ref, Ours, Begin, End, T)
             : ofWide<double>(Ref, Ours, Begin, End, T);
}

void DifferenceSums::append(const DifferenceSums &Next) {
  if (!FirstDifferent)
    FirstDifferent = Next.FirstDifferent;
  if (!FirstAbove)
    FirstAbove = Next.FirstAbove;
  if (Next.LastAbove)
    LastAbove = Next.LastAbove;
  if (Next.MaxAbs > MaxAbs) {
    MaxAbs = Next.MaxAbs;
    MaxAt = Next.MaxAt;
  }
  Finite += Next.Finite;
  Different += Next.Different;
  Above += Next.Above;
  RefNonFinite += Next.RefNonFinite;
  OursNonFinite += Next.OursNonFinite;
  BothNonFinite += Next.BothNonFinite;
  Sum += Next.Sum;
  Squares += Next.Squares;
  DSum += Next.DSum;
  DAbs += Next.DAbs;
  DSquares += Next.DSquares;
  Product += Next.Product;
}

double DifferenceSums::oursSquares() const {
  // |x + d|^2; rounding may leave a tiny negative number where y is zero.
  return std::max(0.0, Squares + 2 * Product + DSquares);
}
double DifferenceSums::refRms() const {
  return Finite ? std::sqrt(Squares / double(Finite)) : 0;
}
double DifferenceSums::oursRms() const {
  return Finite ? std::sqrt(oursSquares() / double(Finite)) : 0;
}
double DifferenceSums::relL2() const {
  if (DSquares == 0)
    return 0;
  return Squares == 0 ? std::numeric_limits<double>::infinity()
                      : std::sqrt(DSquares / Squares);
}
double DifferenceSums::cosine() const {
  if (DSquares == 0)
    return 1;
  double Norms = std::sqrt(Squares) * std::sqrt(oursSquares());
  if (Norms == 0)
    return 0;
  return std::clamp((Squares + Product) / Norms, -1.0, 1.0);
}

} // namespace culprit
