//===- Stats.h - What a log holds -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb stats`: counts, gaps and coverage of entries.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_STATS_H
#define CULPRIT_KB_STATS_H

#include "KB/Entry.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

struct KbStats {
  unsigned Entries = 0;
  std::map<std::string, unsigned> Files, Layers, Classes, Status;
  std::map<std::string, unsigned> Months; ///< YYYY-MM; empty: no date.
  /// Label to entries without the section, in the order of Sections.def; those
  /// of curated entries count only for entries with a class.
  std::vector<std::pair<std::string, unsigned>> Missing;
  unsigned Curated = 0;                    ///< Entries with a class.
  std::map<std::string, unsigned> Signals; ///< Used, by entries.
  std::vector<std::string> UnusedSignals;  ///< Known, of no entry.
  unsigned KnownSignals = 0, KnownClasses = 0;
  std::vector<std::string> UncoveredClasses; ///< Known, of no entry.
  std::vector<std::string> UnknownClasses;   ///< Of an entry, not known.
};

KbStats countEntries(llvm::ArrayRef<const Entry *> Entries,
                     const Vocabulary &V);

/// The contract of `kb stats --format json`.
llvm::json::Value statsJson(const KbStats &S);
void printStats(llvm::raw_ostream &OS, const KbStats &S);

} // namespace culprit

#endif // CULPRIT_KB_STATS_H
