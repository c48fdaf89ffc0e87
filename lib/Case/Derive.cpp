//===- Derive.cpp - Steps, windows and gaps ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How a gap is told apart. The device ran nothing in [a, b); the work that
// ends the gap was launched by a host call that began at l:
//
//          a              l        b
//   work --|.....starved..|launching|-- work        l in [a, b]
//   work --|.........queued.........|-- work        l < a
//
// Starved time is the host's: it had nothing to run and asked late. Queued
// time is the device's: the work was there and waited for another stream, an
// event or the front end. One gap gives at most two rows, so the pieces of a
// device are disjoint and their sum is its idle time.
//
//===----------------------------------------------------------------------===//

#include "Case/Derive.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit {

namespace {

struct Span {
  int64_t Start, Stop;
  uint32_t Row;
  bool operator<(const Span &O) const {
    return std::tie(Start, Stop, Row) < std::tie(O.Start, O.Stop, O.Row);
  }
};

using DeviceKey = std::pair<int64_t, int64_t>; // rank, device

/// The columns of one Int kind that a pass reads, by position.
int64_t intAt(const Table &T, unsigned Column, size_t Row) {
  return T.columns()[Column].getInt(Row);
}

} // namespace

/// The work of each device, sorted by start. An ordered map: rows of derived
/// tables come out by rank and device.
static std::map<DeviceKey, std::vector<Span>> workByDevice(const Case &C) {
  const Table &Work = C.table(TableId::gpu_work);
  std::map<DeviceKey, std::vector<Span>> Out;
  std::vector<Span> *Current = nullptr;
  DeviceKey CurrentKey;
  for (size_t I = 0; I != Work.rows(); ++I) {
    int64_t Start = intAt(Work, gpu_work::start, I);
    int64_t Stop = intAt(Work, gpu_work::stop, I);
    if (Start == NullInt || Stop == NullInt || Stop < Start)
      continue;
    DeviceKey Key{intAt(Work, gpu_work::rank, I),
                  intAt(Work, gpu_work::device, I)};
    if (!Current || Key != CurrentKey) {
      Current = &Out[Key];
      CurrentKey = Key;
    }
    Current->push_back({Start, Stop, static_cast<uint32_t>(I)});
  }
  for (auto &[Key, Spans] : Out)
    if (!std::is_sorted(Spans.begin(), Spans.end()))
      std::sort(Spans.begin(), Spans.end());
  return Out;
}

void deriveSteps(const Case &C, TableBuilder &Into) {
  const Table &Ranges = C.table(TableId::ranges);
  const ColumnView &Category = Ranges.columns()[ranges::category];
  StringId StepId = C.pool()->lookup("step");
  std::map<int64_t, std::vector<Span>> ByRank;
  if (StepId == NullString)
    return;
  for (size_t I = 0; I != Ranges.rows(); ++I) {
    if (Category.getString(I) != StepId)
      continue;
    int64_t Start = intAt(Ranges, ranges::start, I);
    int64_t Stop = intAt(Ranges, ranges::stop, I);
    if (Start != NullInt && Stop != NullInt && Stop >= Start)
      ByRank[intAt(Ranges, ranges::rank, I)].push_back(
          {Start, Stop, static_cast<uint32_t>(I)});
  }
  for (auto &[Rank, Spans] : ByRank) {
    std::sort(Spans.begin(), Spans.end());
    for (size_t I = 0; I != Spans.size(); ++I) {
      bool First = I == 0, Last = I + 1 == Spans.size();
      bool Steady = Spans.size() >= 4   ? !First && !Last
                    : Spans.size() == 3 ? !First
                                        : true;
      int64_t Number = intAt(Ranges, ranges::step, Spans[I].Row);
      Into.addRow();
      Into.set(steps::rank, Rank);
      Into.set(steps::step,
               Number == NullInt ? static_cast<int64_t>(I) : Number);
      Into.set(steps::start, Spans[I].Start);
      Into.set(steps::stop, Spans[I].Stop);
      Into.set(steps::dur, Spans[I].Stop - Spans[I].Start);
      Into.setBool(steps::steady, Steady);
    }
  }
}

/// Time covered by \p Spans, sorted by start, inside [Start, Stop).
static int64_t coveredInside(ArrayRef<Span> Spans, int64_t Start,
                             int64_t Stop) {
  int64_t Busy = 0, Reach = Start;
  for (const Span &S : Spans) {
    int64_t From = std::max(S.Start, Reach), To = std::min(S.Stop, Stop);
    if (To > From) {
      Busy += To - From;
      Reach = To;
    }
  }
  return Busy;
}

