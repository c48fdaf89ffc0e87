//===- WhatIf.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/WhatIf.h"
#include "Case/CallsOf.h"
#include "Table/RunSort.h"
#include <algorithm>
#include <numeric>

using namespace llvm;

namespace culprit {

namespace {

/// A call in which the host may have waited for the device.
struct HostWait {
  int64_t Stop = 0;
  int64_t Longest = 0; ///< By how much at most it could get shorter.
};

/// The recorded calls: when each launch was done, and the host's waits.
struct HostTimes {
  std::vector<int64_t> Launched; ///< By row of the work; NullInt if unknown.
  std::vector<HostWait> Waits;   ///< In the order of their stops.
};

} // namespace

/// A launch that takes this many times the usual waits for a full queue.
static constexpr int64_t BlockedLaunch = 10;

static Expected<HostTimes> hostTimes(const Table &Work, const Table &Calls,
                                     const Case *Of) {
  HostTimes Out;
  Out.Launched.assign(Work.rows(), NullInt);
  // Without these nothing can be joined, and so nothing is held up.
  for (StringRef Name : {"rank", "correlation"})
    if (!Work.find(Name) || !Calls.find(Name))
      return Out;
  Expected<std::vector<int64_t>> Stops = Calls.integers("stop");
  if (!Stops)
    return Stops.takeError();
  Expected<std::vector<int64_t>> Durs = Calls.integers("dur");
  if (!Durs)
    return Durs.takeError();
  Expected<const ColumnView *> Role = Calls.column("role", ColumnType::String);
  if (!Role)
    return Role.takeError();
  Expected<RowIndex> CallOf = callsOf(Work, Calls, Of);
  if (!CallOf)
    return CallOf.takeError();
  for (size_t I = 0; I != Work.rows(); ++I)
    if (uint32_t Call = (*CallOf)[I]; Call != NoRow)
      Out.Launched[I] = (*Stops)[Call];

  const StringPool &Pool = *Calls.pool();
  StringId Launch = Pool.lookup("launch"), Sync = Pool.lookup("sync"),
           Copy = Pool.lookup("copy");
  auto is = [&](size_t I, StringId Wanted) {
    return Wanted != NullString && (*Role)->getString(I) == Wanted;
  };
  std::vector<int64_t> LaunchDurs;
  for (size_t I = 0; I != Calls.rows(); ++I)
    if (is(I, Launch) && (*Durs)[I] != NullInt)
      LaunchDurs.push_back((*Durs)[I]);

  // The lower quartile, which blocked launches do not move.
  int64_t Usual = 0;
  if (!LaunchDurs.empty()) {
    auto Quartile = LaunchDurs.begin() + (LaunchDurs.size() - 1) / 4;
    std::nth_element(LaunchDurs.begin(), Quartile, LaunchDurs.end());
    Usual = *Quartile;
  }
  for (size_t I = 0; I != Calls.rows(); ++I) {
    int64_t Stop = (*Stops)[I], Dur = (*Durs)[I];
    if (Stop == NullInt || Dur == NullInt)
      continue;
    if (is(I, Sync) || is(I, Copy))
      Out.Waits.push_back({Stop, Dur});
    else if (is(I, Launch) && Dur > BlockedLaunch * Usual)
      Out.Waits.push_back({Stop, Dur - Usual});
  }
  sortRuns(Out.Waits, [](const HostWait &A, const HostWait &B) {
    return A.Stop < B.Stop;
  });
  return Out;
}

Expected<int64_t> endsSooner(const Table &Work, StringRef Saving,
                             const Table &Calls, const Case *Of) {
  Expected<std::vector<int64_t>> Starts = Work.integers("start");
  if (!Starts)
    return Starts.takeError();
  Expected<std::vector<int64_t>> Stops = Work.integers("stop");
  if (!Stops)
    return Stops.takeError();
  Expected<const ColumnView *> Savings = Work.column(Saving);
  if (!Savings)
    return Savings.takeError();
  Expected<HostTimes> Host = hostTimes(Work, Calls, Of);
  if (!Host)
    return Host.takeError();

  std::vector<uint32_t> Order(Work.rows());
  std::iota(Order.begin(), Order.end(), 0);
  sortRuns(Order, [&](uint32_t A, uint32_t B) {
    return (*Starts)[A] < (*Starts)[B];
  });

  int64_t Device = 0; // by how much the device is ahead of the record
  int64_t OfHost = 0; // by how much the host is
  std::vector<int64_t> Ends, Ahead; // of the rows done so far
  size_t Next = 0;                  // of the waits
  for (uint32_t Row : Order) {
    int64_t Start = (*Starts)[Row], Stop = (*Stops)[Row];
    if (Start == NullInt || Stop == NullInt)
      continue;
    if (int64_t Launched = Host->Launched[Row]; Launched != NullInt) {
      for (; Next != Host->Waits.size() && Host->Waits[Next].Stop <= Launched;
           ++Next) {
        // What had ended when the host went on: that it had waited for.
        const HostWait &Wait = Host->Waits[Next];
        size_t Done = llvm::upper_bound(Ends, Wait.Stop) - Ends.begin();
        int64_t Then = Done == 0 ? 0 : Ahead[Done - 1];
        OfHost += std::clamp<int64_t>(Then - OfHost, 0, Wait.Longest);
      }
      int64_t Lead = std::max<int64_t>(Start - Launched, 0);
      Device = std::min(Device, Lead + OfHost);
    }
    // Often computed as a double; null and NaN save nothing.
    double Saved = (*Savings)->number(Row);
    double Whole = static_cast<double>(std::max<int64_t>(Stop - Start, 0));
    if (Saved > 0)
      Device += static_cast<int64_t>(std::min(Saved, Whole));
    // Streams overlap: ends in the order of starts need not rise.
    Ends.push_back(Ends.empty() ? Stop : std::max(Ends.back(), Stop));
    Ahead.push_back(Device);
  }
  return Device;
}

} // namespace culprit
