//===- RunsStatistics.h - Is a difference more than noise? ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The statistics behind the comparison of runs: Student's t, the level that a
/// curve ends at, the noise of a difference of two curves, and rank
/// correlation.
///
/// Noise of one pair of curves. Two runs of one configuration share the trend,
/// so the paired differences d_i are looked at, not the curves. Their level in
/// the last tenth (w points) is a median; how much such a level moves by
/// chance is the larger of
///
///   1.2533 s sqrt((1 + r) / ((1 - r) w))     s, r: deviation and lag-one
///                                            autocorrelation of the d_i
///   sd(m_(j+1) - m_j) / sqrt(2)              m_j: medians of blocks of w
///                                            points over the last half,
///                                            or five blocks where that is
///                                            more
///
/// The first is the error of a median of w dependent values, the second sees
/// slow wandering that no autocorrelation of a short window shows. It takes
/// the mean step between blocks off first, so that a gap that opens steadily
/// does not count as noise. Both see one draw of initialisation and data order
/// alone: a lower bound on what seeds do.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_RUNSSTATISTICS_H
#define CULPRIT_COMPARE_RUNSSTATISTICS_H

#include "llvm/ADT/ArrayRef.h"
#include <cstddef>
#include <optional>

namespace culprit {

/// The regularised incomplete beta function I_x(a, b), 0 <= x <= 1.
double incompleteBeta(double X, double A, double B);

/// The value that |t| with \p Freedom degrees of freedom exceeds with
/// probability \p Alpha: 2.776 for 0.05 and 4. Freedom > 0.
double studentBound(double Alpha, double Freedom);

/// Points of the last tenth of \p Count, at least one.
size_t lastTenth(size_t Count);

struct PairNoise {
  /// Deviation of the final paired difference by chance, over sqrt(2): that of
  /// one side, as nu of seeds is.
  double Nu = 0;
  double Freedom = 0;
};

/// Of paired differences in order; none for fewer than four.
std::optional<PairNoise> pairNoise(llvm::ArrayRef<double> Differences);

/// The probability of a rank correlation of at least \p Rho among \p Count
/// unrelated values: exact up to 8, by Student's t beyond.
double rankCorrelationP(double Rho, size_t Count);

} // namespace culprit

#endif // CULPRIT_COMPARE_RUNSSTATISTICS_H
