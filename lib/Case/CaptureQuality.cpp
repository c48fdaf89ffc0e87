//===- CaptureQuality.cpp - What a record lacks -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/ClockAlignment.h"
#include "Case/Derive.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <set>

using namespace llvm;

namespace culprit {

namespace {

/// Rows of profiler_events by rank, once for all windows; those without a
/// rank stand under NullInt.
std::map<int64_t, std::vector<size_t>> eventsByRank(const Case &C) {
  const Table &T = C.table(TableId::profiler_events);
  std::map<int64_t, std::vector<size_t>> Out;
  for (size_t I = 0; I != T.rows(); ++I)
    Out[intAt(T, profiler_events::rank, I)].push_back(I);
  return Out;
}

/// Device work and host calls on record, by rank.
std::map<int64_t, int64_t> keptByRank(const Case &C) {
  std::map<int64_t, int64_t> Out;
  auto count = [&](const Table &T, unsigned Rank) {
    for (size_t I = 0; I != T.rows(); ++I)
      ++Out[intAt(T, Rank, I)];
  };
  count(C.table(TableId::gpu_work), gpu_work::rank);
  count(C.table(TableId::host_calls), host_calls::rank);
  return Out;
}

/// The median length of the matched collectives, or NullInt.
int64_t medianCollective(const Case &C) {
  const Table &Matched = C.table(TableId::matched_collectives);
  std::vector<int64_t> Lengths;
  for (size_t I = 0; I != Matched.rows(); ++I)
    if (int64_t Dur = intAt(Matched, matched_collectives::dur, I); Dur > 0)
      Lengths.push_back(Dur);
  if (Lengths.empty())
    return NullInt;
  auto Middle = Lengths.begin() + static_cast<ptrdiff_t>(Lengths.size() / 2);
  std::nth_element(Lengths.begin(), Middle, Lengths.end());
  return *Middle;
}

/// What the profiler says of itself, for one rank. \p Rows are those of the
/// rank and those said of all.
struct SelfReport {
  SelfReport(const Case &C, ArrayRef<size_t> Rows,
             const std::set<int64_t> &Threads) {
    const Table &T = C.table(TableId::profiler_events);
    const StringPool &Pool = *C.pool();
    StringId IsOverhead = Pool.lookup("overhead"), IsLost = Pool.lookup("lost"),
             IsCut = Pool.lookup("cut");
    auto holds = [&](size_t I, StringId Kind) {
      return Kind != NullString &&
             T.columns()[profiler_events::kind].getString(I) == Kind;
    };
    std::vector<std::pair<Span, int64_t>> All;
    bool ThreadsKnown = false;
    for (size_t I : Rows) {
      if (holds(I, IsLost)) {
        int64_t Count = intAt(T, profiler_events::count, I);
        // Sums of damaged counts would overflow.
        if (__builtin_add_overflow(Lost, Count == NullInt ? 1 : Count, &Lost))
          Lost = INT64_MAX;
      }
      Cut |= holds(I, IsCut);
      int64_t Start = intAt(T, profiler_events::start, I);
      int64_t Stop = intAt(T, profiler_events::stop, I);
      if (!holds(I, IsOverhead) || Start == NullInt || Stop == NullInt)
        continue;
      int64_t Tid = intAt(T, profiler_events::tid, I);
      ThreadsKnown |= Threads.count(Tid) != 0;
      All.push_back({{Start, Stop, static_cast<uint32_t>(I)}, Tid});
    }
    for (const auto &[S, Tid] : All)
      if (!ThreadsKnown || Tid == NullInt || Threads.count(Tid))
        Overhead.push_back(S);
    llvm::sort(Overhead);
  }

