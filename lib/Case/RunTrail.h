//===- RunTrail.h - How a run went on, by its logs --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the logs and metrics of a run say of its progress: steps reached,
/// requests served, restarts, retries and ends, each with its place and time.
/// ErrorRoles asks it what came after an error.
///
/// Places in one log are compared by line. Places in two logs are compared by
/// time alone, where both are stamped with a date; a line without a stamp has
/// that of the last stamped line before it. A metrics file that has neither is
/// compared by its steps with the step beside which the error was logged.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_RUNTRAIL_H
#define CULPRIT_CASE_RUNTRAIL_H

#include "Case/Case.h"
#include "Case/TrailPoints.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <set>
#include <vector>

namespace culprit {

class RunTrail {
public:
  /// A step that was not reached before, or a request that was answered.
  void progress(const TrailPoint &P, bool Request);
  /// A step that the run had reached before: it began again from a checkpoint.
  void again(const TrailPoint &P) { Begun.add(P); }
  void restart(const TrailPoint &P);
  void retry(const TrailPoint &P) { Retries.insert({P.Source, P.Line}); }
  void end(const TrailPoint &P) { Ends.add(P); }

  /// Whether the run went on after \p E: two new steps or five requests. One
  /// step may have been on its way, printed late by another rank.
  bool progressedAfter(const TrailPoint &E) const;
  /// Whether what ran died and was started again between \p E and then.
  bool restartedAfter(const TrailPoint &E) const { return Begun.anyAfter(E); }
  /// Whether the log speaks of another try within a few lines of \p E.
  bool retriedAfter(const TrailPoint &E) const;
  bool endedAfter(const TrailPoint &E) const { return Ends.anyAfter(E); }
  /// Whether there was any step before \p E, so that none after it tells.
  bool progressedBefore(const TrailPoint &E) const;
  /// Steps and restarts before \p E, in the log that has most of them: two
  /// errors with a difference of 2 in steps or 1 in restarts are not of one
  /// failure.
  std::pair<size_t, size_t> ordinal(const TrailPoint &E) const;

private:
  struct Progress {
    std::vector<TrailPoint> Points; ///< In the order of the file.
    size_t Enough = 2;
    size_t after(const TrailPoint &E) const;
  };
  std::map<std::pair<StringId, bool>, Progress> Sources;
  TrailPoints Begun, Ends; ///< Begun: again, from a checkpoint or anew.
  std::map<StringId, std::vector<TrailPoint>> Restarts; ///< As in the file.
  std::set<std::pair<StringId, int64_t>> Retries;       ///< By their line.
};

/// The last stamp at or before a line, for every log.
class LogClock {
public:
  explicit LogClock(const Table &Lines);
  /// NaN where no line before has one.
  double at(StringId Source, int64_t Line) const;
  int64_t lastLine(StringId Source) const;

private:
  struct Log {
    std::vector<std::pair<int64_t, double>> Stamps;
    int64_t Last = 0;
  };
  llvm::DenseMap<StringId, Log> Logs;
};

/// Calls \p Do with each row of \p T, its input, and its run by name: that of
/// the row or else of the input. \p Parts are the first row of each input and
/// its place in \p Inputs.
template <typename Fn>
void forEachRowOfRun(const Table &T, unsigned RunColumn,
                     llvm::ArrayRef<std::pair<size_t, size_t>> Parts,
                     llvm::ArrayRef<InputSummary> Inputs,
                     const StringPool &Pool, Fn Do) {
  if (T.empty() || Parts.empty())
    return;
  const ColumnView &Run = T.columns()[RunColumn];
  for (size_t I = 0, Part = 0, N = T.rows(); I != N; ++I) {
    while (Part + 1 < Parts.size() && Parts[Part + 1].first <= I)
      ++Part;
    const InputSummary &In = Inputs[Parts[Part].second];
    llvm::StringRef Own =
        Run.isNull(I) ? llvm::StringRef() : Pool.text(Run.getString(I));
    Do(I, In, Own.empty() ? llvm::StringRef(In.Run) : Own);
  }
}

/// The trails of the runs of a case, by the run's name. \p Segments are the
/// first row of each input in a table and its place in \p Inputs.
class RunTrails {
public:
  using Segments = llvm::ArrayRef<std::pair<size_t, size_t>>;
  RunTrails(const LogClock &Clock, llvm::ArrayRef<InputSummary> Inputs,
            StringPool &Pool)
      : Clock(Clock), Inputs(Inputs), Pool(Pool) {}

  void addScalars(const Table &Scalars, Segments Parts);
  void addRequests(const Table &Requests, Segments Parts);
  void addLines(const Table &Lines, Segments Parts);
  const RunTrail &of(llvm::StringRef Run) { return Trails[Run.str()]; }

private:
  const LogClock &Clock;
  llvm::ArrayRef<InputSummary> Inputs;
  StringPool &Pool;
  std::map<std::string, RunTrail> Trails;
};

} // namespace culprit

#endif // CULPRIT_CASE_RUNTRAIL_H
