//===- CaptureCheck.h - Whether a capture keeps its promises ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A capture promises that every record that was seen is in it or is counted
/// as lost, with the reason, and that what was written is there unharmed. This
/// holds a file against that.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CAPTURECHECK_H
#define CULPRIT_READERS_CAPTURECHECK_H

#include "Capture/CaptureFile.h"
#include <string>
#include <vector>

namespace culprit {

struct CaptureCheck {
  /// Promises that are broken, a sentence each.
  std::vector<std::string> Broken;
  /// What is worth knowing and breaks none: lost records by reason, an end that
  /// is missing since the process was killed.
  std::vector<std::string> Notes;
  /// "2,690 records seen = 2,690 written + 0 lost".
  std::string Sum;
};

CaptureCheck checkCapture(const capture::CaptureFile &File);

} // namespace culprit

#endif // CULPRIT_READERS_CAPTURECHECK_H
