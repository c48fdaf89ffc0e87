//===- KindsSlices.cpp - Slices in another order ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Orders without a formula: rows of a batch, heads, or the three parts of a
// fused QKV. Each slice of ours is recognised by a few of its elements, and
// the assignment that results is judged as any other guess.
//
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// Elements that recognise a slice.
static constexpr int64_t Marks = 8;
/// Slices of an axis that are told apart.
static constexpr int64_t MostSlices = 1024;

namespace {
/// An axis cut into slices: elements are [Outer][Slices][Width].
struct Slicing {
  int64_t Outer, Slices, Width;

  int64_t index(int64_t Slice, int64_t Mark, int64_t Count) const {
    const int64_t Around = Outer * Width;
    const int64_t Place =
        (2 * Mark + 1) * Around / (2 * Count); // the middle of each part
    return (Place / Width * Slices + Slice) * Width + Place % Width;
  }
};
} // namespace

/// Which slice of ref each slice of ours is; empty where one is none, or
/// where all stay in their places.
static std::vector<int64_t> assign(const KindSearch &S, const Slicing &C) {
  const int64_t Count = std::min(Marks, C.Outer * C.Width);
  std::vector<double> Refs;
  for (int64_t I = 0; I != C.Slices; ++I)
    for (int64_t M = 0; M != Count; ++M)
      Refs.push_back(S.ref(C.index(I, M, Count)));
  std::vector<int64_t> Out;
  bool Moved = false;
  for (int64_t I = 0; I != C.Slices; ++I) {
    int64_t Best = -1;
    double Least = std::numeric_limits<double>::infinity();
    for (int64_t J = 0; J != C.Slices; ++J) {
      double Distance = 0;
      bool Close = true;
      for (int64_t M = 0; M != Count && Close; ++M) {
        const double R = Refs[size_t(J * Count + M)];
        const double O = S.ours(C.index(I, M, Count));
        Close = S.close(O, R);
        Distance += (O - R) * (O - R);
      }
      // In its own place unless another is nearer.
      if (Close && (Distance < Least || (Distance == Least && I == J))) {
        Least = Distance;
        Best = J;
      }
    }
    if (Best < 0)
      return {};
    Moved |= Best != I;
    Out.push_back(Best);
  }
  return Moved ? Out : std::vector<int64_t>();
}

static std::string sliceTitle(const KindSearch &S, size_t D, const Slicing &C,
                              ArrayRef<int64_t> From) {
  const int64_t Size = S.dims()[D];
  std::string Out =
      C.Slices == Size
          ? formatv("the slices of dimension {0}", S.axis(D)).str()
          : formatv("the {0} blocks of {1} along dimension {2}", C.Slices,
                    Size / C.Slices, S.axis(D))
                .str();
  Out += " are in another order: ours[";
  int64_t Moved = 0, First = -1;
  for (auto [I, J] : enumerate(From))
    if (J != int64_t(I)) {
      ++Moved;
      if (First < 0)
        First = int64_t(I);
    }
  Out += formatv("{0}] = ref[{1}]", First, From[size_t(First)]).str();
  if (Moved > 1)
    Out += formatv(", {0} of {1} are moved", Moved, C.Slices).str();
  if (C.Slices == 3 && Size % 3 == 0 && isAttention(S.query()))
    Out += ", as of queries, keys and values in another order";
  return Out;
}

/// The slices of an axis, or equal blocks of it, in another order: coarse
/// blocks first. A slice of ref may be missing and another be there twice.
MaybeKind findSlicePermutation(const KindSearch &S) {
  for (size_t D = 0; D != S.dims().size(); ++D) {
    const int64_t Size = S.dims()[D];
    int64_t Outer = 1, Inner = 1;
    for (size_t I = 0; I != S.dims().size(); ++I)
      if (I != D)
        (I < D ? Outer : Inner) *= S.dims()[I];
    for (int64_t Slices = 2; Slices <= std::min(Size, MostSlices); ++Slices) {
      if (Size % Slices != 0)
        continue;
      const Slicing C{Outer, Slices, Size / Slices * Inner};
      // As many choices as elements explain anything.
      if (C.Outer * C.Width < 2)
        continue;
      std::vector<int64_t> From = assign(S, C);
      if (From.empty())
        continue;
      Fit F = S.test([&](int64_t I) {
        const int64_t At = I / C.Width % C.Slices;
        return S.ref(I + (From[size_t(At)] - At) * C.Width);
      });
      if (!F.Good)
        continue;
      const bool Batch = D == 0 && Slices == Size && !isWeight(S.query()) &&
                         S.axis(0) == 0 && S.dims().size() > 1;
      DifferenceKind Out = explained(
          Batch ? "row-order" : "slice-order",
          Batch ? "context-contamination" : "axis-permutation",
          sliceTitle(S, D, C, From) +
              (Batch ? ": rows of the batch are mixed up" : ""),
          F);
      Out.Parameters["axis"] = S.axis(D);
      Out.Parameters["slices"] = Slices;
      json::Array Order;
      for (int64_t J : ArrayRef(From).take_front(64))
        Order.push_back(J);
      Out.Parameters["from"] = std::move(Order);
      return Out;
    }
  }
  return std::nullopt;
}

