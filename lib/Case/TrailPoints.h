//===- TrailPoints.h - Points of a run, and the latest of them --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A log that fails for a day has ten thousand errors and as many lines about
/// trying again. Which of these lie behind which is therefore asked of what is
/// latest in each log and never of every point.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_TRAILPOINTS_H
#define CULPRIT_CASE_TRAILPOINTS_H

#include "Table/Table.h"
#include <limits>
#include <map>

namespace culprit {

/// A point in the record of a run. A member that is not known is NullInt or
/// NaN.
struct TrailPoint {
  StringId Source = NullString;
  int64_t Line = NullInt;
  double Time = 0; ///< Unix seconds; NaN for none.
  int64_t Step = NullInt;
};

/// Whether \p A is known to lie before \p B: by their lines in one log, else by
/// time, else by the step.
bool liesBefore(const TrailPoint &A, const TrailPoint &B);

/// Points of which it is only asked whether any lies behind another one. An
/// answer takes as long as there are logs.
class TrailPoints {
public:
  void add(const TrailPoint &P);
  /// Whether \p E lies before any of the points.
  bool anyAfter(const TrailPoint &E) const;

private:
  /// Times with a year and without one cannot be compared.
  enum class Clock { None, Undated, Dated };
  static constexpr size_t Clocks = 3;
  static Clock clockOf(const TrailPoint &P);

  /// The latest of points whose times are of one kind.
  struct Latest {
    double Time = -std::numeric_limits<double>::infinity();
    int64_t Step = NullInt;
  };
  struct Log {
    int64_t Line = NullInt;
    Latest WithLine[Clocks], Without[Clocks];
  };
  static bool anyAfter(const Latest (&Of)[Clocks], const TrailPoint &E);

  std::map<StringId, Log> Logs;
};

} // namespace culprit

#endif // CULPRIT_CASE_TRAILPOINTS_H
