//===- GoodBand.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/GoodBand.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

/// A step of a run is compared with these shares of it in others.
static constexpr double Sooner = 0.8, Later = 1.25;
/// Deviations of noise that are added to the band, and at least this share of
/// all that a curve goes through: a curve may stand still.
static constexpr double Deviations = 3, LeastOfRange = 0.05;
/// Of a normal distribution over the median of its magnitude.
static constexpr double OfMedian = 1.4826;
/// Points that tell a noise; with fewer the whole curve does.
static constexpr size_t FewestPoints = 8;
/// Steps for which the band is computed; others take that of the one before.
static constexpr size_t MostBands = 256;
/// What stays outside: that share of at least so many points.
static constexpr double StayShare = 0.8;
static constexpr size_t StayPoints = 3;

double Band::standing(double Value) const {
  if (!std::isfinite(Value))
    return 1;
  const double Half = (High - Low) / 2, Middle = Low + Half;
  const double Distance = std::fabs(Value - Middle);
  return Distance <= Half ? 0 : 1 - Half / Distance;
}

/// Deviation of \p Values, finite ones in order, from point to point.
static double noiseOf(ArrayRef<double> Values) {
  std::vector<double> Moves;
  for (size_t I = 1; I < Values.size(); ++I)
    Moves.push_back(std::fabs(Values[I] - Values[I - 1]));
  return Moves.empty() ? 0
                       : OfMedian * quantileInPlace(Moves, 0.5) / std::sqrt(2);
}

static std::vector<double> finiteOf(const ScalarSeries &S, size_t From,
                                    size_t To) {
  std::vector<double> Out;
  for (size_t I = From; I != To; ++I)
    if (std::isfinite(S.Values[I]))
      Out.push_back(S.Values[I]);
  return Out;
}

std::optional<Band> bandAt(ArrayRef<const ScalarSeries *> Good, int64_t Step,
                           double Floor) {
  Band Out{std::numeric_limits<double>::infinity(),
           -std::numeric_limits<double>::infinity()};
  double Margin = 0, Range = 0;
  for (const ScalarSeries *S : Good) {
    if (!S->size() || Step < S->Steps.front() || Step > S->Steps.back())
      return std::nullopt;
    // From the first point at or before the window to the first behind it.
    auto Low = llvm::upper_bound(
        S->Steps, static_cast<int64_t>(static_cast<double>(Step) * Sooner));
    auto High = llvm::lower_bound(
        S->Steps,
        static_cast<int64_t>(std::ceil(static_cast<double>(Step) * Later)));
    const size_t From = Low == S->Steps.begin()
                            ? 0
                            : static_cast<size_t>(Low - S->Steps.begin()) - 1;
    const size_t To =
        std::min(static_cast<size_t>(High - S->Steps.begin()) + 1, S->size());
    std::vector<double> Near = finiteOf(*S, From, To);
    for (double V : Near) {
      Out.Low = std::min(Out.Low, V);
      Out.High = std::max(Out.High, V);
    }
    const std::vector<double> All = finiteOf(*S, 0, S->size());
    if (!All.empty()) {
      auto [Least, Most] = std::minmax_element(All.begin(), All.end());
      Range = std::max(Range, *Most - *Least);
    }
    Margin = std::max(Margin, Near.size() >= FewestPoints
                                  ? noiseOf(Near)
                                  : noiseOf(All));
  }
  if (Out.Low > Out.High)
    return std::nullopt;
  Margin = std::max({Deviations * Margin, LeastOfRange * Range,
                     Floor * std::max(std::fabs(Out.Low),
                                      std::fabs(Out.High))});
  // What is never negative is not so in a band either.
  return Band{Out.Low >= 0 ? std::max(Out.Low - Margin, 0.0)
                           : Out.Low - Margin,
              Out.High + Margin};
}

std::optional<Excursion> leavesBand(ArrayRef<const ScalarSeries *> Good,
                                    const ScalarSeries &Bad, double Floor,
                                    size_t &Points) {
  struct Point {
    size_t Row;
    Band At;
  };
  std::vector<Point> All;
  const size_t Stride = Bad.size() / MostBands + 1;
  std::optional<Band> Last;
  for (size_t I = 0; I != Bad.size(); ++I) {
    // Beyond the end of the good runs there is none, whatever was before.
    if (I % Stride == 0 || !Last || I + 1 == Bad.size())
      Last = bandAt(Good, Bad.Steps[I], Floor);
    else if (any_of(Good, [&](const ScalarSeries *S) {
               return Bad.Steps[I] > S->Steps.back();
             }))
      Last.reset();
    if (Last)
      All.push_back({I, *Last});
  }
  Points = All.size();

  Excursion Out;
  Out.Points = All.size();
  std::optional<size_t> First, Stay;
  size_t Far = 0;
  double Most = 0;
  auto standing = [&](size_t I) {
    return All[I].At.standing(Bad.Values[All[I].Row]);
  };
  for (size_t I = All.size(); I-- != 0;) {
    const double Here = standing(I);
    if (Here <= 0)
      continue;
    ++Out.Outside;
    const size_t Left = All.size() - I;
    if (Left >= StayPoints &&
        static_cast<double>(Out.Outside) >=
            StayShare * static_cast<double>(Left))
      Stay = I;
    // Half the width from the middle is the edge: 2/3 is one width beyond.
    if (Here >= 2.0 / 3)
      First = I;
    if (Here >= Most) {
      Most = Here;
      Far = I;
    }
  }
  if (!Stay && !First)
    return std::nullopt;
  // A curve that leaves for good is told by where it ends.
  size_t Told = Far;
  if (Stay) {
    Told = All.size() - 1;
    while (standing(Told) <= 0)
      --Told;
  }
  Out.Stays = Stay.has_value();
  Out.From = Bad.Steps[All[Stay ? *Stay : *First].Row];
  Out.Step = Bad.Steps[All[Told].Row];
  Out.Value = Bad.Values[All[Told].Row];
  Out.There = All[Told].At;
  return Out;
}

} // namespace culprit
