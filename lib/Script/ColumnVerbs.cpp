//===- ColumnVerbs.cpp - Operations on columns ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Table/Statistics.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static constexpr size_t MaxValues = 10000;

static ColumnRef doubleColumn(std::vector<double> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Double);
  Out->mutableDoubles() = std::move(Values);
  return Out;
}

/// The receiver's values; fails unless they are numbers.
static Expected<std::vector<double>> numbersOf(const ColumnValue &Column) {
  return Column.T->numbers(Column.view().Name);
}

/// Calls \p Use with the receiver's values, which are copied only where the
/// column does not hold them as they are.
template <typename Fn>
static Error withNumbers(const ColumnValue &Column, Fn Use) {
  const ColumnView &View = Column.view();
  if (View.type() == ColumnType::Double && !View.Rows) {
    Use(View.Data->doubles());
    return Error::success();
  }
  Expected<std::vector<double>> Values = numbersOf(Column);
  if (!Values)
    return Values.takeError();
  Use(ArrayRef<double>(*Values));
  return Error::success();
}

/// Pushes what \p Operation makes of the receiver's values.
template <typename Callable>
static Expected<int> pushMapped(Call &C, StringRef Name, Callable Operation) {
  const ColumnValue &Column = C.selfColumn();
  std::vector<double> Mapped;
  if (Error E = withNumbers(Column, [&](ArrayRef<double> Values) {
        Mapped = Operation(Values);
      }))
    return E;
  return C.pushColumn(*Column.T, Name, doubleColumn(std::move(Mapped)));
}

/// A window of 0 has no meaning, and one beyond the rows no other than all.
static size_t window(Call &C) {
  size_t Window = C.size(1);
  if (!C.failed() && Window == 0)
    C.rejectType(1, "1 or more");
  return std::min(Window, std::max<size_t>(C.selfColumn().rows(), 1));
}

Expected<int> columnRobustZ(Call &C) {
  size_t Window = window(C);
  if (C.failed())
    return C.error();
  return pushMapped(C, "robust_z", [&](ArrayRef<double> Values) {
    return robustZ(Values, Window);
  });
}

Expected<int> columnDiff(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  if (Column.view().type() != ColumnType::Int)
    return pushMapped(
        C, "diff", [](ArrayRef<double> Values) { return difference(Values); });
  // Times in ns stay exact.
  auto Out = std::make_shared<culprit::Column>(ColumnType::Int);
  std::vector<int64_t> &Steps = Out->mutableInts();
  Steps.resize(Column.rows());
  auto fill = [&](auto Get) {
    int64_t Before = NullInt;
    for (size_t I = 0, E = Steps.size(); I != E; ++I) {
      int64_t Value = Get(I);
      Steps[I] = Value == NullInt || Before == NullInt
                     ? NullInt
                     : static_cast<int64_t>(static_cast<uint64_t>(Value) -
                                            static_cast<uint64_t>(Before));
      Before = Value;
    }
  };
  ArrayRef<int64_t> Values = Column.view().Data->ints();
  if (const RowIndex *Rows = Column.view().Rows.get())
    fill([&](size_t I) { return Values[(*Rows)[I]]; });
  else
    fill([&](size_t I) { return Values[I]; });
  return C.pushColumn(*Column.T, "diff", std::move(Out));
}

Expected<int> columnRolling(Call &C) {
  size_t Window = window(C);
  StringRef Name = C.text(2);
  if (C.failed())
    return C.error();
  std::optional<RollingKind> Kind =
      StringSwitch<std::optional<RollingKind>>(Name)
          .Case("mean", RollingKind::Mean)
          .Case("median", RollingKind::Median)
          .Case("min", RollingKind::Min)
          .Case("max", RollingKind::Max)
          .Default(std::nullopt);
  if (!Kind)
    return failure("rolling() knows mean, median, min and max, not '" + Name +
                   "'");
  return pushMapped(C, "rolling", [&](ArrayRef<double> Values) {
    return rolling(Values, Window, *Kind);
  });
}

Expected<int> columnLog(Call &C) {
  return pushMapped(C, "log", [](ArrayRef<double> Values) {
    std::vector<double> Out = Values.vec();
    for (double &Value : Out)
      Value = Value > 0 ? std::log(Value) : nullDouble();
    return Out;
  });
}

Expected<int> columnSlope(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  std::vector<double> X;
  bool ByRow = C.missing(1);
  if (!ByRow) {
    const ColumnValue &Over = C.column(1);
    if (C.failed())
      return C.error();
    if (Over.rows() != Column.rows())
      return failure("the columns have " + Twine(Column.rows()) + " and " +
                     Twine(Over.rows()) + " rows");
    Expected<std::vector<double>> Values = numbersOf(Over);
    if (!Values)
      return Values.takeError();
    X = std::move(*Values);
  }
  std::optional<double> Slope;
  if (Error E = withNumbers(Column, [&](ArrayRef<double> Y) {
        Slope = ByRow ? robustSlope(Y) : robustSlope(X, Y);
      }))
    return E;
  return C.push(Slope);
}

