//===- LogitVerbs.cpp - What logits say -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Verbs of tensor rows that walk along one axis: where two tensors differ,
/// what logits predict, and what they cost against labels. Logits are
/// [..., positions, vocabulary].
///
//===----------------------------------------------------------------------===//

#include "Script/TensorVerbs.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

static constexpr double Infinity = std::numeric_limits<double>::infinity();

/// |x - y|; infinite where one side alone is finite, 0 where both are NaN.
static double distance(double X, double Y) {
  if (X == Y || (std::isnan(X) && std::isnan(Y)))
    return 0;
  double D = std::fabs(X - Y);
  return std::isfinite(D) ? D : Infinity;
}

Expected<int> rowDifferenceAlong(Call &C) {
  lua_State *L = C.state();
  const RowValue &Reference = C.row(1);
  int64_t Axis = C.integer(2);
  int64_t First = C.integer(3, 0);
  int64_t Other = C.integer(4, First);
  if (C.failed())
    return C.error();
  Expected<TensorPair> Pair = tensorsOf(C, Reference);
  if (!Pair)
    return Pair.takeError();
  const TensorView &A = *Pair->Own, &B = *Pair->Other;
  ArrayRef<int64_t> Shape = A.Shape;
  if (Shape != ArrayRef<int64_t>(B.Shape))
    return C.pushNil();
  if (Error E = checkAxis(A, Axis))
    return E;
  int64_t Elements = A.numel();
  int64_t Length = Shape[Axis];
  if (Length > MaxEntries)
    return failure("difference_along() would make a list of " + Twine(Length) +
                   " numbers; the limit is " + Twine(MaxEntries));
  // Elements of B lie Offset behind their partners in A.
  int64_t Begin = 0, End = Elements, Offset = 0;
  if (!C.missing(3)) {
    for (int64_t Place : {First, Other})
      if (Place < 0 || Place >= Shape[0])
        return failure("axis 0 has " + Twine(Shape[0]) +
                       " places and no place " + Twine(Place));
    int64_t Slice = Elements / Shape[0];
    Begin = First * Slice;
    End = Begin + Slice;
    Offset = (Other - First) * Slice;
  }
  int64_t Inner = 1;
  for (int64_t D : Shape.drop_front(Axis + 1))
    Inner *= D;

  std::vector<double> Largest(Length, 0.0);
  for (int64_t Run = Begin; Run < End; Run += Inner) {
    double &At = Largest[Run / Inner % Length];
    for (int64_t I = Run; I != Run + Inner; ++I)
      At = std::max(At, distance(A.at(I), B.at(I + Offset)));
    if (Error Late = C.host().poll())
      return Late;
  }
  lua_createtable(L, static_cast<int>(Length), 0);
  for (int64_t I = 0; I != Length; ++I) {
    lua_pushnumber(L, Largest[I]);
    lua_rawseti(L, -2, I + 1);
  }
  return 1;
}

namespace {
/// Logits beside what stands at their positions.
struct Predictions {
  const TensorView *Logits, *Other;
  int64_t Positions, Length, Vocabulary;
  int64_t Shift;
  std::optional<int64_t> Ignore;

  /// Position of the largest logit at \p Position; none beside a NaN.
  static std::optional<int64_t> largestOf(const TensorView &T, int64_t Position,
                                          int64_t Vocabulary) {
    int64_t Best = 0;
    double Value = T.at(Position * Vocabulary);
    for (int64_t I = 0; I != Vocabulary; ++I) {
      double X = T.at(Position * Vocabulary + I);
      if (std::isnan(X))
        return std::nullopt;
      if (X > Value) {
        Best = I;
        Value = X;
      }
    }
    return Best;
  }

  /// The label at \p Position of the shifted labels; none past the line's end
  /// and where it is ignored.
  std::optional<int64_t> label(int64_t Position) const {
    int64_t At = Position % Length + Shift;
    if (At < 0 || At >= Length)
      return std::nullopt;
    int64_t Label = Other->intAt(Position + Shift);
    if (Ignore && Label == *Ignore)
      return std::nullopt;
    return Label;
  }
};
} // namespace

