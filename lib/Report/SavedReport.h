//===- SavedReport.h - Reading a report that was kept -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What `diagnose --format json` wrote, as far as a later ranking needs it: to
/// rank the same evidence again, and to say what more files changed.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_SAVEDREPORT_H
#define CULPRIT_REPORT_SAVEDREPORT_H

#include "Rank/Diagnosis.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace culprit {

/// A log line that quoted an entry, which a knowledge base need not have.
struct SavedQuote {
  std::string Entry, Fragment, Path;
  int64_t Line = 0;
  unsigned Count = 1;
};

struct SavedReport {
  std::string Name;               ///< `name` if there is one, else empty.
  std::vector<std::string> Paths; ///< Of the files that were read.
  std::vector<SymptomEvidence> Symptoms;
  std::vector<SavedQuote> Quotes;
  /// Figures of the curves by name, as of runShape(); empty without a loss.
  ShapeFigures Shape;
  /// Hypotheses as they were ranked then, and the unknown cause's share.
  std::vector<Shift> Ranked;
  double Unknown = 0;
  /// Classes to leave out of a ranking: `without`, which only benchmarks write.
  std::vector<std::string> Without;

  /// Takes over the report \p V. \p Where stands for it in messages.
  static llvm::Expected<SavedReport> parse(const llvm::json::Value &V,
                                           llvm::StringRef Where);
  /// The reports of the file \p Path: one, or one a line.
  static llvm::Expected<std::vector<SavedReport>> load(llvm::StringRef Path);

  /// Quotes whose entry is one of \p Entries; points into it.
  std::vector<LogEvidence> logs(llvm::ArrayRef<Entry> Entries) const;
};

} // namespace culprit

#endif // CULPRIT_REPORT_SAVEDREPORT_H
