//===- Hypotheses.h - What is told of a cause -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Turns the posterior of a cause into a hypothesis: evidence for and against,
/// what was not checked, what would contradict it, and the team's entries.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_RANK_HYPOTHESES_H
#define CULPRIT_RANK_HYPOTHESES_H

#include "Rank/Model.h"

namespace culprit {

/// The hypothesis of \p P, without its next check.
Hypothesis makeHypothesis(const Model &M, const CausePosterior &P,
                          llvm::ArrayRef<SymptomEvidence> Symptoms,
                          const Vocabulary &Words);

/// What \p E would look like, and what it needs.
Unchecked unchecked(const SymptomEvidence &E, const Vocabulary &Words);

/// Why \p A, told as \p First, stands before \p B, told as \p Second. Terms
/// below a tenth of a nat are left out, and what is missing of the other
/// variants of \p First.
Lead leadOf(const Model &M, const Hypothesis &First, const Hypothesis &Second,
            const CausePosterior &A, const CausePosterior &B);

} // namespace culprit

#endif // CULPRIT_RANK_HYPOTHESES_H
