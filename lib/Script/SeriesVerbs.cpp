//===- SeriesVerbs.cpp - Columns as series and samples ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Series.h"
#include "Script/Binding.h"
#include "Support/Deadline.h"
#include "Support/TextDistance.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

static ColumnRef doubles(std::vector<double> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Double);
  Out->mutableDoubles() = std::move(Values);
  return Out;
}

static ColumnRef ints(std::vector<int64_t> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = std::move(Values);
  return Out;
}

static Expected<std::vector<double>> numbers(const ColumnValue &Column) {
  return Column.T->numbers(Column.view().Name);
}

Expected<int> columnShift(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  int64_t By = C.integer(1, 1);
  if (C.failed())
    return C.error();
  return C.pushColumn(*Column.T, Column.view().Name,
                      shifted(Column.view(), Column.rows(), By));
}

Expected<int> columnCumsum(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  if (Column.view().type() == ColumnType::Int)
    return C.pushColumn(*Column.T, "cumsum",
                        ints(runningSums(Column.dense()->ints())));
  Expected<std::vector<double>> Values = numbers(Column);
  if (!Values)
    return Values.takeError();
  return C.pushColumn(*Column.T, "cumsum", doubles(runningSums(*Values)));
}

Expected<int> columnRank(Call &C) {
  Expected<std::vector<double>> Values = numbers(C.selfColumn());
  if (!Values)
    return Values.takeError();
  return C.pushColumn(*C.selfColumn().T, "rank", doubles(ranksOf(*Values)));
}

Expected<int> columnClip(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  std::string Expression = "a";
  std::vector<Argument> Bounds;
  for (int I : {1, 2}) {
    if (C.missing(I))
      continue;
    C.number(I);
    if (C.failed())
      return C.error();
    Expression = (I == 1 ? "max(" : "min(") + Expression + ", ?)";
    Bounds.push_back(C.value(C.slot(I), "bound"));
  }
  Table T(Column.T->name(), Column.T->pool(),
          std::vector<std::pair<std::string, ColumnRef>>{
              {"a", Column.dense()}},
          Column.rows());
  Expected<ColumnRef> Data = compute(T, Expression, Bounds);
  if (!Data)
    return Data.takeError();
  return C.pushColumn(*Column.T, Column.view().Name, std::move(*Data));
}

/// The edges in argument 1: how many bins of \p Values, or a list of them.
static std::vector<double> edges(Call &C, ArrayRef<double> Values) {
  constexpr int64_t MostBins = 100000;
  lua_State *L = C.state();
  if (!lua_istable(L, C.slot(1))) {
    int64_t Bins = C.integer(1);
    if (!C.failed() && (Bins < 1 || Bins > MostBins))
      C.rejectType(1, "from 1 to 100,000 bins, or a list of edges");
    return C.failed() ? std::vector<double>()
                      : evenEdges(Values, static_cast<size_t>(Bins));
  }
  std::vector<double> Out;
  for (lua_Integer I = 1, E = lua_rawlen(L, C.slot(1)); I <= E; ++I) {
    lua_rawgeti(L, C.slot(1), I);
    double Edge = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1)
                                                 : std::nan("");
    lua_pop(L, 1);
    if (!std::isfinite(Edge) || (!Out.empty() && Edge <= Out.back())) {
      C.reject("the edges of a histogram must be numbers that rise");
      return Out;
    }
    Out.push_back(Edge);
  }
  if (Out.size() < 2)
    C.reject("a histogram wants two edges or more");
  return Out;
}

Expected<int> columnHistogram(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  Expected<std::vector<double>> Values = numbers(Column);
  if (!Values)
    return Values.takeError();
  std::vector<double> Edges = edges(C, *Values);
  if (C.failed())
    return C.error();
  std::vector<int64_t> Counts = histogram(*Values, Edges);
  size_t Bins = Counts.size();
  std::vector<double> From(Edges.begin(), Edges.begin() + Bins);
  std::vector<double> To(Edges.end() - Bins, Edges.end());
  return C.push(Table("histogram of " + Column.view().Name, Column.T->pool(),
                      {{"from", doubles(std::move(From))},
                       {"to", doubles(std::move(To))},
                       {"count", ints(std::move(Counts))}},
                      Bins),
                3);
}

