//===- Intervals.h - Interval algebra over rows -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Half-open intervals [start, stop) in int64 ns, from the columns `start` and
/// `stop`. Inputs need not be sorted or disjoint; every verb sorts a copy when
/// it must. Results are sorted by start and disjoint, with the columns
/// `start`, `stop`, `dur`. Rows with a null bound or with stop < start are
/// ignored. Empty intervals cover nothing and do not widen a span either, so
/// covered length and gaps add up to the span.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_INTERVALS_H
#define CULPRIT_TABLE_INTERVALS_H

#include "Table/Table.h"

namespace culprit {

/// The maximal intervals that the rows of \p T cover.
llvm::Expected<Table> unionOf(const Table &T);

/// The intervals between the maximal covered ones: from the first start to
/// the last stop of \p T. Besides start, stop, dur, the columns `before` and
/// `after` hold the row numbers in \p T of the row that ends a gap's left
/// neighbour last and of the row that starts its right neighbour first; of
/// several such rows the first.
llvm::Expected<Table> gapsOf(const Table &T);

/// What \p A and \p B both cover.
llvm::Expected<Table> intersect(const Table &A, const Table &B);

/// What \p A covers and \p B does not. "Exposed" time is this.
llvm::Expected<Table> subtract(const Table &A, const Table &B);

/// For each row of \p A, how many ns of it the union of \p B covers: an Int
/// column in the row order of \p A. Null where a bound of A is null or its
/// stop is before its start.
llvm::Expected<ColumnRef> overlapWith(const Table &A, const Table &B);

/// For each row of \p A, how many ns of it no row of \p B covers: its length
/// less overlapWith().
llvm::Expected<ColumnRef> exposedTo(const Table &A, const Table &B);

/// How many intervals of \p T are open at a time: from the first start to the
/// last stop the longest stretches of one number, which may be 0, as start,
/// stop, dur and depth.
llvm::Expected<Table> depthOf(const Table &T);

/// For each row of \p A the row number in \p B of the interval that contains
/// A's start, or null. If several do, the innermost: the latest start, then
/// the earliest stop, then the first row.
llvm::Expected<ColumnRef> containing(const Table &A, const Table &B);

/// Total covered length in ns.
llvm::Expected<int64_t> coveredLength(const Table &T);

/// Latest stop less earliest start in ns; 0 for an empty table.
llvm::Expected<int64_t> spanOf(const Table &T);

} // namespace culprit

#endif // CULPRIT_TABLE_INTERVALS_H
