//===- Values.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/Values.h"
#include "Script/Binding.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

std::vector<double> ColumnValue::numbers() const {
  std::vector<double> Out(rows());
  const ColumnView &View = view();
  for (size_t I = 0; I != Out.size(); ++I)
    Out[I] = View.number(I);
  return Out;
}

ColumnRef ColumnValue::dense() const { return view().dense(); }

void pushCell(lua_State *L, const Cell &C) {
  if (C.Null) {
    lua_pushnil(L);
    return;
  }
  switch (C.Type) {
  case ColumnType::Int:
    lua_pushinteger(L, C.Int);
    return;
  case ColumnType::Double:
    lua_pushnumber(L, C.Double);
    return;
  case ColumnType::Bool:
    lua_pushboolean(L, C.Int != 0);
    return;
  case ColumnType::String:
    lua_pushlstring(L, C.String.data(), C.String.size());
    return;
  case ColumnType::IntList:
    lua_createtable(L, static_cast<int>(C.List.size()), 0);
    for (size_t I = 0; I != C.List.size(); ++I) {
      lua_pushinteger(L, C.List[I]);
      lua_rawseti(L, -2, static_cast<lua_Integer>(I + 1));
    }
    return;
  }
}

std::string wordFor(lua_State *L, int Index) {
  switch (lua_type(L, Index)) {
  case LUA_TNONE:
  case LUA_TNIL:
    return "nil";
  case LUA_TBOOLEAN:
    return lua_toboolean(L, Index) ? "true" : "false";
  case LUA_TNUMBER:
    return textOf(L, Index);
  case LUA_TSTRING: {
    StringRef Text = lua_tostring(L, Index);
    return ("the text '" + Text.take_front(40) +
            (Text.size() > 40 ? "...'" : "'"))
        .str();
  }
  case LUA_TTABLE:
    return "a Lua table";
  case LUA_TFUNCTION:
    return "a function";
  default:
    break;
  }
  if (valueAt<TableValue>(L, Index))
    return "a table of the case";
  if (valueAt<RowValue>(L, Index))
    return "a row";
  if (valueAt<ColumnValue>(L, Index))
    return "a column";
  return valueAt<CaseValue>(L, Index) ? "the case" : "a value of its own kind";
}

std::string wrongKey(lua_State *L, int Index,
                     function_ref<bool(int Slot)> Wrong) {
  std::string First;
  int Table = lua_absindex(L, Index);
  lua_pushnil(L);
  while (lua_next(L, Table)) {
    lua_pop(L, 1);
    if (!Wrong(lua_gettop(L)))
      continue;
    std::string Word = wordFor(L, -1);
    if (First.empty() || Word < First)
      First = std::move(Word);
  }
  return First;
}

std::string textOf(lua_State *L, int Index) {
  switch (lua_type(L, Index)) {
  case LUA_TNUMBER: {
    if (double Value = lua_tonumber(L, Index); Value != Value)
      return "nan"; // without the sign, which means nothing
    // As Lua writes numbers, and without changing the value on the stack.
    lua_pushvalue(L, Index);
    std::string Text = lua_tostring(L, -1);
    lua_pop(L, 1);
    return Text;
  }
  case LUA_TSTRING: {
    size_t Length;
    const char *Text = lua_tolstring(L, Index, &Length);
    return std::string(Text, Length);
  }
  case LUA_TTABLE:
    return "table";
  case LUA_TFUNCTION:
    return "function";
  case LUA_TUSERDATA:
    break;
  default:
    return wordFor(L, Index);
  }
  if (TableValue *V = valueAt<TableValue>(L, Index))
    return (*V)->name() + "[" +
           formatCount(static_cast<int64_t>((*V)->rows())) + " rows]";
  if (RowValue *V = valueAt<RowValue>(L, Index))
    return V->T->originName().empty()
               ? V->T->name() + "[" + std::to_string(V->Row) + "]"
               : V->T->originName() + "#" +
                     std::to_string(V->T->originRow(V->Row));
  if (ColumnValue *V = valueAt<ColumnValue>(L, Index))
    return V->T->name() + "." + V->view().Name;
  return "case";
}

/// The names of the methods that upvalue 2 holds.
static std::vector<std::string> methodNames(lua_State *L) {
  std::vector<std::string> Names;
  lua_pushnil(L);
  while (lua_next(L, lua_upvalueindex(2))) {
    lua_pop(L, 1);
    Names.push_back(lua_tostring(L, -1));
  }
  llvm::sort(Names);
  return Names;
}

/// Pushes the method named by argument 1, or pushes nothing.
static bool pushMethod(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
    return true;
  lua_pop(L, 1);
  return false;
}

static Error notText(Call &C, const char *What, const char *Hint) {
  return failure(
      Twine(What) + " has no element " + wordFor(C.state(), C.slot(1)), Hint);
}

