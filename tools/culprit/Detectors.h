//===- Detectors.h - Shipped and own detectors ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Loads the detectors of the installation, of the project and of the user's
/// folders.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_DETECTORS_H
#define CULPRIT_TOOL_DETECTORS_H

#include "Detect/Detector.h"
#include "KB/Vocabulary.h"
#include "Script/LuaDetector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace culprit {

/// How detectors are loaded where \p Words are the symptoms there are: with
/// the shipped modules.
llvm::Expected<LoadSettings> loadSettings(const Vocabulary &Words);

/// Where the shipped detectors lie compiled (Script/DetectorStore.h).
llvm::Expected<std::string> shippedStore();

/// The folders of detectors, later ones win: the shipped one, the project's,
/// and \p More.
llvm::Expected<std::vector<std::string>>
detectorFolders(llvm::ArrayRef<std::string> More);

/// The detectors of these folders. A later one takes the place of an earlier
/// one of the same id. Fails when a folder cannot be read; a detector that
/// does not load is kept as broken.
llvm::Expected<DetectorSet> openDetectors(llvm::ArrayRef<std::string> More,
                                          const Vocabulary &Words);

/// Which of \p Folders, as detectorFolders() gives them, \p File is of:
/// "shipped" for the first one, else the folder; empty for none of them.
std::string originOf(llvm::StringRef File,
                     llvm::ArrayRef<std::string> Folders);

/// Names the detectors of \p Set that did not load and are \p Wanted on stderr.
/// ExitBadUse if there were any, else ExitDone.
int reportBroken(
    const DetectorSet &Set,
    llvm::function_ref<bool(llvm::StringRef Id)> Wanted = [](llvm::StringRef) {
      return true;
    });

} // namespace culprit

#endif // CULPRIT_TOOL_DETECTORS_H
