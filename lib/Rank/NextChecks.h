//===- NextChecks.h - What to look at next ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Which experiment or recording tells most for the time it takes, and what
/// each outcome would do to the ranking.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_NEXTCHECKS_H
#define CULPRIT_RANK_NEXTCHECKS_H

#include "Rank/Likeness.h"

namespace culprit {

/// Fills in the next check of each of \p Listed, the experiment of its entry,
/// and the gain of each of its unchecked symptoms; returns the check to make
/// first: the experiment of the first hypothesis, unless that of another one
/// tells more than twice as much for its time, or something to record tells
/// more, twice as much where the first is claimed. Where nothing is listed it
/// is what to record for \p Rest, causes that only common sights speak for.
/// \p ShareOf is what part of the time that could be won is the hypothesis's, 1
/// where none is about time: nobody runs a test of a side issue first, however
/// many bits it carries.
std::optional<NextCheck>
findChecks(llvm::MutableArrayRef<Hypothesis> Listed,
           llvm::ArrayRef<unsigned> Rest, const Model &M, const Beliefs &B,
           const Vocabulary &Words, const Weights &W, const Likeness &Runs,
           llvm::function_ref<double(const Hypothesis &)> ShareOf);

} // namespace culprit

#endif // CULPRIT_RANK_NEXTCHECKS_H
