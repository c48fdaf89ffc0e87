//===- Figures.cpp - One number from a column -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Figures.h"
#include "Table/Statistics.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

std::optional<FigureKind> figureKind(StringRef Name) {
  for (const auto &[Known, Kind] : FigureNames)
    if (Name == Known)
      return Kind;
  return std::nullopt;
}

namespace {

/// The values of a column in row order, given in pieces: no copy of more than
/// a few thousand, as many rows are summed and few values are kept.
template <typename T> class Pieces {
public:
  explicit Pieces(ArrayRef<T> Values) : Values(Values), Rows(Values.size()) {}
  Pieces(ArrayRef<T> Values, const ColumnView &View, size_t Rows)
      : Values(Values), Index(View.Rows ? View.Rows->data() : nullptr),
        Rows(Rows) {}

  size_t rows() const { return Rows; }

  template <typename Fn> void each(Fn Visit) const {
    if (!Index) {
      Visit(Values.take_front(Rows));
      return;
    }
    T Piece[1024];
    for (size_t First = 0; First < Rows; First += std::size(Piece)) {
      size_t Count = std::min(std::size(Piece), Rows - First);
      for (size_t I = 0; I != Count; ++I)
        Piece[I] = Values[Index[First + I]];
      Visit(ArrayRef<T>(Piece, Count));
    }
  }

  /// One after another.
  std::vector<T> all() const {
    std::vector<T> Out;
    Out.reserve(Rows);
    each([&](ArrayRef<T> Piece) {
      Out.insert(Out.end(), Piece.begin(), Piece.end());
    });
    return Out;
  }

private:
  ArrayRef<T> Values;
  const uint32_t *Index = nullptr;
  size_t Rows;
};

} // namespace

/// Integers as numbers without a sign in the same order, but null the largest.
static uint64_t ordered(int64_t Value) {
  return (static_cast<uint64_t>(Value) ^ uint64_t(1) << 63) - 1;
}
static int64_t unordered(uint64_t Value) {
  return static_cast<int64_t>((Value + 1) ^ uint64_t(1) << 63);
}

/// An exact figure of integers, if \p Kind has one.
static std::optional<Argument> exactFigure(const Pieces<int64_t> &Values,
                                           FigureKind Kind) {
  uint64_t Sum = 0; // wraps, as Lua's integers do
  int64_t Most = NullInt;
  uint64_t Least = UINT64_MAX; // as ordered() has it
  // Folded in locals: what a lambda refers to lies in memory.
  Values.each([&](ArrayRef<int64_t> Piece) {
    if (Kind == FigureKind::Sum) {
      uint64_t Part = 0;
      for (int64_t Value : Piece)
        Part += Value == NullInt ? 0 : static_cast<uint64_t>(Value);
      Sum += Part;
    } else if (Kind == FigureKind::Max) {
      // Branches that are seldom taken: without SSE 4, vectors are slower.
      int64_t Largest = Most;
      for (int64_t Value : Piece)
        if (LLVM_UNLIKELY(Value > Largest))
          Largest = Value;
      Most = Largest;
    } else {
      // One less than NullInt is the largest there is.
      uint64_t Smallest = UINT64_MAX;
      for (int64_t Value : Piece)
        if (LLVM_UNLIKELY(ordered(Value) < Smallest))
          Smallest = ordered(Value);
      Least = std::min(Least, Smallest);
    }
  });
  if (Kind == FigureKind::Sum)
    return Argument(static_cast<int64_t>(Sum));
  if (Kind == FigureKind::Max)
    return Most != NullInt ? std::optional<Argument>(Most) : std::nullopt;
  return Least != UINT64_MAX ? std::optional<Argument>(unordered(Least))
                             : std::nullopt;
}

static std::optional<Argument> figureOf(const Pieces<int64_t> &Integers,
                                        FigureKind Kind, double Q) {
  if (Kind == FigureKind::Sum || Kind == FigureKind::Min ||
      Kind == FigureKind::Max)
    return exactFigure(Integers, Kind);
  if (Kind == FigureKind::Mean) {
    double Sum = 0;
    size_t Count = 0;
    Integers.each([&](ArrayRef<int64_t> Piece) {
      double Total = Sum;
      for (int64_t Value : Piece)
        if (Value != NullInt) {
          Total += static_cast<double>(Value);
          ++Count;
        }
      Sum = Total;
    });
    return Count ? std::optional<Argument>(Sum / static_cast<double>(Count))
                 : std::nullopt;
  }
  std::vector<double> Numbers;
  Numbers.reserve(Integers.rows());
  Integers.each([&](ArrayRef<int64_t> Piece) {
    for (int64_t Value : Piece)
      if (Value != NullInt)
        Numbers.push_back(static_cast<double>(Value));
  });
  if (Kind != FigureKind::Median && Kind != FigureKind::Quantile)
    return figureOf(ArrayRef<double>(Numbers), Kind, Q);
  if (Numbers.empty())
    return std::nullopt;
  return quantileInPlace(Numbers, Kind == FigureKind::Median ? 0.5 : Q);
}

