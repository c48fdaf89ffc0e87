//===- Statistics.h - Chance and noise of golden checks ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What golden checks must know of chance: whether two samples are of one
/// distribution, and how far a quantile or a share moves from run to run.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_GOLDEN_STATISTICS_H
#define CULPRIT_GOLDEN_STATISTICS_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>

namespace culprit {

/// A golden lock keeps a sample whole up to so many values, and beyond that so
/// many of its quantiles, evenly spaced from the smallest to the largest.
inline constexpr size_t SketchPoints = 101;

/// What is kept of \p Sample: sorted. Wants a value.
std::vector<double> sampleSketch(std::vector<double> Sample);

struct KolmogorovSmirnov {
  double D = 0; ///< Largest distance of the two distribution functions.
  double P = 1; ///< Of a distance at least so large by chance.
  double At = 0; ///< The value where it is.
};

/// The two-sample test of \p A, of \p CountA values of which the sketch is
/// given, and of the whole sample \p B. The distance is lessened by what a
/// sketch may be off. The p value is exact up to 10,000 pairs of values, by
/// Kolmogorov's distribution with Stephens' correction beyond; ties make it
/// too large, never too small. Values that are \p Slack apart may be the same
/// one. Wants values on both sides.
KolmogorovSmirnov kolmogorovSmirnov(llvm::ArrayRef<double> A, size_t CountA,
                                    std::vector<double> B, double Slack = 0);

/// P(D >= \p D) of two samples of \p N and \p M values without ties, by
/// counting lattice paths: N * M steps.
double kolmogorovExact(double D, size_t N, size_t M);
/// P(K > \p Lambda) of Kolmogorov's distribution.
double kolmogorovTail(double Lambda);

/// A mean and a deviation, of \p Count values.
struct Moments {
  double Mean = 0, Deviation = 0;
  double Kurtosis = 3; ///< Fourth moment over the squared variance.
  double Count = 0;
};
Moments momentsOf(llvm::ArrayRef<double> Sample);

/// How many standard errors two means, or the logarithms of two deviations,
/// are apart, and how many \p K of a normal are at their degrees of freedom
/// (Welch).
struct Apart {
  double Errors = 0, Bound = 0, StandardError = 0;
};
Apart meansApart(const Moments &A, const Moments &B, double K);
/// For deviations above 0.
Apart deviationsApart(const Moments &A, const Moments &B, double K);

/// The 95 % interval of a figure.
struct Interval {
  double Value = 0, Low = 0, High = 0;
};

/// The quantile \p Q of \p Sample with its percentile bootstrap interval. The
/// bootstrap distribution of an order statistic is known: the r-th of a
/// resample is at most x_(i) with the probability that a binomial of n and i/n
/// is r or more. So nothing is drawn and the result is exact. Wants a value.
Interval quantileInterval(std::vector<double> Sample, double Q);

/// A share of \p Hits in \p Count with Wilson's interval. Count > 0.
Interval shareInterval(double Hits, double Count);

} // namespace culprit

#endif // CULPRIT_GOLDEN_STATISTICS_H
