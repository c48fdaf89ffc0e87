//===- Detectors.h - Shipped and own detectors ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Loads the detectors of the installation and of the user's folders.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_DETECTORS_H
#define CULPRIT_TOOL_DETECTORS_H

#include "Detect/Detector.h"
#include "KB/Vocabulary.h"
#include <chrono>

namespace culprit {

/// The shipped detectors, then those of \p Folders, which replace shipped
/// ones of the same id. Fails when a folder cannot be read; a detector that
/// does not load is kept as broken.
llvm::Expected<DetectorSet> openDetectors(llvm::ArrayRef<std::string> Folders,
                                          const Vocabulary &Words);

} // namespace culprit

#endif // CULPRIT_TOOL_DETECTORS_H
