//===- KindsCache.cpp - Caches and tables of positions ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Differences by position: another row of a learned table is added, or what a
// cache holds from some index on lies in the neighbouring slots.
//
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

namespace {
/// A table whose row Start + t is added at index t of an axis.
struct TableUse {
  const NamedTensor &Table;
  int64_t Start, Size, Inner, Width;

  int64_t row(int64_t I) const { return Start + I / Inner % Size; }
  int64_t rows() const { return Table.View.Shape[0]; }
  /// Element of \p Row that belongs to flat index \p I.
  double at(int64_t Row, int64_t I) const {
    return Table.View.at(Row * Width + I % Width);
  }
};
} // namespace

/// What is wrong with the use \p U of a table of positions, if anything.
static MaybeKind misused(const KindSearch &S, const TableUse &U) {
  const std::string &Name = U.Table.Name;
  for (int64_t K : {1, -1, 2, -2}) {
    Fit F = S.test([&](int64_t I) {
      const int64_t Row = U.row(I), Taken = Row + K;
      if (Taken < 0 || Taken >= U.rows())
        return NoPrediction;
      return S.ref(I) + U.at(Taken, I) - U.at(Row, I);
    });
    if (!F.Good || F.Explained < 0.9)
      continue;
    DifferenceKind Out = explained(
        "position-shift", positionClass(S.query()),
        formatv("ours adds row t {0} {1} of {2} where ref adds row t: "
                "positions are off by {1}",
                K > 0 ? "+" : "-", std::llabs(K), Name)
            .str(),
        F);
    Out.Parameters["table"] = Name;
    Out.Parameters["positions"] = K;
    return Out;
  }
  // Every position is the first.
  Fit F = S.test([&](int64_t I) {
    return S.ref(I) + U.at(U.Start, I) - U.at(U.row(I), I);
  });
  if (F.Good) {
    DifferenceKind Out = explained(
        "position-shift",
        isCache(S.query()) ? "kv-cache-stale-position"
                           : "position-encoding-missing",
        "ours adds row " + Twine(U.Start) + " of " + Name +
            " at every position: positions do not advance",
        F);
    Out.Parameters["table"] = Name;
    return Out;
  }
  for (int Times : {-1, 1}) {
    F = S.test([&](int64_t I) { return S.ref(I) + Times * U.at(U.row(I), I); });
    if (!F.Good)
      continue;
    DifferenceKind Out = explained(
        Times < 0 ? "missing-term" : "extra-term",
        Times < 0 ? "position-encoding-missing" : "bias-missing",
        Times < 0 ? "ours does not add " + Name + ": positions are missing"
                  : "ours adds " + Name + " once more",
        F);
    Out.Parameters["term"] = Name;
    Out.Parameters["times"] = Times;
    return Out;
  }
  return std::nullopt;
}

/// ours adds row a of a table to all rows where ref adds row b: a single
/// position, as of a token that is decoded.
static MaybeKind misusedOnce(const KindSearch &S, const NamedTensor &T,
                             int64_t Width) {
  const int64_t Rows = T.View.Shape[0];
  if (Rows > 1024 || Width < 8)
    return std::nullopt;
  for (int64_t B = 0; B != Rows; ++B)
    for (int64_t A = 0; A != Rows; ++A) {
      const auto Change = [&](int64_t I) {
        return T.View.at(A * Width + I % Width) -
               T.View.at(B * Width + I % Width);
      };
      bool Near = A != B;
      for (int64_t I = 0; I != 8 && Near; ++I)
        Near = S.close(S.ours(I), S.ref(I) + Change(I));
      if (!Near)
        continue;
      Fit F = S.test([&](int64_t I) { return S.ref(I) + Change(I); });
      if (!F.Good || F.Explained < 0.9)
        continue;
      DifferenceKind Out = explained(
          "position-shift",
          B - A == 1 || A - B == 1 ? positionClass(S.query())
                                   : "kv-cache-stale-position",
          formatv("ours adds row {0} of {1} where ref adds row {2}: positions "
                  "are off by {3}",
                  A, T.Name, B, A - B)
              .str(),
          F);
      Out.Parameters["table"] = T.Name;
      Out.Parameters["positions"] = A - B;
      return Out;
    }
  return std::nullopt;
}

/// ours adds other rows of a dumped table of positions than ref, or none.
MaybeKind findPositionTable(const KindSearch &S) {
  if (isWeight(S.query()) || S.dims().empty())
    return std::nullopt;
  const int64_t Width = S.dims().back();
  const ArrayRef<int64_t> Shape = S.query().Ref.Shape;
  for (const NamedTensor &T : S.query().Tables) {
    int64_t Inner = Width;
    for (size_t D = S.dims().size() - 1; D-- != 0; Inner *= S.dims()[D])
      // Some tables begin with two rows for padding.
      for (int64_t Start : {0, 2})
        if (const int64_t Size = S.dims()[D];
            Start + Size <= T.View.Shape[0])
          if (MaybeKind Found = misused(S, {T, Start, Size, Inner, Width}))
            return Found;
    // [batch, 1, width]
    if (Shape.size() > 1 && Shape[Shape.size() - 2] == 1)
      if (MaybeKind Found = misusedOnce(S, T, Width))
        return Found;
  }
  return std::nullopt;
}

/// ours[.., i, ..] = ref[.., i - k, ..] from an index of an axis on, and equal
/// before it: what is appended after a prompt goes to the wrong slots.
MaybeKind findShiftFrom(const KindSearch &S) {
  if (isWeight(S.query()))
    return std::nullopt;
  const Box B = differingBox(S);
  int64_t Inner = 1;
  for (size_t D = B.First.size(); D-- != 0; Inner *= S.dims()[D]) {
    const int64_t Size = S.dims()[D], First = B.First[D], Last = B.Last[D];
    // Free slots behind the last one are equal. A cache may have these; of
    // other tensors the rest of the axis must differ.
    if (First == 0 || (Last + 1 != Size && !isCache(S.query())) ||
        Last - First < 2)
      continue;
    for (int64_t K : {1, -1, 2, -2}) {
      const auto From = [&](int64_t I) { return I / Inner % Size - K; };
      // The first slots after the prompt, or the last, hold anything.
      const int64_t Begin = First + (K > 0 ? K - 1 : 0);
      Fit F = S.test([&](int64_t I) {
        const int64_t At = I / Inner % Size;
        if (At <= Begin && K > 0)
          return At < First ? S.ref(I) : NoPrediction;
        if (At < First || At > Last)
          return S.ref(I);
        return From(I) >= Size ? NoPrediction : S.ref(I - K * Inner);
      });
      // Elements before the band agree in any case, so the others decide.
      const int64_t Told = (Last + 1 - First - std::llabs(K)) *
                           (S.numel() / Size);
      if (!F.Good || F.Explained < 0.9 || Told < 6 ||
          2 * std::llabs(K) > Last + 1 - First)
        continue;
      DifferenceKind Out = explained(
          "shift", "kv-cache-append-index",
          formatv("ours agrees up to index {0} of dimension {1} and is ref "
                  "shifted by {2} from there on: what is appended goes to the "
                  "wrong index",
                  First, S.axis(D), K)
              .str(),
          F);
      Out.Parameters["axis"] = S.axis(D);
      Out.Parameters["by"] = K;
      Out.Parameters["from"] = First;
      return Out;
    }
  }
  return std::nullopt;
}

} // namespace culprit
