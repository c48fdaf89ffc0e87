//===- Locate.h - Where to look at evidence ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A sentence of a report rests on rows. These say how to see them: as a query
/// for `culprit sql`, and as a time range in a viewer of the file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_LOCATE_H
#define CULPRIT_REPORT_LOCATE_H

#include "Detect/Outcome.h"

namespace culprit {

/// The query that shows the rows of \p E, the first \p Most of them:
/// SELECT rowid, * FROM gpu_work WHERE rowid IN (3, 17). None for computed
/// rows, which have no numbers.
std::optional<std::string> evidenceSql(const EvidenceRef &E,
                                       size_t Most = 20);

/// When a row was, on the clock and in the unit of its file: what Perfetto,
/// chrome://tracing or Nsight Systems show.
struct ViewerRange {
  std::string Path;
  std::string Unit; ///< "us" (Kineto's ts) or "ns" (Nsight Systems).
  /// In ns, whatever Unit; equal for a moment.
  int64_t StartNs = 0, StopNs = 0;

  /// "1234.567 us to 1240.000 us"
  std::string text() const;
};

/// The time of row \p Row of \p Id. None for rows without a time, of files
/// without a clock, and of derived tables over several files.
std::optional<ViewerRange> viewerRange(const Case &C, TableId Id, size_t Row);

} // namespace culprit

#endif // CULPRIT_REPORT_LOCATE_H
