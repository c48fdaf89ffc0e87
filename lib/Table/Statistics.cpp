//===- Statistics.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Statistics.h"
#include "Table/Column.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace llvm;

namespace culprit {

/// Standard deviation of a normal sample over its median absolute deviation.
static constexpr double NormalScale = 1.4826;
/// See robustZ in the header.
static constexpr double RelativeFloor = 1e-3;

static std::vector<double> finiteOf(ArrayRef<double> Values) {
  std::vector<double> Out;
  Out.reserve(Values.size());
  for (double Value : Values)
    if (std::isfinite(Value))
      Out.push_back(Value);
  return Out;
}

/// The quantile of finite \p Values, not empty, which it reorders.
static double quantileOf(std::vector<double> &Values, double Q) {
  Q = Q >= 0 ? std::min(Q, 1.0) : 0; // a NaN counts as 0
  double Place = Q * static_cast<double>(Values.size() - 1);
  size_t Low = static_cast<size_t>(Place);
  double Part = Place - static_cast<double>(Low);
  auto At = Values.begin() + static_cast<ptrdiff_t>(Low);
  std::nth_element(Values.begin(), At, Values.end());
  if (Part == 0)
    return *At;
  return std::lerp(*At, *std::min_element(At + 1, Values.end()), Part);
}

std::optional<double> quantile(ArrayRef<double> Values, double Q) {
  std::vector<double> Finite = finiteOf(Values);
  if (Finite.empty())
    return std::nullopt;
  return quantileOf(Finite, Q);
}

std::optional<double> mean(ArrayRef<double> Values) {
  double Sum = 0;
  size_t Count = 0;
  for (double Value : Values)
    if (std::isfinite(Value)) {
      Sum += Value;
      ++Count;
    }
  if (Count == 0)
    return std::nullopt;
  return Sum / static_cast<double>(Count);
}

std::optional<double> standardDeviation(ArrayRef<double> Values) {
  std::optional<double> Mean = mean(Values);
  double Sum = 0;
  size_t Count = 0;
  for (double Value : Values)
    if (std::isfinite(Value)) {
      Sum += (Value - *Mean) * (Value - *Mean);
      ++Count;
    }
  if (Count < 2)
    return std::nullopt;
  return std::sqrt(Sum / static_cast<double>(Count - 1));
}

std::optional<double> robustDeviation(ArrayRef<double> Values) {
  std::vector<double> Finite = finiteOf(Values);
  if (Finite.empty())
    return std::nullopt;
  double Median = quantileOf(Finite, 0.5);
  for (double &Value : Finite)
    Value = std::fabs(Value - Median);
  return NormalScale * quantileOf(Finite, 0.5);
}

namespace {

/// The values of a sliding window in ascending order. Moving a few hundred
/// doubles in one cache-resident vector beats any tree.
class SortedWindow {
public:
  void insert(double Value) {
    Values.insert(std::upper_bound(Values.begin(), Values.end(), Value), Value);
  }
  void erase(double Value) {
    Values.erase(std::lower_bound(Values.begin(), Values.end(), Value));
  }
  size_t size() const { return Values.size(); }

  double median() const {
    size_t Half = Values.size() / 2;
    if (Values.size() % 2)
      return Values[Half];
    return std::midpoint(Values[Half - 1], Values[Half]);
  }

