//===- Derive.h - Tables computed from other tables -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Facts that several detectors share and that are worth computing once: the
/// steps of a profile, the steady window of each device, and the pieces of
/// that window in which the device ran nothing. Facts only, no verdicts.
/// Each is computed when it is first asked for.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_DERIVE_H
#define CULPRIT_CASE_DERIVE_H

#include "Case/Case.h"
#include "Case/ProfileIndex.h"

namespace culprit {

/// Fills \p Into with the rows of the derived table \p Id.
void derive(TableId Id, const Case &C, const ProfileIndex &Index,
            TableBuilder &Into);

/// Steps are the ranges of category `step`, per rank in order of start. A step
/// is steady unless it is the first or last of at least four on its rank, or
/// the first of three: those hold warm-up, profiler start and flush.
void deriveSteps(const Case &C, TableBuilder &Into);

/// One window a device: the steady steps of its rank as the device ran them,
/// which is later than the host where the host is ahead; or the span of its
/// work where the record has no steps or no work in them.
void deriveWindows(const Case &C, const ProfileIndex &Index,
                   TableBuilder &Into);

/// The complement of a device's work in its window, cut where the call that
/// launched the next work begins and where the launching threads turn to
/// something else; see the columns `state` and `host`.
void deriveGaps(const Case &C, const ProfileIndex &Index, TableBuilder &Into);

/// Every piece of device work whose launch call is recorded, per device in
/// order of the calls.
void deriveLaunches(const Case &C, const ProfileIndex &Index,
                    TableBuilder &Into);

/// What each window waited for, one answer an instant; CriticalPath.cpp tells
/// how it is found.
void deriveCriticalPath(const Case &C, const ProfileIndex &Index,
                        TableBuilder &Into);

/// One row a window: what its record lacks.
void deriveCaptureQuality(const Case &C, const ProfileIndex &Index,
                          TableBuilder &Into);

} // namespace culprit

#endif // CULPRIT_CASE_DERIVE_H
