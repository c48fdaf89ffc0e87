//===- Timing.h - What detectors cost ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What `diagnose --time-detectors` prints.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_DETECT_TIMING_H
#define CULPRIT_DETECT_TIMING_H

#include "Detect/Outcome.h"

namespace culprit {

/// A line a detector, the slowest first. Below those that took a twentieth of
/// all the time or more, the lines and verbs where it went: time, calls, and
/// the memory of the tables that were made.
std::string timingTable(llvm::ArrayRef<Outcome> Outcomes);

} // namespace culprit

#endif // CULPRIT_DETECT_TIMING_H
