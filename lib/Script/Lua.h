//===- Lua.h - The Lua headers ----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Lua as compiled as C++, whose errors unwind C++ frames. lua.hpp would
/// declare the C build.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_LUA_H
#define CULPRIT_SCRIPT_LUA_H

// The order matters: lauxlib.h uses lua.h.
// clang-format off
#include "lua.h"
#include "lualib.h"
#include "lauxlib.h"
// clang-format on

#endif // CULPRIT_SCRIPT_LUA_H
