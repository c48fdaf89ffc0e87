//===- Column.h - Typed columns ---------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A column is a plain vector of one type. "No value" is a reserved value of
/// the type, as in R, and not a bitmap: NullInt, a NaN with a payload of its
/// own (a logged NaN is data and stays distinct), 2 for bool, NullString, and
/// the empty list.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_COLUMN_H
#define CULPRIT_TABLE_COLUMN_H

#include "Table/StringPool.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <variant>
#include <vector>

namespace culprit {

enum class ColumnType : uint8_t { Int, Double, Bool, String, IntList };

/// "int", "double", "bool", "string", "int list".
llvm::StringRef toString(ColumnType Type);

inline constexpr int64_t NullInt = std::numeric_limits<int64_t>::min();
inline constexpr uint8_t NullBool = 2;
/// In an index of rows: none.
inline constexpr uint32_t NoRow = UINT32_MAX;

/// The double that means "no value": a NaN with the payload 1954, R's choice.
inline double nullDouble() {
  return std::bit_cast<double>(uint64_t(0x7ff80000000007a2));
}
/// True for nullDouble() alone; a computed or logged NaN is a value.
inline bool isNullDouble(double Value) {
  return std::bit_cast<uint64_t>(Value) == 0x7ff80000000007a2;
}

/// One cell. A String cell refers to text that the pool owns.
struct Cell {
  ColumnType Type = ColumnType::Int;
  bool Null = true;
  int64_t Int = 0; ///< Int, and Bool as 0 or 1.
  double Double = 0;
  llvm::StringRef String;
  llvm::ArrayRef<int64_t> List;

  /// Int, Bool and Double as a double; NaN when null or not numeric.
  double number() const;
  /// As text for reports: 1234, 0.25, true, abc, [8, 64]; "-" when null.
  std::string text() const;
};

/// Rows [First, Last) of a column hold the one value \p Word: an integer, or
/// the id of a text.
struct Run {
  size_t First, Last;
  int64_t Word;
};

/// The runs of a column, found when first asked for. A copy begins anew.
class RunCache {
public:
  RunCache() = default;
  RunCache(const RunCache &) {}
  RunCache &operator=(const RunCache &) {
    reset();
    return *this;
  }
  ~RunCache() { reset(); }

  /// What is kept, or null before keep().
  const std::vector<Run> *get() const {
    return Kept.load(std::memory_order_acquire);
  }
  /// Keeps \p Runs, unless another thread was first; what is kept then.
  const std::vector<Run> *keep(std::vector<Run> Runs) const;

private:
  void reset();

  mutable std::atomic<const std::vector<Run> *> Kept{nullptr};
};

/// A column under construction or shared between tables. Immutable once a
/// Table holds it.
class Column {
public:
  explicit Column(ColumnType Type) : Kind(Type) {}

  ColumnType type() const { return Kind; }
  size_t size() const {
    switch (Kind) {
    case ColumnType::Int:
      return Ints.size();
    case ColumnType::Double:
      return Doubles.size();
    case ColumnType::Bool:
      return Bools.size();
    case ColumnType::String:
      return Strings.size();
    case ColumnType::IntList:
      break;
    }
    return ListEnds.size();
  }
  bool isNull(size_t Row) const;
  /// Heap bytes held.
  size_t bytes() const;
  void reserve(size_t Rows);

  // Appending; each wants the matching type.
  void addInt(int64_t Value) { Ints.push_back(Value); }
  void addDouble(double Value) { Doubles.push_back(Value); }
  void addBool(bool Value) { Bools.push_back(Value); }
  void addString(StringId Value) { Strings.push_back(Value); }
  void addList(llvm::ArrayRef<int64_t> Value);
  void addNull();
  /// Appends nulls up to \p Rows rows.
  void padTo(size_t Rows);
  /// Appends the value, or the null, at \p Row of \p Other, of the same type.
  void addFrom(const Column &Other, size_t Row);
  /// Appends every value of \p Other, of the same type.
  void append(const Column &Other);
  /// Appends the values at \p Rows of \p Other, of the same type; a null for
  /// each row that is NoRow.
  void append(const Column &Other, llvm::ArrayRef<uint32_t> Rows);

  // Whole-column access; each wants the matching type.
  llvm::ArrayRef<int64_t> ints() const { return Ints; }
  llvm::ArrayRef<double> doubles() const { return Doubles; }
  llvm::ArrayRef<uint8_t> bools() const { return Bools; }
  llvm::ArrayRef<StringId> strings() const { return Strings; }
  llvm::ArrayRef<int64_t> list(size_t Row) const;

  std::vector<int64_t> &mutableInts() { return Ints; }
  std::vector<double> &mutableDoubles() { return Doubles; }

  Cell cell(size_t Row, const StringPool &Pool) const;

  /// The column as runs of equal values, in order; empty where they are too
  /// many to help. Profiles are put together rank by rank, so columns such as
  /// `rank` are a few runs, and a filter on one need not look at every row.
  /// Int and String only, and only once a table holds the column.
  llvm::ArrayRef<Run> runs() const;

private:
  ColumnType Kind;
  std::vector<int64_t> Ints; ///< Also the flat values of lists.
  std::vector<double> Doubles;
  std::vector<uint8_t> Bools;
  std::vector<StringId> Strings;
  std::vector<uint64_t> ListEnds; ///< End of each list in Ints.
  RunCache Runs;
};

using ColumnRef = std::shared_ptr<const Column>;

} // namespace culprit

#endif // CULPRIT_TABLE_COLUMN_H
