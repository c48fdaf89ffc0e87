//===- RunShape.h - The curves of a run in a few figures --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the curves of a training run look like, in figures that do not depend
/// on the size of the model: how far the loss fell and how high it rose, how
/// gradient norm, rate, updates and activations behaved. Runs with one fault
/// are alike in them where no threshold of a detector fits all models.
///
/// RunShape.def says what each figure is. Only the first run of a case counts,
/// in the order of names, and of its scalars the primary rows with a step and
/// a value that is a number: an infinity is one, and left out of a figure as
/// that says; NaN is none. Median means the upper one of two.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_RUNSHAPE_H
#define CULPRIT_CASE_RUNSHAPE_H

#include "Case/Case.h"
#include "llvm/ADT/StringRef.h"
#include <map>
#include <string>

namespace culprit {

/// The figures of \p C by name, to six decimals so that a saved report holds
/// what was ranked. One whose metric was not logged is not there; all are
/// missing where fewer than four rows of a loss were logged.
std::map<std::string, double> runShape(const Case &C);

/// What the figure \p Name says, and its unit: "loss at the end over the first
/// one, log10". Empty for a name that is none.
llvm::StringRef describeShape(llvm::StringRef Name);

/// The figure \p Name at \p Value, told without a logarithm: "loss at the end
/// over the first one (0.3)".
std::string shapeText(llvm::StringRef Name, double Value);

} // namespace culprit

#endif // CULPRIT_CASE_RUNSHAPE_H
