//===- RowFinder.h - Finding the rows of one column -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What a query may need to know of one column: which rows hold a value, which
/// lie in a range, whether the rows are in order. Each index is built when it
/// is first worth its cost and kept as long as the query's database.
///
/// Expected workload: a report's query touches each column once, and a scan is
/// then the cheapest there is; a join asks for one value a row of the other
/// table, and a scan each time would be quadratic. So the first questions are
/// answered by scanning and an index is built when they do not end. A hash
/// index over 200,000 correlation ids takes 3 ms and 2 MB.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_ROWFINDER_H
#define CULPRIT_QUERY_ROWFINDER_H

#include "Table/Table.h"
#include <optional>

namespace culprit {

/// A column of a table whose rows are looked for. Not thread-safe.
class RowFinder {
public:
  /// \p View is a column of a table of \p Rows rows; both outlive this.
  RowFinder(const ColumnView &View, size_t Rows) : View(View), Rows(Rows) {}

  static constexpr uint32_t NoRow = ~uint32_t(0);

  /// Whether keyAt has a meaning: Int, Bool and String.
  bool hasKeys() const;
  /// The value of row \p Row as a number: an Int, a Bool as 0 or 1, the id of
  /// a String; NullInt for no value. Wants hasKeys().
  int64_t keyAt(size_t Row) const {
    size_t I = View.row(Row);
    switch (View.type()) {
    case ColumnType::Bool:
      return View.Data->isNull(I) ? NullInt : View.Data->bools()[I];
    case ColumnType::String: {
      StringId Id = View.Data->strings()[I];
      return Id == NullString ? NullInt : static_cast<int64_t>(Id);
    }
    default:
      return View.Data->ints()[I];
    }
  }

  /// About how many rows hold one value, from a sample; at least 1. Wants
  /// hasKeys().
  size_t rowsOfAValue();

  /// Whether the values of an Int column never fall from row to row, "no
  /// value" being the smallest.
  bool ascending();

  /// Tells that a value, or a range, is about to be looked for. True once an
  /// index is worth it: at the third time.
  bool askedOften() { return ++Questions > 2; }

  /// The first row whose key is \p Key, and the next one after \p Row; NoRow
  /// at the end. Rows come in order. Builds the hash index.
  uint32_t firstOf(int64_t Key);
  uint32_t nextOf(int64_t Key, uint32_t Row) const;

  /// Rows by value, rows of equal value in order, those without a value left
  /// out. Null when the rows themselves are in that order.
  const RowIndex *byValue();
  /// The part of byValue(), or of the rows if that is null, whose values lie
  /// in [\p Low, \p High], as positions [first, second).
  std::pair<size_t, size_t> range(int64_t Low, int64_t High);

  /// Every row once, rows of one value together in order; values rise as
  /// SQLite sorts them, no value first, texts by their bytes. Wants hasKeys().
  const RowIndex &grouped(const StringPool &Pool);

private:
  void buildHash();
  size_t bucketOf(int64_t Key) const {
    return (static_cast<uint64_t>(Key) * 0x9E3779B97F4A7C15u) >> HashShift;
  }

  const ColumnView &View;
  size_t Rows;
  unsigned Questions = 0;
  unsigned HashShift = 0;
  RowIndex Heads, Nexts; ///< Hash index: first row a bucket, next row a row.
  std::optional<bool> Ascending;
  std::optional<size_t> SampledRows;
  std::optional<RowIndex> ByValue, Grouped;
};

} // namespace culprit

#endif // CULPRIT_QUERY_ROWFINDER_H