std::optional<Argument> figureOf(ArrayRef<int64_t> Integers, FigureKind Kind,
                                 double Q) {
  return figureOf(Pieces<int64_t>(Integers), Kind, Q);
}

/// The sum, least, largest or mean, of finite numbers.
static std::optional<double> foldedFigure(const Pieces<double> &Values,
                                          FigureKind Kind) {
  constexpr double Infinity = std::numeric_limits<double>::infinity();
  double Sum = 0, Least = Infinity, Most = -Infinity;
  size_t Count = 0;
  // Folded in locals: what a lambda refers to lies in memory.
  Values.each([&](ArrayRef<double> Piece) {
    double Part = Kind == FigureKind::Min   ? Least
                  : Kind == FigureKind::Max ? Most
                                            : Sum;
    size_t Finite = 0;
    if (Kind == FigureKind::Min)
      for (double Value : Piece)
        Part = std::min(Part, std::isfinite(Value) ? Value : Infinity);
    else if (Kind == FigureKind::Max)
      for (double Value : Piece)
        Part = std::max(Part, std::isfinite(Value) ? Value : -Infinity);
    else
      for (double Value : Piece) {
        if (!std::isfinite(Value)) // nulls too
          continue;
        Part += Value;
        ++Finite;
      }
    (Kind == FigureKind::Min   ? Least
     : Kind == FigureKind::Max ? Most
                               : Sum) = Part;
    Count += Finite;
  });
  switch (Kind) {
  case FigureKind::Sum:
    return Sum;
  case FigureKind::Mean:
    return Count ? std::optional(Sum / static_cast<double>(Count))
                 : std::nullopt;
  case FigureKind::Min:
    return Least < Infinity ? std::optional(Least) : std::nullopt;
  default:
    return Most > -Infinity ? std::optional(Most) : std::nullopt;
  }
}

std::optional<Argument> figureOf(ArrayRef<double> Values, FigureKind Kind,
                                 double Q) {
  std::optional<double> Out;
  switch (Kind) {
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
  case FigureKind::Mean:
    Out = foldedFigure(Pieces<double>(Values), Kind);
    break;
  }
  return Out ? std::optional<Argument>(*Out) : std::nullopt;
}

/// The figure \p Kind of the doubles of \p View.
static std::optional<Argument> doubleFigure(const ColumnView &View,
                                            size_t Rows, FigureKind Kind,
                                            double Q) {
  Pieces<double> Values(View.Data->doubles(), View, Rows);
  if (Kind == FigureKind::Sum || Kind == FigureKind::Min ||
      Kind == FigureKind::Max || Kind == FigureKind::Mean) {
    std::optional<double> Out = foldedFigure(Values, Kind);
    return Out ? std::optional<Argument>(*Out) : std::nullopt;
  }
  if (!View.Rows)
    return figureOf(View.Data->doubles().take_front(Rows), Kind, Q);
  return figureOf(ArrayRef<double>(Values.all()), Kind, Q);
}

/// Pushes the figure \p Kind of \p Column of \p T.
static Expected<int> pushFigure(Call &C, const Table &T, StringRef Column,
                                FigureKind Kind, double Q = 0) {
  Expected<const ColumnView *> View = T.column(Column);
  if (!View)
    return View.takeError();
  std::optional<Argument> Out;
  if ((*View)->type() == ColumnType::Int) {
    Out = figureOf(
        Pieces<int64_t>((*View)->Data->ints(), **View, T.rows()), Kind, Q);
  } else if ((*View)->type() == ColumnType::Double) {
    Out = doubleFigure(**View, T.rows(), Kind, Q);
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
  auto count = [&](auto Values, auto IsNull) {
    int64_t Count = 0;
    Pieces(Values, View, Rows).each([&](auto Piece) {
      for (auto Value : Piece)
        Count += !IsNull(Value);
    });
    return Count;
  };
  switch (View.type()) {
  case ColumnType::Int:
    return count(View.Data->ints(), [](int64_t V) { return V == NullInt; });
  case ColumnType::Double:
    return count(View.Data->doubles(), isNullDouble);
  case ColumnType::Bool:
    return count(View.Data->bools(), [](uint8_t V) { return V == NullBool; });
  case ColumnType::String:
    return count(View.Data->strings(),
                 [](StringId V) { return V == NullString; });
  case ColumnType::IntList:
    break;
  }
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
