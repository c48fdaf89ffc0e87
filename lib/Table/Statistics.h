//===- Statistics.h - Robust statistics over columns ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reducers and column operations. Nulls are always left out. A NaN or an
/// infinity that was logged is left out of order statistics, means and
/// slopes too, so that one NaN does not hide the rest: count them with a
/// filter when they matter.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_STATISTICS_H
#define CULPRIT_TABLE_STATISTICS_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace culprit {

/// The \p Q quantile (0 to 1) with linear interpolation between order
/// statistics (type 7, NumPy's default); none for no finite value.
std::optional<double> quantile(llvm::ArrayRef<double> Values, double Q);
/// As quantile(), of finite \p Values, not empty, which it reorders.
double quantileInPlace(std::vector<double> &Values, double Q);
std::optional<double> mean(llvm::ArrayRef<double> Values);
/// Sample standard deviation (n - 1); none for fewer than two values.
std::optional<double> standardDeviation(llvm::ArrayRef<double> Values);
/// Median absolute deviation times 1.4826: sigma, for a normal sample.
std::optional<double> robustDeviation(llvm::ArrayRef<double> Values);

/// Deviation of each value from the median of the \p Window finite values
/// before it, in robust deviations of those. Positive is up. Null for the
/// first values, until min(Window, 8) have been seen. The deviation is
/// floored at 1e-3 of |median| so that a flat stretch does not make noise
/// infinite; only next to a median of 0 without any spread is every other
/// value infinitely far. Infinite values give an infinite score, NaN gives
/// NaN and null gives null.
std::vector<double> robustZ(llvm::ArrayRef<double> Values, size_t Window);

/// Each value less the one before it; null for the first and next to a null.
std::vector<double> difference(llvm::ArrayRef<double> Values);

enum class RollingKind { Mean, Median, Min, Max };
/// Over the finite values among the \p Window that end at each row; shorter at
/// the start, null where there are none.
std::vector<double> rolling(llvm::ArrayRef<double> Values, size_t Window,
                            RollingKind Kind);

/// Theil-Sen slope of Y over X: the median of all pairwise slopes, of at most
/// 512 evenly chosen points with finite X and Y. None for fewer than two
/// distinct X.
std::optional<double> robustSlope(llvm::ArrayRef<double> X,
                                  llvm::ArrayRef<double> Y);
/// The same over the row numbers 0, 1, ...
std::optional<double> robustSlope(llvm::ArrayRef<double> Y);

/// A place where the level of a series changes.
struct ChangePoint {
  size_t At = 0;     ///< Index of the first value of the new level.
  double Before = 0; ///< Median before, back to the previous change.
  double After = 0;  ///< Median after, up to the next change.
  /// |After - Before| in robust deviations of the values around these two
  /// medians, floored at 1e-3 of the larger magnitude; so at most 2000.
  double Score = 0;
};

/// Change points of the finite \p Values by binary segmentation on ranks, each
/// side at least \p MinSegment long, in order. A stretch is split where its
/// Pettitt test is largest if p < 0.01; else, at both ends of an episode that
/// differs from its surroundings, if the circular form of that test has
/// p < 0.01. Ranks make outliers harmless. The tests take the noise around a
/// level as independent: a slow trend reads as a staircase, so want a Score
/// or a size too.
std::vector<ChangePoint> changePoints(llvm::ArrayRef<double> Values,
                                      size_t MinSegment = 8);

} // namespace culprit

#endif // CULPRIT_TABLE_STATISTICS_H
