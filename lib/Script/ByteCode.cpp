//===- ByteCode.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/ByteCode.h"
#include "Script/Lua.h"

using namespace llvm;

namespace culprit {

static int append(lua_State *, const void *Part, size_t Size, void *To) {
  static_cast<std::string *>(To)->append(static_cast<const char *>(Part), Size);
  return 0;
}

/// The function on top of the stack; empty where Lua does not give it.
static std::unique_ptr<const std::string> dump(lua_State *L) {
  auto Out = std::make_unique<std::string>();
  if (lua_dump(L, append, Out.get(), /*strip=*/0) != 0)
    return nullptr;
  return Out;
}

void ByteCode::push(lua_State *L, StringRef Source, const char *Name) const {
  // No locals with destructors here: an error leaves this function without
  // them where Lua was built as C.
  const std::string *Known = Code.load(std::memory_order_acquire);
  if (Known) {
    if (luaL_loadbufferx(L, Known->data(), Known->size(), Name, "b") == LUA_OK)
      return;
    lua_pop(L, 1); // of another Lua, as after an upgrade of its library
  }
  if (luaL_loadbufferx(L, Source.data(), Source.size(), Name, "t") != LUA_OK)
    lua_error(L);
  if (Known)
    return;
  const std::string *Made = dump(L).release();
  if (Made && !Code.compare_exchange_strong(Known, Made))
    delete Made; // another thread was first
}

} // namespace culprit
