//===- NsightSystemsHost.cpp - Calls and waits of the host ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KernelRoles.h"
#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"

using namespace llvm;

namespace culprit::nsys {

void readCalls(Part &P) {
  enum : unsigned { Thread = 2, Correlation, Name, Result };
  constexpr StringLiteral Table = "CUPTI_ACTIVITY_KIND_RUNTIME";
  size_t N = P.DB.rowsAtMost(Table);
  if (N == 0)
    return;
  TableBuilder &T = P.Into.table(TableId::host_calls);
  ColumnOut Names(T, host_calls::name, N), Starts(T, host_calls::start, N),
      Stops(T, host_calls::stop, N), Durations(T, host_calls::dur, N),
      Ranks(T, host_calls::rank, N), Pids(T, host_calls::pid, N),
      Tids(T, host_calls::tid, N), Correlations(T, host_calls::correlation, N),
      Results(T, host_calls::result, N), Roles(T, host_calls::role, N),
      Places(T, host_calls::place, N);
  struct Info {
    StringId Name = NullString, Role = NullString;
  };
  std::unordered_map<int64_t, Info> Infos;
  P.DB.forEach(
      Table,
      {"start", "end", "globalTid", "correlationId", "nameId", "returnValue"},
      [&](const Row &R) {
        std::optional<Span> S = spanOf(R);
        if (!S) {
          ++P.Skipped;
          return;
        }
        int64_t NameId = R.integer(Name, -1);
        auto [It, New] = Infos.try_emplace(NameId);
        if (New) {
          StringRef Text = callName(P.DB.string(NameId));
          It->second.Name = P.Into.pool().intern(Text);
          It->second.Role = P.Into.pool().intern(callRole(Text));
        }
        std::optional<int64_t> GlobalTid = R.integer(Thread);
        int64_t Pid = pidOf(GlobalTid);
        Names.putText(It->second.Name);
        Roles.putText(It->second.Role);
        Starts.put(S->Start);
        Stops.put(S->Stop);
        Durations.put(S->Stop - S->Start);
        Ranks.put(Pid);
        Pids.put(Pid);
        Tids.put(tidOf(GlobalTid));
        Correlations.put(countedOrNull(R.integer(Correlation)));
        Results.put(R.integer(Result));
        Places.put(R.place());
        T.addRow();
      },
      2);
}

namespace {

/// A record of an event, which a wait may name.
struct EventRecord {
  int64_t Correlation, Stream;
};

/// All records of events. CUPTI numbers each record of an event
/// (eventSyncId) since 2025; before that a wait names only the event, and
/// waits for the last record before it: correlation ids count the calls.
class EventRecords {
public:
  explicit EventRecords(Part &P) {
    enum : unsigned { Pid, Stream, Correlation, Event, SyncId };
    P.DB.forEach("CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                 {"globalPid", "streamId", "correlationId", "eventId",
                  "eventSyncId"},
                 [&](const Row &R) {
                   int64_t Call = countedOrNull(R.integer(Correlation)),
                           Process = pidOf(R.integer(Pid));
                   if (Call == NullInt)
                     return;
                   EventRecord Record = {Call, idOrNull(R.integer(Stream))};
                   if (int64_t Id = countedOrNull(R.integer(SyncId));
                       Id != NullInt)
                     BySync.insert({{Process, Id}, Record});
                   if (int64_t Id = idOrNull(R.integer(Event)); Id != NullInt)
                     ByEvent[{Process, Id}].push_back(Record);
                 });
    for (auto &[Key, Records] : ByEvent)
      llvm::stable_sort(Records, [](const EventRecord &A,
                                    const EventRecord &B) {
        return A.Correlation < B.Correlation;
      });
  }

  const EventRecord *find(int64_t Pid, int64_t Event, int64_t SyncId,
                          int64_t Waiter) const {
    if (auto It = BySync.find({Pid, SyncId}); It != BySync.end())
      return &It->second;
    auto It = ByEvent.find({Pid, Event});
    // A wait whose record has a number of its own is for no other record.
    if (It == ByEvent.end() || SyncId != NullInt || Waiter == NullInt)
      return nullptr;
    auto After = llvm::upper_bound(It->second, Waiter,
                                   [](int64_t Call, const EventRecord &R) {
                                     return Call < R.Correlation;
                                   });
    return After == It->second.begin() ? nullptr : &*std::prev(After);
  }

private:
  using Key = std::pair<int64_t, int64_t>; // pid, id
  std::map<Key, EventRecord> BySync;
  std::map<Key, std::vector<EventRecord>> ByEvent;
};

} // namespace

/// event, stream-wait, stream or context, by the file's own enumeration or
/// else CUPTI's numbers; empty when unknown.
static StringRef syncKindOf(Database &DB, int64_t Type) {
  std::string Label = DB.label("ENUM_CUPTI_SYNC_TYPE", Type).lower();
  std::replace(Label.begin(), Label.end(), '_', ' ');
  StringRef Text = Label;
  if (Text.contains("stream wait"))
    return "stream-wait";
  for (StringRef Kind : {"event", "stream", "context"})
    if (Text.contains(Kind))
      return Kind;
  static constexpr StringLiteral Kinds[] = {"event", "stream-wait", "stream",
                                            "context"};
  return Text.empty() && Type >= 1 && Type <= 4 ? StringRef(Kinds[Type - 1])
                                                : StringRef();
}

void readSyncs(Part &P) {
  enum : unsigned { Pid = 2, Device, Stream, Correlation, Type, Event, SyncId };
  constexpr StringLiteral Table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
  if (P.DB.rowsAtMost(Table) == 0)
    return;
  EventRecords Records(P);
  std::map<int64_t, StringRef> Kinds;
  P.DB.forEach(
      Table,
      {"start", "end", "globalPid", "deviceId", "streamId", "correlationId",
       "syncType", "eventId", "eventSyncId"},
      [&](const Row &R) {
        std::optional<Span> S = spanOf(R);
        if (!S) {
          ++P.Skipped;
          return;
        }
        TableBuilder &Row = P.Into.table(TableId::syncs);
        Row.addRow();
        int64_t Number = R.integer(Type, 0);
        auto [It, New] = Kinds.try_emplace(Number);
        if (New)
          It->second = syncKindOf(P.DB, Number);
        if (!It->second.empty())
          Row.set(syncs::kind, It->second);
        Row.set(syncs::start, S->Start);
        Row.set(syncs::stop, S->Stop);
        Row.set(syncs::dur, S->Stop - S->Start);
        int64_t Process = pidOf(R.integer(Pid)),
                Call = countedOrNull(R.integer(Correlation));
        set(Row, syncs::rank, Process);
        set(Row, syncs::device, idOrNull(R.integer(Device)));
        // A wait for an event or a context has no stream: 2^32 - 1.
        set(Row, syncs::stream, idOrNull(R.integer(Stream)));
        set(Row, syncs::correlation, Call);
        Row.set(syncs::place, R.place());
        if (It->second != "event" && It->second != "stream-wait")
          return;
        int64_t Id = idOrNull(R.integer(Event));
        set(Row, syncs::event, Id);
        if (const EventRecord *Record = Records.find(
                Process, Id, countedOrNull(R.integer(SyncId)), Call)) {
          Row.set(syncs::waits_for, Record->Correlation);
          set(Row, syncs::recorded_on, Record->Stream);
        }
      },
      2);
}

} // namespace culprit::nsys
