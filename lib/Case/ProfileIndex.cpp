//===- ProfileIndex.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/ProfileIndex.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

std::vector<Span> spansOf(const Table &T, unsigned Start, unsigned Stop,
                          function_ref<bool(size_t)> Keep) {
  std::vector<Span> Out;
  for (size_t I = 0; I != T.rows(); ++I) {
    int64_t From = intAt(T, Start, I), To = intAt(T, Stop, I);
    if (From != NullInt && To != NullInt && From <= To && Keep(I))
      Out.push_back({From, To, static_cast<uint32_t>(I)});
  }
  return Out;
}

int64_t coveredInside(ArrayRef<Span> Spans, int64_t Start, int64_t Stop) {
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

ProfileIndex::ProfileIndex(const Case &C)
    : Rows(C.table(TableId::gpu_work)), Calls(C.table(TableId::host_calls)) {
  std::vector<Span> *Current = nullptr;
  DeviceKey CurrentKey;
  for (const Span &S :
       spansOf(Rows, gpu_work::start, gpu_work::stop,
               [](size_t) { return true; })) {
    DeviceKey Key{intAt(Rows, gpu_work::rank, S.Row),
                  intAt(Rows, gpu_work::device, S.Row)};
    if (!Current || Key != CurrentKey) {
      Current = &Work[Key];
      CurrentKey = Key;
    }
    Current->push_back(S);
  }
  for (auto &[Key, Spans] : Work)
    if (!llvm::is_sorted(Spans))
      llvm::sort(Spans);
  findLaunches();
  projectLaunches();
}

void ProfileIndex::findLaunches() {
  LaunchOf.assign(Rows.rows(), None);
  // One map a rank: correlation ids start anew in every process. The runtime
  // call and the driver call under it share an id; the outer, earlier one is
  // where the host's own time ends.
  std::map<int64_t, DenseMap<int64_t, uint32_t>> ByRank;
  for (size_t I = 0; I != Calls.rows(); ++I) {
    int64_t Id = intAt(Calls, host_calls::correlation, I);
    if (Id == NullInt || Id == 0 || Id == INT64_MAX ||
        intAt(Calls, host_calls::start, I) == NullInt)
      continue; // the ends of the range are the map's own markers
    DenseMap<int64_t, uint32_t> &Map =
        ByRank[intAt(Calls, host_calls::rank, I)];
    auto [It, New] = Map.try_emplace(Id, static_cast<uint32_t>(I));
    if (!New && intAt(Calls, host_calls::start, I) <
                    intAt(Calls, host_calls::start, It->second))
      It->second = static_cast<uint32_t>(I);
  }
  if (ByRank.empty())
    return;
  const DenseMap<int64_t, uint32_t> *Map = nullptr;
  int64_t MapRank = NullInt;
  for (size_t I = 0; I != Rows.rows(); ++I) {
    int64_t Rank = intAt(Rows, gpu_work::rank, I);
    if (!Map || Rank != MapRank) {
      Map = &ByRank[Rank];
      MapRank = Rank;
    }
    int64_t Id = intAt(Rows, gpu_work::correlation, I);
    if (Id == NullInt || Id == INT64_MAX)
      continue;
    if (auto It = Map->find(Id); It != Map->end())
      LaunchOf[I] = It->second;
  }
}

void ProfileIndex::projectLaunches() {
  for (const auto &[Key, Spans] : Work) {
    auto &Ends = Reach[Key];
    Ends.reserve(Spans.size());
    for (const Span &S : Spans) {
      int64_t Launch = launchTime(S.Row);
      Ends.push_back({Launch == NullInt ? S.Start : Launch, S.Stop});
    }
    llvm::sort(Ends);
    int64_t Latest = INT64_MIN;
    for (auto &[Launch, Stop] : Ends)
      Stop = Latest = std::max(Latest, Stop);
  }
}

int64_t ProfileIndex::onDevice(const DeviceKey &Key, int64_t Time) const {
  auto It = Reach.find(Key);
  if (It == Reach.end())
    return Time;
  auto After = llvm::lower_bound(
      It->second, Time,
      [](const auto &Entry, int64_t T) { return Entry.first < T; });
  return After == It->second.begin() ? Time
                                     : std::max(Time, std::prev(After)->second);
}

} // namespace culprit
