//===- Waits.h - Who waits for whom in a job that hangs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The derived table waits: for the oldest call that each rank has not
/// completed, what the other ranks it needs have to do with it.
///
///   rank 0: all_reduce 5 scheduled        call 0  rank 0  waits
///   rank 1: all_reduce 5 scheduled        call 0  rank 1  waits
///   rank 2: all_reduce 4 completed   ->   call 0  rank 2  absent
///   rank 3: left no dump                  call 0  rank 3  unknown
///
/// Facts of the dumps, no verdicts: who is to blame is for a detector to say.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_WAITS_H
#define CULPRIT_CASE_WAITS_H

#include "Case/Case.h"

namespace culprit {

/// Rows for the calls that hang, by the lowest rank in each, and in a call by
/// rank. Calls are those of a flight recorder, which numbers its records. At
/// most four million rows; the calls of the highest ranks are left out then.
void deriveWaits(const Case &C, TableBuilder &Into);

} // namespace culprit

#endif // CULPRIT_CASE_WAITS_H
