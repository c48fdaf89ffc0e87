//===- Series.h - Values in their order -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// More operations on columns. As in Statistics.h nulls are left out, and so
/// are values that are not finite.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_SERIES_H
#define CULPRIT_TABLE_SERIES_H

#include "Table/Table.h"
#include <optional>

namespace culprit {

/// The values of \p View, of \p Rows rows, \p By rows further down (up when
/// negative); null where that leaves none.
ColumnRef shifted(const ColumnView &View, size_t Rows, int64_t By);

/// The sum of all values up to each; null where there is no value. Integers
/// wrap.
std::vector<int64_t> runningSums(llvm::ArrayRef<int64_t> Values);
std::vector<double> runningSums(llvm::ArrayRef<double> Values);

/// The place of each value among all in ascending order, from 1; equal ones
/// share the mean of theirs.
std::vector<double> ranksOf(llvm::ArrayRef<double> Values);

/// Pearson's correlation of the rows that have both; none for fewer than two,
/// or where one side is all the same.
std::optional<double> correlation(llvm::ArrayRef<double> X,
                                  llvm::ArrayRef<double> Y);
/// The same of ranks, Spearman's.
std::optional<double> rankCorrelation(llvm::ArrayRef<double> X,
                                      llvm::ArrayRef<double> Y);

/// \p Bins edges and one more of equal distance from the least to the largest
/// of \p Values; none without values. All the same is one bin of width 0.
std::vector<double> evenEdges(llvm::ArrayRef<double> Values, size_t Bins);
/// How many of \p Values lie in each bin [edge, next edge), the last of which
/// holds its end too. \p Edges rise.
std::vector<int64_t> histogram(llvm::ArrayRef<double> Values,
                               llvm::ArrayRef<double> Edges);

} // namespace culprit

#endif // CULPRIT_TABLE_SERIES_H
