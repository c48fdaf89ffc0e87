//===- NsightSystemsFinish.cpp - What needs all parts -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CollectiveOrder.h"
#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"

using namespace llvm;

namespace culprit::nsys {

namespace {
/// The ranks of the processes of an export.
class Ranks {
public:
  explicit Ranks(const Findings &Found) {
    // The largest communicator is the job, if every process is in it.
    for (const auto &[Id, C] : Found.Communicators) {
      std::set<int64_t> Different;
      for (int64_t Pid : Found.Pids)
        if (auto It = C.RankOfPid.find(Pid); It != C.RankOfPid.end())
          Different.insert(It->second);
      if (C.Ranks > World && !Found.Pids.empty() &&
          Different.size() == Found.Pids.size()) {
        World = C.Ranks;
        OfPid = C.RankOfPid;
      }
    }
    if (World == NullInt)
      for (int64_t Pid : Found.Pids)
        OfPid.try_emplace(Pid, int64_t(OfPid.size()));
    else
      std::erase_if(OfPid,
                    [&](const auto &E) { return !Found.Pids.count(E.first); });
    if (OfPid.size() <= 1)
      Only = OfPid.empty() ? 0 : OfPid.begin()->second;
  }

  int64_t of(int64_t Pid) const {
    if (Only)
      return *Only;
    auto It = OfPid.find(Pid);
    return It == OfPid.end() ? NullInt : It->second;
  }

