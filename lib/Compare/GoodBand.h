//===- GoodBand.h - The band that curves of good runs stay in ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Where a curve may be at a step if it is like those of good runs: between
/// the least and the largest value that these have from four fifths to five
/// fourths of the step, as runs of other seeds learn the same a little sooner
/// or later, and three deviations of their noise more on either side.
///
/// The noise is that from point to point: 1.4826 times the median of the
/// distances of neighbours, over the root of two. A twentieth of all that the
/// curve goes through is added at least: one that stands still has no noise.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_GOODBAND_H
#define CULPRIT_COMPARE_GOODBAND_H

#include "Compare/RunsRecord.h"

namespace culprit {

struct Band {
  double Low = 0, High = 0;

  bool holds(double Value) const { return Value >= Low && Value <= High; }
  /// How far \p Value is outside, as a share of its distance from the middle:
  /// 0 inside, toward 1 far away, 1 for what is not finite.
  double standing(double Value) const;
};

/// The band at \p Step; none outside the steps of all of \p Good, or where
/// these have no finite value. \p Floor: the least margin as a share of the
/// value.
std::optional<Band> bandAt(llvm::ArrayRef<const ScalarSeries *> Good,
                           int64_t Step, double Floor);

/// Where a curve is outside.
struct Excursion {
  int64_t From = 0;     ///< The first step outside that counts.
  bool Stays = false; ///< Outside at four of five points from there on.
  size_t Outside = 0, Points = 0; ///< Of all points with a band.
  int64_t Step = 0;     ///< That is told: the last one, or the farthest.
  double Value = 0;     ///< There.
  Band There;
};

/// None where \p Bad stays inside, or leaves the band in single points by less
/// than its width: a curve that stays outside counts from three points on.
/// \p Points is set to how many were looked at.
std::optional<Excursion> leavesBand(llvm::ArrayRef<const ScalarSeries *> Good,
                                    const ScalarSeries &Bad, double Floor,
                                    size_t &Points);

} // namespace culprit

#endif // CULPRIT_COMPARE_GOODBAND_H
