//===- Savings.h - What a cause costs, per step -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Says recoverable time as people count it: of each step.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_SAVINGS_H
#define CULPRIT_REPORT_SAVINGS_H

#include "Case/Case.h"
#include <optional>
#include <string>

namespace culprit {

/// The steady steps that recoverable times refer to: those of the window with
/// the most of them.
struct StepBasis {
  int64_t Steps = 0;  ///< 0: the record has none, and times are of all of it.
  int64_t StepNs = 0; ///< Mean length of one on the device.
  int64_t WindowNs = 0;
};

/// None without device work.
std::optional<StepBasis> stepBasis(const Case &C);

/// "up to 59.0 ms of each step of 178 ms (33 %)", or of the recorded time
/// where there are no steps.
std::string savingsText(const Case &C, int64_t RecoverableNs);

} // namespace culprit

#endif // CULPRIT_REPORT_SAVINGS_H
