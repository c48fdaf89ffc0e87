//===- TensorReads.cpp - Elements and statistics of tensors -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/TensorVerbs.h"
#include "Table/Statistics.h"
#include "Tensor/Difference.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

/// Elements between two looks at the clock: about a millisecond.
static constexpr int64_t BlockElements = 1 << 16;

static std::string shapeText(const TensorView &View) {
  std::string Out = "[";
  for (int64_t Size : View.Shape)
    Out += (Out.size() > 1 ? ", " : "") + std::to_string(Size);
  return Out + "]";
}

/// row:element({ 0, 3, 17 })
Expected<int> rowElement(Call &C) {
  lua_State *L = C.state();
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  if (!lua_istable(L, C.slot(1))) {
    C.rejectType(1, "a list with a place for each axis: { 0, 3 }");
    return C.error();
  }
  ArrayRef<int64_t> Shape = (*View)->Shape;
  size_t Given = lua_rawlen(L, C.slot(1));
  if (Given != Shape.size())
    return failure("element() was given " + Twine(Given) +
                   " places of a tensor of shape " + shapeText(**View));
  int64_t Index = 0;
  for (size_t Axis = 0; Axis != Shape.size(); ++Axis) {
    lua_rawgeti(L, C.slot(1), static_cast<lua_Integer>(Axis + 1));
    int IsInteger = 0;
    int64_t Place = lua_tointegerx(L, -1, &IsInteger);
    if (!IsInteger || Place < 0 || Place >= Shape[Axis])
      return failure("axis " + Twine(Axis) + " has " + Twine(Shape[Axis]) +
                         " places and no place " + wordFor(L, -1),
                     "places are counted from 0");
    lua_pop(L, 1);
    Index = Index * Shape[Axis] + Place;
  }
  if (isFloating((*View)->Type))
    return C.push((*View)->at(Index));
  return C.push((*View)->intAt(Index));
}

Expected<int> rowQuantile(Call &C) {
  constexpr int64_t MostElements = int64_t(1) << 22;
  double Q = C.number(1);
  if (!C.failed() && !(Q >= 0 && Q <= 1))
    C.rejectType(1, "from 0 to 1");
  if (C.failed())
    return C.error();
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  int64_t Elements = (*View)->numel();
  std::vector<double> Values;
  if (Elements <= MostElements) {
    Values.resize(static_cast<size_t>(Elements));
    readElements(**View, 0, Values.size(), Values.data());
  } else {
    // Evenly chosen, the first and the last among them.
    Values.resize(MostElements);
    for (int64_t I = 0; I != MostElements; ++I)
      Values[I] = (*View)->at(static_cast<int64_t>(
          static_cast<__int128>(I) * (Elements - 1) / (MostElements - 1)));
  }
  return C.push(quantile(Values, Q));
}

Expected<int> rowAllclose(Call &C) {
  const RowValue &Reference = C.row(1);
  ElementTolerance Tolerance = {1e-8, 1e-5};
  if (!C.missing(2))
    Tolerance.Relative = C.number(2);
  if (!C.missing(3))
    Tolerance.Absolute = C.number(3);
  if (!C.failed() && !(Tolerance.Relative >= 0))
    C.rejectType(2, "0 or more");
  if (!C.failed() && !(Tolerance.Absolute >= 0))
    C.rejectType(3, "0 or more");
  if (C.failed())
    return C.error();
  Expected<TensorPair> Pair = tensorsOf(C, Reference);
  if (!Pair)
    return Pair.takeError();
  const TensorView &A = *Pair->Own, &B = *Pair->Other;
  if (A.Shape != B.Shape)
    return C.pushNil();
  DifferenceSums Sums;
  for (int64_t Begin = 0, E = A.numel(); Begin < E;
       Begin += BlockElements) {
    Sums.append(differenceOf(B, A, Begin,
                             std::min(E, Begin + BlockElements), Tolerance));
    if (Error Late = C.host().poll())
      return Late;
  }
  lua_State *L = C.state();
  lua_pushboolean(L, Sums.Above == 0);
  lua_pushinteger(L, Sums.Above);
  if (Sums.FirstAbove)
    lua_pushinteger(L, *Sums.FirstAbove);
  else
    lua_pushnil(L);
  return 3;
}

