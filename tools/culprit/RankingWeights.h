//===- RankingWeights.h - The weights of the installation -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Loads kb/ranking.yaml, and kb/fitted.yaml upon it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOLS_RANKINGWEIGHTS_H
#define CULPRIT_TOOLS_RANKINGWEIGHTS_H

#include "Rank/Weights.h"

namespace culprit {

/// The weights of \p Path and \p Fitted, each that of the installation when
/// empty; `none` for \p Fitted leaves it out.
llvm::Expected<Weights> rankingWeights(llvm::StringRef Path = "",
                                       llvm::StringRef Fitted = "");

} // namespace culprit

#endif // CULPRIT_TOOLS_RANKINGWEIGHTS_H
