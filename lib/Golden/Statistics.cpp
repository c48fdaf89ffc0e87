//===- Statistics.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Statistics.h"
#include "Compare/RunsStatistics.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <tuple>

using namespace llvm;

namespace culprit {

/// The value of a sorted sample at \p Q, 0 to 1, between its neighbours.
static double quantileOf(ArrayRef<double> Sorted, double Q) {
  const double Place = Q * double(Sorted.size() - 1);
  const size_t I = size_t(Place);
  if (I + 1 >= Sorted.size())
    return Sorted.back();
  return Sorted[I] + (Place - double(I)) * (Sorted[I + 1] - Sorted[I]);
}

std::vector<double> sampleSketch(std::vector<double> Sample) {
  llvm::sort(Sample);
  if (Sample.size() <= SketchPoints)
    return Sample;
  std::vector<double> Out;
  for (size_t I = 0; I != SketchPoints; ++I)
    Out.push_back(quantileOf(Sample, double(I) / double(SketchPoints - 1)));
  return Out;
}

double kolmogorovExact(double D, size_t N, size_t M) {
  // Share[j]: of the paths to (i, j), those that stay within the distance,
  // times the number of all paths to it. Hodges, 1957; the share is carried
  // so that no binomial overflows.
  const double Bound = D - 1e-9;
  const auto Within = [&](size_t I, size_t J) {
    return std::fabs(double(I) / double(N) - double(J) / double(M)) < Bound;
  };
  std::vector<double> Share(M + 1, 0);
  for (size_t I = 0; I <= N; ++I)
    for (size_t J = 0; J <= M; ++J) {
      if (!Within(I, J)) {
        Share[J] = 0;
        continue;
      }
      if (I == 0 && J == 0) {
        Share[J] = 1;
        continue;
      }
      // Of all paths to (i, j), i / (i + j) come from (i - 1, j).
      const double All = double(I + J);
      const double Below = I ? Share[J] * double(I) / All : 0;
      const double Left = J ? Share[J - 1] * double(J) / All : 0;
      Share[J] = Below + Left;
    }
  return std::clamp(1 - Share[M], 0.0, 1.0);
}

double kolmogorovTail(double Lambda) {
  if (Lambda <= 0.2) // 1 to the last bit
    return 1;
  double Sum = 0, Sign = 1;
  for (int I = 1; I <= 100; ++I) {
    const double Term = std::exp(-2.0 * I * I * Lambda * Lambda);
    Sum += Sign * Term;
    Sign = -Sign;
    if (Term < 1e-18)
      break;
  }
  return std::clamp(2 * Sum, 0.0, 1.0);
}

/// The largest of Sign * (F_A - F_B), and where, with \p B moved by \p Shift.
/// All of them finite.
static std::pair<double, double> largestGap(ArrayRef<double> A,
                                            ArrayRef<double> B, double Shift,
                                            double Sign) {
  std::pair<double, double> Out;
  size_t I = 0, J = 0;
  while (I < A.size() || J < B.size()) {
    // Equal values of both sides are one step.
    const double X = J == B.size()   ? A[I]
                     : I == A.size() ? B[J] + Shift
                                     : std::min(A[I], B[J] + Shift);
    while (I < A.size() && A[I] <= X)
      ++I;
    while (J < B.size() && B[J] + Shift <= X)
      ++J;
    const double Gap = Sign * (double(I) / double(A.size()) -
                               double(J) / double(B.size()));
    if (Gap > Out.first)
      Out = {Gap, X};
  }
  return Out;
}

KolmogorovSmirnov kolmogorovSmirnov(ArrayRef<double> A, size_t CountA,
                                    std::vector<double> B, double Slack) {
  llvm::sort(B);
  KolmogorovSmirnov Out;
  // Each difference is looked at with B moved against it.
  std::tie(Out.D, Out.At) = std::max(largestGap(A, B, -Slack, 1),
                                     largestGap(A, B, Slack, -1));
  if (CountA > A.size()) // between two quantiles nothing is known
    Out.D = std::max(0.0, Out.D - 1.0 / double(A.size() - 1));
  const double N = double(CountA), M = double(B.size());
  if (N * M <= 10000) {
    Out.P = kolmogorovExact(Out.D, CountA, B.size());
    return Out;
  }
  const double Root = std::sqrt(N * M / (N + M));
  Out.P = kolmogorovTail((Root + 0.12 + 0.11 / Root) * Out.D);
  return Out;
}

Moments momentsOf(ArrayRef<double> Sample) {
  Moments Out;
  Out.Count = double(Sample.size());
  if (Sample.empty())
    return Out;
  // From the first value on, so that equal values have exactly their mean.
  for (double V : Sample)
    Out.Mean += V - Sample[0];
  Out.Mean = Sample[0] + Out.Mean / Out.Count;
  double Second = 0, Fourth = 0;
  for (double V : Sample) {
    const double Square = (V - Out.Mean) * (V - Out.Mean);
    Second += Square;
    Fourth += Square * Square;
  }
  if (Sample.size() < 2 || Second == 0)
    return Out;
  Out.Deviation = std::sqrt(Second / (Out.Count - 1));
  Out.Kurtosis = Fourth * Out.Count / (Second * Second);
  return Out;
}

/// How far chance goes with \p Freedom degrees, where it is \p K for many.
static double boundFor(double K, double Freedom) {
  if (!(Freedom >= 1))
    Freedom = 1;
  return K > 0 ? studentBound(std::erfc(K / std::sqrt(2.0)), Freedom) : 0;
}

Apart meansApart(const Moments &A, const Moments &B, double K) {
  Apart Out;
  const double VarA = A.Deviation * A.Deviation / A.Count;
  const double VarB = B.Deviation * B.Deviation / B.Count;
  Out.StandardError = std::sqrt(VarA + VarB);
  const double Difference = std::fabs(A.Mean - B.Mean);
  if (Out.StandardError == 0) {
    Out.Errors = Difference == 0 ? 0 : HUGE_VAL;
    Out.Bound = K;
    return Out;
  }
  const double Freedom =
      (VarA + VarB) * (VarA + VarB) /
      (VarA * VarA / std::max(1.0, A.Count - 1) +
       VarB * VarB / std::max(1.0, B.Count - 1));
  Out.Errors = Difference / Out.StandardError;
  Out.Bound = boundFor(K, Freedom);
  return Out;
}

Apart deviationsApart(const Moments &A, const Moments &B, double K) {
  // The variance of s^2 is sigma^4 (kurtosis - 1) / n, so that of ln s is a
  // quarter of (kurtosis - 1) / n. A light tail is not believed.
  Apart Out;
  const auto Of = [](const Moments &M) {
    return (std::max(3.0, M.Kurtosis) - 1) / (4 * std::max(1.0, M.Count - 1));
  };
  Out.StandardError = std::sqrt(Of(A) + Of(B));
  Out.Errors = std::fabs(std::log(A.Deviation / B.Deviation)) /
               Out.StandardError;
  Out.Bound = boundFor(K, std::min(A.Count, B.Count) - 1);
  return Out;
}

Interval quantileInterval(std::vector<double> Sample, double Q) {
  llvm::sort(Sample);
  const double N = double(Sample.size());
  Interval Out;
  Out.Value = quantileOf(Sample, Q);
  const double R = std::clamp(std::ceil(Q * N), 1.0, N);
  // P(the r-th of a resample <= x_(i)) rises with i.
  const auto Below = [&](size_t I) {
    return I == Sample.size() ? 1
                              : incompleteBeta(double(I) / N, R, N - R + 1);
  };
  const auto Reaches = [&](double P) {
    size_t Low = 1, High = Sample.size();
    while (Low < High) {
      const size_t Middle = (Low + High) / 2;
      if (Below(Middle) >= P)
        High = Middle;
      else
        Low = Middle + 1;
    }
    return Sample[Low - 1];
  };
  Out.Low = std::min(Out.Value, Reaches(0.025));
  Out.High = std::max(Out.Value, Reaches(0.975));
  return Out;
}

Interval shareInterval(double Hits, double Count) {
  constexpr double Z = 1.959963984540054;
  const double P = Hits / Count, Z2 = Z * Z;
  const double Centre = (P + Z2 / (2 * Count)) / (1 + Z2 / Count);
  const double Half = Z / (1 + Z2 / Count) *
                      std::sqrt(P * (1 - P) / Count + Z2 / (4 * Count * Count));
  return {P, std::max(0.0, Centre - Half), std::min(1.0, Centre + Half)};
}

} // namespace culprit
