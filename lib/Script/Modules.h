//===- Modules.h - Lua that detectors share ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What `require("name")` finds: the files `lib/<name>.lua` beside the groups
/// of detectors. Their text is read once, when the detectors are, and compiled
/// once; every run loads what it asks for in its own state, so modules keep
/// nothing from one detector to another.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_MODULES_H
#define CULPRIT_SCRIPT_MODULES_H

#include "Script/ByteCode.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorOr.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace culprit {

/// The files in \p Folder and below it that end in .lua, sorted.
llvm::ErrorOr<std::vector<std::string>> luaFiles(llvm::StringRef Folder);

/// What is written in \p File.
llvm::ErrorOr<std::string> luaText(llvm::StringRef File);

/// Immutable once filled; runs in several threads read it.
class ModuleSet {
public:
  struct Module {
    std::string File;
    std::string Source;
    /// Of the chunk, the same in every state; the detector's own is 0.
    size_t Number = 0;
    std::shared_ptr<const ByteCode> Code = std::make_shared<ByteCode>();
  };

  /// A module in the place of an earlier one of that name; gives it a number.
  void add(llvm::StringRef Name, Module M);
  /// Adds every .lua file under \p Folder, which may be missing, in the order
  /// of names; what is there from the same file stays. Fails when one cannot be
  /// read.
  llvm::Error addFolder(llvm::StringRef Folder);

  /// Says what the module \p Name compiles to; empty for nothing.
  void setCode(llvm::StringRef Name, std::string Ready);

  /// The module \p Name or null.
  const Module *find(llvm::StringRef Name) const;
  std::vector<std::string> names() const;
  /// Above all numbers.
  size_t end() const { return End; }
  const std::map<std::string, Module> &all() const { return ByName; }

private:
  std::map<std::string, Module> ByName;
  size_t End = 1;
};

} // namespace culprit

#endif // CULPRIT_SCRIPT_MODULES_H
