//===- CaseValue.cpp - The case in Lua --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/CaseValue.h"
#include "Script/Binding.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

static void pushScalar(lua_State *L, const Scalar &Value) {
  if (const bool *Truth = std::get_if<bool>(&Value))
    lua_pushboolean(L, *Truth);
  else if (const int64_t *Whole = std::get_if<int64_t>(&Value))
    lua_pushinteger(L, *Whole);
  else if (const double *Number = std::get_if<double>(&Value))
    lua_pushnumber(L, *Number);
  else
    lua_pushstring(L, std::get<std::string>(Value).c_str());
}

/// `case.options`: upvalue 2 has the values.
static Expected<int> optionIndex(Call &C) {
  lua_State *L = C.state();
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
    return 1;
  std::vector<std::string> Names;
  for (const OptionSpec &Option : C.host().Info->Options)
    Names.push_back(Option.Name);
  if (lua_type(L, 2) != LUA_TSTRING)
    return failure("an option has a name, not " + wordFor(L, 2));
  StringRef Name = lua_tostring(L, 2);
  return failure("unknown option '" + Name + "'",
                 suggestion(Name, Names) +
                     (Names.empty() ? "none is declared"
                                    : "declared: " + join(Names, ", ")));
}

static Expected<int> setOption(Call &C) {
  return failure("options cannot be changed");
}

static void pushOptions(lua_State *L) {
  Host &H = Host::of(L);
  lua_newtable(L);
  lua_createtable(L, 0, 2);
  lua_newtable(L);
  for (size_t I = 0; I != H.Options.size(); ++I) {
    pushScalar(L, H.Options[I]);
    lua_setfield(L, -2, H.Info->Options[I].Name.c_str());
  }
  pushFunction(L, "option", enterFree<optionIndex>, 1);
  lua_setfield(L, -2, "__index");
  pushFunction(L, "option", enterFree<setOption>);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
}

static void pushInputs(lua_State *L) {
  lua_newtable(L);
  lua_Integer I = 0;
  for (const InputSummary &Input : Host::of(L).Evidence->inputs()) {
    lua_createtable(L, 0, 3);
    for (const auto &[Name, Value] :
         {std::pair<const char *, const std::string &>("path", Input.Path),
          {"format", Input.Format},
          {"run", Input.Run}}) {
      lua_pushlstring(L, Value.data(), Value.size());
      lua_setfield(L, -2, Name);
    }
    lua_rawseti(L, -2, ++I);
  }
}

/// The names that a case has besides those of tables.
static constexpr StringLiteral Fields[] = {"options", "inputs", "epoch_ns"};

/// Upvalue 2 keeps what was asked for before.
static Expected<int> caseIndex(Call &C) {
  lua_State *L = C.state();
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
    return 1;
  lua_pop(L, 1);
  StringRef Name = C.text(1);
  if (C.failed())
    return failure("the case has no element " + wordFor(L, 2));
  const Case &Evidence = *C.host().Evidence;
  if (Name == "options") {
    pushOptions(L);
  } else if (Name == "inputs") {
    pushInputs(L);
  } else if (Name == "epoch_ns") {
    if (!Evidence.epochNs())
      return C.pushNil();
    lua_pushinteger(L, *Evidence.epochNs());
  } else if (std::optional<TableId> Id = findTable(Name)) {
    // The case outlives the script, and so its tables are not copied.
    pushValue(L, TableValue{TableRef(TableRef(), &Evidence.table(*Id))});
  } else {
    std::vector<std::string> Names;
    for (const TableSchema &Schema : schemas())
      Names.push_back(Schema.Name.str());
    std::string Tables = join(Names, ", ");
    for (StringRef Field : Fields)
      Names.push_back(Field.str());
    return failure("the case has no table '" + Name + "'",
                   suggestion(Name, Names) + "tables: " + Tables);
  }
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, lua_upvalueindex(2));
  return 1;
}

static Expected<int> setCase(Call &C) {
  return failure("the case cannot be changed",
                 "keep what you compute in local variables");
}

void pushCase(lua_State *L) {
  luaL_newmetatable(L, CaseValue::TypeName);
  lua_newtable(L);
  pushFunction(L, "case", enterMethod<caseIndex, CaseValue>, 1);
  lua_setfield(L, -2, "__index");
  pushFunction(L, "case", enterMethod<setCase, CaseValue>);
  lua_setfield(L, -2, "__newindex");
  lua_pop(L, 1);
  pushValue(L, CaseValue());
}

} // namespace culprit
