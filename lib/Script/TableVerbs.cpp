//===- TableVerbs.cpp - Choosing rows and columns ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// where{ rank = 0, role = { "copy", "set" } }
static Expected<int> whereFields(Call &C) {
  lua_State *L = C.state();
  std::vector<ColumnValues> Wanted;
  for (const std::string &Name : C.keys(1)) {
    ColumnValues &Each = Wanted.emplace_back();
    Each.Column = Name;
    lua_getfield(L, C.slot(1), Name.c_str());
    if (lua_istable(L, -1)) {
      for (lua_Integer I = 1, E = lua_rawlen(L, -1); I <= E; ++I) {
        lua_rawgeti(L, -1, I);
        Each.Values.push_back(C.value(-1, "'" + Name + "'"));
        lua_pop(L, 1);
      }
    } else {
      Each.Values.push_back(C.value(-1, "'" + Name + "'"));
    }
    lua_pop(L, 1);
  }
  if (C.failed())
    return C.error();
  return C.push(whereValues(C.self(), Wanted));
}

Expected<int> tableWhere(Call &C) {
  if (lua_istable(C.state(), C.slot(1)))
    return whereFields(C);
  StringRef Expression = C.text(1);
  std::vector<Argument> Values = C.values(2);
  if (C.failed())
    return C.error();
  return C.push(where(C.self(), Expression, Values));
}

Expected<int> tableSort(Call &C) {
  std::vector<Table::SortKey> Keys;
  for (std::string &Name : C.texts(1)) {
    bool Descending = StringRef(Name).starts_with("-");
    Keys.push_back({Descending ? Name.substr(1) : Name, Descending});
  }
  if (C.failed())
    return C.error();
  return C.push(C.self().sort(Keys));
}

Expected<int> tableTop(Call &C) {
  size_t N = C.size(1);
  StringRef Column = C.text(2);
  if (C.failed())
    return C.error();
  return C.push(C.self().top(N, Column));
}

Expected<int> tableBottom(Call &C) {
  size_t N = C.size(1);
  StringRef Column = C.text(2);
  if (C.failed())
    return C.error();
  // What has no value to compare comes last, and is left out as by top().
  Expected<std::vector<double>> Values = C.self().numbers(Column);
  if (!Values)
    return Values.takeError();
  RowIndex Rows;
  for (size_t I = 0; I != Values->size(); ++I)
    if ((*Values)[I] == (*Values)[I])
      Rows.push_back(static_cast<uint32_t>(I));
  Expected<Table> Sorted =
      C.self().take(std::move(Rows)).sort({{Column.str(), false}});
  if (!Sorted)
    return Sorted.takeError();
  return C.push(Sorted->slice(0, N));
}

Expected<int> tableSlice(Call &C) {
  size_t First = C.size(1), N = C.size(2);
  if (C.failed())
    return C.error();
  return C.push(C.self().slice(First, N));
}

Expected<int> tableDistinct(Call &C) {
  std::vector<std::string> Names = C.texts(1);
  if (C.failed())
    return C.error();
  return C.push(C.self().distinct(Names));
}

Expected<int> tableAround(Call &C) {
  const RowValue &Row = C.row(1);
  size_t N = C.size(2);
  if (C.failed())
    return C.error();
  const Table &T = C.self();
  if (T.originName().empty() || T.originName() != Row.T->originName())
    return failure("the row is of '" + Row.T->name() +
                       "' and cannot be found in '" + T.name() + "'",
                   "only rows of a case table can be found again");
  return C.push(T.around(Row.T->originRow(Row.Row), N));
}

Expected<int> tableConcat(Call &C) {
  const Table &Other = C.table(1);
  if (C.failed())
    return C.error();
  // This copies every column, and doubles in a loop: ask first.
  size_t Bytes =
      (C.self().rows() + Other.rows()) * 8 * (1 + C.self().columns().size());
  if (Error E = C.host().charge(C.state(), Bytes))
    return E;
  C.host().release(Bytes);
  return C.push(C.self().concat(Other), C.self().columns().size());
}

