//===- FromOutcomes.h - Outcomes as evidence --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Turns what single detectors say into what is known of each symptom.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_FROMOUTCOMES_H
#define CULPRIT_RANK_FROMOUTCOMES_H

#include "Detect/Outcome.h"
#include "KB/LogMatcher.h"
#include "Rank/Diagnosis.h"

namespace culprit {

/// One element a symptom that some outcome declares, by symptom id: present
/// if any detector reported it, absent if one that could have ran and did
/// not, unknown if all were skipped or failed.
std::vector<SymptomEvidence> collectSymptoms(llvm::ArrayRef<Outcome> Outcomes);

/// The lines of \p C's logs that quote a log fragment of \p Entries: for each
/// entry its most frequent fragment.
std::vector<LogEvidence> quotedEntries(const Case &C,
                                       llvm::ArrayRef<Entry> Entries);

} // namespace culprit

#endif // CULPRIT_RANK_FROMOUTCOMES_H
