//===- KindsOrder.cpp - The same values along other axes --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Ours holds the reference's values in another order that has a short
// description: each function enumerates one family of index maps. A wrong map
// is found out on a few elements, so that families of hundreds are cheap.
//
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

using namespace llvm;

namespace culprit {

/// Dimensions of the reference around axis \p D of S.dims().
static std::pair<int64_t, int64_t> around(const KindSearch &S, size_t D) {
  int64_t Outer = 1, Inner = 1;
  for (size_t I = 0; I != S.dims().size(); ++I)
    if (I != D)
      (I < D ? Outer : Inner) *= S.dims()[I];
  return {Outer, Inner};
}

static std::string listed(ArrayRef<int64_t> Values) {
  std::string Out = "[";
  for (auto [I, Value] : enumerate(Values))
    Out += (I ? ", " : "") + std::to_string(Value);
  return Out + "]";
}

/// ours[.., i, ..] = ref[.., n - 1 - i, ..] along one axis, or along all.
MaybeKind findFlip(const KindSearch &S) {
  const int64_t N = S.numel();
  for (size_t D = 0; D != S.dims().size(); ++D) {
    const int64_t Size = S.dims()[D];
    const int64_t Inner = around(S, D).second;
    Fit F = S.test([&](int64_t I) {
      const int64_t At = I / Inner % Size;
      return S.ref(I + (Size - 1 - 2 * At) * Inner);
    });
    if (!F.Good)
      continue;
    const bool Colours =
        Size == 3 && S.dims().size() > 1 && !isWeight(S.query());
    // The first axis of a cache is the batch.
    const bool Rows = S.axis(D) == 0 && isCache(S.query());
    DifferenceKind Out = explained(
        "flip",
        Rows      ? "context-contamination"
        : Colours ? "channel-order-mismatch"
                  : "axis-permutation",
        "ours is ref reversed along dimension " + Twine(S.axis(D)) +
            (Rows      ? ": rows of the batch are mixed up"
             : Colours ? ", as of RGB taken for BGR"
                       : ""),
        F);
    Out.Parameters["axis"] = S.axis(D);
    return Out;
  }
  if (S.dims().size() < 2)
    return std::nullopt;
  Fit F = S.test([&](int64_t I) { return S.ref(N - 1 - I); });
  if (!F.Good)
    return std::nullopt;
  return explained("flip", "axis-permutation",
                   "ours is ref reversed along all dimensions", F);
}

/// ours[.., i, ..] = ref[.., i - k, ..] along one axis: the whole axis turned
/// round, or moved with other values at its end. Every k of axes up to 4,096;
/// 64 of longer ones.
MaybeKind findShift(const KindSearch &S) {
  for (size_t D = S.dims().size(); D-- != 0;) {
    const int64_t Size = S.dims()[D];
    const auto [Outer, Inner] = around(S, D);
    const int64_t Most = Size <= 4096 ? Size / 2 : 64;
    for (int64_t Step = 2; Step <= 2 * Most + 1; ++Step) {
      const int64_t K = Step / 2 * (Step % 2 ? -1 : 1);
      if (std::llabs(K) >= Size)
        continue;
      bool Wraps = true;
      const auto Moved = [&](int64_t I) {
        const int64_t From = I / Inner % Size - K;
        if (From < 0 || From >= Size) {
          if (!Wraps)
            return NoPrediction;
          return S.ref(I + (-K + (From < 0 ? Size : -Size)) * Inner);
        }
        return S.ref(I - K * Inner);
      };
      Fit F = S.test(Moved);
      if (!F.Good) {
        // Without the ends; these must not be most of the axis, nor may a
        // handful of elements decide.
        Wraps = false;
        if (2 * std::llabs(K) > Size ||
            (Size - std::llabs(K)) * Outer * Inner < 6)
          continue;
        F = S.test(Moved);
        // A row that repeats is its own neighbour.
        if (!F.Good || F.Explained < 0.9)
          continue;
      }
      const bool One = std::llabs(K) == 1;
      const bool Rows = S.axis(D) == 0 && isCache(S.query());
      DifferenceKind Out = explained(
          "shift",
          Rows                          ? "context-contamination"
          : One && !isWeight(S.query()) ? "off-by-one-position"
                                        : "axis-permutation",
          formatv("ours is ref {0} by {1} along dimension {2}: ours[i] = "
                  "ref[i {3} {1}]{4}",
                  Wraps ? "rolled" : "shifted", std::llabs(K), S.axis(D),
                  K > 0 ? "-" : "+",
                  Rows ? ", rows of the batch are mixed up" : "")
              .str(),
          F);
      Out.Parameters["axis"] = S.axis(D);
      Out.Parameters["by"] = K;
      Out.Parameters["wraps"] = Wraps;
      return Out;
    }
  }
  return std::nullopt;
}

/// The flat index of ref that lies at flat index \p I after its axes \p Dims
/// were put into the order \p Order.
static int64_t permuted(int64_t I, ArrayRef<int64_t> Dims,
                        ArrayRef<unsigned> Order) {
  int64_t Index[8];
  for (size_t A = Order.size(); A-- != 0;) {
    const int64_t Size = Dims[Order[A]];
    Index[Order[A]] = I % Size;
    I /= Size;
  }
  int64_t Out = 0;
  for (size_t A = 0; A != Dims.size(); ++A)
    Out = Out * Dims[A] + Index[A];
  return Out;
}

/// What an order of axes is called, and its class.
static std::pair<std::string, StringRef>
permutationTitle(const KindSearch &S, ArrayRef<unsigned> Order) {
  const size_t Rank = Order.size();
  if (isWeight(S.query()) && Rank == 2)
    return {"ours is ref transposed", "weight-transposed"};
  if (Rank == 4 && !isAttention(S.query())) {
    if (Order == ArrayRef<unsigned>({0, 2, 3, 1}))
      return {"ours has the channels last (NHWC), ref first (NCHW)",
              "channel-order-mismatch"};
    if (Order == ArrayRef<unsigned>({0, 3, 1, 2}))
      return {"ours has the channels first (NCHW), ref last (NHWC)",
              "channel-order-mismatch"};
  }
  std::vector<int64_t> Axes;
  for (unsigned A : Order)
    Axes.push_back(S.axis(A));
  if (Rank == 2)
    return {"ours is ref transposed", "axis-permutation"};
  return {"ours is ref with its dimensions in the order " + listed(Axes),
          "axis-permutation"};
}

/// ours holds ref with its axes permuted: as its shape says, or under the
/// shape of the reference, where a reshape was used for a transpose.
MaybeKind findAxisPermutation(const KindSearch &S) {
  const size_t Rank = S.dims().size();
  if (Rank < 2 || Rank > 5)
    return std::nullopt;
  SmallVector<unsigned, 5> Order(Rank);
  std::iota(Order.begin(), Order.end(), 0);
  while (std::next_permutation(Order.begin(), Order.end())) {
    Fit F = S.test(
        [&](int64_t I) { return S.ref(permuted(I, S.dims(), Order)); });
    if (!F.Good)
      continue;
    SmallVector<int64_t, 5> Becomes, Has;
    for (unsigned A : Order)
      Becomes.push_back(S.dims()[A]);
    for (int64_t Size : S.query().Ours.Shape)
      if (Size != 1)
        Has.push_back(Size);
    auto [Title, Class] = permutationTitle(S, Order);
    const bool Reshaped = Becomes != Has;
    if (Reshaped)
      Title += ", under the shape " + listed(S.query().Ours.Shape) +
               ": a reshape stands where a transpose should";
    DifferenceKind Out = explained(
        Reshaped ? "reshape-for-transpose" : "axis-permutation", Class, Title,
        F);
    json::Array Axes;
    for (unsigned A : Order)
      Axes.push_back(S.axis(A));
    Out.Parameters["order"] = std::move(Axes);
    return Out;
  }
  return std::nullopt;
}

/// The divisors of \p N but N itself, from 1 on.
static SmallVector<int64_t, 32> divisors(int64_t N) {
  SmallVector<int64_t, 32> Out;
  for (int64_t D = 1; D <= N / 2 && D <= 65536; ++D)
    if (N % D == 0)
      Out.push_back(D);
  return Out;
}

/// Whether an axis of \p Channels times \p Places elements was flattened from
/// pictures of the reference: a dumped tensor of as many elements has channels
/// and places as its dimensions, channels first or last.
static bool flattensPictures(const KindSearch &S, int64_t Channels,
                             int64_t Places) {
  for (const NamedTensor &T : S.query().Others) {
    const ArrayRef<int64_t> Shape = T.View.Shape;
    if (Shape.size() == 4 && T.View.numel() == S.numel() &&
        ((Shape[1] == Channels && Shape[2] * Shape[3] == Places) ||
         (Shape[3] == Channels && Shape[1] * Shape[2] == Places)))
      return true;
  }
  return false;
}

/// Within one axis of size h g r, taken as (h, g, r), the last two are
/// swapped. g = 2 or r = 2 within a head is the two layouts of rotary
/// embeddings, interleaved pairs and halves; h = 1 is heads that are
/// interleaved instead of contiguous.
MaybeKind findInterleave(const KindSearch &S) {
  for (size_t D = S.dims().size(); D-- != 0;) {
    const int64_t Size = S.dims()[D];
    if (Size < 4 || Size > 1'000'000)
      continue;
    const int64_t Inner = around(S, D).second;
    for (int64_t H : divisors(Size))
      for (int64_t G : divisors(Size / H)) {
        const int64_t R = Size / H / G;
        if (G == 1 || R == 1)
          continue;
        Fit F = S.test([&](int64_t I) {
          // Ours is (h, r, g) where ref is (h, g, r).
          const int64_t At = I / Inner % Size;
          const int64_t Within = At % (G * R);
          const int64_t From = At - Within + Within % G * R + Within / G;
          return S.ref(I + (From - At) * Inner);
        });
        if (!F.Good)
          continue;
        const bool Pairs = G == 2 || R == 2;
        const bool Rotary = Pairs && (H > 1 || isAttention(S.query()));
        std::string Says =
            formatv("along dimension {0} ours is ref taken as [{1}, {2}, {3}] "
                    "with the last two swapped",
                    S.axis(D), H, G, R)
                .str();
        if (Rotary)
          Says += G == 2 ? ": halves in the reference, interleaved pairs in "
                           "ours, as of the two rotary layouts"
                         : ": interleaved pairs in the reference, halves in "
                           "ours, as of the two rotary layouts";
        const bool Pictures =
            !Rotary && H == 1 &&
            (flattensPictures(S, G, R) || flattensPictures(S, R, G));
        if (Pictures)
          Says += ": channels come first in one and last in the other, as of "
                  "pictures flattened in NCHW and in NHWC";
        DifferenceKind Out = explained(
            Rotary ? "rotary-interleave" : "interleave",
            Rotary     ? "rope-layout-permutation-missing"
            : Pictures ? "channel-order-mismatch"
                       : "axis-permutation",
            Says, F);
        Out.Parameters["axis"] = S.axis(D);
        Out.Parameters["groups"] = H;
        Out.Parameters["rows"] = G;
        Out.Parameters["columns"] = R;
        return Out;
      }
  }
  return std::nullopt;
}

/// Two neighbouring axes (t, c) with c = h d hold (t, h, d) on one side and
/// (h, t, d) on the other: heads merged or split by a reshape alone.
MaybeKind findHeadMerge(const KindSearch &S) {
  for (size_t A = 0; A + 1 < S.dims().size(); ++A) {
    const int64_t T = S.dims()[A], C = S.dims()[A + 1];
    const int64_t Inner = around(S, A + 1).second;
    for (int64_t H : divisors(C)) {
      const int64_t Width = C / H;
      if (H == 1)
        continue;
      for (bool Split : {false, true}) {
        Fit F = S.test([&](int64_t I) {
          const int64_t Block = T * C * Inner;
          const int64_t Low = I % Inner, At = I % Block / Inner;
          const int64_t W = At % Width, Rest = At / Width;
          // Ours holds (h, t, d), or (t, h, d), in these places.
          const int64_t Head = Split ? Rest % H : Rest / T;
          const int64_t Row = Split ? Rest / H : Rest % T;
          const int64_t From = Split ? (Head * T + Row) * Width + W
                                     : (Row * H + Head) * Width + W;
          return S.ref(I - I % Block + From * Inner + Low);
        });
        if (!F.Good)
          continue;
        DifferenceKind Out = explained(
            "head-merge", "axis-permutation",
            formatv("ours is ref with {0} heads of {1} {2} without a "
                    "transpose of dimensions {3} and {4}: a reshape stands "
                    "where a transpose should",
                    H, Width, Split ? "split" : "merged", S.axis(A),
                    S.axis(A + 1))
                .str(),
            F);
        Out.Parameters["heads"] = H;
        Out.Parameters["width"] = Width;
        Out.Parameters["axis"] = S.axis(A);
        return Out;
      }
    }
  }
  return std::nullopt;
}

} // namespace culprit
