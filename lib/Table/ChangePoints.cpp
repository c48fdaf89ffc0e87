//===- ChangePoints.cpp - Level changes of a series -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// With ranks R_1..R_n of a stretch (ties share their mean rank), let
//
//   U_t = 2 (R_1 + ... + R_t) - t (n + 1)
//
// 0 on average if the order of the values is by chance: a bridge from U_0 = 0
// to U_n = 0. One change of level bends it into one corner. Pettitt (1979)
// splits at the largest K = |U_t|, with p about 2 exp(-6 K^2 / (n^3 + n^2)).
//
//   values  1 1 1 5 5 5     ranks 2 2 2 5 5 5, n = 6
//   U_t     -3 -6 -9 -6 -3 0, so K = 9 at t = 3
//
// A dip that recovers makes two corners, of opposite sign, and either alone is
// small: 20 slow steps among 220 have p = 0.2. So where Pettitt sees nothing,
// the range V = max U - min U is tested, as Kuiper's test does for the
// Kolmogorov-Smirnov statistic and circular segmentation for means: with
// x^2 = 3 V^2 / (n^3 + n^2), p is about 2 (4 x^2 - 1) exp(-2 x^2); the same dip
// has p = 0.004.
//
// Ranks are kept doubled, so that all of this is exact in integers. The order
// of the values is sorted once; a split partitions it for its parts.
//
//===----------------------------------------------------------------------===//

#include "Table/Statistics.h"
#include "Support/Deadline.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

namespace {

class Segmentation {
public:
  Segmentation(ArrayRef<double> Values, size_t MinSegment)
      : Values(Values), MinSegment(MinSegment), Order(Values.size()),
        Ranks(Values.size()) {
    std::iota(Order.begin(), Order.end(), size_t(0));
    std::sort(Order.begin(), Order.end(), [&](size_t A, size_t B) {
      return Values[A] != Values[B] ? Values[A] < Values[B] : A < B;
    });
  }

  /// Where new levels begin, in order.
  std::vector<size_t> run() {
    // A list of what to do, not recursion: there may be many levels.
    std::vector<std::pair<size_t, size_t>> Stretches = {{0, Values.size()}};
    std::vector<size_t> Out;
    TimeCheck Late;
    while (!Stretches.empty()) {
      auto [First, Last] = Stretches.back();
      if (Late(1 + 4 * (Last - First)))
        break;
      Stretches.pop_back();
      SmallVector<size_t, 2> Splits = splitsOf(First, Last);
      for (size_t At : Splits) {
        Out.push_back(At);
        partition(First, At, Last);
        Stretches.emplace_back(First, At);
        First = At;
      }
      if (!Splits.empty())
        Stretches.emplace_back(First, Last);
    }
    std::sort(Out.begin(), Out.end());
    return Out;
  }

private:
  static constexpr double Significant = 0.01;

  /// One, two (an episode) or no indexes at which to split a stretch.
  SmallVector<size_t, 2> splitsOf(size_t First, size_t Last) {
    size_t N = Last - First;
    if (N / 2 < MinSegment)
      return {};
    rank(First, Last);
    int64_t U = 0, Least = 0, Most = 0;
    size_t LeastAt = First, MostAt = First;
    for (size_t T = 1; T + MinSegment <= N; ++T) {
      U += Ranks[First + T - 1] - static_cast<int64_t>(N + 1);
      if (T < MinSegment)
        continue;
      if (U < Least) {
        Least = U;
        LeastAt = First + T;
      }
      if (U > Most) {
        Most = U;
        MostAt = First + T;
      }
    }

    double Cube = static_cast<double>(N) * N * (N + 1);
    double K = static_cast<double>(std::max(Most, -Least));
    if (2 * std::exp(-6 * K * K / Cube) < Significant)
      return {Most > -Least || (Most == -Least && MostAt < LeastAt) ? MostAt
                                                                    : LeastAt};
    double V = static_cast<double>(Most - Least);
    double Square = 3 * V * V / Cube;
    // Below a square of 1 the series does not hold, and nothing is found.
    if (Square > 1 &&
        2 * (4 * Square - 1) * std::exp(-2 * Square) < Significant) {
      auto [From, To] = std::minmax(LeastAt, MostAt);
      if (From != First && To - From >= MinSegment)
        return {From, To};
    }
    return {};
  }

  /// Fills Ranks with doubled mean ranks within the stretch.
  void rank(size_t First, size_t Last) {
    for (size_t I = First; I != Last;) {
      size_t Run = I;
      while (I != Last && Values[Order[I]] == Values[Order[Run]])
        ++I;
      // Places Run + 1 to I, counted from First: their mean, doubled.
      int64_t Doubled = static_cast<int64_t>(Run + 1 + I - 2 * First);
      for (size_t K = Run; K != I; ++K)
        Ranks[Order[K]] = Doubled;
    }
  }

  /// Orders both parts of a stretch, each by value.
  void partition(size_t First, size_t At, size_t Last) {
    std::stable_partition(Order.begin() + First, Order.begin() + Last,
                          [&](size_t Index) { return Index < At; });
  }

  ArrayRef<double> Values;
  size_t MinSegment;
  std::vector<size_t> Order; ///< In each stretch, its indexes by value.
  std::vector<int64_t> Ranks;
};

} // namespace

std::vector<ChangePoint> changePoints(ArrayRef<double> Values,
                                      size_t MinSegment) {
  std::vector<double> Finite;
  std::vector<size_t> Index; // in Values
  for (size_t I = 0; I != Values.size(); ++I)
    if (std::isfinite(Values[I])) {
      Finite.push_back(Values[I]);
      Index.push_back(I);
    }
  std::vector<size_t> Starts =
      Segmentation(Finite, std::max<size_t>(MinSegment, 1)).run();

  // The bounds of all levels, and their medians.
  std::vector<size_t> Bounds = {0};
  Bounds.insert(Bounds.end(), Starts.begin(), Starts.end());
  Bounds.push_back(Finite.size());
  std::vector<double> Medians;
  std::vector<double> Residuals = Finite;
  for (size_t I = 0; I + 1 != Bounds.size(); ++I) {
    ArrayRef<double> Level =
        ArrayRef(Finite).slice(Bounds[I], Bounds[I + 1] - Bounds[I]);
    Medians.push_back(quantile(Level, 0.5).value_or(0));
    for (size_t K = Bounds[I]; K != Bounds[I + 1]; ++K)
      Residuals[K] -= Medians.back();
  }

  std::vector<ChangePoint> Out;
  for (size_t I = 0; I != Starts.size(); ++I) {
    ChangePoint Point;
    Point.At = Index[Starts[I]];
    Point.Before = Medians[I];
    Point.After = Medians[I + 1];
    // The noise beside the change: early and late training differ in theirs.
    double Noise = *robustDeviation(
        ArrayRef(Residuals).slice(Bounds[I], Bounds[I + 2] - Bounds[I]));
    double Size = std::fabs(Point.After - Point.Before);
    double Floor =
        1e-3 * std::max(std::fabs(Point.Before), std::fabs(Point.After));
    Point.Score = Size == 0 ? 0 : Size / std::max(Noise, Floor);
    Out.push_back(Point);
  }
  return Out;
}

} // namespace culprit
