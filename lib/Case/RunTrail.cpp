//===- RunTrail.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/RunTrail.h"
#include "Case/Schema.h"
#include "Support/PhraseFinder.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

static constexpr double NoTime = std::numeric_limits<double>::quiet_NaN();
/// Lines within which a retry belongs to an error.
static constexpr int64_t RetryLines = 20;

void RunTrail::progress(const TrailPoint &P, bool Request) {
  Progress &To = Sources[{P.Source, Request}];
  To.Enough = Request ? 5 : 2;
  To.Points.push_back(P);
}

size_t RunTrail::Progress::after(const TrailPoint &E) const {
  // Points are in the order of lines and steps; times may step back a little.
  auto It = std::partition_point(
      Points.begin(), Points.end(),
      [&](const TrailPoint &P) { return !liesBefore(E, P); });
  return static_cast<size_t>(Points.end() - It);
}

bool RunTrail::progressedAfter(const TrailPoint &E) const {
  return any_of(Sources, [&](const auto &S) {
    return S.second.after(E) >= S.second.Enough;
  });
}

bool RunTrail::progressedBefore(const TrailPoint &E) const {
  return any_of(Sources, [&](const auto &S) {
    return !S.second.Points.empty() &&
           liesBefore(S.second.Points.front(), E);
  });
}

void RunTrail::restart(const TrailPoint &P) {
  Begun.add(P);
  Restarts[P.Source].push_back(P);
}

bool RunTrail::retriedAfter(const TrailPoint &E) const {
  if (E.Line == NullInt)
    return false;
  auto It = Retries.lower_bound({E.Source, E.Line});
  return It != Retries.end() && It->first == E.Source &&
         It->second - E.Line <= RetryLines;
}

std::pair<size_t, size_t> RunTrail::ordinal(const TrailPoint &E) const {
  size_t Steps = 0, Size = 0;
  for (const auto &[Key, S] : Sources)
    if (!Key.second && S.Points.size() > Size) {
      Size = S.Points.size();
      Steps = Size - S.after(E);
    }
  size_t Before = 0;
  for (const auto &[Source, Points] : Restarts)
    Before += std::partition_point(
                  Points.begin(), Points.end(),
                  [&](const TrailPoint &P) { return liesBefore(P, E); }) -
              Points.begin();
  return {Steps, Before};
}

LogClock::LogClock(const Table &Lines) {
  if (Lines.empty())
    return;
  ArrayRef<ColumnView> C = Lines.columns();
  for (size_t I = 0, N = Lines.rows(); I != N; ++I) {
    Log &To = Logs[C[log_lines::source].getString(I)];
    int64_t Line = C[log_lines::line].getInt(I);
    if (Line == NullInt)
      continue;
    To.Last = std::max(To.Last, Line);
    if (!C[log_lines::wall_time].isNull(I))
      To.Stamps.push_back({Line, C[log_lines::wall_time].getDouble(I)});
  }
  for (auto &[Source, To] : Logs)
    llvm::stable_sort(To.Stamps, less_first());
}

double LogClock::at(StringId Source, int64_t Line) const {
  auto It = Logs.find(Source);
  if (It == Logs.end() || Line == NullInt)
    return NoTime;
  const auto &Stamps = It->second.Stamps;
  auto After = llvm::upper_bound(
      Stamps, Line, [](int64_t L, const auto &S) { return L < S.first; });
  return After == Stamps.begin() ? NoTime : std::prev(After)->second;
}

int64_t LogClock::lastLine(StringId Source) const {
  auto It = Logs.find(Source);
  return It == Logs.end() ? 0 : It->second.Last;
}

void RunTrails::addScalars(const Table &Scalars, Segments Parts) {
  ArrayRef<ColumnView> C = Scalars.columns();
  // The highest and the last step of each run of each file.
  struct Reached {
    int64_t Most = NullInt, Last = NullInt;
  };
  std::map<std::pair<StringId, std::string>, Reached> Steps;
  forEachRowOfRun(
      Scalars, scalars::run, Parts, Inputs, Pool,
      [&](size_t I, const InputSummary &In, StringRef Run) {
        int64_t Step = C[scalars::step].getInt(I);
        if (Step == NullInt)
          return;
        TrailPoint P{Pool.intern(In.Path), C[scalars::place].getInt(I),
                     C[scalars::wall_time].isNull(I)
                         ? NoTime
                         : C[scalars::wall_time].getDouble(I),
                     Step};
        if (std::isnan(P.Time))
          P.Time = Clock.at(P.Source, P.Line);
        Reached &R = Steps[{P.Source, Run.str()}];
        RunTrail &Trail = Trails[Run.str()];
        if (R.Most == NullInt || Step > R.Most)
          Trail.progress(P, false);
        else if (Step < R.Last)
          Trail.again(P);
        R.Most = R.Most == NullInt ? Step : std::max(R.Most, Step);
        R.Last = Step;
      });
}

