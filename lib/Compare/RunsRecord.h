//===- RunsRecord.h - One run as comparing sees it --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The runs of a case: their curves, settings, packages, and where they were
/// taken up again. A folder may hold several runs, told apart by the `run`
/// column; what lies in a folder inside that of a run belongs to it as long as
/// it does not log the same metrics.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_RUNSRECORD_H
#define CULPRIT_COMPARE_RUNSRECORD_H

#include "Case/Case.h"
#include <map>

namespace culprit {

/// The primary rows of one metric of one run, steps rising.
struct ScalarSeries {
  std::string Metric, Layer;
  std::vector<int64_t> Steps;
  std::vector<double> Values; ///< One a step; may be NaN or infinite.

  size_t size() const { return Steps.size(); }
  /// Row of \p Step, or none.
  std::optional<size_t> find(int64_t Step) const;
};

struct RunRecord {
  std::string Folder;
  std::string Name; ///< For people: the shortest end of Folder that is unique.
  std::map<std::string, ScalarSeries> Series; ///< By canonical name.
  std::map<std::string, std::string> Config;  ///< By key path.
  std::map<std::string, std::string> Packages;
  std::string Devices; ///< "4 x A100", where it was recorded.
  /// Steps that a file takes up again after later ones.
  std::vector<int64_t> Resumes;
  /// Steps that came twenty times later than steps do, and a minute.
  std::vector<int64_t> Pauses;

  const ScalarSeries *series(llvm::StringRef Name) const;
  /// The first and last step of any global series; none without any.
  std::optional<std::pair<int64_t, int64_t>> steps() const;
};

/// The runs of \p C in the order of their folders. \p Path names a run that
/// says nothing of its folder.
std::vector<RunRecord> runRecords(const Case &C, llvm::StringRef Path);

/// Sets Name of every run: as short as tells them apart.
void nameRuns(llvm::MutableArrayRef<RunRecord> Runs);

} // namespace culprit

#endif // CULPRIT_COMPARE_RUNSRECORD_H
