//===- AttentionVerbs.cpp - Where attention looks ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Verbs of tensor rows that hold attention weights, [..., queries, keys]: how
/// much of a query's weight lies where it should not.
///
//===----------------------------------------------------------------------===//

#include "Script/TensorVerbs.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// The largest share of one query's weights that lies where \p Forbidden says
/// so of the place on axis 0 (0 for a matrix), the query and the key, the last
/// two as positions of the keys; none for what is no attention.
template <typename Predicate>
static Expected<std::optional<double>>
forbiddenMass(Call &C, const TensorView &T, Predicate Forbidden) {
  if (T.Shape.size() < 2 || T.numel() == 0)
    return std::nullopt;
  int64_t Keys = T.Shape.back(), Queries = T.Shape[T.Shape.size() - 2];
  if (Queries > Keys)
    return std::nullopt;
  double Largest = 0;
  int64_t Lines = T.numel() / Keys;
  int64_t Slice = T.Shape.size() == 2 ? Lines : Lines / T.Shape[0];
  for (int64_t Line = 0; Line != Lines; ++Line) {
    if (Error Late = C.host().poll())
      return Late;
    // Queries of a decoding step are the last of the keys' positions.
    int64_t Query = Line % Queries + Keys - Queries;
    double All = 0, Wrong = 0;
    for (int64_t Key = 0; Key != Keys; ++Key) {
      double Weight = std::fabs(T.at(Line * Keys + Key));
      if (!std::isfinite(Weight))
        continue;
      All += Weight;
      if (Forbidden(Line / Slice, Query, Key))
        Wrong += Weight;
    }
    if (All > 0)
      Largest = std::max(Largest, Wrong / All);
  }
  return Largest;
}

Expected<int> rowMassAboveDiagonal(Call &C) {
  int64_t Offset = C.integer(1, 0);
  if (C.failed())
    return C.error();
  Expected<const TensorView *> T = tensorOf(C, C.selfRow());
  if (!T)
    return T.takeError();
  Expected<std::optional<double>> Mass =
      forbiddenMass(C, **T, [&](int64_t, int64_t Query, int64_t Key) {
        return Key - Query > Offset;
      });
  if (!Mass)
    return Mass.takeError();
  return C.push(*Mass);
}

Expected<int> rowMassAcross(Call &C) {
  const RowValue &Bounds = C.row(1);
  if (C.failed())
    return C.error();
  Expected<TensorPair> Pair = tensorsOf(C, Bounds);
  if (!Pair)
    return Pair.takeError();
  const TensorView &T = *Pair->Own, &B = *Pair->Other;
  if (isFloating(B.Type))
    return failure("argument 1 of 'mass_across' must be a tensor of integers");
  // A shape without elements may have any number of rows.
  if (T.Shape.empty() || T.numel() == 0)
    return C.pushNil();
  // The document that each position belongs to. Bounds beyond a row's end
  // count through the rows one after the other.
  int64_t Keys = T.Shape.back();
  int64_t Rows = T.Shape.size() > 2 ? T.Shape[0] : 1;
  std::vector<int64_t> Document(Rows * Keys, 0);
  bool Through = false;
  for (int64_t I = 0, E = B.numel(); I != E; ++I) {
    int64_t Start = B.intAt(I);
    Through |= Start > Keys;
    if (Start > 0 && Start < static_cast<int64_t>(Document.size()))
      Document[Start] = 1;
  }
  for (size_t I = 1; I < Document.size(); ++I)
    Document[I] += Document[I - 1];
  Expected<std::optional<double>> Mass =
      forbiddenMass(C, T, [&](int64_t Row, int64_t Q, int64_t K) {
        int64_t First = Through ? Row * Keys : 0;
        return Document[First + Q] != Document[First + K];
      });
  if (!Mass)
    return Mass.takeError();
  return C.push(*Mass);
}

} // namespace culprit
