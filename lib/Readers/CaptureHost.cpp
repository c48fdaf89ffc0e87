//===- CaptureHost.cpp - Calls and waits of the host ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureParts.h"
#include "Readers/ColumnOut.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit::cprt {

void readCalls(Part &P) {
  size_t N = P.File.count(RecordKind::Call);
  if (!N)
    return;
  TableBuilder &T = P.Into.table(TableId::host_calls);
  ColumnOut Names(T, host_calls::name, N), Starts(T, host_calls::start, N),
      Stops(T, host_calls::stop, N), Durations(T, host_calls::dur, N),
      Ranks(T, host_calls::rank, N), Pids(T, host_calls::pid, N),
      Tids(T, host_calls::tid, N), Correlations(T, host_calls::correlation, N),
      Externals(T, host_calls::external, N), Results(T, host_calls::result, N),
      Roles(T, host_calls::role, N), Places(T, host_calls::place, N);
  struct CallName {
    StringId Id = NullString, Role = NullString;
  };
  TextCache<CallName> Known(P);
  StringPool &Pool = P.Into.pool();
  int64_t Place = 0;
  P.File.each<CallRecord>([&](const CallRecord &R, uint32_t Epoch, uint64_t) {
    int64_t Number = Place++;
    std::optional<Span> S = P.span(R.start, R.end);
    if (!S)
      return;
    const CallName &Name =
        Known(Epoch, R.name, [&](CallName &Out, const std::string &Text) {
          Out.Id = Pool.intern(callName(Text));
          Out.Role = Pool.intern(callRole(callName(Text)));
        });
    Names.putText(Name.Id);
    Roles.putText(Name.Role);
    Starts.put(S->Start);
    Stops.put(S->Stop);
    Durations.put(S->Stop - S->Start);
    Ranks.put(P.Rank);
    Pids.put(int64_t(R.process));
    Tids.put(int64_t(R.thread));
    Correlations.put(countedOrNull(R.correlation));
    Externals.put(P.externalOf(R.correlation));
    Results.put(int64_t(R.result));
    Places.put(Number);
    T.addRow();
  });
}

namespace {

/// A record of an event, which a wait may name.
struct EventRecorded {
  uint32_t Correlation, Stream;
};

/// All records of events. CUPTI numbers each record of an event since 12.8;
/// before that a wait names only the event, and waits for the last record
/// before it: correlation ids count the calls.
class RecordedEvents {
public:
  explicit RecordedEvents(const CaptureFile &File) {
    File.each<EventRecord>([&](const EventRecord &R, uint32_t, uint64_t) {
      if (countedOrNull(R.correlation) == NullInt)
        return;
      EventRecorded E = {R.correlation, R.stream};
      if (R.event_sync)
        BySync.insert({R.event_sync, E});
      if (R.event != ~0u)
        ByEvent[R.event].push_back(E);
    });
    for (auto &[Event, Records] : ByEvent)
      llvm::stable_sort(Records,
                        [](const EventRecorded &A, const EventRecorded &B) {
                          return A.Correlation < B.Correlation;
                        });
  }

  const EventRecorded *find(const SyncRecord &Wait) const {
    if (auto It = BySync.find(Wait.event_sync); It != BySync.end())
      return &It->second;
    auto It = ByEvent.find(Wait.event);
    // A wait whose record has a number of its own is for no other record.
    if (It == ByEvent.end() || Wait.event_sync ||
        countedOrNull(Wait.correlation) == NullInt)
      return nullptr;
    auto After = llvm::upper_bound(It->second, Wait.correlation,
                                   [](uint32_t Call, const EventRecorded &R) {
                                     return Call < R.Correlation;
                                   });
    return After == It->second.begin() ? nullptr : &*std::prev(After);
  }

private:
  std::unordered_map<uint64_t, EventRecorded> BySync;
  std::unordered_map<uint32_t, std::vector<EventRecorded>> ByEvent;
};

} // namespace

void readSyncs(Part &P) {
  if (!P.File.count(RecordKind::Sync))
    return;
  RecordedEvents Events(P.File);
  static constexpr StringLiteral Kinds[] = {"event", "stream-wait", "stream",
                                            "context"};
  int64_t Place = 0;
  P.File.each<SyncRecord>([&](const SyncRecord &R, uint32_t, uint64_t) {
    int64_t Number = Place++;
    std::optional<Span> S = P.span(R.start, R.end);
    if (!S)
      return;
    TableBuilder &Row = P.Into.table(TableId::syncs);
    auto Set = [&](unsigned Column, int64_t Value) {
      if (Value != NullInt)
        Row.set(Column, Value);
    };
    Row.addRow();
    if (R.type >= 1 && R.type <= std::size(Kinds))
      Row.set(syncs::kind, StringRef(Kinds[R.type - 1]));
    Row.set(syncs::start, S->Start);
    Row.set(syncs::stop, S->Stop);
    Row.set(syncs::dur, S->Stop - S->Start);
    Row.set(syncs::rank, P.Rank);
    if (auto It = P.DeviceOfContext.find(R.context);
        It != P.DeviceOfContext.end())
      Set(syncs::device, idOrNull(It->second));
    Set(syncs::stream, idOrNull(R.stream));
    Set(syncs::correlation, countedOrNull(R.correlation));
    Row.set(syncs::place, Number);
    if (R.type != 1 && R.type != 2)
      return;
    Set(syncs::event, idOrNull(R.event));
    if (const EventRecorded *E = Events.find(R)) {
      Row.set(syncs::waits_for, int64_t(E->Correlation));
      Set(syncs::recorded_on, idOrNull(E->Stream));
    }
  });
}

} // namespace culprit::cprt
