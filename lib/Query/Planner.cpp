//===- Planner.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/Planner.h"
#include "Query/CaseTable.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace culprit {

static std::optional<Comparison> comparisonOf(unsigned char Op) {
  switch (Op) {
  case SQLITE_INDEX_CONSTRAINT_EQ:
    return Comparison::Equal;
  case SQLITE_INDEX_CONSTRAINT_LT:
    return Comparison::Less;
  case SQLITE_INDEX_CONSTRAINT_LE:
    return Comparison::LessEqual;
  case SQLITE_INDEX_CONSTRAINT_GT:
    return Comparison::Greater;
  case SQLITE_INDEX_CONSTRAINT_GE:
    return Comparison::GreaterEqual;
  case SQLITE_INDEX_CONSTRAINT_ISNULL:
    return Comparison::IsNull;
  case SQLITE_INDEX_CONSTRAINT_ISNOTNULL:
    return Comparison::NotNull;
  }
  return std::nullopt;
}

namespace {
class Planner {
public:
  Planner(CaseTable &T, sqlite3_index_info &Info)
      : T(T), Info(Info), Rows(static_cast<double>(T.rows().rows())) {}

  Plan plan() {
    Cost = Rows + 1;
    Matches = Rows;
    for (int I = 0; I != Info.nConstraint; ++I)
      consider(I);
    if (Chosen.How != Walk::RowId)
      chooseRange();
    int Argument = 0;
    if (Chosen.How == Walk::RowId) {
      Info.aConstraintUsage[RowIdConstraint].argvIndex = ++Argument;
      Chosen.Checks.clear();
    } else {
      for (int I : Used)
        Info.aConstraintUsage[I].argvIndex = ++Argument;
    }
    order();
    Info.estimatedCost = Cost;
    Info.estimatedRows = static_cast<sqlite3_int64>(std::ceil(Matches));
    return std::move(Chosen);
  }

private:
  void consider(int I) {
    const auto &Constraint = Info.aConstraint[I];
    std::optional<Comparison> Op = comparisonOf(Constraint.op);
    if (!Constraint.usable || !Op)
      return;
    if (Constraint.iColumn < 0) {
      if (*Op != Comparison::Equal)
        return;
      Chosen.How = Walk::RowId;
      RowIdConstraint = I;
      Cost = Matches = 1;
      Info.idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
      return;
    }
    unsigned Column = static_cast<unsigned>(Constraint.iColumn);
    if (Column >= T.Schema.Columns.size())
      return;
    bool Binary =
        StringRef(sqlite3_vtab_collation(&Info, I)).equals_insensitive(
            "BINARY");
    if (T.Schema.Columns[Column].Type == ColumnType::String && !Binary)
      return;
    Chosen.Checks.push_back({Column, *Op});
    Used.push_back(I);
    if (Chosen.How == Walk::RowId)
      return;
    RowFinder &Finder = T.finder(Column);
    if (*Op != Comparison::Equal || !Finder.hasKeys()) {
      Matches = std::max(1.0, Matches / 4);
      if (isBound(*Op))
        ++Bounds[Column];
      return;
    }
    double Expected = static_cast<double>(Finder.rowsOfAValue());
    Matches = std::max(1.0, std::min(Matches, Expected));
    if (Expected + 2 < Cost) {
      Chosen.How = Walk::Value;
      Chosen.Column = Column;
      Cost = Expected + 2;
    }
  }

  static bool isBound(Comparison Op) {
    return Op == Comparison::Less || Op == Comparison::LessEqual ||
           Op == Comparison::Greater || Op == Comparison::GreaterEqual;
  }

  /// A bounded Int column gives the rows, if that is fewer than one value of
  /// another column has. Nobody knows how wide a range is; one with both ends
  /// is mostly the span of another row, and narrow. Between equals, a column
  /// in whose order the rows are.
  void chooseRange() {
    for (auto [Column, Ends] : Bounds) {
      if (T.Schema.Columns[Column].Type != ColumnType::Int)
        continue;
      double Expected = Ends >= 2 ? Rows / 256 : Rows / 4;
      double RangeCost =
          Expected + (T.finder(Column).ascending() ? 20 : 40);
      if (RangeCost >= Cost)
        continue;
      Chosen.How = Walk::Range;
      Chosen.Column = Column;
      Cost = RangeCost;
      Matches = std::max(1.0, std::min(Matches, Expected));
    }
  }

  /// Whether rows come out as ORDER BY or GROUP BY wants them anyway.
  void order() {
    if (Info.nOrderBy != 1)
      return;
    int Column = Info.aOrderBy[0].iColumn;
    bool Down = Info.aOrderBy[0].desc;
    if (Column >= static_cast<int>(T.Schema.Columns.size()))
      return;
    // A range is walked by value unless the rows are in that order.
    bool InRowOrder =
        Chosen.How != Walk::Range || T.finder(Chosen.Column).ascending();
    if (InRowOrder && !Down && (Column < 0 || T.finder(Column).ascending())) {
      Info.orderByConsumed = 1;
      return;
    }
    // GROUP BY wants equal values together.
    if (Chosen.How == Walk::Rows && !Down && Column >= 0 &&
        sqlite3_vtab_distinct(&Info) == 1 && T.finder(Column).hasKeys()) {
      Chosen.How = Walk::Grouped;
      Chosen.Column = Column;
      Info.orderByConsumed = 1;
    }
  }

  CaseTable &T;
  sqlite3_index_info &Info;
  double Rows, Cost = 0, Matches = 0;
  int RowIdConstraint = -1;
  Plan Chosen;
  std::map<unsigned, unsigned> Bounds; ///< By column: ends of its range.
  SmallVector<int, 2> Used; ///< The constraint of each of Chosen.Checks.
};
} // namespace

Plan choosePlan(CaseTable &T, sqlite3_index_info &Info) {
  return Planner(T, Info).plan();
}

} // namespace culprit
