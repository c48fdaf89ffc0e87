//===- Options.h - Settings of detectors ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `gpu/idle.min_idle=0.2`, from the command line or a project's settings.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_DETECT_OPTIONS_H
#define CULPRIT_DETECT_OPTIONS_H

#include "Detect/Detector.h"

namespace culprit {

struct OptionSetting {
  std::string Detector; ///< gpu/idle
  std::string Name;     ///< min_idle
  std::string Value;    ///< 0.2
};

/// Takes \p Text apart. The last dot before the first `=` ends the id.
llvm::Expected<OptionSetting> parseOptionSetting(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_DETECT_OPTIONS_H
