//===- RunsStatistics.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/RunsStatistics.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

/// The continued fraction of the incomplete beta function by Lentz's method;
/// converges for x < (a + 1) / (a + b + 2).
static double betaFraction(double X, double A, double B) {
  constexpr double Tiny = 1e-300;
  const auto Safe = [](double V) { return std::fabs(V) < Tiny ? Tiny : V; };
  double C = 1, D = 1 / Safe(1 - (A + B) * X / (A + 1)), H = D;
  for (int M = 1; M < 10'000; ++M) {
    const double M2 = 2.0 * M;
    const double Even = M * (B - M) * X / ((A + M2 - 1) * (A + M2));
    D = 1 / Safe(1 + Even * D);
    C = Safe(1 + Even / C);
    H *= D * C;
    const double Odd =
        -(A + M) * (A + B + M) * X / ((A + M2) * (A + M2 + 1));
    D = 1 / Safe(1 + Odd * D);
    C = Safe(1 + Odd / C);
    H *= D * C;
    if (std::fabs(D * C - 1) < 1e-14)
      break;
  }
  return H;
}

double incompleteBeta(double X, double A, double B) {
  if (X <= 0)
    return 0;
  if (X >= 1)
    return 1;
  const double Front =
      std::exp(std::lgamma(A + B) - std::lgamma(A) - std::lgamma(B) +
               A * std::log(X) + B * std::log1p(-X));
  if (X < (A + 1) / (A + B + 2))
    return Front * betaFraction(X, A, B) / A;
  return 1 - Front * betaFraction(1 - X, B, A) / B;
}

double studentBound(double Alpha, double Freedom) {
  // P(|t| > T) = I_x(v/2, 1/2) with x = v / (v + T^2), which falls with T.
  const auto Beyond = [&](double T) {
    return incompleteBeta(Freedom / (Freedom + T * T), Freedom / 2, 0.5);
  };
  double Low = 0, High = 1;
  while (Beyond(High) > Alpha && High < 1e12)
    High *= 2;
  for (int I = 0; I < 200 && High - Low > 1e-12 * High; ++I) {
    const double Middle = (Low + High) / 2;
    (Beyond(Middle) > Alpha ? Low : High) = Middle;
  }
  return (Low + High) / 2;
}

size_t lastTenth(size_t Count) { return std::max<size_t>(1, (Count + 9) / 10); }

/// Deviation and lag-one autocorrelation (0 to 0.99) of \p Values about a
/// straight line.
static std::pair<double, double> residualNoise(ArrayRef<double> Values) {
  const double N = double(Values.size());
  double MeanX = (N - 1) / 2, MeanY = 0, XX = 0, XY = 0;
  for (double V : Values)
    MeanY += V / N;
  for (size_t I = 0; I != Values.size(); ++I) {
    XX += (double(I) - MeanX) * (double(I) - MeanX);
    XY += (double(I) - MeanX) * (Values[I] - MeanY);
  }
  const double Slope = XX > 0 ? XY / XX : 0;
  std::vector<double> Left;
  for (size_t I = 0; I != Values.size(); ++I)
    Left.push_back(Values[I] - MeanY - Slope * (double(I) - MeanX));
  double Square = 0, Lagged = 0;
  for (size_t I = 0; I != Left.size(); ++I) {
    Square += Left[I] * Left[I];
    if (I)
      Lagged += Left[I] * Left[I - 1];
  }
  if (Square <= 0)
    return {0, 0};
  double Deviation = robustDeviation(Left).value_or(0);
  if (Deviation <= 0)
    Deviation = std::sqrt(Square / std::max(1.0, N - 2));
  return {Deviation, std::clamp(Lagged / Square, 0.0, 0.99)};
}

std::optional<PairNoise> pairNoise(ArrayRef<double> Differences) {
  const size_t Count = Differences.size();
  const size_t Window = lastTenth(Count);
  // A tenth is rounded up: half of 21 has three windows of 3, which are too
  // few.
  ArrayRef<double> Half = Differences.take_back(
      std::min(Count, std::max(5 * Window, Count / 2)));
  const size_t Blocks = Half.size() / Window;
  if (Blocks < 4)
    return std::nullopt;
  // Blocks end where the window ends.
  Half = Half.take_back(Blocks * Window);
  std::vector<double> Levels;
  for (size_t J = 0; J != Blocks; ++J)
    Levels.push_back(
        quantile(Half.slice(J * Window, Window), 0.5).value_or(0));
  std::vector<double> Moves;
  for (size_t J = 1; J != Blocks; ++J)
    Moves.push_back(Levels[J] - Levels[J - 1]);
  double Of = standardDeviation(Moves).value_or(0) / std::sqrt(2.0);
  if (Window >= 3) {
    const auto [Deviation, Lag] = residualNoise(Half);
    Of = std::max(Of, 1.2533 * Deviation *
                          std::sqrt((1 + Lag) / (1 - Lag) / double(Window)));
  }
  return PairNoise{Of / std::sqrt(2.0), double(Blocks - 2)};
}

double rankCorrelationP(double Rho, size_t Count) {
  if (Count < 3)
    return 1;
  if (Count > 8) {
    if (Rho >= 1 || Rho <= -1)
      return Rho > 0 ? 0 : 1;
    const double Freedom = double(Count - 2);
    const double T = Rho * std::sqrt(Freedom / (1 - Rho * Rho));
    const double Tail =
        incompleteBeta(Freedom / (Freedom + T * T), Freedom / 2, 0.5) / 2;
    return Rho > 0 ? Tail : 1 - Tail;
  }
  std::vector<int> Order(Count);
  std::iota(Order.begin(), Order.end(), 0);
  size_t All = 0, Reached = 0;
  do {
    double Squares = 0;
    for (size_t I = 0; I != Count; ++I)
      Squares += (Order[I] - double(I)) * (Order[I] - double(I));
    const double N = double(Count);
    Reached += 1 - 6 * Squares / (N * (N * N - 1)) >= Rho - 1e-9;
    ++All;
  } while (std::next_permutation(Order.begin(), Order.end()));
  return double(Reached) / double(All);
}

} // namespace culprit