/// \p Rows times \p Value.
static ColumnRef constantColumn(const Argument &Value, size_t Rows) {
  if (const int64_t *Whole = std::get_if<int64_t>(&Value)) {
    auto Data = std::make_shared<Column>(ColumnType::Int);
    Data->mutableInts().assign(Rows, *Whole);
    return Data;
  }
  if (const double *Number = std::get_if<double>(&Value)) {
    auto Data = std::make_shared<Column>(ColumnType::Double);
    Data->mutableDoubles().assign(Rows, *Number);
    return Data;
  }
  auto Data = std::make_shared<Column>(ColumnType::Bool);
  for (size_t I = 0; I != Rows; ++I)
    Data->addBool(std::get<bool>(Value));
  return Data;
}

/// What \p With says of the new column \p Name, at stack slot \p Slot.
static Expected<ColumnRef> newColumn(Call &C, StringRef Name, int Slot) {
  const Table &T = C.self();
  if (ColumnValue *V = valueAt<ColumnValue>(C.state(), Slot)) {
    if (V->rows() == T.rows())
      return V->dense();
    return failure("column '" + Name + "' has " + Twine(V->rows()) +
                       " rows and the table '" + T.name() + "' has " +
                       Twine(T.rows()),
                   "compute it from this table, after filtering and sorting");
  }
  Argument Value = C.value(Slot, "'" + Name + "'");
  if (C.failed())
    return C.error();
  if (const std::string *Expression = std::get_if<std::string>(&Value))
    return compute(T, *Expression);
  return constantColumn(Value, T.rows());
}

Expected<int> tableWith(Call &C) {
  lua_State *L = C.state();
  std::vector<std::string> Names = C.keys(1);
  if (C.failed())
    return C.error();
  Table Out = C.self();
  for (const std::string &Name : Names) {
    lua_getfield(L, C.slot(1), Name.c_str());
    Expected<ColumnRef> Data = newColumn(C, Name, lua_gettop(L));
    if (!Data)
      return Data.takeError();
    Out = Out.with(Name, std::move(*Data));
    lua_pop(L, 1);
  }
  return C.push(std::move(Out), Names.size());
}

Expected<int> tableCompute(Call &C) {
  StringRef Expression = C.text(1);
  std::vector<Argument> Values = C.values(2);
  if (C.failed())
    return C.error();
  Expected<ColumnRef> Data = compute(C.self(), Expression, Values);
  if (!Data)
    return Data.takeError();
  return C.pushColumn(C.self(), Expression, std::move(*Data));
}

Expected<int> tableSelect(Call &C) {
  std::vector<std::string> Names = C.texts(1);
  if (C.failed())
    return C.error();
  return C.push(C.self().select(Names));
}

Expected<int> tableCol(Call &C) {
  StringRef Name = C.text(1);
  if (C.failed())
    return C.error();
  Expected<const ColumnView *> View = C.self().column(Name);
  if (!View)
    return View.takeError();
  size_t Index = *View - C.self().columns().begin();
  pushValue(C.state(), ColumnValue{C.selfTable(), Index});
  return 1;
}

Expected<int> tableColumns(Call &C) {
  lua_State *L = C.state();
  lua_newtable(L);
  lua_Integer I = 0;
  for (const ColumnView &View : C.self().columns()) {
    lua_pushlstring(L, View.Name.data(), View.Name.size());
    lua_rawseti(L, -2, ++I);
  }
  return 1;
}

Expected<int> tableHas(Call &C) {
  StringRef Name = C.text(1);
  if (C.failed())
    return C.error();
  const ColumnView *View = C.self().find(Name);
  bool Found = false;
  for (size_t I = 0, E = C.self().rows(); View && I != E && !Found; ++I)
    Found = !View->isNull(I);
  return C.push(Found);
}

Expected<int> tableName(Call &C) { return C.push(C.self().name()); }

Expected<int> tableRenamed(Call &C) {
  StringRef Name = C.text(1);
  if (C.failed())
    return C.error();
  return C.push(C.self().renamed(Name.str()));
}

} // namespace culprit
