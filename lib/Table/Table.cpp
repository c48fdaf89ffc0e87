//===- Table.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Table.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "Table/RunSort.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

double ColumnView::number(size_t I) const {
  size_t Row = row(I);
  switch (Data->type()) {
  case ColumnType::Int: {
    int64_t Value = Data->ints()[Row];
    return Value == NullInt ? nullDouble() : static_cast<double>(Value);
  }
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

namespace {

/// Compares rows of one column: negative, zero, positive; nulls last.
class RowOrder {
public:
  RowOrder(const ColumnView &View, const StringPool &Pool, bool Descending)
      : View(View), Pool(Pool), Sign(Descending ? -1 : 1) {}

  int operator()(uint32_t A, uint32_t B) const {
    size_t RowA = View.row(A), RowB = View.row(B);
    bool NullA = View.Data->isNull(RowA), NullB = View.Data->isNull(RowB);
    if (NullA || NullB)
      return int(NullA) - int(NullB);
    switch (View.type()) {
    case ColumnType::Int:
      return Sign * three(View.Data->ints()[RowA], View.Data->ints()[RowB]);
    case ColumnType::Bool:
      return Sign * three(View.Data->bools()[RowA], View.Data->bools()[RowB]);
    case ColumnType::Double: {
      double X = View.Data->doubles()[RowA], Y = View.Data->doubles()[RowB];
      // A NaN value sorts after every number, before the nulls.
      if (std::isnan(X) || std::isnan(Y))
        return int(std::isnan(X)) - int(std::isnan(Y));
      return Sign * three(X, Y);
    }
    case ColumnType::String: {
      StringId X = View.Data->strings()[RowA], Y = View.Data->strings()[RowB];
      return X == Y ? 0 : Sign * Pool.text(X).compare(Pool.text(Y));
    }
    case ColumnType::IntList: {
      ArrayRef<int64_t> X = View.Data->list(RowA), Y = View.Data->list(RowB);
      if (std::lexicographical_compare(X.begin(), X.end(), Y.begin(), Y.end()))
        return -Sign;
      return X == Y ? 0 : Sign;
    }
    }
    return 0;
  }

private:
  template <typename T> static int three(T X, T Y) {
    return X < Y ? -1 : Y < X ? 1 : 0;
  }

  const ColumnView &View;
  const StringPool &Pool;
  int Sign;
};

} // namespace

Expected<Table> Table::sort(ArrayRef<SortKey> Keys) const {
  SmallVector<RowOrder, 4> Orders;
  SmallVector<const ColumnView *, 4> Columns;
  for (const SortKey &Key : Keys) {
    Expected<const ColumnView *> View = column(Key.Column);
    if (!View)
      return View.takeError();
    Columns.push_back(*View);
    Orders.emplace_back(**View, *Pool, Key.Descending);
  }
  RowIndex Rows(NumRows);
  std::iota(Rows.begin(), Rows.end(), 0);

  // One ascending Int key is what nearly every detector sorts by: compare a
  // gathered copy instead of going through three indirections a comparison.
  if (Keys.size() == 1 && !Keys[0].Descending &&
      Columns[0]->type() == ColumnType::Int) {
    std::vector<std::pair<int64_t, uint32_t>> Pairs(NumRows);
    for (size_t I = 0; I != NumRows; ++I) {
      int64_t Value = Columns[0]->getInt(I);
      Pairs[I] = {Value == NullInt ? INT64_MAX : Value,
                  static_cast<uint32_t>(I)};
    }
    if (std::is_sorted(Pairs.begin(), Pairs.end()))
      return *this;
    sortRuns(Pairs, std::less<>()); // the row breaks ties
    for (size_t I = 0; I != NumRows; ++I)
      Rows[I] = Pairs[I].second;
    return take(std::move(Rows));
  }

  auto Less = [&](uint32_t A, uint32_t B) {
    for (const RowOrder &Order : Orders)
      if (int Result = Order(A, B))
        return Result < 0;
    return false;
  };
  if (std::is_sorted(Rows.begin(), Rows.end(), Less))
    return *this;
  sortRuns(Rows, Less);
  return take(std::move(Rows));
}

Expected<Table> Table::top(size_t N, StringRef By) const {
  Expected<const ColumnView *> View = column(By);
  if (!View)
    return View.takeError();
  if ((*View)->type() == ColumnType::String ||
      (*View)->type() == ColumnType::IntList)
    return failure("top: column '" + By + "' in '" + Name + "' is " +
                   toString((*View)->type()) + ", not a number");
  RowIndex Rows;
  Rows.reserve(NumRows);
  for (size_t I = 0; I != NumRows; ++I)
    if (!std::isnan((*View)->number(I)))
      Rows.push_back(static_cast<uint32_t>(I));
  N = std::min(N, Rows.size());
  bool IsInt = (*View)->type() == ColumnType::Int;
  std::partial_sort(Rows.begin(), Rows.begin() + N, Rows.end(),
                    [&](uint32_t A, uint32_t B) {
                      if (IsInt) {
                        int64_t X = (*View)->getInt(A), Y = (*View)->getInt(B);
                        return X != Y ? X > Y : A < B;
                      }
                      double X = (*View)->number(A), Y = (*View)->number(B);
                      return X != Y ? X > Y : A < B;
                    });
  Rows.resize(N);
  return take(std::move(Rows));
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
  std::vector<double> Out(NumRows);
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
