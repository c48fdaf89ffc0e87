//===- RowFilter.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/RowFilter.h"
#include <cmath>
#include <sqlite3.h>

using namespace llvm;

namespace culprit {

RowFilter::RowFilter(const ColumnView &View, const RowFinder &Keys,
                     const StringPool &Pool, Comparison Op,
                     sqlite3_value *Value)
    : View(View), Keys(Keys) {
  if (Op == Comparison::IsNull || Op == Comparison::NotNull) {
    Kind = Op == Comparison::IsNull ? Null : Some;
    return;
  }
  int Type = sqlite3_value_type(Value);
  if (Type == SQLITE_NULL) {
    Kind = Never; // a comparison with NULL is never true
    return;
  }
  switch (View.type()) {
  case ColumnType::Int:
  case ColumnType::Bool:
    setInt(Op, Value);
    break;
  case ColumnType::Double:
    setDouble(Op, Value);
    break;
  case ColumnType::String:
    if (Op != Comparison::Equal || Type != SQLITE_TEXT)
      break;
    if (StringId Id = Pool.lookup(StringRef(
            reinterpret_cast<const char *>(sqlite3_value_text(Value)),
            static_cast<size_t>(sqlite3_value_bytes(Value))))) {
      Kind = KeyRange;
      Low = High = static_cast<int64_t>(Id);
    } else {
      Kind = Never;
    }
    break;
  case ColumnType::IntList:
    break;
  }
}

void RowFilter::setInt(Comparison Op, sqlite3_value *Value) {
  constexpr int64_t Max = std::numeric_limits<int64_t>::max();
  int64_t Floor, Ceiling; // of the value; equal for an integer
  switch (sqlite3_value_type(Value)) {
  case SQLITE_INTEGER:
    Floor = Ceiling = sqlite3_value_int64(Value);
    break;
  case SQLITE_FLOAT: {
    double Number = sqlite3_value_double(Value);
    if (!(std::fabs(Number) < 9e18))
      return;
    Floor = static_cast<int64_t>(std::floor(Number));
    Ceiling = static_cast<int64_t>(std::ceil(Number));
    break;
  }
  default:
    return;
  }
  Kind = KeyRange;
  switch (Op) {
  case Comparison::Equal:
    Low = std::max(Low, Ceiling); // above High for 2.5
    High = Floor;
    break;
  case Comparison::Less: // the largest integer below it
    if (Ceiling == NullInt)
      Kind = Never;
    else
      High = Ceiling - 1;
    break;
  case Comparison::LessEqual:
    High = Floor;
    break;
  case Comparison::Greater:
    if (Floor == Max)
      Kind = Never;
    else
      Low = std::max(Low, Floor + 1);
    break;
  case Comparison::GreaterEqual:
    Low = std::max(Low, Ceiling);
    break;
  case Comparison::IsNull:
  case Comparison::NotNull:
    break;
  }
  if (Kind == KeyRange && Low > High)
    Kind = Never;
}

void RowFilter::setDouble(Comparison Op, sqlite3_value *Value) {
  int Type = sqlite3_value_type(Value);
  if (Type != SQLITE_INTEGER && Type != SQLITE_FLOAT)
    return;
  double Number = sqlite3_value_double(Value);
  // Beyond 2^53 the conversion of an integer rounds.
  if (Type == SQLITE_INTEGER && std::fabs(Number) > 9007199254740992.0)
    return;
  // "<" is let through as "<=": SQLite checks again. NaN fails every range.
  Kind = NumberRange;
  if (Op == Comparison::Equal || Op == Comparison::Less ||
      Op == Comparison::LessEqual)
    HighNumber = Number;
  if (Op == Comparison::Equal || Op == Comparison::Greater ||
      Op == Comparison::GreaterEqual)
    LowNumber = Number;
}

bool RowFilter::isNull(size_t Row) const {
  // What SQLite sees as NULL: NaN too, see docs/sql.md.
  if (View.type() == ColumnType::Double)
    return std::isnan(View.getDouble(Row));
  return View.isNull(Row);
}

} // namespace culprit
