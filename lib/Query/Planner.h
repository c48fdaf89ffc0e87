//===- Planner.h - How a statement walks a table ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// While a statement is prepared, SQLite asks what each set of usable
/// comparisons would cost and remembers the plan it likes best.
///
/// A plan has one way to walk the rows and any number of comparisons that are
/// checked on the way. SQLite checks all of them again, so a plan decides about
/// speed alone.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_PLANNER_H
#define CULPRIT_QUERY_PLANNER_H

#include "Query/RowFilter.h"
#include "llvm/ADT/SmallVector.h"

struct sqlite3_index_info;

namespace culprit {

struct CaseTable;

/// How a plan walks the rows.
enum class Walk : uint8_t {
  Rows,    ///< All, in order.
  RowId,   ///< The one with that number.
  Value,   ///< Those of one value of Plan::Column, in order.
  Range,   ///< Those in a range of Plan::Column, by value.
  Grouped, ///< All, by the value of Plan::Column.
};

struct Plan {
  Walk How = Walk::Rows;
  unsigned Column = 0;
  /// What is compared to each argument of xFilter; the row number for
  /// Walk::RowId is the first argument and not among them.
  struct Check {
    unsigned Column;
    Comparison Op;
  };
  llvm::SmallVector<Check, 2> Checks;
};

/// Chooses how to walk \p T and what to check, and tells SQLite in \p Info
/// what it costs; all but Info.idxNum, which is the caller's name of the plan.
Plan choosePlan(CaseTable &T, sqlite3_index_info &Info);

} // namespace culprit

#endif // CULPRIT_QUERY_PLANNER_H
