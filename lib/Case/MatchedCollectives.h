//===- MatchedCollectives.h - What ranks did together -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The derived table matched_collectives: who entered each collective first
/// and last, how long the others waited and how fast the data moved.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_MATCHEDCOLLECTIVES_H
#define CULPRIT_CASE_MATCHEDCOLLECTIVES_H

#include "Case/Case.h"

namespace culprit {

/// Bytes on the busiest link for each byte that collectives.bytes counts, in
/// a group of \p Size ranks; the factors of nccl-tests, doc/PERFORMANCE.md.
/// None for an operation without one, or fewer than two ranks.
std::optional<double> busFactor(llvm::StringRef Op, int64_t Size);

/// A row for each collective that at least two ranks recorded. Where fewer
/// than two of the records have times, the columns that tell of time are null.
void deriveMatchedCollectives(const Case &C, TableBuilder &Into);

} // namespace culprit

#endif // CULPRIT_CASE_MATCHEDCOLLECTIVES_H