/// The receiver as logits, or as hidden states of another width, and argument
/// \p At as integers of its shape without the last axis, or with one of 1 for
/// it, or with more rows, of which the first count; the two arguments after it
/// are shift and ignored label. None when the shapes do not fit.
static Expected<std::optional<Predictions>> predictionsOf(Call &C, int At = 1) {
  const RowValue &Other = C.row(At);
  int64_t Shift = C.integer(At + 1, 0);
  std::optional<int64_t> Ignore;
  if (!C.missing(At + 2))
    Ignore = C.integer(At + 2);
  if (C.failed())
    return C.error();
  Expected<TensorPair> Pair = tensorsOf(C, Other);
  if (!Pair)
    return Pair.takeError();
  const TensorView &Logits = *Pair->Own, &Labels = *Pair->Other;
  ArrayRef<int64_t> Shape = Logits.Shape, Theirs = Labels.Shape;
  // A table's target is a column of its own: [B, 1] beside logits [B, C].
  if (Theirs.size() == Shape.size() && Shape.size() >= 2 && Shape.back() > 1 &&
      Theirs.back() == 1)
    Theirs = Theirs.drop_back();
  // Recorders thin logits to the first rows of a batch.
  if (Shape.size() < 2 || Logits.numel() == 0 ||
      Theirs.size() + 1 != Shape.size() || Shape[0] > Theirs[0] ||
      Shape.drop_back().drop_front() != Theirs.drop_front())
    return std::nullopt;
  if (isFloating(Labels.Type))
    return failure("argument " + Twine(At) + " of '" + C.name() +
                   "' must be a tensor of integers");
  int64_t Length = Shape.drop_back().back();
  // A shift of a line or more leaves nothing.
  Shift = std::clamp(Shift, -Length, Length);
  return Predictions{&Logits,       &Labels, Logits.numel() / Shape.back(),
                     Length,        Shape.back(),
                     Shift,         Ignore};
}

Expected<int> rowArgmaxShare(Call &C) {
  // Logits of the same shape: do both predict the same?
  const RowValue &Other = C.row(1);
  if (C.failed())
    return C.error();
  Expected<TensorPair> Pair = tensorsOf(C, Other);
  if (!Pair)
    return Pair.takeError();
  const TensorView &A = *Pair->Own, &B = *Pair->Other;
  int64_t Equal = 0, Compared = 0;
  if (A.Shape == B.Shape && !A.Shape.empty() && A.numel()) {
    int64_t Vocabulary = A.Shape.back();
    for (int64_t I = 0, E = A.numel() / Vocabulary; I != E; ++I) {
      std::optional<int64_t> X = Predictions::largestOf(A, I, Vocabulary);
      ++Compared;
      Equal += X && X == Predictions::largestOf(B, I, Vocabulary);
      if (Error Late = C.host().poll())
        return Late;
    }
  } else {
    Expected<std::optional<Predictions>> P = predictionsOf(C);
    if (!P)
      return P.takeError();
    for (int64_t I = 0, E = *P ? (*P)->Positions : 0; I != E; ++I) {
      if (std::optional<int64_t> Label = (*P)->label(I)) {
        ++Compared;
        Equal += Label == Predictions::largestOf(*(*P)->Logits, I,
                                                 (*P)->Vocabulary);
      }
      if (Error Late = C.host().poll())
        return Late;
    }
  }
  if (Compared == 0)
    return C.pushNil();
  return C.push(static_cast<double>(Equal) / static_cast<double>(Compared));
}

/// Of \p Count positions at most \p Wanted, spread evenly.
static std::vector<int64_t> spread(int64_t Count, int64_t Wanted) {
  std::vector<int64_t> Out;
  for (int64_t I = 0, N = std::min(Count, Wanted); I != N; ++I)
    Out.push_back(I * Count / N);
  return Out;
}

