//===- Watchdog.h - Runs jobs and gives up on those that hang ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The last line of defence against a detector that does not stop. Scripts
/// look at the clock themselves, between instructions and within verbs, and
/// end with a sentence that says where; this catches what does not. A thread
/// cannot be ended from outside, so a job that hangs is left behind, its
/// outcome is written in its stead, and the others go on.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_DETECT_WATCHDOG_H
#define CULPRIT_DETECT_WATCHDOG_H

#include "Detect/Detector.h"
#include <functional>
#include <vector>

namespace culprit {

struct WatchedJobs {
  size_t Count = 0;
  /// Does job I. Called in several threads at once, and still running after
  /// runWatched() returned for a job that was given up: whatever it uses must
  /// live until the process ends then.
  std::function<Outcome(size_t I)> Do;
  /// What stands in the place of job I when it is given up; marked Abandoned.
  std::function<Outcome(size_t I)> GiveUp;
  /// How long a job may take.
  std::chrono::nanoseconds Limit;
};

/// Does all of \p Jobs in \p Threads threads. The outcomes are in the order of
/// the jobs.
std::vector<Outcome> runWatched(WatchedJobs Jobs, unsigned Threads);

/// When a script that should have stopped by itself is given up.
std::chrono::nanoseconds hangsAfter(const Limits &Bounds);

/// What is wrong with the script \p File, which does not come back.
DetectorError hangs(llvm::StringRef File, const Limits &Bounds,
                    std::string Hint);

} // namespace culprit

#endif // CULPRIT_DETECT_WATCHDOG_H
