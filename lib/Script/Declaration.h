//===- Declaration.h - The table that a detector returns --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads and checks what a detector says about itself. Every mistake is named
/// with what was probably meant; nothing unknown is ignored.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_DECLARATION_H
#define CULPRIT_SCRIPT_DECLARATION_H

#include "Script/Host.h"
#include "llvm/Support/Error.h"

namespace culprit {

/// A mistake in a declaration, with the line where it stands.
struct DeclarationMistake {
  llvm::Error What;
  /// Text to look for in the source: the key or value that is wrong.
  std::string Word;
};

/// Fills all of \p Into but id, file and doc from the table on top of the
/// stack of \p L. Returns the first mistake, or none. \p Symptoms are those
/// there are; any is accepted when empty.
std::optional<DeclarationMistake>
readDeclaration(lua_State *L, llvm::ArrayRef<std::string> Symptoms,
                DetectorInfo &Into);

} // namespace culprit

#endif // CULPRIT_SCRIPT_DECLARATION_H
