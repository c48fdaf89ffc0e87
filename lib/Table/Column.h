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

/// A column under construction or shared between tables. Immutable once a
/// Table holds it.
class Column {
public:
  explicit Column(ColumnType Type) : Kind(Type) {}

  ColumnType type() const { return Kind; }
  size_t size() const;
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
  /// Appends the value, or the null, at \p Row of \p Other, of the same type.
  void addFrom(const Column &Other, size_t Row);
  /// Appends every value of \p Other, of the same type.
  void append(const Column &Other);

  // Whole-column access; each wants the matching type.
  llvm::ArrayRef<int64_t> ints() const { return Ints; }
  llvm::ArrayRef<double> doubles() const { return Doubles; }
  llvm::ArrayRef<uint8_t> bools() const { return Bools; }
  llvm::ArrayRef<StringId> strings() const { return Strings; }
  llvm::ArrayRef<int64_t> list(size_t Row) const;

  std::vector<int64_t> &mutableInts() { return Ints; }
  std::vector<double> &mutableDoubles() { return Doubles; }

  Cell cell(size_t Row, const StringPool &Pool) const;

private:
  ColumnType Kind;
  std::vector<int64_t> Ints; ///< Also the flat values of lists.
  std::vector<double> Doubles;
  std::vector<uint8_t> Bools;
  std::vector<StringId> Strings;
  std::vector<uint64_t> ListEnds; ///< End of each list in Ints.
};

using ColumnRef = std::shared_ptr<const Column>;

} // namespace culprit

#endif // CULPRIT_TABLE_COLUMN_H
