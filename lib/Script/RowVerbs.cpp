//===- RowVerbs.cpp - Rows and groups of a table ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Figures.h"
#include "Support/Units.h"
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
    Expected<KeyIndex> Index = KeyIndex::make(C.self(), Keys);
    if (!Index)
      return Index.takeError();
    if (Index->size() > MaxGroups)
      return failure("group() would make " + countOf(Index->size()) +
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
/// Which group each row of a table belongs to.
class Groups {
public:
  Groups(const Table &T, KeyIndex Index)
      : Rows(T), Index(std::move(Index)) {}

  const Table &Rows;

  size_t size() const { return Index.size(); }
  ArrayRef<uint32_t> firstRows() const { return Index.firstRows(); }
  /// The last row of each group.
  RowIndex lastRows() const {
    RowIndex Out(size());
    forEachRow([&](size_t Row, uint32_t Group) {
      Out[Group] = static_cast<uint32_t>(Row);
    });
    return Out;
  }
  /// How many rows each group has.
  std::vector<int64_t> counts() const {
    std::vector<int64_t> Out(size());
    forEachRow([&](size_t, uint32_t Group) { ++Out[Group]; });
    return Out;
  }
  /// Calls \p Visit(row, group) for the rows that belong to one.
  template <typename Fn> void forEachRow(Fn Visit) const {
    ArrayRef<uint32_t> Numbers = Index.numbers();
    for (size_t I = 0; I != Numbers.size(); ++I)
      if (Numbers[I] != KeyIndex::None)
        Visit(I, Numbers[I]);
  }

private:
  KeyIndex Index;
};
} // namespace

static ColumnRef intColumn(std::vector<int64_t> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = std::move(Values);
  return Out;
}

/// The sum, least or largest of the integers \p View for each group.
static ColumnRef exactColumn(const Groups &G, const ColumnView &View,
                             FigureKind Kind) {
  // Sums wrap, as Lua's integers do, and are 0 for no value.
  std::vector<int64_t> Out(G.size(), Kind == FigureKind::Sum ? 0 : NullInt);
  auto fold = [&](auto F) {
    G.forEachRow([&](size_t Row, uint32_t Group) {
      if (int64_t Value = View.getInt(Row); Value != NullInt)
        Out[Group] = F(Out[Group], Value);
    });
  };
  if (Kind == FigureKind::Sum)
    fold([](int64_t A, int64_t B) {
      return static_cast<int64_t>(static_cast<uint64_t>(A) +
                                  static_cast<uint64_t>(B));
    });
  else if (Kind == FigureKind::Min)
    fold([](int64_t A, int64_t B) {
      return A == NullInt ? B : std::min(A, B);
    });
  else
    fold([](int64_t A, int64_t B) { return std::max(A, B); });
  return intColumn(std::move(Out));
}

/// The figure \p Kind of \p Column for each group.
static Expected<ColumnRef> figureColumn(const Groups &G, StringRef Name,
                                        FigureKind Kind) {
  Expected<const ColumnView *> View = G.Rows.column(Name);
  if (!View)
    return View.takeError();
  if ((*View)->type() == ColumnType::Int &&
      (Kind == FigureKind::Sum || Kind == FigureKind::Min ||
       Kind == FigureKind::Max))
    return exactColumn(G, **View, Kind);
  Expected<std::vector<double>> All = G.Rows.numbers(Name);
  if (!All)
    return All.takeError();
  // The values of each group one after another.
  std::vector<int64_t> Counts = G.counts();
  std::vector<size_t> Ends(G.size());
  size_t Sum = 0;
  for (size_t I = 0; I != Ends.size(); ++I)
    Sum += static_cast<size_t>(Counts[I]), Ends[I] = Sum - Counts[I];
  std::vector<double> Values(Sum);
  G.forEachRow([&](size_t Row, uint32_t Group) {
    Values[Ends[Group]++] = (*All)[Row];
  });
  auto Out = std::make_shared<Column>(ColumnType::Double);
  for (size_t I = 0; I != Ends.size(); ++I) {
    size_t Count = static_cast<size_t>(Counts[I]);
    std::optional<Argument> Figure =
        figureOf(ArrayRef(Values).slice(Ends[I] - Count, Count), Kind);
    if (Figure)
      Out->addDouble(std::get<double>(*Figure));
    else
      Out->addNull();
  }
  return Out;
}

/// The column that \p Figure, "sum dur", asks for.
static Expected<ColumnRef> aggregateColumn(const Groups &G, StringRef Figure) {
  auto [Kind, Column] = Figure.split(' ');
  Column = Column.trim();
  if (Figure == "count")
    return intColumn(G.counts());
  if (Kind == "first" || Kind == "last") {
    Expected<const ColumnView *> View = G.Rows.column(Column);
    if (!View)
      return View.takeError();
    return (*View)->taken(Kind == "first" ? G.firstRows().vec()
                                          : G.lastRows());
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
  Expected<KeyIndex> Index = KeyIndex::make(C.self(), Keys);
  if (!Index)
    return Index.takeError();
  Groups G(C.self(), std::move(*Index));
  Expected<Table> Out = C.self().take(G.firstRows().vec()).select(Keys);
  if (!Out)
    return Out.takeError();
  Table Result = std::move(*Out);
  for (const std::string &Name : Names) {
    if (lua_getfield(L, C.slot(2), Name.c_str()) != LUA_TSTRING)
      return failure("'" + Name +
                     "' of 'aggregate' must be a text such as "
                     "'sum dur', not " +
                     wordFor(L, -1));
    Expected<ColumnRef> Data = aggregateColumn(G, lua_tostring(L, -1));
    if (!Data)
      return Data.takeError();
    Result = Result.with(Name, std::move(*Data));
    lua_pop(L, 1);
  }
  return C.push(std::move(Result), Names.size());
}

} // namespace culprit
