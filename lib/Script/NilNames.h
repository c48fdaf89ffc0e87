//===- NilNames.h - Which expression was nil --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Lua names a variable or a field that is nil, but not the result of a call,
/// and nothing at all where it compares. A line of source tells the rest.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_NILNAMES_H
#define CULPRIT_SCRIPT_NILNAMES_H

#include "Script/Lua.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// An expression that was nil, as it is written, and why it may be.
struct NilName {
  std::string Text; ///< Empty where it cannot be told.
  std::string Hint; ///< Empty where there is nothing particular to say.
};

/// What was nil on \p Line when Lua said \p Message. \p IsNil says of a local
/// variable, or of `variable.field`, whether it is. There is no answer where
/// several expressions of the line could be meant.
NilName findNil(llvm::StringRef Message, llvm::StringRef Line,
                llvm::function_ref<bool(llvm::StringRef Name,
                                        llvm::StringRef Field)>
                    IsNil);

/// Whether \p Name is a local variable of \p Frame that is nil or, with
/// \p Field, a row that has no value in that column.
bool isNilLocal(lua_State *L, lua_Debug &Frame, llvm::StringRef Name,
                llvm::StringRef Field);

} // namespace culprit

#endif // CULPRIT_SCRIPT_NILNAMES_H
