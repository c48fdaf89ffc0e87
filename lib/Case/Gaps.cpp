//===- Gaps.cpp - The idle time of a device, taken apart --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// How a gap is told apart. The device ran nothing in [a, b); the work that
// ends the gap was launched by a host call that began at l:
//
//          a              l        b
//   work --|.....starved..|launching|-- work        l in [a, b]
//   work --|....blocked or stalled..|-- work        l < a
//
// Launching ends a little after the call returns (LaunchLatency): what is
// left of a longer gap is work that was there and did not run. A call that
// began before a and returns after it is launching too: it loads code.
//
// Where the host waits for the device through a long gap with work queued,
// the device runs something that nobody recorded, work from before the
// recording began or another process's: unresolved.
//
// Starved time is the host's: it had nothing to run and asked late. It is cut
// further by what the launching threads did meanwhile, one answer an instant,
// so that input, allocation, synchronisation and code claim disjoint parts.
// Blocked and stalled time is the device's: the work was there and waited for
// another stream, an event or the front end. The pieces of a device are
// disjoint and their sum is its idle time.
//
//===----------------------------------------------------------------------===//

#include "Case/Derive.h"
#include "Case/HostActivity.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

/// A gap with queued work and a waiting host from which on it is taken for
/// unrecorded work, in ns; and the share of it the host must wait.
constexpr int64_t UnrecordedFrom = 1'000'000;
constexpr double UnrecordedShare = 0.9;

namespace {

/// When a stream was told to wait for another, by rank and stream.
class StreamWaits {
public:
  explicit StreamWaits(const Case &C) {
    const Table &T = C.table(TableId::syncs);
    StringId Wait = C.pool()->lookup("stream-wait");
    if (Wait == NullString)
      return;
    for (size_t I = 0; I != T.rows(); ++I)
      if (T.columns()[syncs::kind].getString(I) == Wait &&
          intAt(T, syncs::start, I) != NullInt)
        Times[{intAt(T, syncs::rank, I), intAt(T, syncs::stream, I)}]
            .push_back(intAt(T, syncs::start, I));
    for (auto &[Stream, At] : Times)
      llvm::sort(At);
  }

  /// Whether \p Stream was told to wait after \p From and up to \p To.
  bool between(int64_t Rank, int64_t Stream, int64_t From, int64_t To) const {
    auto It = Times.find({Rank, Stream});
    if (It == Times.end())
      return false;
    auto Next = llvm::upper_bound(It->second, From);
    return Next != It->second.end() && *Next <= To;
  }

private:
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> Times;
};

/// Writes the pieces of one device's gaps.
class GapWriter {
public:
  GapWriter(TableBuilder &Into, const Case &C, const ProfileIndex &Index,
            const HostActivity &Host, const StreamWaits &Waits, DeviceKey Key)
      : Into(Into), Index(Index), Host(Host), Waits(Waits),
        Work(C.table(TableId::gpu_work)), Calls(C.table(TableId::host_calls)),
        Key(Key), Starved(Into.intern("starved")),
        Launching(Into.intern("launching")), Blocked(Into.intern("blocked")),
        Stalled(Into.intern("stalled")), Unresolved(Into.intern("unresolved")),
        Refill(Into.intern("refill")) {
    for (unsigned K = 0; K != HostActivity::NumKinds; ++K)
      Words[K] = Into.intern(HostActivity::name(HostActivity::Kind(K)));
  }

  /// The device is idle in [Start, Stop), after \p Before, if there was any,
  /// and then runs \p Next, if any.
  void gap(int64_t Start, int64_t Stop, std::optional<uint32_t> Before,
           std::optional<uint32_t> Next) {
    ++Number;
    std::optional<uint32_t> Call = Next ? Index.launchOf(*Next) : std::nullopt;
    if (!Call)
      return piece(Start, Stop, Unresolved, NullString, Next, Call);
    int64_t Launch = intAt(Calls, host_calls::start, *Call);
    int64_t Returned = std::max(intAt(Calls, host_calls::stop, *Call), Launch);
    int64_t From = Start;
    if (Launch > Start) {
      // A clipped gap at the end of a window may end before the launch does.
      From = std::min(Launch, Stop);
      starved(Start, From, Before, Next, *Call);
      Returned += LaunchLatency;
    }
    if (int64_t To = std::min(Returned, Stop); To > From) {
      piece(From, To, Launching, NullString, Next, Call);
      From = To;
    }
    if (From == Stop)
      return;
    StringId Why = waitedOnDevice(*Next, Launch) ? Blocked : Stalled;
    if (Why == Stalled && Stop - From >= UnrecordedFrom &&
        static_cast<double>(Host.waitedDuring(Key, From, Stop)) >=
            UnrecordedShare * static_cast<double>(Stop - From))
      Why = Unresolved;
    piece(From, Stop, Why, NullString, Next, Call);
  }

private:
  bool waitedOnDevice(uint32_t Next, int64_t Launch) {
    int64_t Stream = intAt(Work, gpu_work::stream, Next);
    auto It = LastLaunch.find(Stream);
    return Waits.between(Key.first, Stream,
                         It == LastLaunch.end() ? INT64_MIN : It->second,
                         Launch);
  }

