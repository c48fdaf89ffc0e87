//===- Runner.h - Runs detectors over a case --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Selects detectors, runs them in parallel and returns their outcomes in the
/// order of their ids, so that output is byte-identical from run to run and
/// for any number of threads.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_DETECT_RUNNER_H
#define CULPRIT_DETECT_RUNNER_H

#include "Detect/Detector.h"
#include "Support/Glob.h"
#include <string>
#include <vector>

namespace culprit {

struct RunSettings {
  /// Which detectors: `gpu/*,-gpu/idle*`. Everything when empty.
  std::string Only;
  /// Settings of options, later ones win: `gpu/idle.min_idle=0.2`.
  std::vector<std::string> Options;
  unsigned Threads = 0; ///< 0: one a core.
  Limits Bounds;
};

/// Runs the selected detectors of \p Set over \p C. Detectors that did not
/// load give a failed outcome each, if selected. One that hangs fails alone;
/// its outcome is Abandoned, and \p Set and \p C must then stay where they are
/// until the process ends. Fails only for settings that
/// make no sense: a selection that no detector matches, an unknown detector or
/// option, a value of the wrong type.
llvm::Expected<std::vector<Outcome>> runDetectors(const DetectorSet &Set,
                                                  const Case &C,
                                                  const RunSettings &Settings);

/// Runs one: checks its needs, then it, under a stop watch.
Outcome runDetector(const Detector &D, const Case &C,
                    llvm::ArrayRef<Scalar> Options, const Limits &Bounds);
/// The same, given up when it hangs: the outcome is Abandoned then, and \p D
/// must stay where it is until the process ends.
Outcome runDetectorWatched(const Detector &D, std::shared_ptr<const Case> C,
                           std::vector<Scalar> Options, const Limits &Bounds);

/// The values of \p Info's options under \p Settings, those of other detectors
/// ignored.
llvm::Expected<std::vector<Scalar>>
optionValues(const DetectorInfo &Info, llvm::ArrayRef<std::string> Settings);

} // namespace culprit

#endif // CULPRIT_DETECT_RUNNER_H
