//===- ProfileIndex.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/ProfileIndex.h"
#include "Case/HostActivity.h"
#include "Table/Keys.h"
#include "Table/RunSort.h"
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
    : C(C), Rows(C.table(TableId::gpu_work)),
      Calls(C.table(TableId::host_calls)) {
  std::vector<Span> *Current = nullptr;
  DeviceKey CurrentKey;
  for (size_t I = 0; I != Rows.rows(); ++I) {
    int64_t Start = intAt(Rows, gpu_work::start, I);
    int64_t Stop = intAt(Rows, gpu_work::stop, I);
    if (Start == NullInt || Stop == NullInt || Start > Stop)
      continue;
    DeviceKey Key{intAt(Rows, gpu_work::rank, I),
                  intAt(Rows, gpu_work::device, I)};
    if (!Current || Key != CurrentKey) {
      Current = &Work[Key];
      CurrentKey = Key;
    }
    Current->push_back({Start, Stop, static_cast<uint32_t>(I)});
  }
  for (auto &[Key, Spans] : Work)
    sortRuns(Spans, std::less<>()); // the row breaks ties
  findLaunches();
  projectLaunches();
}

ProfileIndex::~ProfileIndex() = default;

const HostActivity &ProfileIndex::activity() const {
  std::call_once(ActivityOnce, [&] {
    Activity = std::make_unique<HostActivity>(C, *this);
  });
  return *Activity;
}

namespace {
/// The calls of one process by correlation id.
struct CallsById {
  int64_t Least = INT64_MAX, Most = INT64_MIN;
  size_t Count = 0;
  std::optional<WordIndex> Ids;
  std::vector<uint32_t> Call; ///< By number of the id.

  uint64_t word(int64_t Id) const {
    return static_cast<uint64_t>(Id) - static_cast<uint64_t>(Least);
  }
};
} // namespace

void ProfileIndex::findLaunches() {
  LaunchOf.assign(Rows.rows(), None);
  // Correlation ids start anew in every process.
  std::map<int64_t, CallsById> ByRank;
  auto forEachCall = [&](auto Visit) {
    CallsById *Of = nullptr;
    int64_t LastRank = NullInt;
    for (size_t I = 0; I != Calls.rows(); ++I) {
      int64_t Id = intAt(Calls, host_calls::correlation, I);
      if (Id == NullInt || Id == 0 ||
          intAt(Calls, host_calls::start, I) == NullInt)
        continue;
      int64_t Rank = intAt(Calls, host_calls::rank, I);
      if (!Of || Rank != LastRank) {
        Of = &ByRank[Rank];
        LastRank = Rank;
      }
      Visit(*Of, Id, static_cast<uint32_t>(I));
    }
  };
  forEachCall([](CallsById &Of, int64_t Id, uint32_t) {
    Of.Least = std::min(Of.Least, Id);
    Of.Most = std::max(Of.Most, Id);
    ++Of.Count;
  });
  for (auto &[Rank, Of] : ByRank)
    Of.Ids.emplace(Of.word(Of.Most), Of.Count);
  // The runtime call and the driver call under it share an id; the outer,
  // earlier one is where the host's own time ends.
  forEachCall([&](CallsById &Of, int64_t Id, uint32_t I) {
    uint32_t Number = Of.Ids->add(Of.word(Id));
    if (Number == Of.Call.size())
      Of.Call.push_back(I);
    else if (intAt(Calls, host_calls::start, I) <
             intAt(Calls, host_calls::start, Of.Call[Number]))
      Of.Call[Number] = I;
  });
  if (ByRank.empty())
    return;
  const CallsById *Of = nullptr;
  int64_t LastRank = NullInt;
  for (size_t I = 0; I != Rows.rows(); ++I) {
    int64_t Rank = intAt(Rows, gpu_work::rank, I);
    if (!Of || Rank != LastRank) {
      Of = &ByRank[Rank];
      LastRank = Rank;
    }
    int64_t Id = intAt(Rows, gpu_work::correlation, I);
    if (Id == NullInt || Id == 0 || Of->Count == 0 || Id < Of->Least ||
        Id > Of->Most)
      continue;
    if (uint32_t Number = Of->Ids->find(Of->word(Id));
        Number != WordIndex::None)
      LaunchOf[I] = Of->Call[Number];
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
    sortRuns(Ends, std::less<>());
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
