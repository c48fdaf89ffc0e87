//===- HostActivity.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/HostActivity.h"
#include "Table/RunSort.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

StringRef HostActivity::name(Kind K) {
  switch (K) {
  case Code:
    return "code";
  case Preempted:
    return "preempted";
  case Input:
    return "input";
  case Allocate:
    return "allocate";
  case Load:
    return "load";
  case Profiler:
    return "profiler";
  }
  llvm_unreachable("all kinds have a name");
}

namespace {

/// Intervals of one table with their threads, by rank.
class ThreadSpans {
public:
  void add(int64_t Rank, int64_t Tid, const Span &S, HostActivity::Kind K) {
    if (!Last || Rank != LastRank) {
      Last = &ByRank[Rank];
      LastRank = Rank;
    }
    Last->push_back({S, Tid, K});
  }

  struct Entry {
    Span Time;
    int64_t Tid;
    HostActivity::Kind What;
  };

  /// The entries of \p Rank on one of \p Threads, and those that name no
  /// thread; all of them where none is on any of \p Callers, the threads that
  /// make calls: the ids are of another kind then.
  std::vector<Entry> on(int64_t Rank, const std::set<int64_t> &Threads,
                        const std::set<int64_t> &Callers) const {
    auto It = ByRank.find(Rank);
    if (It == ByRank.end())
      return {};
    bool Known = llvm::any_of(
        It->second, [&](const Entry &E) { return Callers.count(E.Tid); });
    std::vector<Entry> Out;
    for (const Entry &E : It->second)
      if (!Known || E.Tid == NullInt || Threads.count(E.Tid))
        Out.push_back(E);
    return Out;
  }

private:
  std::map<int64_t, std::vector<Entry>> ByRank;
  std::vector<Entry> *Last = nullptr; ///< Of LastRank: rows come rank by rank.
  int64_t LastRank = NullInt;
};

} // namespace

/// \p Spans as disjoint intervals.
static std::vector<Span> unite(std::vector<Span> Spans) {
  sortRuns(Spans, std::less<>());
  std::vector<Span> Out;
  for (const Span &S : Spans)
    if (!Out.empty() && S.Start <= Out.back().Stop)
      Out.back().Stop = std::max(Out.back().Stop, S.Stop);
    else
      Out.push_back(S);
  return Out;
}

/// The data loader, as far as the ranges name it.
static void addRanges(const Case &C, ThreadSpans &Into) {
  const Table &T = C.table(TableId::ranges);
  StringId Loader = C.pool()->lookup("dataloader");
  if (Loader == NullString)
    return;
  for (const Span &S :
       spansOf(T, ranges::start, ranges::stop, [&](size_t I) {
         return T.columns()[ranges::category].getString(I) == Loader;
       }))
    Into.add(intAt(T, ranges::rank, S.Row), intAt(T, ranges::tid, S.Row), S,
             HostActivity::Input);
}

/// A copy call this long waits for the device: enqueuing one takes
/// microseconds, and staging a megabyte of pageable memory 100 us. ns.
static constexpr int64_t LongCopy = 1'000'000;

/// Calls by role: those that hold the caller up whatever the device does, and
/// the waits for the device.
static void addCalls(const Case &C, ThreadSpans &Held, ThreadSpans &Waits,
                     ThreadSpans &Copies) {
  const Table &T = C.table(TableId::host_calls);
  const StringPool &Pool = *C.pool();
  StringId Allocate = Pool.lookup("allocate"), Free = Pool.lookup("free"),
           Load = Pool.lookup("load"), Sync = Pool.lookup("sync"),
           Copy = Pool.lookup("copy");
  auto roleOf = [&](size_t I) {
    return T.columns()[host_calls::role].getString(I);
  };
  for (const Span &S :
       spansOf(T, host_calls::start, host_calls::stop, [&](size_t I) {
         StringId Role = roleOf(I);
         return Role != NullString &&
                (Role == Allocate || Role == Free || Role == Load ||
                 Role == Sync ||
                 (Role == Copy && intAt(T, host_calls::dur, I) >= LongCopy));
       })) {
    StringId Role = roleOf(S.Row);
    ThreadSpans &Into = Role == Sync ? Waits : Role == Copy ? Copies : Held;
    Into.add(intAt(T, host_calls::rank, S.Row),
             intAt(T, host_calls::tid, S.Row), S,
             Role == Load ? HostActivity::Load : HostActivity::Allocate);
  }
}

