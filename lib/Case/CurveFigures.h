//===- CurveFigures.h - Figures of one curve --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Medians, ratios and ends of curves, for the shape of a run (RunShape.h). A
/// figure of nothing is none, and what is made of it is none as well.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_CURVEFIGURES_H
#define CULPRIT_CASE_CURVEFIGURES_H

#include "Case/RunCurves.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>
#include <vector>

namespace culprit {

using Values = std::vector<double>;
using Number = std::optional<double>;

/// The logarithm of 0: below that of anything that is logged in earnest.
constexpr double LogOfZero = -12;

/// The logarithm to the base of 10; none of what is negative or infinite.
Number logOf(Number V);
/// The logarithm of \p A over \p B, which has to be above 0.
Number ratio(Number A, Number B);

/// The upper of two in the middle.
Number median(Values V);
Number highest(llvm::ArrayRef<double> V);
Number lowest(llvm::ArrayRef<double> V);
Number last(llvm::ArrayRef<double> V);
Number first(llvm::ArrayRef<double> V);
/// Of n values, not of a sample from more.
Number deviation(llvm::ArrayRef<double> V);

/// The share of values before the first of the highest, or lowest.
Number placeOfHighest(llvm::ArrayRef<double> V);
Number placeOfLowest(llvm::ArrayRef<double> V);

/// The last tenth, and one value at least.
llvm::ArrayRef<double> endOf(llvm::ArrayRef<double> V);

/// The values of \p C that are finite, in the order of steps.
Values finite(const Curve &C);

/// The share of \p All that \p Is holds for.
template <typename Range, typename Fn>
Number shareOf(const Range &All, Fn Is) {
  const size_t Size = All.size();
  return Size ? double(llvm::count_if(All, Is)) / double(Size) : Number();
}

} // namespace culprit

#endif // CULPRIT_CASE_CURVEFIGURES_H
