//===- Statistics.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A tensor is read once, block by block, and the blocks' moments are merged in
// order (Chan, Golub and LeVeque 1983). Pieces of 2^20 elements are done by any
// thread and merged in order too, so the number of threads changes nothing.
//
// In a block the sums are taken about a K that is its first finite value, or 0
// where that is good enough (Blocks.cpp). The first is stable whatever the mean
// is: K belongs to the data, so (K - mean)^2 is at most their summed squared
// deviation M2, and of the n terms of sum (x - K)^2 = M2 + n (K - mean)^2 no
// more than log2(n+1) = 11 of 53 bits can cancel. With 0 it is 10, as M2 is
// then at least 2^-10 of the sum. The norm is sqrt(M2 + n mean^2), a sum of
// positive terms.
//
// A type of one byte has 256 values: they are counted, and every statistic
// comes from the counts.
//
//===----------------------------------------------------------------------===//

#include "Tensor/Blocks.h"
#include "Tensor/Convert.h"
#include "Support/Parallel.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <bit>

using namespace llvm;

namespace culprit {

namespace {
/// Count, mean and summed squared deviation of the finite values so far.
struct Moments {
  int64_t Count = 0;
  double Mean = 0;
  double M2 = 0;

  void merge(int64_t OtherCount, double OtherMean, double OtherM2) {
    double Total = double(Count + OtherCount);
    double Delta = OtherMean - Mean;
    Mean += Delta * (double(OtherCount) / Total);
    M2 += OtherM2 +
          Delta * Delta * (double(Count) * (double(OtherCount) / Total));
    Count += OtherCount;
  }
};
} // namespace

/// Elements of a piece of work. Fixed: the order of the sums follows from it.
static constexpr size_t Piece = size_t(1) << 20;
static_assert(Piece % BlockSize == 0);

static void finish(TensorStatistics &S, const Moments &M, double Scale) {
  S.Finite = M.Count;
  if (M.Count == 0)
    return;
  double Count = double(M.Count);
  double Squares = M.M2 + Count * (M.Mean * M.Mean);
  S.Mean = M.Mean / Scale;
  S.StdDev = std::sqrt(M.M2 / Count) / Scale;
  S.Rms = std::sqrt(Squares / Count) / Scale;
  S.L2 = std::sqrt(Squares) / Scale;
  // A zero has no sign in a report; which of the two came first would show
  // the order of the lanes.
  S.Min += 0.0;
  S.Max += 0.0;
  S.Mean += 0.0;
}

static void merge(TensorStatistics &S, Moments &M, const BlockSummary &B,
                  size_t Count, int64_t At) {
  S.Zero += B.Zero;
  S.Subnormal += B.Subnormal;
  S.NearMax += B.NearMax;
  if (int64_t NonFinite = B.NaN + B.Inf) {
    S.NaN += B.NaN;
    S.Inf += B.Inf;
    Count -= NonFinite;
    if (!S.FirstNonFinite)
      S.FirstNonFinite = At + int64_t(B.FirstNonFinite);
    if (Count == 0)
      return;
  }
  bool First = M.Count == 0;
  S.Min = First ? B.Min : std::min(S.Min, B.Min);
  S.Max = First ? B.Max : std::max(S.Max, B.Max);
  S.AbsMax = std::max(S.AbsMax, B.AbsMax);
  double Shift = B.Sum / double(Count);
  M.merge(Count, B.Pivot + Shift,
          std::max(0.0, B.SumOfSquares - B.Sum * Shift));
}

template <class T> static Bounds<T> boundsOf(DType Type) {
  using Bits = decltype(Bounds<T>::NearMax);
  constexpr Bits Infinity =
      std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  if (!isFloating(Type))
    return {1, Infinity}; // only zero is below 1: nothing is subnormal
  return {std::bit_cast<Bits>(T(smallestNormal(Type))),
          std::bit_cast<Bits>(T(largest(Type) / 2))};
}

namespace {
/// What is known of a piece of a tensor.
struct Part {
  TensorStatistics S;
  Moments M;