/// Overheads: loading and compiling are the program's own, though it is the
/// profiler that names them; the rest is the profiler's.
static void addOverheads(const Case &C, ThreadSpans &Into) {
  const Table &T = C.table(TableId::profiler_events);
  StringId Overhead = C.pool()->lookup("overhead");
  if (Overhead == NullString)
    return;
  for (const Span &S : spansOf(
           T, profiler_events::start, profiler_events::stop, [&](size_t I) {
             return T.columns()[profiler_events::kind].getString(I) ==
                    Overhead;
           })) {
    StringRef Name = C.pool()->text(
        T.columns()[profiler_events::name].getString(S.Row));
    bool Own = Name.contains_insensitive("load") ||
               Name.contains_insensitive("compil");
    Into.add(intAt(T, profiler_events::rank, S.Row),
             intAt(T, profiler_events::tid, S.Row), S,
             Own ? HostActivity::Load : HostActivity::Profiler);
  }
}

HostActivity::HostActivity(const Case &C, const ProfileIndex &Index)
    : C(C), Index(Index) {
  const Table &Calls = C.table(TableId::host_calls);
  std::map<DeviceKey, std::set<int64_t>> Launchers;
  for (const auto &[Key, Spans] : Index.work()) {
    std::optional<int64_t> Last; // one thread launches most
    for (const Span &S : Spans)
      if (std::optional<uint32_t> Call = Index.launchOf(S.Row))
        if (int64_t Tid = intAt(Calls, host_calls::tid, *Call); Tid != Last) {
          Launchers[Key].insert(Tid);
          Last = Tid;
        }
  }

  std::map<int64_t, std::set<int64_t>> Callers; // by rank
  for (size_t I = 0, LastTid = 0; I != Calls.rows(); ++I) {
    int64_t Tid = intAt(Calls, host_calls::tid, I);
    if (I == 0 || static_cast<size_t>(Tid) != LastTid ||
        intAt(Calls, host_calls::rank, I) !=
            intAt(Calls, host_calls::rank, I - 1))
      Callers[intAt(Calls, host_calls::rank, I)].insert(Tid);
    LastTid = static_cast<size_t>(Tid);
  }

  ThreadSpans Loading, Held, Waits, Copies, Overheads;
  addRanges(C, Loading);
  addCalls(C, Held, Waits, Copies);
  addOverheads(C, Overheads);
  for (const auto &[Of, Threads] : Launchers) {
    // (time, kind, +1 or -1): at each time the strongest open kind counts.
    std::vector<std::tuple<int64_t, Kind, int>> Edges;
    for (const ThreadSpans *From : {&Loading, &Held, &Overheads})
      for (const auto &E : From->on(Of.first, Threads, Callers[Of.first])) {
        Edges.push_back({E.Time.Start, E.What, 1});
        Edges.push_back({E.Time.Stop, E.What, -1});
      }
    sortRuns(Edges, std::less<>());
    DeviceActivity &Out = ByDevice[Of];
    std::array<int, NumKinds> Open{};
    int64_t Since = 0;
    Kind Now = Code;
    for (const auto &[Time, What, Change] : Edges) {
      Open[What] += Change;
      Kind Next = Code;
      for (unsigned K = 1; K != NumKinds; ++K)
        if (Open[K] > 0)
          Next = static_cast<Kind>(K);
      if (Next == Now)
        continue;
      if (Now != Code && Time > Since)
        Out.Pieces.push_back({Since, Time, Now});
      Since = Time;
      Now = Next;
    }
    std::vector<Span> All;
    for (const auto &E : Waits.on(Of.first, Threads, Callers[Of.first]))
      All.push_back(E.Time);
    Out.Waits = unite(All);
    for (const auto &E : Copies.on(Of.first, Threads, Callers[Of.first]))
      All.push_back(E.Time);
    Out.Blocked = unite(std::move(All));
  }

  const Table &States = C.table(TableId::thread_states);
  StringId Wanting = C.pool()->lookup("runnable");
  if (Wanting == NullString)
    return;
  for (const Span &S :
       spansOf(States, thread_states::start, thread_states::stop,
               [&](size_t I) {
                 return States.columns()[thread_states::state].getString(I) ==
                        Wanting;
               }))
    Runnable[{intAt(States, thread_states::rank, S.Row),
              intAt(States, thread_states::tid, S.Row)}]
        .push_back(S);
  for (auto &[Thread, Spans] : Runnable)
    Spans = unite(std::move(Spans));
}

