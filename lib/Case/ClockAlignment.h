//===- ClockAlignment.h - One clock for the ranks of a job ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Every profile of a job has a clock of its own. All ranks leave a collective
/// at about the same time, so the ends of matched collectives say how the
/// clocks lie to each other. Only ends are used: when a rank enters is what
/// one wants to see, and must survive.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_CLOCKALIGNMENT_H
#define CULPRIT_CASE_CLOCKALIGNMENT_H

#include "Case/Case.h"
#include "Case/CollectiveMatching.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>
#include <optional>

namespace culprit {

/// Calls \p Visit with every time of \p S, which it may change.
void forEachTime(Source &S, llvm::function_ref<void(int64_t &)> Visit);

/// Puts profiles of one job on one clock by their collectives and says in
/// their remarks what was moved and which profiles belong to another run.
/// EXPECTS: \p Sources lie as their epochs say, those without one at 0, and
/// ranks are distinct.
///
/// A profile without an epoch is moved to its peers. One with an epoch stays
/// unless its clock differs by more than the median collective lasts; a clock
/// that runs faster or slower in a long record is straightened. Returns the
/// time by which all profiles were moved together so that none begins before
/// 0: the start of the case is earlier by it.
int64_t alignClocks(llvm::ArrayRef<std::unique_ptr<Source>> Sources);

/// The rows of `collectives` of all \p Sources as matching wants them, which
/// refer to the builders, and in \p WorldOf the job size each source knows.
std::vector<CollectiveRecord>
collectiveRecords(llvm::ArrayRef<std::unique_ptr<Source>> Sources,
                  std::vector<int64_t> &WorldOf);

/// The rows of the case's `collectives` as matching wants them.
std::vector<CollectiveRecord> collectiveRecords(const Case &C);

/// For each rank with matched collectives how far they end from those of its
/// peers in ns, in the median: what alignment has left over.
std::map<int64_t, int64_t> clockResiduals(const Case &C);

/// The same for one rank; none where it shares no collective.
std::optional<int64_t> clockResidual(const Case &C, int64_t Rank);

} // namespace culprit

#endif // CULPRIT_CASE_CLOCKALIGNMENT_H