Expected<int> columnCorrelation(Call &C) {
  const ColumnValue &Column = C.selfColumn(), &Other = C.column(1);
  StringRef Kind = C.text(2, "pearson");
  if (!C.failed() && Kind != "pearson" && Kind != "spearman")
    C.reject("correlation() knows pearson and spearman, not '" + Kind + "'");
  if (C.failed())
    return C.error();
  if (Column.rows() != Other.rows())
    return failure("the columns have " + Twine(Column.rows()) + " and " +
                       Twine(Other.rows()) + " rows",
                   "take both from the same table");
  Expected<std::vector<double>> X = numbers(Column);
  if (!X)
    return X.takeError();
  Expected<std::vector<double>> Y = numbers(Other);
  if (!Y)
    return Y.takeError();
  return C.push(Kind == "pearson" ? correlation(*X, *Y)
                                  : rankCorrelation(*X, *Y));
}

/// Pushes the row of the first value that none is \p Better than.
template <typename Fn> static Expected<int> pushExtreme(Call &C, Fn Better) {
  const ColumnValue &Column = C.selfColumn();
  std::optional<size_t> Row;
  if (Column.view().type() == ColumnType::Int) {
    for (size_t I = 0; I != Column.rows(); ++I)
      if (int64_t Value = Column.view().getInt(I);
          Value != NullInt &&
          (!Row || Better(Value, Column.view().getInt(*Row))))
        Row = I;
  } else {
    Expected<std::vector<double>> Values = numbers(Column);
    if (!Values)
      return Values.takeError();
    for (size_t I = 0; I != Values->size(); ++I)
      if (std::isfinite((*Values)[I]) &&
          (!Row || Better((*Values)[I], (*Values)[*Row])))
        Row = I;
  }
  return Row ? C.push(static_cast<int64_t>(*Row)) : C.pushNil();
}

Expected<int> columnArgmax(Call &C) {
  return pushExtreme(C, [](auto A, auto B) { return A > B; });
}
Expected<int> columnArgmin(Call &C) {
  return pushExtreme(C, [](auto A, auto B) { return A < B; });
}

/// The text that argument \p I is, and the limit after it.
static std::pair<StringRef, size_t> textAndLimit(Call &C, int I) {
  StringRef Text = C.text(I);
  size_t Limit = C.missing(I + 1) ? 1000 : C.size(I + 1);
  return {Text, Limit};
}

Expected<int> columnDistance(Call &C) {
  const ColumnValue &Column = C.selfColumn();
  auto [Text, Limit] = textAndLimit(C, 1);
  if (C.failed())
    return C.error();
  if (Column.view().type() != ColumnType::String)
    return failure("column '" + Column.view().Name + "' in '" +
                   Column.T->name() + "' is " +
                   toString(Column.view().type()) + ", not string");
  std::vector<int64_t> Out(Column.rows(), NullInt);
  DenseMap<StringId, int64_t> Known; // a text is compared once
  for (size_t I = 0; I != Out.size() && !timeIsUp(); ++I) {
    StringId Id = Column.view().getString(I);
    if (Id == NullString)
      continue;
    auto [At, New] = Known.try_emplace(Id, NullInt);
    if (New)
      if (auto Found = textDistance(Column.T->pool()->text(Id), Text, Limit))
        At->second = static_cast<int64_t>(*Found);
    Out[I] = At->second;
  }
  return C.pushColumn(*Column.T, "distance", ints(std::move(Out)));
}

Expected<int> stringDistance(Call &C) {
  StringRef Text = C.text(1);
  auto [Other, Limit] = textAndLimit(C, 2);
  if (C.failed())
    return C.error();
  std::optional<size_t> Found = textDistance(Text, Other, Limit);
  return Found ? C.push(static_cast<int64_t>(*Found)) : C.pushNil();
}

Expected<int> stringSimilarity(Call &C) {
  StringRef Text = C.text(1), Other = C.text(2);
  if (C.failed())
    return C.error();
  return C.push(textSimilarity(Text, Other));
}

} // namespace culprit
