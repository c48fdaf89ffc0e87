//===- CaseValue.h - The case in Lua ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What `run` is given: case.gpu_work, case.options, case.inputs.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_CASEVALUE_H
#define CULPRIT_SCRIPT_CASEVALUE_H

#include "Script/Host.h"

namespace culprit {

/// Pushes the case of the host of \p L.
void pushCase(lua_State *L);

} // namespace culprit

#endif // CULPRIT_SCRIPT_CASEVALUE_H