  int64_t World = NullInt;
  std::map<int64_t, int64_t> OfPid;

private:
  std::optional<int64_t> Only; ///< Everything belongs to the one process.
};
} // namespace

/// Puts ranks where the parts have left pids.
static void setRanks(Source &Into, const Ranks &R) {
  constexpr std::pair<TableId, unsigned> RankColumns[] = {
      {TableId::gpu_work, gpu_work::rank},
      {TableId::host_calls, host_calls::rank},
      {TableId::syncs, syncs::rank},
      {TableId::host_ops, host_ops::rank},
      {TableId::ranges, ranges::rank},
      {TableId::memory_events, memory_events::rank},
      {TableId::counters, counters::rank},
      {TableId::collectives, collectives::rank},
      {TableId::thread_states, thread_states::rank},
      {TableId::profiler_events, profiler_events::rank}};
  for (auto [Id, Column] : RankColumns) {
    TableBuilder *T = Into.existing(Id);
    if (!T || T->rows() == 0)
      continue;
    int64_t Last = NullInt, Rank = R.of(NullInt);
    for (int64_t &Value : T->finished(Column).mutableInts()) {
      if (Value != Last) {
        Last = Value;
        Rank = R.of(Value);
      }
      Value = Rank;
    }
  }
}

static void addRanks(Source &Into, const Ranks &R) {
  TableBuilder &Row = Into.table(TableId::ranks);
  if (R.OfPid.empty()) { // other tools' files lack the process
    Row.addRow();
    Row.set(ranks::rank, int64_t(0));
    Row.set(ranks::place, int64_t(0));
  }
  int64_t Place = 0;
  for (auto [Pid, Rank] : R.OfPid) {
    Row.addRow();
    Row.set(ranks::rank, Rank);
    set(Row, ranks::world_size, R.World);
    Row.set(ranks::pid, Pid);
    Row.set(ranks::place, Place++);
  }
}

namespace {
struct Gpu {
  int64_t Id;
  std::string Model, Uuid;
  std::optional<int64_t> Multiprocessors, Memory, Major, Minor, Bandwidth,
      Clock;
  int64_t Place;
};
} // namespace

static void addDevice(Source &Into, const Gpu &G, int64_t Rank, int64_t Device,
                      StringRef Uuid) {
  TableBuilder &Row = Into.table(TableId::devices);
  Row.addRow();
  set(Row, devices::rank, Rank);
  Row.set(devices::device, Device);
  if (!G.Model.empty())
    Row.set(devices::model, StringRef(G.Model));
  Row.set(devices::vendor, "nvidia");
  set(Row, devices::multiprocessors, G.Multiprocessors);
  set(Row, devices::memory, G.Memory);
  set(Row, devices::compute_major, G.Major);
  set(Row, devices::compute_minor, G.Minor);
  if (G.Bandwidth && *G.Bandwidth > 0)
    Row.set(devices::bandwidth, static_cast<double>(*G.Bandwidth) / 1e9);
  if (G.Clock && *G.Clock > 0)
    Row.set(devices::clock, *G.Clock);
  if (StringRef Own = Uuid.empty() ? StringRef(G.Uuid) : Uuid; !Own.empty())
    Row.set(devices::uuid, Own);
  Row.set(devices::place, G.Place);
}

/// The devices that ranks used, or all when none was used. TARGET_INFO_GPU
/// numbers them as the machine does; TARGET_INFO_CUDA_DEVICE says what each
/// process calls them.
static void addDevices(Part &P, const Ranks &R) {
  std::vector<Gpu> Gpus;
  enum : unsigned {
    Id,
    Name,
    Sms,
    Memory,
    Major,
    Minor,
    Bandwidth,
    Clock,
    Uuid,
    Bus
  };
  P.DB.forEach("TARGET_INFO_GPU",
               {"id", "name", "smCount", "totalMemory", "computeMajor",
                "computeMinor", "memoryBandwidth", "clockRate", "uuid",
                "busLocation"},
               [&](const Row &R) {
                 StringRef Own = R.text(Uuid).empty() ? R.text(Bus)
                                                      : R.text(Uuid);
                 Gpus.push_back({R.integer(Id, -1), R.text(Name).str(),
                                 Own.str(), R.integer(Sms), R.integer(Memory),
                                 R.integer(Major), R.integer(Minor),
                                 R.integer(Bandwidth), R.integer(Clock),
                                 R.place()});
               });
  struct Naming {
    int64_t Gpu, Device, Pid;
    std::string Uuid;
  };
  std::vector<Naming> Names;
  P.DB.forEach("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid", "uuid"},
               [&](const Row &R) {
                 if (R.integer(0) && R.integer(1))
                   Names.push_back({*R.integer(0), *R.integer(1),
                                    R.integer(2, NullInt), R.text(3).str()});
               });
  std::set<std::pair<int64_t, int64_t>> Used; // device, rank
  if (TableBuilder *Work = P.Into.existing(TableId::gpu_work)) {
    ArrayRef<int64_t> Device = Work->finished(gpu_work::device).ints(),
                      Rank = Work->finished(gpu_work::rank).ints();
    for (size_t I = 0; I != Device.size(); ++I)
      if (Device[I] != NullInt && Rank[I] != NullInt &&
          (I == 0 || Device[I] != Device[I - 1] || Rank[I] != Rank[I - 1]))
        Used.insert({Device[I], Rank[I]});
  }
  for (const Gpu &G : Gpus) {
    const Naming *Named = nullptr;
    for (const Naming &N : Names)
      if (!Named && N.Gpu == G.Id)
        Named = &N;
    if (Used.empty()) {
      addDevice(P.Into, G, 0, Named ? Named->Device : G.Id,
                Named ? StringRef(Named->Uuid) : "");
      continue;
    }
    for (auto [Device, Rank] : Used) {
      const Naming *Match = nullptr;
      for (const Naming &N : Names)
        if (!Match && N.Gpu == G.Id && N.Device == Device &&
            (N.Pid == NullInt || R.of(N.Pid) == Rank))
          Match = &N;
      if (Match)
        addDevice(P.Into, G, Rank, Device, Match->Uuid);
      else if (!Named && G.Id == Device)
        addDevice(P.Into, G, Rank, Device, "");
    }
  }
}

void finishExport(Part &P) {
  joinNcclCalls(P.Into, P.Found);
  Ranks R(P.Found);
  setRanks(P.Into, R);
  addRanks(P.Into, R);
  addDevices(P, R);
  P.DB.forEach("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"},
               [&](const Row &R) {
                 if (std::optional<int64_t> Epoch = R.integer(0);
                     Epoch && *Epoch > 0 && inRange(*Epoch))
                   P.Into.EpochNs = Epoch;
               });
  P.Into.FileTime = {0, "ns"}; // rows keep the times of the export
  numberCollectives(P.Into);
}

} // namespace culprit::nsys