void HostActivity::pieces(
    const DeviceKey &Of, int64_t Tid, int64_t From, int64_t To,
    function_ref<void(int64_t, int64_t, Kind)> Emit) const {
  // The code between the named pieces, less the time it had no CPU.
  auto code = [&](int64_t Start, int64_t Stop) {
    if (auto It = Runnable.find({Of.first, Tid}); It != Runnable.end()) {
      auto S = llvm::partition_point(
          It->second, [&](const Span &P) { return P.Stop <= Start; });
      for (; S != It->second.end() && S->Start < Stop; ++S) {
        int64_t A = std::max(S->Start, Start), B = std::min(S->Stop, Stop);
        if (Start < A)
          Emit(Start, A, Code);
        Emit(A, B, Preempted);
        Start = B;
      }
    }
    if (Start < Stop)
      Emit(Start, Stop, Code);
  };
  if (auto It = ByDevice.find(Of); It != ByDevice.end()) {
    const std::vector<Piece> &Pieces = It->second.Pieces;
    auto P = llvm::partition_point(
        Pieces, [&](const Piece &P) { return P.Stop <= From; });
    for (; P != Pieces.end() && P->Start < To; ++P) {
      int64_t A = std::max(P->Start, From), B = std::min(P->Stop, To);
      if (From < A)
        code(From, A);
      Emit(A, B, P->What);
      From = B;
    }
  }
  if (From < To)
    code(From, To);
}

int64_t HostActivity::waitedDuring(const DeviceKey &Of, int64_t From,
                                   int64_t To) const {
  auto It = ByDevice.find(Of);
  if (It == ByDevice.end())
    return 0;
  // Gaps are asked for one by one: look at the spans inside this one only.
  ArrayRef<Span> Spans = It->second.Blocked;
  auto First = llvm::partition_point(
      Spans, [&](const Span &S) { return S.Stop <= From; });
  auto Last = llvm::partition_point(
      Spans, [&](const Span &S) { return S.Start < To; });
  return First < Last ? coveredInside(ArrayRef(First, Last), From, To) : 0;
}

bool HostActivity::waitedFor(const DeviceKey &Of, int64_t Time,
                             uint32_t WorkRow) const {
  auto It = ByDevice.find(Of);
  if (It == ByDevice.end())
    return false;
  const std::vector<Span> &Waits = It->second.Waits;
  auto W = llvm::partition_point(
      Waits, [&](const Span &S) { return S.Stop <= Time; });
  if (W != Waits.end() && W->Start <= Time)
    return true;
  // A copy that keeps its caller until it is done.
  std::optional<uint32_t> Call = Index.launchOf(WorkRow);
  if (!Call)
    return false;
  const Table &Calls = C.table(TableId::host_calls);
  StringId Copy = C.pool()->lookup("copy");
  return Copy != NullString &&
         Calls.columns()[host_calls::role].getString(*Call) == Copy &&
         intAt(Calls, host_calls::stop, *Call) > Time;
}

} // namespace culprit
