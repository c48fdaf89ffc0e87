//===- DetectorText.h - A detector for people and programs ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The declaration of a detector as `list` and `explain` give it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_DETECTORTEXT_H
#define CULPRIT_TOOL_DETECTORTEXT_H

#include "Detect/Options.h"
#include "llvm/Support/JSON.h"

namespace culprit {

/// "gpu_work (start, stop)".
std::string needText(const Need &N);

/// Everything that \p I says, its options with the values \p Choices, as
/// docs/json.md describes. \p Origin is where it comes from.
llvm::json::Object detectorJson(const DetectorInfo &I,
                                llvm::ArrayRef<OptionChoice> Choices,
                                llvm::StringRef Origin);

} // namespace culprit

#endif // CULPRIT_TOOL_DETECTORTEXT_H
