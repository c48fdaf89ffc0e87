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

void Column::padTo(size_t Rows) {
  switch (Kind) {
  case ColumnType::Int:
    return Ints.resize(Rows, NullInt);
  case ColumnType::Double:
    return Doubles.resize(Rows, nullDouble());
  case ColumnType::Bool:
    return Bools.resize(Rows, NullBool);
  case ColumnType::String:
    return Strings.resize(Rows, NullString);
  case ColumnType::IntList:
    return ListEnds.resize(Rows, Ints.size());
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

template <typename T>
static void appendAt(std::vector<T> &Into, const std::vector<T> &From,
                     ArrayRef<uint32_t> Rows, T Null) {
  size_t At = Into.size();
  Into.resize(At + Rows.size());
  for (uint32_t Row : Rows)
    Into[At++] = Row == NoRow ? Null : From[Row];
}

void Column::append(const Column &Other, ArrayRef<uint32_t> Rows) {
  assert(Kind == Other.Kind && "columns of one type only");
  switch (Kind) {
  case ColumnType::Int:
    return appendAt(Ints, Other.Ints, Rows, NullInt);
  case ColumnType::Double:
    return appendAt(Doubles, Other.Doubles, Rows, nullDouble());
  case ColumnType::Bool:
    return appendAt(Bools, Other.Bools, Rows, NullBool);
  case ColumnType::String:
    return appendAt(Strings, Other.Strings, Rows, NullString);
  case ColumnType::IntList:
    for (uint32_t Row : Rows)
      addList(Row == NoRow ? ArrayRef<int64_t>() : Other.list(Row));
  }
}

ArrayRef<int64_t> Column::list(size_t Row) const {
  uint64_t First = Row == 0 ? 0 : ListEnds[Row - 1];
  return ArrayRef(Ints).slice(First, ListEnds[Row] - First);
}

const std::vector<Run> *RunCache::keep(std::vector<Run> Runs) const {
  auto *Own = new std::vector<Run>(std::move(Runs));
  const std::vector<Run> *Before = nullptr;
  if (Kept.compare_exchange_strong(Before, Own, std::memory_order_acq_rel))
    return Own;
  delete Own;
  return Before;
}

void RunCache::reset() { delete Kept.exchange(nullptr); }

/// Runs this long on average save more than looking them up costs.
static constexpr size_t RowsPerRun = 64;

template <typename T>
static std::vector<Run> runsOf(const std::vector<T> &Values) {
  std::vector<Run> Out;
  size_t Most = Values.size() / RowsPerRun + 1;
  for (size_t First = 0, I = 0; First != Values.size(); First = I) {
    while (I != Values.size() && Values[I] == Values[First])
      ++I;
    if (Out.size() == Most)
      return {};
    Out.push_back({First, I, static_cast<int64_t>(Values[First])});
  }
  return Out;
}

ArrayRef<Run> Column::runs() const {
  if (const std::vector<Run> *Known = Runs.get())
    return *Known;
  if (Kind == ColumnType::Int)
    return *Runs.keep(runsOf(Ints));
  if (Kind == ColumnType::String)
    return *Runs.keep(runsOf(Strings));
  return {};
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
