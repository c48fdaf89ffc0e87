//===- Joins.h - Joins by time ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Joins that do not ask for equality alone. As with Table::join, a column of
/// the other table whose name is taken gets `_right`, keys are not repeated,
/// and a null key matches nothing.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_JOINS_H
#define CULPRIT_TABLE_JOINS_H

#include "Table/Table.h"
#include <optional>

namespace culprit {

enum class AsofDirection {
  Backward, ///< The last row that is not later; of several the last.
  Forward,  ///< The first row that is not earlier; of several the first.
  Nearest   ///< The closer of the two; Backward where both are as close.
};

/// Every row of \p A with the columns of one row of \p B that agrees on
/// \p Keys, chosen by the column \p On, which is Int or Double in both; nulls
/// where there is none within \p Tolerance. Takes n log n.
llvm::Expected<Table> joinAsof(const Table &A, const Table &B,
                               llvm::StringRef On,
                               llvm::ArrayRef<std::string> Keys,
                               AsofDirection Direction,
                               std::optional<double> Tolerance);

/// A row for each pair of intervals of \p A and \p B that agree on \p Keys and
/// have some time in common, with `overlap`, the ns of it. In the order of A's
/// rows, then of B's starts. Fails beyond \p MostPairs.
llvm::Expected<Table> joinOverlapping(const Table &A, const Table &B,
                                      llvm::ArrayRef<std::string> Keys,
                                      size_t MostPairs = 10'000'000);

} // namespace culprit

#endif // CULPRIT_TABLE_JOINS_H