Expected<int> rowLensShare(Call &C) {
  // Products are a matrix multiplication in plain loops: bounded, not fast.
  static constexpr int64_t MaxProducts = int64_t(1) << 29;
  const RowValue &Head = C.row(1);
  if (C.failed())
    return C.error();
  Expected<std::optional<Predictions>> States = predictionsOf(C, 2);
  if (!States)
    return States.takeError();
  Expected<const TensorView *> Rows = tensorOf(C, Head);
  if (!Rows)
    return Rows.takeError();
  const TensorView &Weight = **Rows;
  if (!*States || Weight.Shape.size() != 2 || Weight.numel() == 0 ||
      Weight.numel() > MaxProducts ||
      Weight.Shape[1] != (*States)->Vocabulary)
    return C.pushNil();
  const Predictions &P = **States;
  const TensorView &Hidden = *P.Logits;
  const int64_t Width = Weight.Shape[1], Vocabulary = Weight.Shape[0];

  struct Place {
    int64_t Position, Label, Best = 0;
    double Largest = -Infinity;
  };
  std::vector<Place> Places;
  std::vector<double> Values;
  for (int64_t Position :
       spread(P.Positions, std::min<int64_t>(256, MaxProducts / Weight.numel())))
    if (std::optional<int64_t> Label = P.label(Position)) {
      Places.push_back({Position, *Label});
      for (int64_t I = 0; I != Width; ++I)
        Values.push_back(Hidden.at(Position * Width + I));
    }
  if (Places.empty())
    return C.pushNil();
  std::vector<double> Line(Width);
  for (int64_t Token = 0; Token != Vocabulary; ++Token) {
    for (int64_t I = 0; I != Width; ++I)
      Line[I] = Weight.at(Token * Width + I);
    for (auto [Number, At] : enumerate(Places)) {
      double Logit = 0;
      for (int64_t I = 0; I != Width; ++I)
        Logit += Line[I] * Values[Number * Width + I];
      if (Logit > At.Largest) {
        At.Largest = Logit;
        At.Best = Token;
      }
    }
    if (Error Late = C.host().poll())
      return Late;
  }
  const size_t Right = count_if(
      Places, [](const Place &At) { return At.Best == At.Label; });
  return C.push(double(Right) / double(Places.size()));
}

/// log of the sum of exp over \p X.
static double logSumExp(ArrayRef<double> X) {
  double Largest = -Infinity, Sum = 0;
  for (double V : X)
    Largest = std::max(Largest, V);
  for (double V : X)
    Sum += std::exp(V - Largest);
  return Largest + std::log(Sum);
}

Expected<int> rowCrossEntropy(Call &C) {
  Expected<std::optional<Predictions>> P = predictionsOf(C);
  if (!P)
    return P.takeError();
  StringRef Form = C.text(4, "logits");
  if (C.failed())
    return C.error();
  if (Form != "logits" && Form != "twice")
    return failure("cross_entropy() knows 'logits' and 'twice', not '" + Form +
                   "'");
  if (!*P)
    return C.pushNil();
  double Sum = 0;
  int64_t Count = 0;
  std::vector<double> X((*P)->Vocabulary);
  for (int64_t I = 0; I != (*P)->Positions; ++I) {
    if (Error Late = C.host().poll())
      return Late;
    std::optional<int64_t> Label = (*P)->label(I);
    if (!Label)
      continue;
    // A dump whose vocabulary was thinned cannot say.
    if (*Label < 0 || *Label >= (*P)->Vocabulary)
      return C.pushNil();
    for (int64_t J = 0; J != (*P)->Vocabulary; ++J)
      X[J] = (*P)->Logits->at(I * (*P)->Vocabulary + J);
    if (Form == "twice")
      for (double LogSum = logSumExp(X); double &V : X)
        V = std::exp(V - LogSum);
    Sum += logSumExp(X) - X[*Label];
    ++Count;
  }
  if (Count == 0)
    return C.pushNil();
  return C.push(Sum / static_cast<double>(Count));
}

} // namespace culprit
