//===- LuaDetector.h - Detectors written in Lua -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Loads detectors from `plugins/<group>/<name>.lua`. A file is one text chunk
/// that returns one table; see docs/api.md for what it may say and call.
/// Loading reads the table and never calls its `run`. Each run has a Lua state
/// of its own, so detectors share nothing and a failure stays with its file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_LUADETECTOR_H
#define CULPRIT_SCRIPT_LUADETECTOR_H

#include "Detect/Detector.h"
#include "Script/Modules.h"
#include <memory>
#include <string>
#include <variant>

namespace culprit {

/// The version of the API that this build speaks; see `api` in docs/api.md.
inline constexpr int64_t ScriptApiVersion = 1;

struct LoadSettings {
  /// The symptoms there are; any is accepted when empty.
  std::vector<std::string> Symptoms;
  Limits Bounds;
  /// What `require` finds.
  std::shared_ptr<const ModuleSet> Modules;
  /// What the texts of a folder compile to, where the file is there and is of
  /// these texts (see DetectorStore); empty for none.
  std::string Store;
};

/// Loads the detector \p Id from its source text. \p File is what errors name.
std::variant<std::unique_ptr<Detector>, BrokenDetector>
loadDetector(llvm::StringRef Id, llvm::StringRef File, llvm::StringRef Source,
             const LoadSettings &Settings);

/// Loads the one file \p File; its id is the last two parts of its path. The
/// modules of its folder go before those of \p Settings.
void loadDetectorFile(llvm::StringRef File, const LoadSettings &Settings,
                      DetectorSet &Into);

/// Whether Settings.Store is of the detectors that are in \p Folder now.
llvm::Expected<bool> isStored(llvm::StringRef Folder,
                              const LoadSettings &Settings);

/// The bytes of a store of the detectors that loadDetectors() finds in
/// \p Folder.
llvm::Expected<std::string> makeDetectorStore(llvm::StringRef Folder,
                                              const LoadSettings &Settings);

/// Loads every .lua file under \p Folder except `meta/`, types for editors, and
/// `lib/`, the modules, which go before those of \p Settings. A file that does
/// not load becomes a BrokenDetector. Fails when the folder cannot be read.
llvm::Error loadDetectors(llvm::StringRef Folder, const LoadSettings &Settings,
                          DetectorSet &Into);

} // namespace culprit

#endif // CULPRIT_SCRIPT_LUADETECTOR_H
