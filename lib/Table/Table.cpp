//===- Table.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Table.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <numeric>

using namespace llvm;

namespace culprit {

static double toDouble(int64_t Value) {
  return Value == NullInt ? nullDouble() : static_cast<double>(Value);
}

double ColumnView::number(size_t I) const {
  size_t Row = row(I);
  switch (Data->type()) {
  case ColumnType::Int:
    return toDouble(Data->ints()[Row]);
  case ColumnType::Double:
    return Data->doubles()[Row];
  case ColumnType::Bool: {
    uint8_t Value = Data->bools()[Row];
    return Value == NullBool ? nullDouble() : Value;
  }
  default:
    return nullDouble();
  }
}

ColumnRef ColumnView::taken(ArrayRef<uint32_t> Chosen) const {
  auto Out = std::make_shared<Column>(type());
  if (!Rows) {
    Out->append(*Data, Chosen);
    return Out;
  }
  RowIndex Through(Chosen.size());
  for (size_t I = 0; I != Chosen.size(); ++I)
    Through[I] = Chosen[I] == NoRow ? NoRow : (*Rows)[Chosen[I]];
  Out->append(*Data, Through);
  return Out;
}

ColumnRef ColumnView::dense() const {
  if (!Rows)
    return Data;
  auto Out = std::make_shared<Column>(type());
  Out->append(*Data, *Rows);
  return Out;
}

Table::Table(std::string Name, std::shared_ptr<StringPool> Pool)
    : Name(std::move(Name)),
      Pool(Pool ? std::move(Pool) : std::make_shared<StringPool>()) {}

Table::Table(std::string Name, std::shared_ptr<StringPool> Pool,
             std::vector<std::pair<std::string, ColumnRef>> Columns,
             size_t Rows, bool IsOrigin)
    : Table(std::move(Name), std::move(Pool)) {
  NumRows = Rows;
  for (auto &[ColumnName, Data] : Columns) {
    assert(Data->size() == Rows && "columns of one length only");
    Views.push_back({std::move(ColumnName), std::move(Data), nullptr});
  }
  if (IsOrigin)
    Origin = this->Name;
}

Table::Table(std::string Name, std::shared_ptr<StringPool> Pool,
             std::vector<ColumnView> Columns, size_t Rows, bool IsOrigin)
    : Table(std::move(Name), std::move(Pool)) {
  NumRows = Rows;
  Views.assign(std::make_move_iterator(Columns.begin()),
               std::make_move_iterator(Columns.end()));
  if (IsOrigin)
    Origin = this->Name;
}

const ColumnView *Table::find(StringRef Name) const {
  for (const ColumnView &View : Views)
    if (View.Name == Name)
      return &View;
  return nullptr;
}

Expected<const ColumnView *> Table::column(StringRef Wanted) const {
  if (const ColumnView *View = find(Wanted))
    return View;
  std::vector<std::string> Names;
  for (const ColumnView &View : Views)
    Names.push_back(View.Name);
  std::string Close = closestName(Wanted, Names);
  return failure("unknown column '" + Wanted + "' in '" + Name + "'",
                 (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                     "columns: " + llvm::join(Names, ", "));
}

Expected<const ColumnView *> Table::column(StringRef Wanted,
                                           ColumnType Type) const {
  Expected<const ColumnView *> View = column(Wanted);
  if (View && (*View)->type() != Type)
    return failure("column '" + Wanted + "' in '" + Name + "' is " +
                   toString((*View)->type()) + ", not " + toString(Type));
  return View;
}

bool Table::keeps(StringRef ColumnName, const Table &Of) const {
  const ColumnView *Mine = find(ColumnName), *Theirs = Of.find(ColumnName);
  if (!Mine || !Theirs || Mine->Data != Theirs->Data || Origin.empty() ||
      Origin != Of.Origin || Of.OriginRows)
    return false;
  // A constant is one value, whatever the rows.
  return Mine->Data->size() == 1 ||
         (!Theirs->Rows && Mine->Rows == OriginRows);
}

/// Reads \p Outer through \p Inner: the index of a filtered view.
static std::shared_ptr<const RowIndex>
compose(const std::shared_ptr<const RowIndex> &Inner,
        const std::shared_ptr<const RowIndex> &Outer) {
  if (!Inner)
    return Outer;
  auto Result = std::make_shared<RowIndex>(Outer->size());
  for (size_t I = 0, E = Outer->size(); I != E; ++I)
    (*Result)[I] = (*Inner)[(*Outer)[I]];
  return Result;
}

Table Table::take(RowIndex Rows) const {
  auto Shared = std::make_shared<const RowIndex>(std::move(Rows));
  Table Out(Name, Pool);
  Out.NumRows = Shared->size();
  // Columns of one origin share one index; compose it once.
  SmallVector<std::pair<const RowIndex *, std::shared_ptr<const RowIndex>>, 4>
      Done;
  auto composed = [&](const std::shared_ptr<const RowIndex> &Inner) {
    for (auto &[Key, Result] : Done)
      if (Key == Inner.get())
        return Result;
    Done.push_back({Inner.get(), compose(Inner, Shared)});
    return Done.back().second;
  };
  for (const ColumnView &View : Views)
    Out.Views.push_back({View.Name, View.Data, composed(View.Rows)});
  if (!Origin.empty()) {
    Out.Origin = Origin;
    Out.OriginRows = composed(OriginRows);
  }
  return Out;
}

Table Table::slice(size_t First, size_t Count) const {
  First = std::min(First, NumRows);
  Count = std::min(Count, NumRows - First);
  RowIndex Rows(Count);
  std::iota(Rows.begin(), Rows.end(), static_cast<uint32_t>(First));
  return take(std::move(Rows));
}

Expected<Table> Table::select(ArrayRef<std::string> Names) const {
  Table Out = *this;
  Out.Views.clear();
  for (const std::string &Wanted : Names) {
    Expected<const ColumnView *> View = column(Wanted);
    if (!View)
      return View.takeError();
    Out.Views.push_back(**View);
  }
  return Out;
}

Table Table::with(StringRef ColumnName, ColumnRef Data) const {
  assert(Data->size() == NumRows && "a value for every row");
  Table Out = *this;
  for (ColumnView &View : Out.Views) {
    if (View.Name != ColumnName)
      continue;
    View.Data = std::move(Data);
    View.Rows = nullptr;
    return Out;
  }
  Out.Views.push_back({ColumnName.str(), std::move(Data), nullptr});
  return Out;
}

Table Table::renamed(std::string NewName) const {
  Table Out = *this;
  Out.Name = std::move(NewName);
  return Out;
}

Expected<Table> Table::around(size_t OriginRowNumber, size_t N) const {
  for (size_t I = 0; I != NumRows; ++I) {
    if (originRow(I) != OriginRowNumber)
      continue;
    N = std::min(N, NumRows); // any N may be asked for
    size_t First = I < N ? 0 : I - N;
    return slice(First, I + N + 1 - First);
  }
  return failure("around: '" + Name + "' does not hold that row",
                 "pass a row of the same table, before it was filtered away");
}

/// \p First followed by \p Second, \p Rows and \p OtherRows long.
static std::shared_ptr<const RowIndex>
joined(const RowIndex *First, size_t Rows, const RowIndex *Second,
       size_t OtherRows) {
  auto Out = std::make_shared<RowIndex>();
  Out->reserve(Rows + OtherRows);
  for (auto [Index, Count] : {std::pair(First, Rows), {Second, OtherRows}}) {
    if (Index) {
      Out->insert(Out->end(), Index->begin(), Index->end());
      continue;
    }
    size_t At = Out->size();
    Out->resize(At + Count);
    std::iota(Out->begin() + static_cast<ptrdiff_t>(At), Out->end(), 0);
  }
  return Out;
}

Expected<Table> Table::concat(const Table &Other) const {
  Table Out(Name, Pool);
  Out.NumRows = NumRows + Other.NumRows;
  // Rows of one column need no copy, and most columns share their index.
  struct Shared {
    const RowIndex *First, *Second;
    std::shared_ptr<const RowIndex> Rows;
  };
  SmallVector<Shared, 4> Done;
  auto indexOf = [&](const RowIndex *First, const RowIndex *Second) {
    for (const Shared &S : Done)
      if (S.First == First && S.Second == Second)
        return S.Rows;
    Done.push_back(
        {First, Second, joined(First, NumRows, Second, Other.NumRows)});
    return Done.back().Rows;
  };
  for (const ColumnView &View : Views) {
    const ColumnView *Second = Other.find(View.Name);
    if (!Second || Second->type() != View.type())
      continue;
    if (View.Data == Second->Data) {
      Out.Views.push_back({View.Name, View.Data,
                           indexOf(View.Rows.get(), Second->Rows.get())});
      continue;
    }
    auto Data = std::make_shared<Column>(View.type());
    Data->reserve(Out.NumRows);
    for (const ColumnView *Source : {&View, Second})
      if (Source->Rows)
        Data->append(*Source->Data, *Source->Rows);
      else
        Data->append(*Source->Data);
    Out.Views.push_back({View.Name, std::move(Data), nullptr});
  }
  // Rows of one case table stay citable.
  if (!Origin.empty() && Origin == Other.Origin) {
    Out.Origin = Origin;
    Out.OriginRows = indexOf(OriginRows.get(), Other.OriginRows.get());
  }
  return Out;
}

Expected<std::vector<double>> Table::numbers(StringRef Wanted) const {
  Expected<const ColumnView *> View = column(Wanted);
  if (!View)
    return View.takeError();
  if ((*View)->type() == ColumnType::String ||
      (*View)->type() == ColumnType::IntList)
    return failure("column '" + Wanted + "' in '" + Name + "' is " +
                   toString((*View)->type()) + ", not a number");
  const Column &Data = *(*View)->Data;
  const uint32_t *Rows = (*View)->Rows ? (*View)->Rows->data() : nullptr;
  // An index of no rows has no data either.
  if (!(*View)->Rows && Data.type() == ColumnType::Double)
    return Data.doubles().vec();
  std::vector<double> Out(NumRows);
  if (Data.type() == ColumnType::Double)
    for (size_t I = 0; I != NumRows; ++I)
      Out[I] = Data.doubles()[Rows[I]];
  else if (Data.type() == ColumnType::Int && !Rows)
    for (size_t I = 0; I != NumRows; ++I)
      Out[I] = toDouble(Data.ints()[I]);
  else if (Data.type() == ColumnType::Int)
    for (size_t I = 0; I != NumRows; ++I)
      Out[I] = toDouble(Data.ints()[Rows[I]]);
  else
    for (size_t I = 0; I != NumRows; ++I)
      Out[I] = (*View)->number(I);
  return Out;
}

Expected<std::vector<int64_t>> Table::integers(StringRef Wanted) const {
  Expected<const ColumnView *> View = column(Wanted, ColumnType::Int);
  if (!View)
    return View.takeError();
  ArrayRef<int64_t> Values = (*View)->Data->ints();
  if (!(*View)->Rows)
    return Values.vec();
  std::vector<int64_t> Out(NumRows);
  const uint32_t *Rows = (*View)->Rows->data();
  for (size_t I = 0; I != NumRows; ++I)
    Out[I] = Values[Rows[I]];
  return Out;
}

} // namespace culprit
