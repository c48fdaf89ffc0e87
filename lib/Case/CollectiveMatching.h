//===- CollectiveMatching.h - The same collective on all ranks --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the records that several ranks made of one collective. Clock
/// alignment asks before the case is put together and the derived table
/// afterwards, so this sees plain records and neither sources nor tables.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_COLLECTIVEMATCHING_H
#define CULPRIT_CASE_COLLECTIVEMATCHING_H

#include "Table/Column.h"
#include <vector>

namespace culprit {

/// A row of `collectives` as matching needs it; what is not known is NullInt
/// or empty. The texts and lists must outlive the record.
struct CollectiveRecord {
  int64_t Rank = 0, Seq = NullInt, Order = NullInt, Bytes = NullInt,
          Start = NullInt, Stop = NullInt, GroupSize = NullInt, Peer = NullInt;
  int64_t World = NullInt; ///< Ranks of the job the record is from.
  llvm::StringRef Group, Op;
  llvm::ArrayRef<int64_t> Members;
  uint32_t Row = 0;    ///< For the caller.
  uint32_t Source = 0; ///< For the caller.

  bool timed() const { return Start != NullInt && Stop != NullInt; }
};

/// Positions in the list of records, one a rank, in the order of the ranks.
using CollectiveMatch = std::vector<uint32_t>;

/// Whether all ranks leave \p Op at about the same time, because nobody can
/// have its result before everybody has entered. The root of a broadcast or a
/// sender may leave early.
bool leavesTogether(llvm::StringRef Op);

/// The collectives that at least two ranks recorded, in the order of their
/// first entry; those without times come last, by group and number.
///
/// Records match by group and sequence number. Where the numbers were counted
/// by a reader, a rank whose record begins later or lost some counts
/// differently: such lists are aligned by operation, size and the times at
/// which the ranks leave, which differ by one clock offset if the pairing is
/// right and scatter if it is not. Records that fit nowhere stay unmatched.
/// A send matches the peer's receive. Records of jobs of different size never
/// match, nor do records with times and records without.
std::vector<CollectiveMatch>
matchCollectives(llvm::ArrayRef<CollectiveRecord> Records);

} // namespace culprit

#endif // CULPRIT_CASE_COLLECTIVEMATCHING_H
