//===- KinetoTraceFinish.h - What takes a whole trace to know ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The last step of reading a trace: the header with devices and ranks, and
/// what joins events of different chunks.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACEFINISH_H
#define CULPRIT_READERS_KINETOTRACEFINISH_H

#include "Readers/KinetoTraceRows.h"

namespace culprit::kineto {

/// Sums over all chunks.
struct TraceTotals {
  int64_t Events = 0;
  int64_t Skipped = 0, FirstSkipped = 0;
  uint64_t FirstSkippedAt = 0;
  const char *FirstReason = "";
  std::optional<uint64_t> CutAt;
  std::string Cut; ///< A sentence that says where the record breaks off.
  std::vector<LoaderFrame> Frames;
  std::vector<CollectiveRun> Runs;
  std::vector<CollectiveCall> Calls;
  std::vector<LonePhase> Lone;
};

/// Completes \p Into: rank, epoch, devices, numbers and names of collectives,
/// and the ranges that Python frames stand for.
void finishTrace(llvm::StringRef Header, TimeBase Time, TraceTotals Totals,
                 Source &Into);

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACEFINISH_H
