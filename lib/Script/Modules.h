//===- Modules.h - Lua that detectors share ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What `require("name")` finds: the files `lib/<name>.lua` beside the groups
/// of detectors. Their text is read once, when the detectors are; every run
/// compiles what it asks for in its own state, so modules keep nothing from
/// one detector to another.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_MODULES_H
#define CULPRIT_SCRIPT_MODULES_H

#include "llvm/Support/Error.h"
#include <map>
#include <string>
#include <vector>

namespace culprit {

/// Immutable once filled; runs in several threads read it.
class ModuleSet {
public:
  struct Module {
    std::string File;
    std::string Source;
  };

  /// A module in the place of an earlier one of that name.
  void add(llvm::StringRef Name, Module M) { ByName[Name.str()] = std::move(M); }
  /// Adds every .lua file under \p Folder, which may be missing. Fails when
  /// one cannot be read.
  llvm::Error addFolder(llvm::StringRef Folder);

  /// The module \p Name or null.
  const Module *find(llvm::StringRef Name) const;
  std::vector<std::string> names() const;
  const std::map<std::string, Module> &all() const { return ByName; }

private:
  std::map<std::string, Module> ByName;
};

} // namespace culprit

#endif // CULPRIT_SCRIPT_MODULES_H
