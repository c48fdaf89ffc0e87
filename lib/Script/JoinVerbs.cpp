//===- JoinVerbs.cpp - Joins by key and by time -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "Table/Intervals.h"
#include "Table/Joins.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

Expected<int> tableJoin(Call &C) {
  const Table &Other = C.table(1);
  std::vector<std::string> Keys = C.textList(2);
  StringRef Kind = C.text(3, "inner");
  if (!C.failed() && Kind != "inner" && Kind != "left")
    C.reject("a join is 'inner' or 'left', not '" + Kind + "'");
  if (C.failed())
    return C.error();
  Expected<Table> Out = C.self().join(Other, Keys,
                                      Kind == "left" ? Table::JoinKind::Left
                                                     : Table::JoinKind::Inner);
  if (!Out)
    return Out.takeError();
  // Where a row has no partner the other's columns are copies, without it they
  // are read through an index.
  size_t Copied = llvm::count_if(Out->columns(), [](const ColumnView &View) {
    return View.Data.use_count() == 1;
  });
  return C.push(std::move(*Out), 1 + Copied);
}

/// The keys in argument \p I, or none.
static std::vector<std::string> keysOf(Call &C, int I) {
  if (C.missing(I))
    return {};
  if (lua_istable(C.state(), C.slot(I)) &&
      lua_rawlen(C.state(), C.slot(I)) == 0)
    return {};
  return C.textList(I);
}

namespace {
struct Asof {
  AsofDirection Direction = AsofDirection::Backward;
  std::optional<double> Tolerance;
};
} // namespace

/// { direction = "nearest", tolerance = 10 * units.us }
static Asof asofOf(Call &C, int I) {
  Asof Out;
  if (C.missing(I))
    return Out;
  lua_State *L = C.state();
  for (const std::string &Name : C.keys(I)) {
    lua_getfield(L, C.slot(I), Name.c_str());
    if (Name == "tolerance") {
      if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) >= 0)
        Out.Tolerance = lua_tonumber(L, -1);
      else
        C.reject("'tolerance' must be a number of 0 or more, not " +
                 wordFor(L, -1));
    } else if (Name == "direction") {
      StringRef Word =
          lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
      auto Known = StringSwitch<std::optional<AsofDirection>>(Word)
                       .Case("backward", AsofDirection::Backward)
                       .Case("forward", AsofDirection::Forward)
                       .Case("nearest", AsofDirection::Nearest)
                       .Default(std::nullopt);
      if (!Known)
        C.reject("'direction' must be 'backward', 'forward' or 'nearest', "
                 "not " +
                 wordFor(L, -1));
      Out.Direction = Known.value_or(AsofDirection::Backward);
    } else {
      C.reject("'join_asof' has no setting '" + Name + "'",
               suggestion(Name, {"direction", "tolerance"}) +
                   "settings: direction, tolerance");
    }
    lua_pop(L, 1);
  }
  return Out;
}

Expected<int> tableJoinAsof(Call &C) {
  const Table &Other = C.table(1);
  StringRef On = C.text(2);
  std::vector<std::string> Keys = keysOf(C, 3);
  Asof How = asofOf(C, 4);
  if (C.failed())
    return C.error();
  return C.push(joinAsof(C.self(), Other, On, Keys, How.Direction,
                         How.Tolerance),
                Other.columns().size());
}

Expected<int> tableJoinOverlapping(Call &C) {
  const Table &Other = C.table(1);
  std::vector<std::string> Keys = keysOf(C, 2);
  if (C.failed())
    return C.error();
  return C.push(joinOverlapping(C.self(), Other, Keys), 2);
}

Expected<int> tableExposed(Call &C) {
  const Table &Other = C.table(1);
  if (C.failed())
    return C.error();
  Expected<ColumnRef> Data = exposedTo(C.self(), Other);
  if (!Data)
    return Data.takeError();
  return C.pushColumn(C.self(), "exposed", std::move(*Data));
}

/// The row numbers in argument 1, a list or a column of them.
static std::vector<uint32_t> rowNumbers(Call &C) {
  lua_State *L = C.state();
  std::vector<uint32_t> Out;
  auto add = [&](int64_t Row) {
    if (Row >= 0 && static_cast<uint64_t>(Row) < C.self().rows())
      Out.push_back(static_cast<uint32_t>(Row));
    else
      C.reject("'" + C.self().name() + "' has " + Twine(C.self().rows()) +
                   " rows and no row " + Twine(Row),
               "rows are counted from 0");
  };
  if (const ColumnValue *Column = valueAt<ColumnValue>(L, C.slot(1))) {
    if (Column->view().type() != ColumnType::Int) {
      C.rejectType(1, "a column of whole numbers");
      return Out;
    }
    for (size_t I = 0; I != Column->rows() && !C.failed(); ++I)
      if (int64_t Row = Column->view().getInt(I); Row != NullInt)
        add(Row);
    return Out;
  }
  if (!lua_istable(L, C.slot(1))) {
    C.rejectType(1, "a list or a column of row numbers");
    return Out;
  }
  for (lua_Integer I = 1, E = lua_rawlen(L, C.slot(1)); I <= E; ++I) {
    lua_rawgeti(L, C.slot(1), I);
    int IsInteger = 0;
    int64_t Row = lua_tointegerx(L, -1, &IsInteger);
    if (!IsInteger)
      C.rejectType(1, "a list of whole numbers");
    else
      add(Row);
    lua_pop(L, 1);
    if (C.failed())
      break;
  }
  return Out;
}

Expected<int> tableTake(Call &C) {
  std::vector<uint32_t> Rows = rowNumbers(C);
  if (C.failed())
    return C.error();
  return C.push(C.self().take(std::move(Rows)));
}

} // namespace culprit