/// The slices of ours along an axis are slices of ref and of its neighbours of
/// the same shape: heads of queries, keys and values that a fused tensor was
/// cut into in the wrong order.
MaybeKind findMixedSlices(const KindSearch &S) {
  const KindQuery &Q = S.query();
  const auto ParentOf = [](StringRef Name) {
    return Name.rsplit('.').first.rsplit('.').first;
  };
  SmallVector<const TensorView *, 8> From = {&Q.Ref};
  SmallVector<StringRef, 8> Names = {Q.Name};
  for (const NamedTensor &T : Q.Others)
    if (T.View.Shape == Q.Ref.Shape && From.size() < 8 &&
        ParentOf(T.Name) == ParentOf(Q.Name)) {
      From.push_back(&T.View);
      Names.push_back(T.Name);
    }
  if (From.size() < 3 || isWeight(Q))
    return std::nullopt;
  for (size_t D = 0; D != S.dims().size(); ++D) {
    const int64_t Size = S.dims()[D];
    int64_t Outer = 1, Inner = 1;
    for (size_t I = 0; I != S.dims().size(); ++I)
      if (I != D)
        (I < D ? Outer : Inner) *= S.dims()[I];
    if (Size < 2 || Size > 256 || Outer * Inner < 8)
      continue;
    const Slicing C{Outer, Size, Inner};
    const int64_t Count = std::min(Marks, Outer * Inner);
    std::vector<std::pair<size_t, int64_t>> Is;
    SmallVector<bool, 8> Used(From.size());
    for (int64_t I = 0; I != Size && int64_t(Is.size()) == I; ++I)
      for (size_t T = 0; T != From.size() && int64_t(Is.size()) == I; ++T)
        for (int64_t J = 0; J != Size && int64_t(Is.size()) == I; ++J) {
          bool Close = true;
          for (int64_t M = 0; M != Count && Close; ++M)
            Close = S.close(S.ours(C.index(I, M, Count)),
                            From[T]->at(C.index(J, M, Count)));
          if (Close) {
            Is.push_back({T, J});
            Used[T] = true;
          }
        }
    if (int64_t(Is.size()) != Size || count(Used, true) < 2)
      continue;
    Fit F = S.test([&](int64_t I) {
      const int64_t At = I / Inner % Size;
      const auto &[T, J] = Is[size_t(At)];
      return From[T]->at(I + (J - At) * Inner);
    });
    if (!F.Good)
      continue;
    std::string Says =
        formatv("the slices of dimension {0} are of several tensors of ref: "
                "ours[{1}] is that of ",
                S.axis(D), Size - 1);
    Says += formatv("{0} at {1}: a fused tensor is cut in another order",
                    Names[Is.back().first], Is.back().second);
    DifferenceKind Out =
        explained("slice-order", "axis-permutation", Says, F);
    Out.Parameters["axis"] = S.axis(D);
    Out.Parameters["slices"] = Size;
    return Out;
  }
  return std::nullopt;
}

/// A sum over elements that their order does not change.
static uint64_t orderlessHash(const TensorView &V) {
  const unsigned Size = sizeOf(V.Type);
  uint64_t Sum = 0;
  for (size_t At = 0; At + Size <= V.Bytes.size(); At += Size) {
    uint64_t Bits = 0;
    std::memcpy(&Bits, V.Bytes.data() + At, Size);
    Bits = (Bits + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    Bits = (Bits ^ Bits >> 31) * 0x94d049bb133111eb;
    Sum += Bits ^ Bits >> 29;
  }
  return Sum;
}

/// Exactly the same values in an order that no other kind describes.
MaybeKind findReorder(const KindSearch &S) {
  const KindQuery &Q = S.query();
  if (Q.Ref.Type != Q.Ours.Type || S.numel() < 4 ||
      orderlessHash(Q.Ref) != orderlessHash(Q.Ours))
    return std::nullopt;
  Fit F;
  F.Share = F.Explained = 0.9; // which order is open
  return explained("reorder", "axis-permutation",
                   "ours has exactly the values of ref, in another order", F);
}

} // namespace culprit