namespace {

/// Finds the host call that launched a piece of work.
class Launches {
public:
  explicit Launches(const Case &C)
      : Work(C.table(TableId::gpu_work)), Calls(C.table(TableId::host_calls)) {
    // One map a rank: correlation ids start anew in every process. The
    // runtime call and the driver call under it share an id; the outer,
    // earlier one is where the host's own time ends.
    for (size_t I = 0; I != Calls.rows(); ++I) {
      int64_t Id = intAt(Calls, host_calls::correlation, I);
      if (Id == NullInt || Id == 0)
        continue;
      DenseMap<int64_t, uint32_t> &Map =
          ByRank[intAt(Calls, host_calls::rank, I)];
      auto [It, New] = Map.try_emplace(Id, static_cast<uint32_t>(I));
      if (!New && intAt(Calls, host_calls::start, I) <
                      intAt(Calls, host_calls::start, It->second))
        It->second = static_cast<uint32_t>(I);
    }
  }

  /// The row of host_calls that launched row \p WorkRow, or none.
  std::optional<uint32_t> of(uint32_t WorkRow) const {
    auto It = ByRank.find(intAt(Work, gpu_work::rank, WorkRow));
    if (It == ByRank.end())
      return std::nullopt;
    int64_t Id = intAt(Work, gpu_work::correlation, WorkRow);
    if (Id == NullInt)
      return std::nullopt;
    auto Call = It->second.find(Id);
    if (Call == It->second.end())
      return std::nullopt;
    return Call->second;
  }

  const Table &Work;
  const Table &Calls;

private:
  std::map<int64_t, DenseMap<int64_t, uint32_t>> ByRank;
};

} // namespace

/// Where the work of the host span [From, To) lies on the device: it begins
/// when the work launched before has ended, if that is after From, and ends
/// with its own last work, if that is after To. A host that runs ahead of the
/// device finishes its steps long before the device does.
static std::pair<int64_t, int64_t> project(ArrayRef<Span> Spans,
                                           const Launches &L, int64_t From,
                                           int64_t To) {
  int64_t Start = From, Stop = To;
  for (const Span &S : Spans) {
    std::optional<uint32_t> Call = L.of(S.Row);
    int64_t Launch =
        Call ? intAt(L.Calls, host_calls::start, *Call) : S.Start;
    if (Launch < From)
      Start = std::max(Start, S.Stop);
    else if (Launch < To)
      Stop = std::max(Stop, S.Stop);
  }
  return {Start, Stop};
}

struct ProfileIndex::State {
  explicit State(const Case &C) : Work(workByDevice(C)), L(C) {}

  std::map<DeviceKey, std::vector<Span>> Work;
  Launches L;
};

ProfileIndex::ProfileIndex(const Case &C) : S(std::make_unique<State>(C)) {}
ProfileIndex::~ProfileIndex() = default;

void deriveWindows(const Case &C, const ProfileIndex &Index,
                   TableBuilder &Into) {
  struct Steady {
    int64_t Start = INT64_MAX, Stop = INT64_MIN, Steps = 0;
  };
  std::map<int64_t, Steady> ByRank;
  const Table &Steps = C.table(TableId::steps);
  for (size_t I = 0; I != Steps.rows(); ++I) {
    if (Steps.columns()[steps::steady].Data->bools()[I] != 1)
      continue;
    Steady &S = ByRank[intAt(Steps, steps::rank, I)];
    S.Start = std::min(S.Start, intAt(Steps, steps::start, I));
    S.Stop = std::max(S.Stop, intAt(Steps, steps::stop, I));
    ++S.Steps;
  }
  for (const auto &[Key, Spans] : Index.state().Work) {
    int64_t Start = Spans.front().Start, Stop = Start;
    for (const Span &S : Spans)
      Stop = std::max(Stop, S.Stop);
    int64_t StepCount = 0;
    if (auto It = ByRank.find(Key.first); It != ByRank.end()) {
      auto [From, To] = project(Spans, Index.state().L, It->second.Start, It->second.Stop);
      if (From < To && coveredInside(Spans, From, To) > 0) {
        Start = From;
        Stop = To;
        StepCount = It->second.Steps;
      }
    }
    Into.addRow();
    Into.set(windows::rank, Key.first);
    Into.set(windows::device, Key.second);
    Into.set(windows::start, Start);
    Into.set(windows::stop, Stop);
    Into.set(windows::dur, Stop - Start);
    Into.set(windows::steps, StepCount);
    Into.set(windows::busy, coveredInside(Spans, Start, Stop));
  }
}

