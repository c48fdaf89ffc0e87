//===- Sandbox.h - What a script can reach ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The environment of a script: an allow-list that cannot be changed and that
/// answers an unknown name with a suggestion. No pcall and no coroutines,
/// since both escape the time limit; no patterns, since they can hang inside
/// one call; nothing that reads files, clocks, addresses or random numbers,
/// so that a case always gives the same outcome.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_SANDBOX_H
#define CULPRIT_SCRIPT_SANDBOX_H

#include "Script/Lua.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// Registers all of Api.def in \p L.
void openSandbox(lua_State *L);

/// What to do instead of what scripts elsewhere do with \p Name, as in
/// `string.match`; empty when there is nothing to say.
std::string insteadOf(llvm::StringRef Name);

/// Adds the value on top of the stack as \p Name to the environment, and pops
/// it.
void addGlobal(lua_State *L, const char *Name);

/// Pushes the environment for a chunk.
void pushEnvironment(lua_State *L);

} // namespace culprit

#endif // CULPRIT_SCRIPT_SANDBOX_H
