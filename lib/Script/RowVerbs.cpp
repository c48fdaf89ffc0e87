//===- RowVerbs.cpp - Rows and groups of a table ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Figures.h"
#include "Support/Units.h"
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
  // A table a row would take a kilobyte a row; find out first.
  if (C.self().rows() > MaxGroups) {
    Expected<Table> Distinct = C.self().distinct(Keys);
    if (!Distinct)
      return Distinct.takeError();
    if (Distinct->rows() > MaxGroups)
      return failure("group() would make " + countOf(Distinct->rows()) +
                         " groups of '" + C.self().name() + "'; the limit is " +
                         countOf(MaxGroups),
                     "aggregate computes figures of as many groups as there "
                     "are");
  }
  Expected<std::vector<Table>> Groups = C.self().group(Keys);
  if (!Groups)
    return Groups.takeError();
  lua_createtable(L, static_cast<int>(Groups->size()), 0);
  lua_Integer I = 0;
  for (Table &Group : *Groups) {
    Expected<int> Pushed = C.push(std::move(Group));
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

namespace {
/// The rows of each group of a table, as row numbers.
struct Groups {
  Table Rows;                    ///< The rows that belong to a group.
  Table Firsts;                  ///< The first row of each, with all columns.
  std::vector<RowIndex> Members; ///< In Rows.
};
} // namespace

static constexpr StringLiteral GroupColumn = "(group)";

static Expected<Groups> groupRows(const Table &T, ArrayRef<std::string> Keys) {
  std::string Known;
  for (const std::string &Key : Keys)
    Known += (Known.empty() ? "`" : " and `") + Key + "` is not null";
  Expected<Table> Rows = where(T, Known);
  if (!Rows)
    return Rows.takeError();
  Expected<Table> Firsts = Rows->distinct(Keys);
  if (!Firsts)
    return Firsts.takeError();
  // A join is the hash table that says which group a row belongs to.
  auto Numbers = std::make_shared<Column>(ColumnType::Int);
  for (size_t I = 0; I != Firsts->rows(); ++I)
    Numbers->addInt(static_cast<int64_t>(I));
  std::vector<std::string> Wanted = Keys.vec();
  Wanted.push_back(GroupColumn.str());
  Expected<Table> Right =
      Firsts->with(GroupColumn, std::move(Numbers)).select(Wanted);
  if (!Right)
    return Right.takeError();
  Expected<Table> Joined = Rows->join(*Right, Keys, Table::JoinKind::Inner);
  if (!Joined)
    return Joined.takeError();
  Expected<std::vector<int64_t>> Group = Joined->integers(GroupColumn);
  if (!Group)
    return Group.takeError();
  Groups Out{std::move(*Joined), std::move(*Firsts), {}};
  Out.Members.resize(Out.Firsts.rows());
  for (size_t I = 0; I != Group->size(); ++I)
    Out.Members[static_cast<size_t>((*Group)[I])].push_back(
        static_cast<uint32_t>(I));
  return Out;
}

/// The figure \p Kind of \p Column for each group.
static Expected<ColumnRef> figureColumn(const Groups &G, StringRef Name,
                                        FigureKind Kind) {
  Expected<const ColumnView *> View = G.Rows.column(Name);
  if (!View)
    return View.takeError();
  bool Exact = (*View)->type() == ColumnType::Int &&
               (Kind == FigureKind::Sum || Kind == FigureKind::Min ||
                Kind == FigureKind::Max);
  auto Out =
      std::make_shared<Column>(Exact ? ColumnType::Int : ColumnType::Double);
  auto Add = [&](const std::optional<Argument> &Figure) {
    if (!Figure)
      Out->addNull();
    else if (Exact)
      Out->addInt(std::get<int64_t>(*Figure));
    else
      Out->addDouble(std::get<double>(*Figure));
  };
  if (Exact) {
    std::vector<int64_t> Values;
    for (const RowIndex &Rows : G.Members) {
      Values.clear();
      for (uint32_t Row : Rows)
        Values.push_back((*View)->getInt(Row));
      Add(figureOf(ArrayRef<int64_t>(Values), Kind));
    }
    return Out;
  }
  Expected<std::vector<double>> All = G.Rows.numbers(Name);
  if (!All)
    return All.takeError();
  std::vector<double> Values;
  for (const RowIndex &Rows : G.Members) {
    Values.clear();
    for (uint32_t Row : Rows)
      Values.push_back((*All)[Row]);
    Add(figureOf(ArrayRef<double>(Values), Kind));
  }
  return Out;
}

/// The column that \p Figure, "sum dur", asks for.
static Expected<ColumnRef> aggregateColumn(const Groups &G, StringRef Figure) {
  auto [Kind, Column] = Figure.split(' ');
  Column = Column.trim();
  if (Figure == "count") {
    auto Out = std::make_shared<culprit::Column>(ColumnType::Int);
    for (const RowIndex &Rows : G.Members)
      Out->addInt(static_cast<int64_t>(Rows.size()));
    return Out;
  }
  if (Kind == "first" || Kind == "last") {
    Expected<const ColumnView *> View = G.Rows.column(Column);
    if (!View)
      return View.takeError();
    size_t Index = *View - G.Rows.columns().begin();
    RowIndex Rows;
    for (const RowIndex &Members : G.Members)
      Rows.push_back(Kind == "first" ? Members.front() : Members.back());
    auto Taken = std::make_shared<const Table>(G.Rows.take(std::move(Rows)));
    return ColumnValue{Taken, Index}.dense();
  }
  std::optional<FigureKind> Known = figureKind(Kind);
  if (Known && !Column.empty())
    return figureColumn(G, Column, *Known);
  std::vector<std::string> Names = {"count", "first", "last"};
  for (const auto &[Name, Unused] : FigureNames)
    Names.push_back(Name.str());
  return failure("'" + Figure + "' is no figure of a group",
                 (Known ? "" : suggestion(Kind, Names)) +
                     "write count, or sum, min, max, mean, median, std, first "
                     "or last and a column: 'sum dur'");
}

Expected<int> tableAggregate(Call &C) {
  lua_State *L = C.state();
  std::vector<std::string> Keys = C.textList(1);
  std::vector<std::string> Names = C.keys(2);
  if (C.failed())
    return C.error();
  Expected<Groups> G = groupRows(C.self(), Keys);
  if (!G)
    return G.takeError();
  Expected<Table> Out = G->Firsts.select(Keys);
  if (!Out)
    return Out.takeError();
  Table Result = std::move(*Out);
  for (const std::string &Name : Names) {
    if (lua_getfield(L, C.slot(2), Name.c_str()) != LUA_TSTRING)
      return failure("'" + Name +
                     "' of 'aggregate' must be a text such as "
                     "'sum dur', not " +
                     wordFor(L, -1));
    Expected<ColumnRef> Data = aggregateColumn(*G, lua_tostring(L, -1));
    if (!Data)
      return Data.takeError();
    Result = Result.with(Name, std::move(*Data));
    lua_pop(L, 1);
  }
  return C.push(std::move(Result), Names.size());
}

} // namespace culprit