  std::vector<Span> Overhead; ///< By start.
  int64_t Lost = 0;
  bool Cut = false;
};

} // namespace

/// Device work that should have a launch record, and how much of it has one.
/// Work inside graphs is launched by the graph; what runs before the first
/// known launch arrives was launched before the recording began.
static std::optional<double> launchMatch(const Case &C,
                                         const ProfileIndex &Index,
                                         ArrayRef<Span> Spans) {
  const Table &Work = C.table(TableId::gpu_work);
  StringId Graph = C.pool()->lookup("graph");
  int64_t First = INT64_MAX;
  for (const Span &S : Spans)
    if (Index.launchOf(S.Row)) {
      First = S.Start;
      break; // sorted by start
    }
  size_t Should = 0, Has = 0;
  for (const Span &S : Spans) {
    if (S.Start < First ||
        intAt(Work, gpu_work::graph, S.Row) != NullInt ||
        (Graph != NullString &&
         Work.columns()[gpu_work::kind].getString(S.Row) == Graph))
      continue;
    ++Should;
    Has += Index.launchOf(S.Row).has_value();
  }
  if (First == INT64_MAX)
    return C.has(TableId::host_calls) && !Spans.empty() ? std::optional(0.0)
                                                        : std::nullopt;
  return Should ? static_cast<double>(Has) / static_cast<double>(Should) : 1.0;
}

void deriveCaptureQuality(const Case &C, const ProfileIndex &Index,
                          TableBuilder &Into) {
  const Table &Windows = C.table(TableId::windows);
  const Table &Work = C.table(TableId::gpu_work);
  const Table &Calls = C.table(TableId::host_calls);
  StringId Graph = C.pool()->lookup("graph");
  std::map<int64_t, int64_t> Residuals = clockResiduals(C);
  std::map<int64_t, std::vector<size_t>> Events = eventsByRank(C);
  std::map<int64_t, int64_t> Kept = keptByRank(C);
  int64_t Collective = Residuals.empty() ? NullInt : medianCollective(C);
  for (size_t W = 0; W != Windows.rows(); ++W) {
    DeviceKey Key{intAt(Windows, windows::rank, W),
                  intAt(Windows, windows::device, W)};
    int64_t From = intAt(Windows, windows::start, W);
    int64_t To = intAt(Windows, windows::stop, W);
    const std::vector<Span> &Spans = Index.work().at(Key);
    std::set<int64_t> Threads;
    std::vector<Span> Graphs;
    std::optional<int64_t> Last; // one thread launches most
    for (const Span &S : Spans) {
      if (std::optional<uint32_t> Call = Index.launchOf(S.Row))
        if (int64_t Tid = intAt(Calls, host_calls::tid, *Call); Tid != Last) {
          Threads.insert(Tid);
          Last = Tid;
        }
      if (Graph != NullString &&
          Work.columns()[gpu_work::kind].getString(S.Row) == Graph)
        Graphs.push_back(S);
    }
    std::vector<size_t> Said = Events[Key.first];
    if (Key.first != NullInt)
      llvm::append_range(Said, Events[NullInt]);
    SelfReport Self(C, Said, Threads);
    auto shareOf = [&](ArrayRef<Span> Part, int64_t Whole) {
      return Whole > 0 ? static_cast<double>(coveredInside(Part, From, To)) /
                             static_cast<double>(Whole)
                       : 0.0;
    };
    Into.addRow();
    Into.set(capture_quality::rank, Key.first);
    Into.set(capture_quality::device, Key.second);
    if (std::optional<double> Match = launchMatch(C, Index, Spans))
      Into.set(capture_quality::launch_match, *Match);
    Into.set(capture_quality::graph_share,
             shareOf(Graphs, intAt(Windows, windows::busy, W)));
    Into.set(capture_quality::overhead_share,
             shareOf(Self.Overhead, To - From));
    Into.set(capture_quality::lost, Self.Lost);
    Into.setBool(capture_quality::cut, Self.Cut);
    if (auto It = Residuals.find(Key.first); It != Residuals.end())
      Into.set(capture_quality::clock_residual, It->second);
    Into.set(capture_quality::kept, Kept[Key.first]);
    if (Collective != NullInt)
      Into.set(capture_quality::median_collective, Collective);
  }
}

} // namespace culprit
