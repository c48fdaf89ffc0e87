//===- DetectorStore.h - Detectors, compiled beforehand ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// To know what three hundred detectors are called and need, each would have
/// to be compiled and run down to its `return`, at every start. The store is a
/// file beside the shipped ones that has what came of it when culprit was
/// built: the tables that detectors return, as text, and what Lua compiles of
/// them and of their modules. It counts only where it was made of the very
/// texts that are there, by a culprit of the same tables and the same release
/// of Lua's header; otherwise, and without a word, all is compiled, as a team's
/// own detectors are.
///
/// Byte code is run as it is: the file is trusted as the program is, and its
/// hash finds damage, not intent.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_DETECTORSTORE_H
#define CULPRIT_SCRIPT_DETECTORSTORE_H

#include "Script/Host.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <optional>
#include <string>

namespace culprit {

/// A file that should be a detector.
struct DetectorText {
  std::string Id, File, Text;
};

/// A store that was opened. Owns its bytes, and may be closed once the
/// detectors are loaded. Several threads may read it.
class DetectorStore {
public:
  /// The store at \p Path; none where there is none, or it is of something
  /// else than \p Texts and \p Modules, or was damaged.
  static std::optional<DetectorStore> open(llvm::StringRef Path,
                                           llvm::ArrayRef<DetectorText> Texts,
                                           const ModuleSet &Modules);

  /// Pushes the table that the detector \p Id returns, with an empty function
  /// as `run`. False where the store does not have it. For use inside
  /// Host::run().
  bool pushDeclaration(lua_State *L, llvm::StringRef Id) const;
  /// What Lua compiles of the detector \p Id, or of the module \p Name.
  std::string code(llvm::StringRef Id) const { return part("code", Id).str(); }
  std::string moduleCode(llvm::StringRef Name) const {
    return part("module", Name).str();
  }

private:
  llvm::StringRef part(llvm::StringRef Kind, llvm::StringRef Name) const;

  std::unique_ptr<llvm::MemoryBuffer> Bytes;
  /// By kind, blank, name; parts of Bytes.
  llvm::StringMap<llvm::StringRef> Parts;
};

/// The bytes of a store of \p Texts and \p Modules, which are the same
/// whenever these are. What does not load is left out.
std::string makeDetectorStore(llvm::ArrayRef<DetectorText> Texts,
                              std::shared_ptr<const ModuleSet> Modules);

} // namespace culprit

#endif // CULPRIT_SCRIPT_DETECTORSTORE_H
