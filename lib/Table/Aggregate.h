//===- Aggregate.h - Figures of groups of rows ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One row for each group of rows, with figures: rows that agree on some keys,
/// or that begin in one stretch of time. A figure is written as a text:
///
///   count            how many rows there are
///   count COL        how many have a value
///   sum, min, max COL          exact for integers; sum of none is 0
///   mean, median, std COL      of the finite values
///   p50, p99, p99.9 COL        percentiles, as quantile()
///   distinct COL     how many distinct values
///   first, last COL  the value in the first or last row, of any type
///   covered          of windows: the ns that rows cover, whenever they begin
///
/// Nulls are left out, and values that are not finite; a figure without values
/// is null.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_AGGREGATE_H
#define CULPRIT_TABLE_AGGREGATE_H

#include "Table/Table.h"
#include <optional>

namespace culprit {

/// A column to make: its name and its figure, "sum dur".
struct NamedFigure {
  std::string Name, Figure;
};

/// The distinct \p Keys of \p T in order of first appearance, with \p Figures
/// of their rows. Rows with a null in their key are left out.
llvm::Expected<Table> aggregate(const Table &T,
                                llvm::ArrayRef<std::string> Keys,
                                llvm::ArrayRef<NamedFigure> Figures);

/// Windows of \p Width ns one after another, from \p First or the earliest
/// start to the one in which the last row begins: start, stop, dur and
/// \p Figures of the rows whose start lies in it. Windows without rows stand
/// there too. Fails beyond a million windows.
llvm::Expected<Table> windowsOf(const Table &T, int64_t Width,
                                llvm::ArrayRef<NamedFigure> Figures,
                                std::optional<int64_t> First = std::nullopt);

} // namespace culprit

#endif // CULPRIT_TABLE_AGGREGATE_H