namespace {

enum class AlongKind { Max, Min, AbsMax, Mean, Rms, Sum, NonFinite };

/// What a place of an axis comes to.
struct Along {
  double Value = 0;
  int64_t Finite = 0, NonFinite = 0;

  void add(double X, AlongKind Kind) {
    if (!std::isfinite(X)) {
      ++NonFinite;
      return;
    }
    bool First = Finite++ == 0;
    switch (Kind) {
    case AlongKind::Max:
      Value = First ? X : std::max(Value, X);
      return;
    case AlongKind::Min:
      Value = First ? X : std::min(Value, X);
      return;
    case AlongKind::AbsMax:
      Value = std::max(Value, std::fabs(X));
      return;
    case AlongKind::Rms:
      Value += X * X;
      return;
    default:
      Value += X;
    }
  }
  double result(AlongKind Kind) const {
    double Count = static_cast<double>(Finite);
    switch (Kind) {
    case AlongKind::NonFinite:
      return static_cast<double>(NonFinite);
    case AlongKind::Mean:
      return Value / Count;
    case AlongKind::Rms:
      return std::sqrt(Value / Count);
    default:
      return Value;
    }
  }
};

} // namespace

Expected<int> rowAlong(Call &C) {
  lua_State *L = C.state();
  int64_t Axis = C.integer(1);
  StringRef Word = C.text(2);
  if (C.failed())
    return C.error();
  auto Kind = StringSwitch<std::optional<AlongKind>>(Word)
                  .Case("max", AlongKind::Max)
                  .Case("min", AlongKind::Min)
                  .Case("abs_max", AlongKind::AbsMax)
                  .Case("mean", AlongKind::Mean)
                  .Case("rms", AlongKind::Rms)
                  .Case("sum", AlongKind::Sum)
                  .Case("nonfinite", AlongKind::NonFinite)
                  .Default(std::nullopt);
  if (!Kind)
    return failure("along() knows max, min, abs_max, mean, rms, sum and "
                   "nonfinite, not '" +
                   Word + "'");
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  ArrayRef<int64_t> Shape = (*View)->Shape;
  if (Error E = checkAxis(**View, Axis))
    return E;
  int64_t Length = Shape[static_cast<size_t>(Axis)], Inner = 1;
  if (Length > MaxEntries)
    return failure("along() would make a list of " + Twine(Length) +
                   " numbers; the limit is " + Twine(MaxEntries));
  int64_t Elements = (*View)->numel();
  if (Elements != 0)
    for (int64_t Size : Shape.drop_front(static_cast<size_t>(Axis) + 1))
      Inner *= Size;

  std::vector<Along> Places(static_cast<size_t>(Length));
  std::vector<double> Block(static_cast<size_t>(BlockElements));
  // The place of an element moves on every Inner elements, and turns round.
  int64_t Place = 0, Left = Inner;
  for (int64_t Begin = 0; Begin < Elements; Begin += BlockElements) {
    int64_t Count = std::min(BlockElements, Elements - Begin);
    readElements(**View, Begin, static_cast<size_t>(Count), Block.data());
    for (int64_t I = 0; I != Count;) {
      int64_t Run = std::min(Left, Count - I);
      Along At = Places[static_cast<size_t>(Place)];
      for (int64_t E = I + Run; I != E; ++I)
        At.add(Block[static_cast<size_t>(I)], *Kind);
      Places[static_cast<size_t>(Place)] = At;
      Left -= Run;
      if (Left == 0) {
        Left = Inner;
        Place = Place + 1 == Length ? 0 : Place + 1;
      }
    }
    if (Error Late = C.host().poll())
      return Late;
  }
  lua_createtable(L, static_cast<int>(Length), 0);
  for (size_t I = 0; I != Places.size(); ++I) {
    // A list has no holes: false stands for no value, as in values().
    if (Places[I].Finite == 0 && *Kind != AlongKind::NonFinite &&
        *Kind != AlongKind::Sum)
      lua_pushboolean(L, false);
    else
      lua_pushnumber(L, Places[I].result(*Kind));
    lua_rawseti(L, -2, static_cast<lua_Integer>(I + 1));
  }
  return 1;
}

} // namespace culprit
