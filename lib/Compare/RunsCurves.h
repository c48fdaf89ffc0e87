//===- RunsCurves.h - Curves of runs on one axis ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Brings the curves of a metric onto one axis, tokens where all runs log them,
/// and takes the levels at the end of the range that all have.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_RUNSCURVES_H
#define CULPRIT_COMPARE_RUNSCURVES_H

#include "Compare/RunsRecord.h"

namespace culprit {

/// A curve over the axis, finite values alone.
struct Curve {
  std::vector<double> X, Y;
  size_t NonFinite = 0;
  bool EndsNonFinite = false;

  /// The value at \p At between two points; none outside.
  std::optional<double> at(double At) const;
};

/// The curves of one metric over the common range.
struct Aligned {
  std::vector<Curve> A, B;
  /// The range that all have; runs that end in values that are not finite do
  /// not count, unless all do.
  double From = 0, To = 0;
  /// Whether there is such a range, and all that end finite have points there.
  bool IsCommon = false;
  /// Of the first run of each side, where both are.
  std::vector<std::pair<double, double>> Paired;
};

/// Tokens are logged by all, and mean the same: they rise throughout.
bool byTokens(llvm::ArrayRef<const RunRecord *> Runs);

/// The curves of \p Name, which all runs log, within their common range.
Aligned align(llvm::ArrayRef<const RunRecord *> A,
              llvm::ArrayRef<const RunRecord *> B, llvm::StringRef Name,
              bool Tokens);

/// Median of the last tenth; of at least three points where there are twenty.
double levelOf(llvm::ArrayRef<double> Values);
/// Of each curve; NaN for one that ends in values that are not finite.
std::vector<double> levelsOf(llvm::ArrayRef<Curve> Side);
/// Means of both sides over the last tenth of \p Pairs, without outliers.
std::pair<double, double>
pairedLevels(llvm::ArrayRef<std::pair<double, double>> Pairs);

} // namespace culprit

#endif // CULPRIT_COMPARE_RUNSCURVES_H
