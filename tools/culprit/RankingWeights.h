//===- RankingWeights.h - The weights of the installation -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Loads kb/ranking.yaml, and kb/fitted.yaml and kb/recorded-runs.txt upon it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOLS_RANKINGWEIGHTS_H
#define CULPRIT_TOOLS_RANKINGWEIGHTS_H

#include "Rank/Weights.h"

namespace culprit {

/// The weights of \p Path, \p Fitted and \p Recorded, each that of the
/// installation when empty; `none` for \p Fitted leaves it out, and the
/// recorded runs as well, `none` for \p Recorded these alone.
llvm::Expected<Weights> rankingWeights(llvm::StringRef Path = "",
                                       llvm::StringRef Fitted = "",
                                       llvm::StringRef Recorded = "");

} // namespace culprit

#endif // CULPRIT_TOOLS_RANKINGWEIGHTS_H