namespace {

/// Writes the pieces of one device's gaps.
class GapWriter {
public:
  GapWriter(TableBuilder &Into, const Launches &L, DeviceKey Key)
      : Into(Into), L(L), Key(Key), Starved(Into.intern("starved")),
        Launching(Into.intern("launching")), Queued(Into.intern("queued")),
        Unresolved(Into.intern("unresolved")) {}

  /// The device is idle in [Start, Stop) and then runs \p Next, if any.
  void gap(int64_t Start, int64_t Stop, std::optional<uint32_t> Next) {
    std::optional<uint32_t> Call = Next ? L.of(*Next) : std::nullopt;
    if (!Call)
      return piece(Start, Stop, Unresolved, Next, Call);
    int64_t Launch = intAt(L.Calls, host_calls::start, *Call);
    if (Launch <= Start)
      return piece(Start, Stop, Queued, Next, Call);
    // A clipped gap at the end of a window may end before the launch does.
    int64_t Cut = std::min(Launch, Stop);
    piece(Start, Cut, Starved, Next, Call);
    if (Cut < Stop)
      piece(Cut, Stop, Launching, Next, Call);
  }

private:
  void piece(int64_t Start, int64_t Stop, StringId State,
             std::optional<uint32_t> Next, std::optional<uint32_t> Call) {
    Into.addRow();
    Into.set(gaps::rank, Key.first);
    Into.set(gaps::device, Key.second);
    Into.set(gaps::start, Start);
    Into.set(gaps::stop, Stop);
    Into.set(gaps::dur, Stop - Start);
    Into.setId(gaps::state, State);
    if (Next) {
      Into.set(gaps::next, static_cast<int64_t>(*Next));
      Into.setId(gaps::next_name,
                 L.Work.columns()[gpu_work::name].getString(*Next));
    }
    if (Call) {
      Into.set(gaps::pid, intAt(L.Calls, host_calls::pid, *Call));
      Into.set(gaps::tid, intAt(L.Calls, host_calls::tid, *Call));
    }
  }

  TableBuilder &Into;
  const Launches &L;
  DeviceKey Key;
  StringId Starved, Launching, Queued, Unresolved;
};

} // namespace

void deriveGaps(const Case &C, const ProfileIndex &Index, TableBuilder &Into) {
  const Table &Windows = C.table(TableId::windows);
  for (size_t W = 0; W != Windows.rows(); ++W) {
    DeviceKey Key{intAt(Windows, windows::rank, W),
                  intAt(Windows, windows::device, W)};
    int64_t From = intAt(Windows, windows::start, W);
    int64_t To = intAt(Windows, windows::stop, W);
    const std::vector<Span> &Work = Index.state().Work.at(Key);
    GapWriter Writer(Into, Index.state().L, Key);
    int64_t Reach = From; // everything before it is busy or told
    for (const Span &S : Work) {
      if (S.Stop <= Reach)
        continue;
      if (S.Start >= To)
        break;
      if (S.Start > Reach)
        Writer.gap(Reach, S.Start, S.Row);
      Reach = S.Stop;
    }
    if (Reach >= To)
      continue;
    // The idle tail belongs to the first work after the window, if any.
    auto After =
        llvm::find_if(Work, [&](const Span &S) { return S.Start >= To; });
    Writer.gap(Reach, To,
               After == Work.end() ? std::nullopt
                                        : std::optional(After->Row));
  }
}

void derive(TableId Id, const Case &C, const ProfileIndex &Index,
            TableBuilder &Into) {
  switch (Id) {
  case TableId::steps:
    return deriveSteps(C, Into);
  case TableId::windows:
    return deriveWindows(C, Index, Into);
  case TableId::gaps:
    return deriveGaps(C, Index, Into);
  case TableId::launches:
  case TableId::critical_path:
  case TableId::matched_collectives:
  case TableId::capture_quality:
    return;
  default:
    llvm_unreachable("not a derived table");
  }
}

} // namespace culprit
