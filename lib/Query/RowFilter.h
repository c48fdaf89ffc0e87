//===- RowFilter.h - A comparison checked on our columns --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One `column op value` of a WHERE clause, turned once into a range of keys
/// or numbers so that the check of a row is two comparisons. A filter may let
/// through too much, never too little: SQLite checks again. Where its rules of
/// conversion would matter (text against a number), the filter lets all pass.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_ROWFILTER_H
#define CULPRIT_QUERY_ROWFILTER_H

#include "Query/RowFinder.h"

struct sqlite3_value;

namespace culprit {

/// The comparisons that are checked inside.
enum class Comparison : uint8_t {
  Equal,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  IsNull,
  NotNull
};

class RowFilter {
public:
  RowFilter(const ColumnView &View, const RowFinder &Keys,
            const StringPool &Pool, Comparison Op, sqlite3_value *Value);

  /// No row at all can pass.
  bool empty() const { return Kind == Never; }
  /// The filter is no use: every row passes.
  bool passesAll() const { return Kind == Always; }
  /// A range of keys; low() and high() are its bounds, both included.
  bool isKeys() const { return Kind == KeyRange; }
  int64_t low() const { return Low; }
  int64_t high() const { return High; }

  bool passes(size_t Row) const {
    switch (Kind) {
    case Always:
      return true;
    case Never:
      return false;
    case KeyRange: {
      int64_t Key = Keys.keyAt(Row);
      return Key >= Low && Key <= High;
    }
    case NumberRange: {
      double Value = View.getDouble(Row);
      return Value >= LowNumber && Value <= HighNumber;
    }
    case Null:
      return isNull(Row);
    case Some:
      return !isNull(Row);
    }
    return true;
  }

private:
  bool isNull(size_t Row) const;
  void setInt(Comparison Op, sqlite3_value *Value);
  void setDouble(Comparison Op, sqlite3_value *Value);

  enum { Always, Never, KeyRange, NumberRange, Null, Some } Kind = Always;
  const ColumnView &View;
  const RowFinder &Keys;
  int64_t Low = NullInt + 1; ///< NullInt itself is no value and never passes.
  int64_t High = std::numeric_limits<int64_t>::max();
  double LowNumber = -std::numeric_limits<double>::infinity();
  double HighNumber = std::numeric_limits<double>::infinity();
};

} // namespace culprit

#endif // CULPRIT_QUERY_ROWFILTER_H
