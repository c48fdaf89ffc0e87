//===- Scaffold.h - The first version of a detector -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes the text of a detector that runs as it is and of cases that it
/// passes as it is, to be changed from there.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AUTHOR_SCAFFOLD_H
#define CULPRIT_AUTHOR_SCAFFOLD_H

#include "Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

/// The tables that have a detector of their own to begin with; the first one
/// is what `culprit new` takes if none is named.
std::vector<std::string> scaffoldTables();

/// Fails where \p Id, GROUP/NAME, is no good name for a detector.
llvm::Error checkDetectorId(llvm::StringRef Id);

struct Scaffold {
  std::string Lua, Test;
};

/// The detector \p Id of \p Table, which reports \p Symptom; if that is empty,
/// what the table's detectors begin with. \p InCheckout: the test lies apart
/// and is run by lit. Fails for a table of which no case can be written.
llvm::Expected<Scaffold> makeScaffold(llvm::StringRef Id,
                                      llvm::StringRef Table,
                                      llvm::StringRef Symptom,
                                      bool InCheckout);

/// The `.luarc.json` of a folder whose detectors' modules lie in the folders
/// \p Modules. \p Meta is the folder that has the types.
std::string editorSettings(llvm::StringRef Meta,
                           llvm::ArrayRef<std::string> Modules);

} // namespace culprit

#endif // CULPRIT_AUTHOR_SCAFFOLD_H