  void starved(int64_t Start, int64_t Stop, std::optional<uint32_t> Before,
               std::optional<uint32_t> Next, uint32_t Call) {
    // What begins while the host waits for the device is the refill after
    // that wait: the host could not have asked earlier.
    bool Waited = Before && Host.waitedFor(Key, Start, *Before);
    int64_t From = Start, To = Start;
    StringId Doing = NullString;
    auto flush = [&] {
      if (From < To)
        piece(From, To, Starved, Doing, Next, Call);
    };
    Host.pieces(Key, intAt(Calls, host_calls::tid, Call), Start, Stop,
                [&](int64_t A, int64_t B, HostActivity::Kind K) {
                  StringId Word =
                      K == HostActivity::Code && Waited ? Refill : Words[K];
                  if (Word != Doing) {
                    flush();
                    From = A;
                    Doing = Word;
                  }
                  To = B;
                });
    flush();
  }

  void piece(int64_t Start, int64_t Stop, StringId State, StringId Doing,
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
                 Work.columns()[gpu_work::name].getString(*Next));
    }
    if (Call) {
      Into.set(gaps::pid, intAt(Calls, host_calls::pid, *Call));
      Into.set(gaps::tid, intAt(Calls, host_calls::tid, *Call));
    }
    if (Doing != NullString)
      Into.setId(gaps::host, Doing);
    Into.set(gaps::gap, Number);
  }

public:
  /// Tells of each piece of work that begins, in order.
  void ran(uint32_t Row) {
    int64_t Launch = Index.launchTime(Row);
    if (Launch == NullInt)
      return;
    int64_t &Last =
        LastLaunch.try_emplace(intAt(Work, gpu_work::stream, Row), Launch)
            .first->second;
    Last = std::max(Last, Launch);
  }

private:
  TableBuilder &Into;
  const ProfileIndex &Index;
  const HostActivity &Host;
  const StreamWaits &Waits;
  const Table &Work;
  const Table &Calls;
  DeviceKey Key;
  int64_t Number = -1;
  std::map<int64_t, int64_t> LastLaunch; ///< By stream.
  StringId Starved, Launching, Blocked, Stalled, Unresolved, Refill;
  std::array<StringId, HostActivity::NumKinds> Words; ///< By kind.
};

} // namespace

void deriveGaps(const Case &C, const ProfileIndex &Index, TableBuilder &Into) {
  const Table &Windows = C.table(TableId::windows);
  const HostActivity &Host = Index.activity();
  StreamWaits Waits(C);
  for (size_t W = 0; W != Windows.rows(); ++W) {
    DeviceKey Key{intAt(Windows, windows::rank, W),
                  intAt(Windows, windows::device, W)};
    int64_t From = intAt(Windows, windows::start, W);
    int64_t To = intAt(Windows, windows::stop, W);
    const std::vector<Span> &Work = Index.work().at(Key);
    GapWriter Writer(Into, C, Index, Host, Waits, Key);
    int64_t Reach = From; // everything before it is busy or told
    std::optional<uint32_t> Last, After;
    int64_t LastStop = INT64_MIN;
    for (const Span &S : Work) {
      if (S.Start >= To) {
        After = S.Row; // the idle tail belongs to it
        break;
      }
      if (S.Start > Reach)
        Writer.gap(Reach, S.Start, Last, S.Row);
      Writer.ran(S.Row);
      Reach = std::max(Reach, S.Stop);
      if (S.Stop > LastStop) {
        LastStop = S.Stop;
        Last = S.Row;
      }
    }
    if (Reach < To)
      Writer.gap(Reach, To, Last, After);
  }
}

} // namespace culprit
