//===- Changes.h - What more files changed ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A diagnosis beside an earlier one of the same run, from before somebody
/// made the next check: what is known now that was not, and what that did to
/// the ranking.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_CHANGES_H
#define CULPRIT_REPORT_CHANGES_H

#include "Report/Report.h"
#include "Report/SavedReport.h"

namespace culprit {

/// A cause that is likelier or less likely than it was.
struct Moved {
  std::string Class;
  double Before = 0, Now = 0; ///< 0 for one that is not listed.
};

/// A symptom of which something else is known than before.
struct NewlyKnown {
  std::string Symptom;
  Presence Before = Presence::Unknown, Now = Presence::Unknown;
  /// The listed cause that it moves most, and by how much, in nats; empty when
  /// it moves none.
  std::string For;
  double Own = 0;
};

struct Changes {
  std::vector<std::string> Files;  ///< Read now and not before, as given.
  std::vector<Moved> Ranking;      ///< By how far, furthest first.
  std::vector<NewlyKnown> Evidence; ///< What moves most first.
  /// The first cause then and now; empty for none.
  std::string FirstBefore, FirstNow;
};

/// Causes that moved by 0.02 or more and all symptoms whose state differs. A
/// symptom that one of the two runs does not know counts as unknown there.
Changes changesSince(const SavedReport &Before, const RunReport &Now);

/// What changed, a sentence or list a line; \p Name is what the earlier report
/// is called.
std::vector<std::string> changesText(const Changes &C, llvm::StringRef Name);

/// The block of the text report. \p Name is what the earlier report is called.
void printChanges(llvm::raw_ostream &OS, const Changes &C,
                  llvm::StringRef Name, const TextStyle &Style);
/// `since` of the JSON report.
llvm::json::Value changesJson(const Changes &C, llvm::StringRef Name);

} // namespace culprit

#endif // CULPRIT_REPORT_CHANGES_H
