//===- OwnEntries.h - What a team wrote down before -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the entries of a team's own logs that a run brings back and names them
/// at the hypothesis of their cause, before the general entries. Such entries
/// have neither class nor signals, so they are found by what they say:
///
/// - by quote: a message that the entry quotes, or a fragment of its `Log`,
///   stands on a line of the run that tells an error;
/// - by class: the entry names the class of a hypothesis from RecalledFrom on;
/// - by words: the search finds the entry by what speaks for a hypothesis from
///   RecalledFrom on, and by the words of the entry the class of that
///   hypothesis before any other. Both ways must agree, since any entry shares
///   some words with any run.
///
/// An entry whose quote was found and whose words lead to no listed class has a
/// hypothesis of its own, named by its id, if the message is none of the kinds
/// of error that culprit knows: `CUDA out of memory` has many causes.
///
/// Where no hypothesis reaches ClaimedFrom, those seen before come first.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_OWNENTRIES_H
#define CULPRIT_RANK_OWNENTRIES_H

#include "Case/Case.h"
#include "KB/KnowledgeBase.h"
#include "Rank/Diagnosis.h"

namespace culprit {

/// Probability from which a hypothesis brings back entries that no line quotes.
inline constexpr double RecalledFrom = 0.3;
/// What the words of an entry must give for its best class, as a share of what
/// they give for the entry itself. Of the shipped entries that are alone in
/// their class, so that whatever class is found is another one, 5 in 100 reach
/// it; that class must then be the one that the run shows.
inline constexpr double KinFrom = 0.25;

/// A diagnosis with what a team's own entries add.
struct OwnDiagnosis {
  Diagnosis Result;
  /// What Result points to, if an entry has a hypothesis of its own.
  std::vector<Entry> Entries;
};

/// \p First, the diagnosis of \p C from \p Symptoms and \p Quoted, with
/// Hypothesis::Seen filled in. The first \p Own entries of \p KB are the
/// team's. What it returns points into \p KB.
llvm::Expected<OwnDiagnosis>
recallOwnEntries(Diagnosis First, const Case &C, const KnowledgeBase &KB,
                 size_t Own, llvm::ArrayRef<SymptomEvidence> Symptoms,
                 llvm::ArrayRef<LogEvidence> Quoted, const Weights &W,
                 const ShapeFigures &Shape);

} // namespace culprit

#endif // CULPRIT_RANK_OWNENTRIES_H