  /// Median absolute deviation from \p Median. The distances fall towards it
  /// from the left and rise to the right: the smallest half of them is one
  /// run of Values, found by bisection.
  double deviation(double Median) const {
    size_t Size = Values.size(), Want = Size / 2 + 1;
    // The run of Want values with the smallest largest distance.
    size_t Low = 0, High = Size - Want;
    while (Low < High) {
      size_t Mid = (Low + High) / 2;
      if (Median - Values[Mid] > Values[Mid + Want] - Median)
        Low = Mid + 1;
      else
        High = Mid;
    }
    double Left = Median - Values[Low];
    double Right = Values[Low + Want - 1] - Median;
    double Largest = std::max(Left, Right);
    if (Size % 2)
      return Largest;
    // The second largest of the run is at the other end or beside this one.
    double Next = Left > Right
                      ? std::max(Median - Values[Low + 1], Right)
                      : std::max(Values[Low + Want - 2] - Median, Left);
    return std::midpoint(std::max(Next, 0.0), Largest);
  }

private:
  std::vector<double> Values;
};

} // namespace

std::vector<double> robustZ(ArrayRef<double> Values, size_t Window) {
  Window = std::max<size_t>(Window, 1);
  const size_t Enough = std::min<size_t>(Window, 8);
  std::vector<double> Out(Values.size(), nullDouble());
  SortedWindow Seen;
  size_t Oldest = 0; // index of the oldest value in the window
  for (size_t I = 0; I != Values.size(); ++I) {
    double Value = Values[I];
    if (isNullDouble(Value))
      continue;
    if (Seen.size() >= Enough) {
      double Median = Seen.median();
      double Deviation = std::max(NormalScale * Seen.deviation(Median),
                                  RelativeFloor * std::fabs(Median));
      double Distance = Value - Median;
      // 0 / 0 would be a NaN; an infinite value may meet a deviation of 0.
      Out[I] = Distance == 0 ? 0 : Distance / Deviation;
      if (std::isnan(Value))
        Out[I] = std::numeric_limits<double>::quiet_NaN();
    }
    if (!std::isfinite(Value))
      continue;
    if (Seen.size() == Window) {
      while (!std::isfinite(Values[Oldest]))
        ++Oldest;
      Seen.erase(Values[Oldest++]);
    }
    Seen.insert(Value);
  }
  return Out;
}

std::vector<double> difference(ArrayRef<double> Values) {
  std::vector<double> Out(Values.size(), nullDouble());
  for (size_t I = 1; I < Values.size(); ++I)
    if (!isNullDouble(Values[I]) && !isNullDouble(Values[I - 1]))
      Out[I] = Values[I] - Values[I - 1];
  return Out;
}

static std::vector<double> rollingMedian(ArrayRef<double> Values,
                                         size_t Window) {
  std::vector<double> Out(Values.size(), nullDouble());
  SortedWindow Seen;
  for (size_t I = 0; I != Values.size(); ++I) {
    if (I >= Window && std::isfinite(Values[I - Window]))
      Seen.erase(Values[I - Window]);
    if (std::isfinite(Values[I]))
      Seen.insert(Values[I]);
    if (Seen.size() != 0)
      Out[I] = Seen.median();
  }
  return Out;
}

namespace {

/// What a stretch of values comes to, so that two stretches can be joined.
struct Summary {
  double Value = 0;
  size_t Count = 0;
};

} // namespace

static Summary join(Summary A, Summary B, RollingKind Kind) {
  if (A.Count == 0 || B.Count == 0)
    return A.Count == 0 ? B : A;
  double Value = Kind == RollingKind::Mean  ? A.Value + B.Value
                 : Kind == RollingKind::Min ? std::min(A.Value, B.Value)
                                            : std::max(A.Value, B.Value);
  return {Value, A.Count + B.Count};
}

/// Cuts the series into blocks of a window (van Herk, Gil and Werman). A window
/// is then the end of one block and the beginning of the next. Two joins a
/// value for any window and, unlike with a running sum, a huge value leaves
/// nothing behind when it goes.
std::vector<double> rolling(ArrayRef<double> Values, size_t Window,
                            RollingKind Kind) {
  Window = std::clamp<size_t>(Window, 1, std::max<size_t>(Values.size(), 1));
  if (Kind == RollingKind::Median)
    return rollingMedian(Values, Window);
  auto one = [&](size_t I) {
    return std::isfinite(Values[I]) ? Summary{Values[I], 1} : Summary();
  };
  std::vector<Summary> Ends(
      Values.size()); // from each value to its block's end
  for (size_t I = Values.size(); I-- != 0;) {
    bool LastOfBlock = (I + 1) % Window == 0 || I + 1 == Values.size();
    Ends[I] = LastOfBlock ? one(I) : join(one(I), Ends[I + 1], Kind);
  }
  std::vector<double> Out(Values.size(), nullDouble());
  Summary Beginning;
  for (size_t I = 0; I != Values.size(); ++I) {
    Beginning = I % Window == 0 ? one(I) : join(Beginning, one(I), Kind);
    Summary Whole = Beginning;
    if (I >= Window && (I + 1) % Window != 0)
      Whole = join(Ends[I + 1 - Window], Beginning, Kind);
    if (Whole.Count == 0)
      continue;
    Out[I] = Kind == RollingKind::Mean
                 ? Whole.Value / static_cast<double>(Whole.Count)
                 : Whole.Value;
  }
  return Out;
}

std::optional<double> robustSlope(ArrayRef<double> X, ArrayRef<double> Y) {
  constexpr size_t MaxPoints = 512; // 131 thousand slopes
  std::vector<std::pair<double, double>> Points;
  for (size_t I = 0, E = std::min(X.size(), Y.size()); I != E; ++I)
    if (std::isfinite(X[I]) && std::isfinite(Y[I]))
      Points.emplace_back(X[I], Y[I]);
  if (Points.size() > MaxPoints) {
    // First and last stay, and the order: in place, as At only runs ahead.
    for (size_t I = 0; I != MaxPoints; ++I)
      Points[I] = Points[I * (Points.size() - 1) / (MaxPoints - 1)];
    Points.resize(MaxPoints);
  }
  std::vector<double> Slopes;
  Slopes.reserve(Points.size() * Points.size() / 2);
  for (size_t I = 0; I != Points.size(); ++I)
    for (size_t J = 0; J != I; ++J)
      if (Points[I].first != Points[J].first)
        Slopes.push_back((Points[I].second - Points[J].second) /
                         (Points[I].first - Points[J].first));
  return quantile(Slopes, 0.5);
}

} // namespace culprit
