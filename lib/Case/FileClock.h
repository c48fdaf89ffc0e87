//===- FileClock.h - From case time back to a file's own --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Times of a case were shifted, and where clocks drift stretched, so that all
/// files agree. Who opens a file in a viewer needs the time that stands in it.
/// Alignment is linear in a file, so two moments known on both clocks give
/// every other.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_FILECLOCK_H
#define CULPRIT_CASE_FILECLOCK_H

#include "Case/Source.h"

namespace culprit {

struct FileClock {
  std::string Unit; ///< Of times in the file: "us" or "ns". Empty: not known.
  /// Two moments, in ns on the clock of the file and in case time.
  int64_t FileNs[2] = {0, 0}, CaseNs[2] = {0, 0};

  bool known() const { return !Unit.empty(); }
  /// The case time \p Time on the clock of the file, in ns.
  int64_t toFileNs(int64_t Time) const;
};

/// Where the earliest and the latest of a file's rows stand before alignment.
struct ClockAnchor {
  TableId Table = TableId::gpu_work;
  unsigned Column = 0;
  size_t Rows[2] = {0, 0};
  FileClock Clock;
};

/// To be called before times are shifted, once a source.
ClockAnchor anchorClock(Source &S);
/// The clock of \p S, whose times have been shifted since.
FileClock fileClock(Source &S, ClockAnchor Anchor);

} // namespace culprit

#endif // CULPRIT_CASE_FILECLOCK_H
