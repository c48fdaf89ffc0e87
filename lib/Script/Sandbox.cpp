//===- Sandbox.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Sandbox.h"
#include "Script/Binding.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

/// Where the registry keeps the environment.
static const char EnvironmentKey = 0;

std::string insteadOf(StringRef Name) {
  return StringSwitch<const char *>(Name)
      .Case("print", "log(...) writes for the author of a detector")
      .Cases("pcall", "xpcall",
             "an error ends the detector and is reported; "
             "test for nil instead")
      .Cases("dofile", "loadfile", "load", "loadstring",
             "require(...) reads a module of the lib folder")
      .Cases("io", "os", "a detector sees the case alone: no files, no clock")
      .Cases("coroutine", "debug", "collectgarbage", "setmetatable",
             "getmetatable", "it is left out so that limits hold")
      .Cases("rawget", "rawset", "index the table")
      .Case("_G", "there are no globals; use locals")
      .Case("utf8", "strings are bytes; see the functions of `string`")
      .Cases("string.match", "string.gmatch", "string.find", "string.gsub",
             "Lua patterns can hang; use glob, contains, index, split, "
             "replace or numbers")
      .Cases("math.random", "math.randomseed",
             "a case must always give the same outcome")
      .Case("table.move", "copy in a loop")
      .Default("");
}

/// Upvalue 2: the table that has the names; 3: its name, or empty.
static Expected<int> unknownName(Call &C) {
  lua_State *L = C.state();
  std::string Module = lua_tostring(L, lua_upvalueindex(3));
  if (lua_type(L, 2) != LUA_TSTRING)
    return failure("'" + Module + "' has no element " + wordFor(L, 2));
  std::string Name = lua_tostring(L, 2);
  std::string Full = Module.empty() ? Name : Module + "." + Name;
  std::vector<std::string> Known;
  lua_pushnil(L);
  while (lua_next(L, lua_upvalueindex(2))) {
    lua_pop(L, 1);
    Known.push_back(lua_tostring(L, -1));
  }
  llvm::sort(Known);
  if (std::string Instead = insteadOf(Full); !Instead.empty())
    return failure("detectors have no '" + Full + "'", Instead);
  return failure("unknown name '" + Full + "'",
                 suggestion(Name, Known) + "names: " + join(Known, ", "));
}

static Expected<int> assignName(Call &C) {
  lua_State *L = C.state();
  std::string Name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  std::string Module = lua_tostring(L, lua_upvalueindex(3));
  if (Module.empty())
    return failure("assignment to the global '" + Name + "'",
                   "write local " + Name);
  return failure("'" + Module + "' cannot be changed");
}

/// Replaces the table on top of the stack, called \p Module, by an empty one
/// that reads from it and refuses everything else.
static void protect(lua_State *L, const char *Module) {
  int Hidden = lua_gettop(L);
  auto PushGuard = [&](const char *Name, lua_CFunction Function) {
    lua_pushvalue(L, Hidden);
    lua_pushstring(L, Module);
    pushFunction(L, Name, Function, 2);
  };
  // hidden <- metatable { __index = unknownName }
  lua_createtable(L, 0, 1);
  PushGuard("index", enterFree<unknownName>);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, Hidden);
  // proxy <- metatable { __index = hidden, __newindex = assignName }
  lua_createtable(L, 0, 0);
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, Hidden);
  lua_setfield(L, -2, "__index");
  PushGuard("assign", enterFree<assignName>);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
  lua_replace(L, Hidden);
}

namespace {
enum class Module { table, row, column, global, units, string, table_library };
constexpr auto table_library = "table";
constexpr auto math = "math";
constexpr auto global = "_G";
} // namespace

/// Adds the functions of Api.def that are in \p Of to the table on top.
static void addFunctions(lua_State *L, Module Of) {
#define API(RECEIVER, NAME, FUNCTION, PARAMS, RESULT, DOC, EXAMPLE)            \
  if (Of == Module::RECEIVER) {                                                \
    pushFunction(L, NAME, enterFree<FUNCTION>);                                \
    lua_setfield(L, -2, NAME);                                                 \
  }
#include "Script/Api.def"
}

/// Adds what the allow-list has of Lua's library \p Library, whose table is
/// at \p From, to the table on top.
static void addStandard(lua_State *L, StringRef Library, int From) {
#define STANDARD(MODULE, NAME, DOC)                                            \
  if (Library == MODULE) {                                                     \
    lua_getfield(L, From, NAME);                                               \
    lua_setfield(L, -2, NAME);                                                 \
  }
#include "Script/Api.def"
}

/// Adds the library \p Name that \p Open opens, cut down, to the table on top.
static void addLibrary(lua_State *L, const char *Name, lua_CFunction Open) {
  luaL_requiref(L, Name, Open, 0);
  int From = lua_gettop(L);
  lua_newtable(L);
  addStandard(L, Name, From);
  if (StringRef(Name) == table_library)
    addFunctions(L, Module::table_library);
  protect(L, Name);
  lua_setfield(L, From - 1, Name);
  lua_pop(L, 1);
}

static void addUnits(lua_State *L) {
  static constexpr std::pair<const char *, int64_t> Factors[] = {
      {"ns", 1},         {"us", 1000},         {"ms", 1000000},
      {"s", 1000000000}, {"min", 60000000000}, {"KiB", 1 << 10},
      {"MiB", 1 << 20},  {"GiB", 1 << 30}};
  lua_newtable(L);
  addFunctions(L, Module::units);
  for (const auto &[Name, Value] : Factors) {
    lua_pushinteger(L, Value);
    lua_setfield(L, -2, Name);
  }
  protect(L, "units");
  lua_setfield(L, -2, "units");
}

void openSandbox(lua_State *L) {
  registerValues(L);
  lua_newtable(L); // the environment
  addFunctions(L, Module::global);

  // The tables of Lua's own libraries stay out of reach.
  luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
  lua_insert(L, -2);
  addStandard(L, global, lua_gettop(L) - 1);
  lua_remove(L, -2);
  addLibrary(L, table_library, luaopen_table);
  addLibrary(L, math, luaopen_math);
  addUnits(L);

  lua_newtable(L);
  addFunctions(L, Module::string);
  protect(L, "string");
  // Methods of strings come from the same table; without this the whole of
  // Lua's string library would be a colon away.
  lua_pushliteral(L, "");
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
  lua_setfield(L, -2, "string");

  protect(L, "");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &EnvironmentKey);
}

void addGlobal(lua_State *L, const char *Name) {
  pushEnvironment(L);
  lua_getmetatable(L, -1);
  lua_getfield(L, -1, "__index"); // what protect() hides
  lua_pushvalue(L, -4);
  lua_setfield(L, -2, Name);
  lua_pop(L, 4);
}

void pushEnvironment(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &EnvironmentKey);
}

} // namespace culprit