  /// Adds what is known of the elements that follow.
  void append(const Part &Next) {
    S.NaN += Next.S.NaN;
    S.Inf += Next.S.Inf;
    S.Zero += Next.S.Zero;
    S.Subnormal += Next.S.Subnormal;
    S.NearMax += Next.S.NearMax;
    if (!S.FirstNonFinite)
      S.FirstNonFinite = Next.S.FirstNonFinite;
    if (Next.M.Count == 0)
      return;
    const bool First = M.Count == 0;
    S.Min = First ? Next.S.Min : std::min(S.Min, Next.S.Min);
    S.Max = First ? Next.S.Max : std::max(S.Max, Next.S.Max);
    S.AbsMax = std::max(S.AbsMax, Next.S.AbsMax);
    M.merge(Next.M.Count, Next.M.Mean, Next.M.M2);
  }
};
} // namespace

/// Elements \p Begin to \p End, widened to T, times \p Scale.
template <class T>
static Part ofPiece(const TensorView &View, size_t Begin, size_t End,
                    double Scale) {
  const Bounds<T> B = boundsOf<T>(View.Type);
  const size_t Size = sizeOf(View.Type);
  const bool AsIs = Scale == 1.0 && Size == sizeof(T) && isFloating(View.Type);
  alignas(64) T Buffer[BlockSize];
  Part Out;
  for (size_t At = Begin; At < End; At += BlockSize) {
    const uint8_t *Bytes = View.Bytes.data() + At * Size;
    size_t Count = std::min(BlockSize, End - At);
    const T *X = Buffer;
    if (AsIs && reinterpret_cast<uintptr_t>(Bytes) % alignof(T) == 0)
      X = reinterpret_cast<const T *>(Bytes);
    else
      widen(View.Type, Bytes, Count, Buffer);
    if (Scale != 1.0)
      for (T &Value : MutableArrayRef<T>(Buffer, Count))
        Value *= T(Scale);
    BlockSummary Block;
    if constexpr (sizeof(T) == sizeof(float))
      Block = summarize(X, Count, B, Ahead{Bytes + BlockSize * Size, Size});
    else
      Block = summarize(X, Count, B);
    merge(Out.S, Out.M, Block, Count, int64_t(At));
  }
  return Out;
}

/// Statistics of values that are widened to T, times \p Scale.
template <class T>
static TensorStatistics ofWide(const TensorView &View, double Scale,
                               unsigned Threads) {
  const size_t Numel = View.numel();
  std::vector<Part> Parts((Numel + Piece - 1) / Piece);
  inParallel(Parts.size(), Threads, [&](size_t I) {
    Parts[I] = ofPiece<T>(View, I * Piece, std::min(Numel, (I + 1) * Piece),
                          Scale);
  });
  Part Whole;
  for (const Part &P : Parts)
    Whole.append(P);
  finish(Whole.S, Whole.M, Scale);
  return Whole.S;
}

/// A double may be so large or small that its square is not one. Such a tensor
/// is read again, scaled by a power of two.
static TensorStatistics ofFloat64(const TensorView &View, unsigned Threads) {
  TensorStatistics S = ofWide<double>(View, 1, Threads);
  double Scale = S.AbsMax > 0x1p490                     ? 0x1p-540
                 : S.AbsMax != 0 && S.AbsMax < 0x1p-450 ? 0x1p540
                                                        : 1;
  if (Scale == 1)
    return S;
  TensorStatistics Scaled = ofWide<double>(View, Scale, Threads);
  S.Mean = Scaled.Mean;
  S.StdDev = Scaled.StdDev;
  S.Rms = Scaled.Rms;
  S.L2 = Scaled.L2;
  return S;
}

/// Counts the bytes of \p Bytes into \p Counts. Eight tables, since a run of
/// equal bytes would make each increment wait for the one before it.
static void countBytes(ArrayRef<uint8_t> Bytes, int64_t (&Counts)[256]) {
  uint32_t Tables[8][256] = {};
  size_t I = 0;
  for (; I + 8 <= Bytes.size(); I += 8) {
    uint64_t Word = loadAs<uint64_t>(Bytes.data() + I);
#pragma GCC unroll 8
    for (unsigned J = 0; J != 8; ++J)
      ++Tables[J][Word >> 8 * J & 255];
  }
  for (; I != Bytes.size(); ++I)
    ++Tables[0][Bytes[I]];
  for (unsigned Code = 0; Code != 256; ++Code)
    for (unsigned J = 0; J != 8; ++J)
      Counts[Code] += Tables[J][Code];
}

static TensorStatistics ofBytes(const TensorView &View, unsigned Threads) {
  double Values[256];
  bool Finite[256];
  for (unsigned Code = 0; Code != 256; ++Code) {
    uint8_t Byte = uint8_t(Code);
    Values[Code] = TensorView{View.Type, {1}, ArrayRef<uint8_t>(Byte)}.at(0);
    Finite[Code] = std::isfinite(Values[Code]);
  }
  const size_t Numel = View.numel();
  struct Counted {
    int64_t Counts[256] = {};
    std::optional<int64_t> FirstNonFinite;
  };
  std::vector<Counted> Pieces((Numel + Piece - 1) / Piece);
  inParallel(Pieces.size(), Threads, [&](size_t I) {
    Counted &C = Pieces[I];
    ArrayRef<uint8_t> Bytes =
        View.Bytes.slice(I * Piece, std::min(Piece, Numel - I * Piece));
    countBytes(Bytes, C.Counts);
    bool Some = false;
    for (unsigned Code = 0; Code != 256; ++Code)
      Some |= C.Counts[Code] != 0 && !Finite[Code];
    // A second look finds the piece in the cache.
    if (Some)
      C.FirstNonFinite =
          int64_t(I * Piece) +
          (find_if(Bytes, [&](uint8_t B) { return !Finite[B]; }) -
           Bytes.begin());
  });
  TensorStatistics S;
  int64_t Counts[256] = {};
  for (const Counted &C : Pieces) {
    for (unsigned Code = 0; Code != 256; ++Code)
      Counts[Code] += C.Counts[Code];
    if (!S.FirstNonFinite)
      S.FirstNonFinite = C.FirstNonFinite;
  }

  const double Near = largest(View.Type) / 2;
  const double Normal = smallestNormal(View.Type);
  Moments M;
  for (unsigned Code = 0; Code != 256; ++Code) {
    if (Counts[Code] == 0)
      continue;
    double Value = Values[Code], Abs = std::fabs(Value);
    if (!Finite[Code]) {
      (std::isnan(Value) ? S.NaN : S.Inf) += Counts[Code];
      continue;
    }
    if (Value == 0)
      S.Zero += Counts[Code];
    else if (Abs < Normal)
      S.Subnormal += Counts[Code];
    else if (isFloating(View.Type) && Abs > Near)
      S.NearMax += Counts[Code];
    S.Min = M.Count == 0 ? Value : std::min(S.Min, Value);
    S.Max = M.Count == 0 ? Value : std::max(S.Max, Value);
    S.AbsMax = std::max(S.AbsMax, Abs);
    M.merge(Counts[Code], Value, 0);
  }
  finish(S, M, 1);
  return S;
}

TensorStatistics statisticsOf(const TensorView &T, unsigned Threads) {
  assert(uint64_t(T.numel()) * sizeOf(T.Type) <= T.Bytes.size());
  if (sizeOf(T.Type) == 1)
    return ofBytes(T, Threads);
  if (T.Type == DType::Float64)
    return ofFloat64(T, Threads);
  return fitsFloat(T.Type) ? ofWide<float>(T, 1, Threads)
                           : ofWide<double>(T, 1, Threads);
}

} // namespace culprit
