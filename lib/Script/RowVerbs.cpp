//===- RowVerbs.cpp - Rows and groups of a table ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Support/Units.h"
#include "Table/Aggregate.h"
#include "Table/Keys.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

/// A loop in Lua takes about 150 ns a row, a verb about one.
static constexpr size_t MaxRows = 10000;
static constexpr size_t MaxGroups = 50000;

Expected<int> tableFirst(Call &C) { return C.pushRow(C.selfTable(), 0); }

Expected<int> tableLast(Call &C) {
  // Without rows this is past the end too.
  return C.pushRow(C.selfTable(), C.self().rows() - 1);
}

Expected<int> tableRow(Call &C) {
  size_t Index = C.size(1);
  if (C.failed())
    return C.error();
  return C.pushRow(C.selfTable(), Index);
}

/// Upvalue 2: the table; 3: the next row.
static Expected<int> nextRow(Call &C) {
  lua_State *L = C.state();
  const TableRef &T =
      static_cast<TableValue *>(lua_touserdata(L, lua_upvalueindex(2)))->T;
  size_t Row = static_cast<size_t>(lua_tointeger(L, lua_upvalueindex(3)));
  lua_pushinteger(L, static_cast<lua_Integer>(Row + 1));
  lua_replace(L, lua_upvalueindex(3));
  if (Row < T->rows())
    if (Error E = C.host().countRow())
      return E;
  return C.pushRow(T, Row);
}

static std::string countOf(size_t N) {
  return formatCount(static_cast<int64_t>(N));
}

Expected<int> tableRows(Call &C) {
  lua_State *L = C.state();
  if (C.self().rows() > MaxRows)
    return failure("rows() would go over " + countOf(C.self().rows()) +
                       " rows of '" + C.self().name() + "'; the limit is " +
                       countOf(MaxRows),
                   "choose with where, top, distinct or slice, or compute "
                   "with aggregate, sum or with");
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  pushFunction(L, "rows", enterFree<nextRow>, 2);
  return 1;
}

/// Upvalue 2: the list of tables; 3: how many were given; 4: the key columns.
static Expected<int> nextGroup(Call &C) {
  lua_State *L = C.state();
  lua_Integer Next = lua_tointeger(L, lua_upvalueindex(3)) + 1;
  lua_pushinteger(L, Next);
  lua_replace(L, lua_upvalueindex(3));
  lua_settop(L, 0);
  if (lua_rawgeti(L, lua_upvalueindex(2), Next) == LUA_TNIL)
    return 1;
  const Table &Group = **static_cast<TableValue *>(lua_touserdata(L, 1));
  int Keys = static_cast<int>(lua_rawlen(L, lua_upvalueindex(4)));
  luaL_checkstack(L, Keys + 2, "too many keys");
  for (int I = 1; I <= Keys; ++I) {
    lua_rawgeti(L, lua_upvalueindex(4), I);
    const ColumnView *View = Group.find(lua_tostring(L, -1));
    lua_pop(L, 1);
    pushCell(L, Group.cell(0, *View));
  }
  lua_pushvalue(L, 1);
  return Keys + 1;
}

Expected<int> tableGroup(Call &C) {
  lua_State *L = C.state();
  std::vector<std::string> Keys = C.texts(1);
  if (C.failed())
    return C.error();
  Expected<KeyIndex> Index = KeyIndex::make(C.self(), Keys);
  if (!Index)
    return Index.takeError();
  if (Index->size() > MaxGroups) // a table takes a kilobyte
    return failure("group() would make " + countOf(Index->size()) +
                       " groups of '" + C.self().name() + "'; the limit is " +
                       countOf(MaxGroups),
                   "aggregate computes figures of as many groups as there "
                   "are");
  std::vector<RowIndex> Groups = Index->members();
  lua_createtable(L, static_cast<int>(Groups.size()), 0);
  lua_Integer I = 0;
  for (RowIndex &Rows : Groups) {
    Expected<int> Pushed = C.push(C.self().take(std::move(Rows)));
    if (!Pushed)
      return Pushed.takeError();
    lua_rawseti(L, -2, ++I);
  }
  lua_pushinteger(L, 0);
  lua_newtable(L);
  I = 0;
  for (const std::string &Key : Keys) {
    lua_pushlstring(L, Key.data(), Key.size());
    lua_rawseti(L, -2, ++I);
  }
  pushFunction(L, "group", enterFree<nextGroup>, 3);
  return 1;
}

/// The columns that the Lua table in argument \p I asks for.
static std::vector<NamedFigure> figures(Call &C, int I) {
  std::vector<NamedFigure> Out;
  if (C.missing(I))
    return Out;
  for (const std::string &Name : C.keys(I)) {
    if (lua_getfield(C.state(), C.slot(I), Name.c_str()) == LUA_TSTRING)
      Out.push_back({Name, lua_tostring(C.state(), -1)});
    else
      C.reject("'" + Name + "' of '" + C.name() +
               "' must be a text such as 'sum dur', not " +
               wordFor(C.state(), -1));
    lua_pop(C.state(), 1);
  }
  return Out;
}

Expected<int> tableAggregate(Call &C) {
  std::vector<std::string> Keys = C.textList(1);
  C.keys(2); // which must be there
  std::vector<NamedFigure> Figures = figures(C, 2);
  if (C.failed())
    return C.error();
  return C.push(aggregate(C.self(), Keys, Figures), Figures.size());
}

Expected<int> tableWindows(Call &C) {
  int64_t Width = C.integer(1);
  std::vector<NamedFigure> Figures = figures(C, 2);
  std::optional<int64_t> First;
  if (!C.missing(3))
    First = C.integer(3);
  if (C.failed())
    return C.error();
  return C.push(windowsOf(C.self(), Width, Figures, First),
                3 + Figures.size());
}

} // namespace culprit