static Expected<int> tableIndex(Call &C) {
  lua_State *L = C.state();
  if (lua_type(L, 2) != LUA_TSTRING)
    return notText(C, "a table of the case",
                   "use row(i), counted from 0, or rows()");
  if (pushMethod(L))
    return 1;
  std::string Name = C.text(1).str();
  if (C.self().find(Name))
    return failure("a table has no field '" + Name + "'",
                   "it is a column of '" + C.self().name() + "': write :col('" +
                       Name + "'), or take a row first");
  std::vector<std::string> Names = methodNames(L);
  return failure("unknown method '" + Name + "' of a table",
                 suggestion(Name, Names) + "methods: " + join(Names, ", "));
}

static Expected<int> rowIndex(Call &C) {
  lua_State *L = C.state();
  if (lua_type(L, 2) != LUA_TSTRING)
    return notText(C, "a row", "name a column: row.start");
  const RowValue &Row = C.selfRow();
  StringRef Name = C.text(1);
  if (const ColumnView *View = Row.T->find(Name)) {
    pushCell(L, Row.T->cell(Row.Row, *View));
    return 1;
  }
  if (pushMethod(L))
    return 1;
  Expected<const ColumnView *> View = Row.T->column(Name);
  return View.takeError();
}

static Expected<int> columnIndex(Call &C) {
  lua_State *L = C.state();
  if (lua_type(L, 2) != LUA_TSTRING)
    return notText(C, "a column", "use at(i), counted from 0, or values()");
  if (pushMethod(L))
    return 1;
  std::string Name = C.text(1).str();
  std::vector<std::string> Names = methodNames(L);
  return failure("unknown method '" + Name + "' of a column",
                 suggestion(Name, Names) + "methods: " + join(Names, ", "));
}

static Expected<int> readOnly(Call &C) {
  return failure("rows, tables and columns cannot be changed",
                 "`with` makes a table with another column");
}

static Expected<int> tableLength(Call &C) {
  return C.push(static_cast<int64_t>(C.self().rows()));
}
static Expected<int> columnLength(Call &C) {
  return C.push(static_cast<int64_t>(C.selfColumn().rows()));
}
static Expected<int> valueText(Call &C) { return C.push(textOf(C.state(), 1)); }

template <typename T> static int collect(lua_State *L) {
  T *Value = static_cast<T *>(lua_touserdata(L, 1));
  Host::of(L).release(Value->Charged);
  Value->~T();
  return 0;
}

/// Creates the metatable of T, with the methods table on top of the stack,
/// and leaves the metatable in its place.
template <typename T, Binding Index> static void createType(lua_State *L) {
  luaL_newmetatable(L, T::TypeName);
  lua_insert(L, -2);
  pushFunction(L, "index", enterMethod<Index, T>, 1);
  lua_setfield(L, -2, "__index");
  pushFunction(L, "change", enterMethod<readOnly, T>);
  lua_setfield(L, -2, "__newindex");
  pushFunction(L, "tostring", enterMethod<valueText, T>);
  lua_setfield(L, -2, "__tostring");
  lua_pushcfunction(L, collect<T>);
  lua_setfield(L, -2, "__gc");
}

// The arithmetic of columns; see ColumnArithmetic.cpp.
Expected<int> columnAdd(Call &C);
Expected<int> columnSubtract(Call &C);
Expected<int> columnMultiply(Call &C);
Expected<int> columnDivide(Call &C);
Expected<int> columnNegate(Call &C);

static void addOperator(lua_State *L, const char *Name, lua_CFunction F) {
  pushFunction(L, Name + 2, F);
  lua_setfield(L, -2, Name);
}

template <Binding Function, typename Self>
static void addMethod(lua_State *L, const char *Name) {
  pushFunction(L, Name, enterMethod<Function, Self>);
  lua_setfield(L, -2, Name);
}

namespace {
enum class Receiver {
  table,
  row,
  column,
  global,
  units,
  string,
  table_library
};
} // namespace

/// Pushes a table of the methods of \p Of.
template <typename Self> static void pushMethods(lua_State *L, Receiver Of) {
  lua_newtable(L);
#define API(RECEIVER, NAME, FUNCTION, PARAMS, RESULT, DOC, EXAMPLE)            \
  if (Of == Receiver::RECEIVER)                                                \
    addMethod<FUNCTION, Self>(L, NAME);
#include "Script/Api.def"
}

void registerValues(lua_State *L) {
  pushMethods<TableValue>(L, Receiver::table);
  createType<TableValue, tableIndex>(L);
  addMethod<tableLength, TableValue>(L, "__len");
  lua_pop(L, 1);

  pushMethods<RowValue>(L, Receiver::row);
  createType<RowValue, rowIndex>(L);
  lua_pop(L, 1);

  pushMethods<ColumnValue>(L, Receiver::column);
  createType<ColumnValue, columnIndex>(L);
  addMethod<columnLength, ColumnValue>(L, "__len");
  addOperator(L, "__add", enterFree<columnAdd>);
  addOperator(L, "__sub", enterFree<columnSubtract>);
  addOperator(L, "__mul", enterFree<columnMultiply>);
  addOperator(L, "__div", enterFree<columnDivide>);
  addOperator(L, "__unm", enterFree<columnNegate>);
  lua_pop(L, 1);
}

} // namespace culprit
