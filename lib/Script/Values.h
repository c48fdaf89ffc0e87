//===- Values.h - Tables, rows and columns in Lua ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the userdata of the API hold. All share the table behind them, so
/// that a row costs a pointer and a number.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_VALUES_H
#define CULPRIT_SCRIPT_VALUES_H

#include "Script/Host.h"
#include "Table/Table.h"
#include <memory>

namespace culprit {

using TableRef = std::shared_ptr<const Table>;

struct TableValue {
  static constexpr const char *TypeName = "culprit.Table";
  static constexpr const char *Word = "table of the case";

  TableRef T;
  size_t Charged = 0;

  const Table &operator*() const { return *T; }
  const Table *operator->() const { return T.get(); }
};

struct RowValue {
  static constexpr const char *TypeName = "culprit.Row";
  static constexpr const char *Word = "row";

  TableRef T;
  size_t Row = 0;
  size_t Charged = 0;
};

/// The column #Index of T. A computed column has a table of its own, named
/// like the one it was computed from.
struct ColumnValue {
  static constexpr const char *TypeName = "culprit.Column";
  static constexpr const char *Word = "column";

  TableRef T;
  size_t Index = 0;
  size_t Charged = 0;

  const ColumnView &view() const { return T->columns()[Index]; }
  size_t rows() const { return T->rows(); }
  /// All values; nulls as nullDouble().
  std::vector<double> numbers() const;
  /// The values in row order without an index.
  ColumnRef dense() const;
};

struct CaseValue {
  static constexpr const char *TypeName = "culprit.Case";
  static constexpr const char *Word = "case";
  size_t Charged = 0;
};

/// Pushes \p V as a userdata of its type.
template <typename T> void pushValue(lua_State *L, T V) {
  void *Memory = lua_newuserdatauv(L, sizeof(T), 0);
  new (Memory) T(std::move(V));
  luaL_setmetatable(L, T::TypeName);
}

/// The value at \p Index, or null when it is of another type.
template <typename T> T *valueAt(lua_State *L, int Index) {
  return static_cast<T *>(luaL_testudata(L, Index, T::TypeName));
}

/// Pushes \p C: nil, number, boolean, string or list.
void pushCell(lua_State *L, const Cell &C);

/// Creates the metatable of each type, with the methods of Api.def.
void registerValues(lua_State *L);

/// What error messages call the value at \p Index: "nil", "the text 'x'".
std::string wordFor(lua_State *L, int Index);

/// What error messages call that key of the Lua table at \p Index which is
/// \p Wrong on the stack: the first by these words, as Lua's own order differs
/// from run to run. Empty where there is none.
std::string wrongKey(lua_State *L, int Index,
                     llvm::function_ref<bool(int Slot)> Wrong);

/// As tostring() of the API: no addresses.
std::string textOf(lua_State *L, int Index);

} // namespace culprit

#endif // CULPRIT_SCRIPT_VALUES_H
