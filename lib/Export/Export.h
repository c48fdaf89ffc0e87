//===- Export.h - Profiles for other people's viewers -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes the profile of a case in the formats that viewers open. Whatever
/// it was read from, the rows that both formats know come back the same when
/// the file is read again.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_EXPORT_EXPORT_H
#define CULPRIT_EXPORT_EXPORT_H

#include "Case/Case.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace culprit {

struct ExportOptions {
  /// The rank to write, where the case has several.
  std::optional<int64_t> Rank;
  std::string Version; ///< Of culprit, as the file names it.
};

/// The ranks of the device work, calls and ranges of \p C, in order.
std::vector<int64_t> profiledRanks(const Case &C);

/// A trace as PyTorch's profiler writes it, for Perfetto, chrome://tracing and
/// TensorBoard. Of one rank; what Kineto has no event for (whole graphs,
/// results of calls) is there to see and does not come back.
void writeChromeTrace(llvm::raw_ostream &OS, const Case &C, int64_t Rank,
                      const ExportOptions &Options);

/// A database as `nsys export --type sqlite` makes it, at \p Path, which must
/// not exist. Each rank is a process; nsys has no numbers of ranks, so that
/// they come back counted from 0 in the order of pids.
llvm::Error writeNsightExport(llvm::StringRef Path, const Case &C,
                              const ExportOptions &Options);

} // namespace culprit

#endif // CULPRIT_EXPORT_EXPORT_H
