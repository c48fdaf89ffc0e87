//===- Figures.cpp - One number from a column -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Figures.h"
#include "Table/Statistics.h"
#include <cmath>

using namespace llvm;

namespace culprit {

std::optional<FigureKind> figureKind(StringRef Name) {
  for (const auto &[Known, Kind] : FigureNames)
    if (Name == Known)
      return Kind;
  return std::nullopt;
}

/// An exact figure of integers, if \p Kind has one.
static std::optional<Argument> exactFigure(ArrayRef<int64_t> Values,
                                           FigureKind Kind) {
  uint64_t Sum = 0; // wraps, as Lua's integers do
  std::optional<int64_t> Least, Most;
  for (int64_t Value : Values) {
    if (Value == NullInt)
      continue;
    Sum += static_cast<uint64_t>(Value);
    Least = Least ? std::min(*Least, Value) : Value;
    Most = Most ? std::max(*Most, Value) : Value;
  }
  if (Kind == FigureKind::Sum)
    return Argument(static_cast<int64_t>(Sum));
  const std::optional<int64_t> &Out = Kind == FigureKind::Min ? Least : Most;
  return Out ? std::optional<Argument>(*Out) : std::nullopt;
}

std::optional<Argument> figureOf(ArrayRef<int64_t> Integers, FigureKind Kind,
                                 double Q) {
  if (Kind == FigureKind::Sum || Kind == FigureKind::Min ||
      Kind == FigureKind::Max)
    return exactFigure(Integers, Kind);
  std::vector<double> Numbers;
  Numbers.reserve(Integers.size());
  for (int64_t Value : Integers)
    if (Value != NullInt)
      Numbers.push_back(static_cast<double>(Value));
  return figureOf(ArrayRef<double>(Numbers), Kind, Q);
}

std::optional<Argument> figureOf(ArrayRef<double> Values, FigureKind Kind,
                                 double Q) {
  std::optional<double> Out;
  double Sum = 0;
  std::optional<double> Least, Most;
  switch (Kind) {
  case FigureKind::Mean:
    Out = mean(Values);
    break;
  case FigureKind::Median:
    Out = quantile(Values, 0.5);
    break;
  case FigureKind::Std:
    Out = standardDeviation(Values);
    break;
  case FigureKind::RobustStd:
    Out = robustDeviation(Values);
    break;
  case FigureKind::Quantile:
    Out = quantile(Values, Q);
    break;
  case FigureKind::Sum:
  case FigureKind::Min:
  case FigureKind::Max:
    for (double Value : Values) {
      if (!std::isfinite(Value)) // nulls too
        continue;
      Sum += Value;
      Least = Least ? std::min(*Least, Value) : Value;
      Most = Most ? std::max(*Most, Value) : Value;
    }
    Out = Kind == FigureKind::Sum   ? Sum
          : Kind == FigureKind::Min ? Least
                                    : Most;
    break;
  }
  return Out ? std::optional<Argument>(*Out) : std::nullopt;
}

/// Pushes the figure \p Kind of \p Column of \p T.
static Expected<int> pushFigure(Call &C, const Table &T, StringRef Column,
                                FigureKind Kind, double Q = 0) {
  Expected<const ColumnView *> View = T.column(Column);
  if (!View)
    return View.takeError();
  std::optional<Argument> Out;
  if ((*View)->type() == ColumnType::Int) {
    Expected<std::vector<int64_t>> Values = T.integers(Column);
    if (!Values)
      return Values.takeError();
    Out = figureOf(ArrayRef<int64_t>(*Values), Kind, Q);
  } else {
    Expected<std::vector<double>> Values = T.numbers(Column);
    if (!Values)
      return Values.takeError();
    Out = figureOf(ArrayRef<double>(*Values), Kind, Q);
  }
  if (!Out)
    return C.pushNil();
  if (const int64_t *Whole = std::get_if<int64_t>(&*Out))
    return C.push(*Whole);
  return C.push(std::get<double>(*Out));
}

static Expected<int> tableFigure(Call &C, FigureKind Kind) {
  StringRef Column = C.text(1);
  double Q = Kind == FigureKind::Quantile ? C.number(2) : 0;
  if (!(Q >= 0 && Q <= 1))
    C.rejectType(2, "from 0 to 1");
  if (C.failed())
    return C.error();
  return pushFigure(C, C.self(), Column, Kind, Q);
}

Expected<int> tableSum(Call &C) { return tableFigure(C, FigureKind::Sum); }
Expected<int> tableMin(Call &C) { return tableFigure(C, FigureKind::Min); }
Expected<int> tableMax(Call &C) { return tableFigure(C, FigureKind::Max); }
Expected<int> tableMean(Call &C) { return tableFigure(C, FigureKind::Mean); }
Expected<int> tableMedian(Call &C) {
  return tableFigure(C, FigureKind::Median);
}
Expected<int> tableStd(Call &C) { return tableFigure(C, FigureKind::Std); }
Expected<int> tableQuantile(Call &C) {
  return tableFigure(C, FigureKind::Quantile);
}

static Expected<int> columnFigure(Call &C, FigureKind Kind) {
  const ColumnValue &Column = C.selfColumn();
  double Q = Kind == FigureKind::Quantile ? C.number(1) : 0;
  if (!(Q >= 0 && Q <= 1))
    C.rejectType(1, "from 0 to 1");
  if (C.failed())
    return C.error();
  return pushFigure(C, *Column.T, Column.view().Name, Kind, Q);
}

Expected<int> columnSum(Call &C) { return columnFigure(C, FigureKind::Sum); }
Expected<int> columnMin(Call &C) { return columnFigure(C, FigureKind::Min); }
Expected<int> columnMax(Call &C) { return columnFigure(C, FigureKind::Max); }
Expected<int> columnMean(Call &C) { return columnFigure(C, FigureKind::Mean); }
Expected<int> columnMedian(Call &C) {
  return columnFigure(C, FigureKind::Median);
}
Expected<int> columnStd(Call &C) { return columnFigure(C, FigureKind::Std); }
Expected<int> columnRobustStd(Call &C) {
  return columnFigure(C, FigureKind::RobustStd);
}
Expected<int> columnQuantile(Call &C) {
  return columnFigure(C, FigureKind::Quantile);
}

static int64_t countValues(const ColumnView &View, size_t Rows) {
  int64_t Count = 0;
  for (size_t I = 0; I != Rows; ++I)
    Count += !View.isNull(I);
  return Count;
}

Expected<int> tableCount(Call &C) {
  if (C.missing(1))
    return C.push(static_cast<int64_t>(C.self().rows()));
  StringRef Name = C.text(1);
  if (C.failed())
    return C.error();
  Expected<const ColumnView *> View = C.self().column(Name);
  if (!View)
    return View.takeError();
  return C.push(countValues(**View, C.self().rows()));
}

Expected<int> columnCount(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  return C.push(countValues(Column.view(), Column.rows()));
}

} // namespace culprit