Expected<int> columnChangePoints(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  size_t MinSegment = C.missing(1) ? 8 : C.size(1);
  if (!C.failed() && MinSegment < 2)
    C.rejectType(1, "2 or more");
  if (C.failed())
    return C.error();
  Expected<std::vector<double>> Values = numbersOf(Column);
  if (!Values)
    return Values.takeError();
  std::vector<ChangePoint> Points = changePoints(*Values, MinSegment);
  auto At = std::make_shared<culprit::Column>(ColumnType::Int);
  std::vector<double> Before, After, Score;
  for (const ChangePoint &Point : Points) {
    At->addInt(static_cast<int64_t>(Point.At));
    Before.push_back(Point.Before);
    After.push_back(Point.After);
    Score.push_back(Point.Score);
  }
  return C.push(Table("change points of " + Column.view().Name,
                      Column.T->pool(),
                      {{"at", std::move(At)},
                       {"before", doubleColumn(std::move(Before))},
                       {"after", doubleColumn(std::move(After))},
                       {"score", doubleColumn(std::move(Score))}},
                      Points.size()));
}

Expected<int> columnAt(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  size_t Index = C.size(1);
  if (C.failed())
    return C.error();
  if (Index >= Column.rows())
    return C.pushNil();
  pushCell(C.state(), Column.T->cell(Index, Column.view()));
  return 1;
}

Expected<int> columnValues(Call &C) {
  lua_State *L = C.state();
  const ColumnValue &Column = C.selfColumn();
  if (Column.rows() > MaxValues)
    return failure("values() would make a list of " + Twine(Column.rows()) +
                       " values; the limit is " + Twine(MaxValues),
                   "choose rows first, or compute with columns");
  lua_createtable(L, static_cast<int>(Column.rows()), 0);
  for (size_t I = 0; I != Column.rows(); ++I) {
    pushCell(L, Column.T->cell(I, Column.view()));
    if (lua_isnil(L, -1)) { // nil would end the list
      lua_pop(L, 1);
      lua_pushboolean(L, 0);
    }
    lua_rawseti(L, -2, static_cast<lua_Integer>(I + 1));
  }
  return 1;
}

// Arithmetic: the engine of expressions over a table of the operands --------//

/// Pushes \p Expression over the operands `a` and `b`, stack slots 1 and 2; a
/// number takes the place of one.
static Expected<int> arithmetic(Call &C, StringRef Operator, int Operands) {
  lua_State *L = C.state();
  std::vector<std::pair<std::string, ColumnRef>> Columns;
  std::vector<Argument> Numbers;
  const ColumnValue *First = nullptr;
  std::string Words[2];
  for (int I = 0; I != Operands; ++I) {
    if (ColumnValue *V = valueAt<ColumnValue>(L, I + 1)) {
      if (First && First->rows() != V->rows())
        return failure("the columns have " + Twine(First->rows()) + " and " +
                           Twine(V->rows()) + " rows",
                       "take both from the same table");
      First = First ? First : V;
      Words[I] = I == 0 ? "a" : "b";
      Columns.push_back({Words[I], V->dense()});
    } else if (lua_type(L, I + 1) == LUA_TNUMBER) {
      Words[I] = "?";
      Numbers.push_back(C.value(I + 1, "operand"));
    } else {
      return failure("arithmetic on a column and " + wordFor(L, I + 1),
                     "the other operand must be a number or a column");
    }
  }
  std::string Expression =
      Operands == 1 ? (Operator + "(a)").str()
                    : Words[0] + " " + Operator.str() + " " + Words[1];
  Table T(First->T->name(), First->T->pool(), std::move(Columns),
          First->rows());
  Expected<ColumnRef> Data = compute(T, Expression, Numbers);
  if (!Data)
    return Data.takeError();
  return C.pushColumn(*First->T, First->view().Name, std::move(*Data));
}

Expected<int> columnAdd(Call &C) { return arithmetic(C, "+", 2); }
Expected<int> columnSubtract(Call &C) { return arithmetic(C, "-", 2); }
Expected<int> columnMultiply(Call &C) { return arithmetic(C, "*", 2); }
Expected<int> columnDivide(Call &C) { return arithmetic(C, "/", 2); }
Expected<int> columnNegate(Call &C) { return arithmetic(C, "-", 1); }
Expected<int> columnAbs(Call &C) { return arithmetic(C, "abs", 1); }

} // namespace culprit
