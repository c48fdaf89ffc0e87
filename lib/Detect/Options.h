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
  std::string Origin;   ///< .culprit.yaml:4; empty: the command line.

  /// gpu/idle.min_idle=0.2
  std::string text() const { return Detector + "." + Name + "=" + Value; }
};

/// Takes \p Text apart. The last dot before the first `=` ends the id.
llvm::Expected<OptionSetting> parseOptionSetting(llvm::StringRef Text);

/// The value that an option has, and why.
struct OptionChoice {
  Scalar Value;
  std::string Origin; ///< "default", ".culprit.yaml:4" or "--option".
};

/// One choice for each option of \p Info, in their order. Later settings win;
/// those of other detectors are ignored. Fails for an option that \p Info does
/// not have and for a value of the wrong type, with the origin.
llvm::Expected<std::vector<OptionChoice>>
chooseOptions(const DetectorInfo &Info,
              llvm::ArrayRef<OptionSetting> Settings);

} // namespace culprit

#endif // CULPRIT_DETECT_OPTIONS_H
