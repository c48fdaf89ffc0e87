//===- TrailPoints.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/TrailPoints.h"
#include <algorithm>
#include <cmath>

namespace culprit {

/// Times of the first year are those of stamps without a year.
static constexpr double FirstYear = 366 * 86400.0;

static bool comparable(double A, double B) {
  return !std::isnan(A) && !std::isnan(B) &&
         (A < FirstYear) == (B < FirstYear);
}

/// The step of the error may have been printed before it failed.
static bool isStepBefore(int64_t A, int64_t B) {
  return A != NullInt && B != NullInt && A < B - 1;
}

bool liesBefore(const TrailPoint &A, const TrailPoint &B) {
  if (A.Source && A.Source == B.Source && A.Line != NullInt &&
      B.Line != NullInt)
    return A.Line < B.Line;
  if (comparable(A.Time, B.Time))
    return A.Time < B.Time;
  return isStepBefore(A.Step, B.Step);
}

TrailPoints::Clock TrailPoints::clockOf(const TrailPoint &P) {
  return std::isnan(P.Time)      ? Clock::None
         : P.Time < FirstYear ? Clock::Undated
                              : Clock::Dated;
}

void TrailPoints::add(const TrailPoint &P) {
  Log &To = Logs[P.Source];
  To.Line = std::max(To.Line, P.Line);
  size_t Kind = static_cast<size_t>(clockOf(P));
  Latest &L = (P.Line != NullInt ? To.WithLine : To.Without)[Kind];
  if (!std::isnan(P.Time))
    L.Time = std::max(L.Time, P.Time);
  L.Step = std::max(L.Step, P.Step);
}

bool TrailPoints::anyAfter(const Latest (&Of)[Clocks], const TrailPoint &E) {
  Clock Own = clockOf(E);
  for (size_t Kind = 0; Kind != Clocks; ++Kind)
    if (Own != Clock::None && static_cast<size_t>(Own) == Kind
            ? E.Time < Of[Kind].Time
            : isStepBefore(E.Step, Of[Kind].Step))
      return true;
  return false;
}

bool TrailPoints::anyAfter(const TrailPoint &E) const {
  for (const auto &[Source, L] : Logs) {
    bool ByLine = E.Source && E.Source == Source && E.Line != NullInt;
    if (anyAfter(L.Without, E) ||
        (ByLine ? E.Line < L.Line : anyAfter(L.WithLine, E)))
      return true;
  }
  return false;
}

} // namespace culprit