void RunTrails::addRequests(const Table &Requests, Segments Parts) {
  ArrayRef<ColumnView> C = Requests.columns();
  forEachRowOfRun(Requests, requests::run, Parts, Inputs, Pool,
             [&](size_t I, const InputSummary &In, StringRef Run) {
               int64_t Status = C[requests::status].getInt(I);
               if (Status < 200 || Status >= 400)
                 return;
               TrailPoint P{Pool.intern(In.Path), C[requests::place].getInt(I),
                            C[requests::at].isNull(I)
                                ? NoTime
                                : C[requests::at].getDouble(I),
                            NullInt};
               Trails[Run.str()].progress(P, true);
             });
}

namespace {
enum class Word { Restart, Retry, End };
struct Phrase {
  Word Kind;
  StringLiteral Text;
};
} // namespace

/// What launchers and trainers say when they begin again, try again or give
/// up. In lower case.
static constexpr Phrase Phrases[] = {
    {Word::Restart, "will restart worker group"}, // torchelastic
    {Word::Restart, "restarting worker group"},
    {Word::Restart, "restarting from"},
    {Word::Restart, "restarting training"},
    {Word::Restart, "restarting the"},
    {Word::Restart, "restarting actor"},
    {Word::Restart, "resuming from"},
    {Word::Restart, "resuming training"},
    {Word::Restart, "resumed from"},
    {Word::Restart, "resume from checkpoint"},
    {Word::Restart, "job has been requeued"},
    {Word::Retry, "retrying"},
    {Word::Retry, "will retry"},
    {Word::Retry, "retry attempt"},
    {Word::Retry, "trying again"},
    {Word::Retry, "reconnecting"},
    {Word::Retry, "falling back to"},
    {Word::Retry, "skipping batch"},
    {Word::Retry, "skipping this batch"},
    {Word::Retry, "skipping sample"},
    {Word::Retry, "skipping bad sample"},
    {Word::Retry, "batch skipped"},
    {Word::End, "aborted (core dumped)"},
    {Word::End, "srun: error:"},
    {Word::End, "job step aborted"},
    {Word::End, "childfailederror"},
    {Word::End, "terminate called after throwing"},
    {Word::End, "exits with return code ="},
    {Word::End, "failed (exitcode:"},
    {Word::End, "command exited with non-zero"},
    {Word::End, "closing signal sigterm"}};

static const PhraseFinder &finder() {
  static const PhraseFinder F = [] {
    std::vector<StringRef> Texts;
    for (const Phrase &P : Phrases)
      Texts.push_back(P.Text);
    return PhraseFinder(Texts);
  }();
  return F;
}

/// "will not be restarting", "no longer retrying".
static bool isDenied(StringRef Before) {
  Before = Before.take_back(16).rtrim();
  return Before.ends_with("not") || Before.ends_with("no longer") ||
         Before.ends_with("not be") || Before.ends_with("without");
}

void RunTrails::addLines(const Table &Lines, Segments Parts) {
  ArrayRef<ColumnView> C = Lines.columns();
  std::vector<PhraseFinder::Hit> Hits;
  forEachRowOfRun(Lines, log_lines::run, Parts, Inputs, Pool,
             [&](size_t I, const InputSummary &, StringRef Run) {
               StringRef Text = Pool.text(C[log_lines::text].getString(I));
               Hits.clear();
               finder().find(Text, Hits);
               if (Hits.empty() || isDenied(Text.take_front(Hits[0].Begin)))
                 return;
               TrailPoint P{C[log_lines::source].getString(I),
                            C[log_lines::line].getInt(I), NoTime, NullInt};
               P.Time = Clock.at(P.Source, P.Line);
               RunTrail &Trail = Trails[Run.str()];
               switch (Phrases[Hits[0].Phrase].Kind) {
               case Word::Restart:
                 return Trail.restart(P);
               case Word::Retry:
                 return Trail.retry(P);
               case Word::End:
                 return Trail.end(P);
               }
             });
}

} // namespace culprit
