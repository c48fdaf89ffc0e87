//===- Column.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Column.h"
#include "Support/Units.h"
#include "llvm/Support/ErrorHandling.h"

using namespace llvm;

namespace culprit {

StringRef toString(ColumnType Type) {
  switch (Type) {
  case ColumnType::Int:
    return "int";
  case ColumnType::Double:
    return "double";
  case ColumnType::Bool:
    return "bool";
  case ColumnType::String:
    return "string";
  case ColumnType::IntList:
    return "int list";
  }
  llvm_unreachable("unknown column type");
}

double Cell::number() const {
  if (Null)
    return nullDouble();
  switch (Type) {
  case ColumnType::Int:
  case ColumnType::Bool:
    return static_cast<double>(Int);
  case ColumnType::Double:
    return Double;
  default:
    return nullDouble();
  }
}

std::string Cell::text() const {
  if (Null)
    return "-";
  switch (Type) {
  case ColumnType::Int:
    return std::to_string(Int);
  case ColumnType::Bool:
    return Int ? "true" : "false";
  case ColumnType::Double:
    return formatNumber(Double, 6);
  case ColumnType::String:
    return String.str();
  case ColumnType::IntList: {
    std::string Out = "[";
    for (size_t I = 0; I != List.size(); ++I) {
      if (I)
        Out += ", ";
      Out += std::to_string(List[I]);
    }
    return Out + "]";
  }
  }
  llvm_unreachable("unknown column type");
}

size_t Column::size() const {
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
    return ListEnds.size();
  }
  llvm_unreachable("unknown column type");
}

bool Column::isNull(size_t Row) const {
  switch (Kind) {
  case ColumnType::Int:
    return Ints[Row] == NullInt;
  case ColumnType::Double:
    return isNullDouble(Doubles[Row]);
  case ColumnType::Bool:
    return Bools[Row] == NullBool;
  case ColumnType::String:
    return Strings[Row] == NullString;
  case ColumnType::IntList:
    return list(Row).empty();
  }
  llvm_unreachable("unknown column type");
}

size_t Column::bytes() const {
  return Ints.capacity() * sizeof(int64_t) +
         Doubles.capacity() * sizeof(double) + Bools.capacity() +
         Strings.capacity() * sizeof(StringId) +
         ListEnds.capacity() * sizeof(uint64_t);
}

void Column::reserve(size_t Rows) {
  switch (Kind) {
  case ColumnType::Int:
    return Ints.reserve(Rows);
  case ColumnType::Double:
    return Doubles.reserve(Rows);
  case ColumnType::Bool:
    return Bools.reserve(Rows);
  case ColumnType::String:
    return Strings.reserve(Rows);
  case ColumnType::IntList:
    return ListEnds.reserve(Rows);
  }
}

void Column::addList(ArrayRef<int64_t> Value) {
  Ints.insert(Ints.end(), Value.begin(), Value.end());
  ListEnds.push_back(Ints.size());
}

void Column::addNull() {
  switch (Kind) {
  case ColumnType::Int:
    return addInt(NullInt);
  case ColumnType::Double:
    return addDouble(nullDouble());
  case ColumnType::Bool:
    return Bools.push_back(NullBool);
  case ColumnType::String:
    return addString(NullString);
  case ColumnType::IntList:
    return addList({});
  }
}

void Column::addFrom(const Column &Other, size_t Row) {
  assert(Kind == Other.Kind && "columns of one type only");
  switch (Kind) {
  case ColumnType::Int:
    return addInt(Other.Ints[Row]);
  case ColumnType::Double:
    return addDouble(Other.Doubles[Row]);
  case ColumnType::Bool:
    return Bools.push_back(Other.Bools[Row]); // NullBool stays itself
  case ColumnType::String:
    return addString(Other.Strings[Row]);
  case ColumnType::IntList:
    return addList(Other.list(Row));
  }
}

void Column::append(const Column &Other) {
  assert(Kind == Other.Kind && "columns of one type only");
  uint64_t Base = Ints.size();
  Ints.insert(Ints.end(), Other.Ints.begin(), Other.Ints.end());
  Doubles.insert(Doubles.end(), Other.Doubles.begin(), Other.Doubles.end());
  Bools.insert(Bools.end(), Other.Bools.begin(), Other.Bools.end());
  Strings.insert(Strings.end(), Other.Strings.begin(), Other.Strings.end());
  for (uint64_t End : Other.ListEnds)
    ListEnds.push_back(Base + End);
}

ArrayRef<int64_t> Column::list(size_t Row) const {
  uint64_t First = Row == 0 ? 0 : ListEnds[Row - 1];
  return ArrayRef(Ints).slice(First, ListEnds[Row] - First);
}

Cell Column::cell(size_t Row, const StringPool &Pool) const {
  Cell Out;
  Out.Type = Kind;
  Out.Null = isNull(Row);
  if (Out.Null)
    return Out;
  switch (Kind) {
  case ColumnType::Int:
    Out.Int = Ints[Row];
    break;
  case ColumnType::Double:
    Out.Double = Doubles[Row];
    break;
  case ColumnType::Bool:
    Out.Int = Bools[Row];
    break;
  case ColumnType::String:
    Out.String = Pool.text(Strings[Row]);
    break;
  case ColumnType::IntList:
    Out.List = list(Row);
    break;
  }
  return Out;
}

} // namespace culprit
