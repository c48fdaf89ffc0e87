//===- Lists.cpp - pairs, next and table.sort -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Lua's own go by hashes that differ from process to process, and by the
/// clock. A detector that adds up floats in the order of pairs(), or reports
/// the first of two equals, would differ from run to run. These do not.
///
//===----------------------------------------------------------------------===//

#include "Script/Binding.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <tuple>

using namespace llvm;

namespace culprit {

static constexpr size_t MaxSorted = size_t(1) << 24;

namespace {
/// A key of a Lua table. Members are compared in order.
struct Key {
  int Kind; ///< 0 number, 1 text, 2 boolean.
  double Number = 0;
  lua_Integer Integer = 0; ///< Beyond 2^53 doubles are not enough.
  std::string Text;

  bool operator<(const Key &Other) const {
    return std::tie(Kind, Number, Integer, Text) <
           std::tie(Other.Kind, Other.Number, Other.Integer, Other.Text);
  }
};
} // namespace

/// The keys of the table in argument 1, sorted. A table or a function as a
/// key has no order of its own.
static Expected<std::vector<Key>> sortedKeys(Call &C) {
  lua_State *L = C.state();
  std::vector<Key> Keys;
  if (valueAt<TableValue>(L, 1))
    return failure(Twine("'") + C.name() +
                       "' was called on a table of the "
                       "case",
                   "go over its rows: for row in t:rows() do");
  if (!lua_istable(L, 1)) {
    C.rejectType(1, "a Lua table");
    return C.error();
  }
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    lua_pop(L, 1);
    Key K;
    if (lua_type(L, -1) == LUA_TNUMBER) {
      K.Kind = 0;
      K.Number = lua_tonumber(L, -1);
      K.Integer = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    } else if (lua_type(L, -1) == LUA_TSTRING) {
      K.Kind = 1;
      K.Text = textOf(L, -1);
    } else if (lua_isboolean(L, -1)) {
      K.Kind = 2;
      K.Number = lua_toboolean(L, -1);
    } else {
      return failure("a table with " + wordFor(L, -1) +
                         " as a key cannot be gone over",
                     "use texts or numbers as keys");
    }
    Keys.push_back(std::move(K));
  }
  llvm::sort(Keys);
  return Keys;
}

static void pushKey(lua_State *L, const Key &K) {
  if (K.Kind == 1)
    lua_pushlstring(L, K.Text.data(), K.Text.size());
  else if (K.Kind == 2)
    lua_pushboolean(L, K.Number != 0);
  else if (static_cast<double>(K.Integer) == K.Number)
    lua_pushinteger(L, K.Integer);
  else
    lua_pushnumber(L, K.Number);
}

/// Upvalue 2: the table; 3: its keys; 4: how many were given.
static Expected<int> nextPair(Call &C) {
  lua_State *L = C.state();
  lua_settop(L, 0);
  lua_Integer Next = lua_tointeger(L, lua_upvalueindex(4));
  do {
    lua_settop(L, 0);
    if (lua_rawgeti(L, lua_upvalueindex(3), ++Next) == LUA_TNIL)
      return 1;
    lua_pushvalue(L, 1);
    // A key that the loop has taken away meanwhile is passed over.
  } while (lua_rawget(L, lua_upvalueindex(2)) == LUA_TNIL);
  lua_pushinteger(L, Next);
  lua_replace(L, lua_upvalueindex(4));
  return 2;
}

Expected<int> globalPairs(Call &C) {
  lua_State *L = C.state();
  Expected<std::vector<Key>> Keys = sortedKeys(C);
  if (!Keys)
    return Keys.takeError();
  lua_pushvalue(L, 1);
  lua_createtable(L, static_cast<int>(Keys->size()), 0);
  lua_Integer I = 0;
  for (const Key &K : *Keys) {
    pushKey(L, K);
    lua_rawseti(L, -2, ++I);
  }
  lua_pushinteger(L, 0);
  pushFunction(L, "pairs", enterFree<nextPair>, 3);
  return 1;
}

Expected<int> globalNext(Call &C) {
  lua_State *L = C.state();
  if (!C.missing(2))
    return failure("next() tells whether a table is empty, no more",
                   "to go over a table use pairs");
  Expected<std::vector<Key>> Keys = sortedKeys(C);
  if (!Keys)
    return Keys.takeError();
  if (Keys->empty())
    return C.pushNil();
  pushKey(L, Keys->front());
  lua_pushvalue(L, -1);
  lua_rawget(L, 1);
  return 2;
}

/// Whether element \p A of the list, stack slot 1, comes before \p B: by the
/// function in slot 2, or by `<` where that is nil.
static bool comesBefore(lua_State *L, lua_Integer A, lua_Integer B) {
  bool Function = !lua_isnil(L, 2);
  if (Function)
    lua_pushvalue(L, 2);
  lua_rawgeti(L, 1, A);
  lua_rawgeti(L, 1, B);
  bool Before;
  if (Function) {
    lua_call(L, 2, 1);
    Before = lua_toboolean(L, -1);
    lua_pop(L, 1);
  } else {
    Before = lua_compare(L, -2, -1, LUA_OPLT);
    lua_pop(L, 2);
  }
  return Before;
}

Expected<int> listSort(Call &C) {
  lua_State *L = C.state();
  if (!lua_istable(L, 1))
    C.rejectType(1, valueAt<TableValue>(L, 1)
                        ? "a Lua list (tables of the case sort with t:sort)"
                        : "a Lua list");
  if (!C.missing(2) && !lua_isfunction(L, 2))
    C.rejectType(2, "a function");
  if (C.failed())
    return C.error();
  size_t Size = lua_rawlen(L, 1);
  if (Size > MaxSorted)
    return failure("the list is too long to be sorted");
  lua_settop(L, 2);
  // A merge sort of positions: stable, and no comparison function, however
  // inconsistent, leads it out of bounds.
  std::vector<lua_Integer> Order(Size), Merged(Size);
  for (size_t I = 0; I != Size; ++I)
    Order[I] = static_cast<lua_Integer>(I + 1);
  for (size_t Width = 1; Width < Size; Width *= 2) {
    for (size_t First = 0; First < Size; First += 2 * Width) {
      if (Error Late = C.host().poll())
        return Late;
      size_t Middle = std::min(First + Width, Size);
      size_t End = std::min(First + 2 * Width, Size);
      size_t A = First, B = Middle;
      for (size_t I = First; I != End; ++I) {
        // Texts of a megabyte take their time to compare.
        if (I % 256 == 255)
          if (Error Late = C.host().poll())
            return Late;
        bool Second =
            A == Middle || (B != End && comesBefore(L, Order[B], Order[A]));
        Merged[I] = Order[Second ? B++ : A++];
      }
    }
    Order.swap(Merged);
  }
  lua_createtable(L, static_cast<int>(Size), 0);
  for (size_t I = 0; I != Size; ++I) {
    lua_rawgeti(L, 1, Order[I]);
    lua_rawseti(L, 3, static_cast<lua_Integer>(I + 1));
  }
  for (size_t I = 0; I != Size; ++I) {
    lua_rawgeti(L, 3, static_cast<lua_Integer>(I + 1));
    lua_rawseti(L, 1, static_cast<lua_Integer>(I + 1));
  }
  return 0;
}

} // namespace culprit
