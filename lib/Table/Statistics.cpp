//===- Statistics.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Statistics.h"
#include "Support/Deadline.h"
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

double quantileInPlace(std::vector<double> &Values, double Q) {
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
  return quantileInPlace(Finite, Q);
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
  double Median = quantileInPlace(Finite, 0.5);
  for (double &Value : Finite)
    Value = std::fabs(Value - Median);
  return NormalScale * quantileInPlace(Finite, 0.5);
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
  TimeCheck Late;
  for (size_t I = 0; I != Values.size() && !Late(1 + Seen.size() / 16); ++I) {
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
  TimeCheck Late;
  for (size_t I = 0; I != Values.size() && !Late(1 + Seen.size() / 16); ++I) {
    if (I >= Window && std::isfinite(Values[I - Window]))
      Seen.erase(Values[I - Window]);
    if (std::isfinite(Values[I]))
      Seen.insert(Values[I]);
    if (Seen.size() != 0)
      Out[I] = Seen.median();
  }
  return Out;
}

/// Cuts the series into blocks of a window (van Herk, Gil and Werman). A window
/// is then the end of one block and the beginning of the next. Two joins a
/// value for any window and, unlike with a running sum, a huge value leaves
/// nothing behind when it goes. \p Neutral stands for what is not finite.
template <typename Fn>
static std::vector<double> rollingJoins(ArrayRef<double> Values, size_t Window,
                                        double Neutral, bool Mean, Fn Join) {
  auto one = [&](double Value) {
    return std::isfinite(Value) ? Value : Neutral;
  };
  std::vector<double> Out(Values.size(), nullDouble());
  std::vector<double> Ends(Window); // from each value of a block to its end
  size_t Count = 0;                 // of finite values in the window
  for (size_t First = 0; First < Values.size(); First += Window) {
    ArrayRef<double> Block =
        Values.slice(First, std::min(Window, Values.size() - First));
    double Beginning = Neutral;
    for (size_t I = 0; I != Block.size(); ++I) {
      Beginning = Join(Beginning, one(Block[I]));
      Count += std::isfinite(Block[I]);
      double Whole = Beginning;
      if (First != 0) {
        Count -= std::isfinite(Values[First + I - Window]);
        if (I + 1 != Window)
          Whole = Join(Ends[I + 1], Beginning);
      }
      if (Count != 0)
        Out[First + I] = Mean ? Whole / static_cast<double>(Count) : Whole;
    }
    double End = Neutral;
    for (size_t I = Block.size(); I-- != 0;)
      Ends[I] = End = Join(one(Block[I]), End);
  }
  return Out;
}

std::vector<double> rolling(ArrayRef<double> Values, size_t Window,
                            RollingKind Kind) {
  Window = std::clamp<size_t>(Window, 1, std::max<size_t>(Values.size(), 1));
  constexpr double Infinity = std::numeric_limits<double>::infinity();
  switch (Kind) {
  case RollingKind::Mean: // of -0 alone the sum is -0
    return rollingJoins(Values, Window, -0.0, /*Mean=*/true,
                        [](double A, double B) { return A + B; });
  case RollingKind::Min:
    return rollingJoins(Values, Window, Infinity, /*Mean=*/false,
                        [](double A, double B) { return std::min(A, B); });
  case RollingKind::Max:
    return rollingJoins(Values, Window, -Infinity, /*Mean=*/false,
                        [](double A, double B) { return std::max(A, B); });
  case RollingKind::Median:
    break;
  }
  return rollingMedian(Values, Window);
}

/// As robustSlope(), of the points (\p X(row), \p Y[row]).
template <typename Fn>
static std::optional<double> slopeOf(Fn X, ArrayRef<double> Y, size_t Rows) {
  constexpr size_t MaxPoints = 512; // 131 thousand slopes
  auto isPoint = [&](size_t I) {
    return std::isfinite(X(I)) && std::isfinite(Y[I]);
  };
  size_t Count = 0;
  for (size_t I = 0; I != Rows; ++I)
    Count += isPoint(I);
  std::vector<std::pair<double, double>> Points;
  // Evenly chosen, the first and the last among them.
  auto placeOf = [&](size_t Chosen) {
    return Count > MaxPoints ? Chosen * (Count - 1) / (MaxPoints - 1) : Chosen;
  };
  size_t Wanted = std::min(Count, MaxPoints);
  for (size_t I = 0, Seen = 0; Points.size() != Wanted; ++I)
    if (isPoint(I) && Seen++ == placeOf(Points.size()))
      Points.emplace_back(X(I), Y[I]);
  std::vector<double> Slopes;
  Slopes.reserve(Points.size() * Points.size() / 2);
  for (size_t I = 0; I != Points.size(); ++I)
    for (size_t J = 0; J != I; ++J)
      if (Points[I].first != Points[J].first)
        Slopes.push_back((Points[I].second - Points[J].second) /
                         (Points[I].first - Points[J].first));
  return quantile(Slopes, 0.5);
}

std::optional<double> robustSlope(ArrayRef<double> X, ArrayRef<double> Y) {
  return slopeOf([&](size_t I) { return X[I]; }, Y,
                 std::min(X.size(), Y.size()));
}

std::optional<double> robustSlope(ArrayRef<double> Y) {
  return slopeOf([](size_t I) { return static_cast<double>(I); }, Y, Y.size());
}

} // namespace culprit
