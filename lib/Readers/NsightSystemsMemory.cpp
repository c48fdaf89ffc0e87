//===- NsightSystemsMemory.cpp - Memory and sampled counters ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CounterNames.h"
#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"

using namespace llvm;

namespace culprit::nsys {

static void readAllocations(Part &P) {
  enum : unsigned { Start, Pid, Device, Address, Bytes, Kind, Operation };
  MemoryKinds Kinds(P.DB, P.Into);
  P.DB.forEach(
      "CUDA_GPU_MEMORY_USAGE_EVENTS",
      {"start", "globalPid", "deviceId", "address", "bytes", "memKind",
       "memoryOperationType"},
      [&](const Row &R) {
        std::optional<int64_t> At = R.integer(Start), Size = R.integer(Bytes);
        if (!At || !inRange(*At) || !Size || *Size < 0) {
          ++P.Skipped;
          return;
        }
        TableBuilder &Row = P.Into.table(TableId::memory_events);
        Row.addRow();
        Row.set(memory_events::at, *At);
        set(Row, memory_events::address, R.integer(Address));
        int64_t What = R.integer(Operation, 0);
        StringRef Label = P.DB.label("ENUM_CUDA_DEV_MEM_EVENT_OPER", What);
        bool Freed = Label.empty() ? What == 1
                                   : Label.contains_insensitive("dealloc");
        Row.set(memory_events::bytes, Freed ? -*Size : *Size);
        set(Row, memory_events::rank, pidOf(R.integer(Pid)));
        std::optional<int64_t> Memory = R.integer(Kind);
        if (Kinds.isHost(Memory))
          Row.set(memory_events::device, int64_t(-1));
        else
          set(Row, memory_events::device, idOrNull(R.integer(Device)));
        Row.set(memory_events::place, R.place());
      },
      2);
}

/// Page faults of unified memory as counters: each row is a number of faults
/// at one moment. The migrations they cause are copies in gpu_work.
static void readPageFaults(Part &P, StringRef Table, StringRef Name) {
  enum : unsigned { Start, Pid, Device, Faults };
  P.DB.forEach(
      Table, {"start", "globalPid", "deviceId", "numberOfPageFaults"},
      [&](const Row &R) {
        std::optional<int64_t> At = R.integer(Start);
        if (!At || !inRange(*At)) {
          ++P.Skipped;
          return;
        }
        TableBuilder &Row = P.Into.table(TableId::counters);
        Row.addRow();
        Row.set(counters::name, Name);
        Row.set(counters::at, *At);
        Row.set(counters::value, static_cast<double>(R.integer(Faults, 1)));
        set(Row, counters::rank, pidOf(R.integer(Pid)));
        set(Row, counters::device, idOrNull(R.integer(Device)));
        Row.set(counters::place, R.place());
      },
      1);
}

namespace {
/// A device as the machine numbers it, and as the one process that uses it
/// calls it.
struct MetricDevice {
  int64_t Device = NullInt, Pid = NullInt;
};

/// The devices of GPU_METRICS: the low byte of a typeId is nsys' own number
/// of the GPU (TARGET_INFO_GPU.pwGpuId).
class MetricDevices {
public:
  explicit MetricDevices(Database &DB) {
    DB.forEach("TARGET_INFO_GPU", {"id", "pwGpuId", "cuDevice"},
               [&](const Row &R) {
                 int64_t Gpu = idOrNull(R.integer(0)), Own = R.integer(1, Gpu);
                 GpuOfOwn.try_emplace(Own, Gpu);
                 if (R.integer(2))
                   Named[Gpu].Device = *R.integer(2);
               });
    std::map<int64_t, unsigned> Users;
    DB.forEach("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"},
               [&](const Row &R) {
                 if (!R.integer(0) || !R.integer(1))
                   return;
                 bool First = ++Users[*R.integer(0)] == 1;
                 MetricDevice &D = Named[*R.integer(0)];
                 // Of several users none can be told to be the one.
                 D.Pid = First ? R.integer(2, NullInt) : NullInt;
                 if (First)
                   D.Device = *R.integer(1);
               });
  }
  MetricDevice find(std::optional<int64_t> Type) const {
    if (!Type)
      return {};
    int64_t Own = *Type & 0xff;
    auto Gpu = GpuOfOwn.find(Own);
    int64_t Id = Gpu == GpuOfOwn.end() ? Own : Gpu->second;
    auto It = Named.find(Id);
    MetricDevice Out = It == Named.end() ? MetricDevice() : It->second;
    if (Out.Device == NullInt)
      Out.Device = Id;
    return Out;
  }

private:
  std::map<int64_t, int64_t> GpuOfOwn;
  std::map<int64_t, MetricDevice> Named;
};
} // namespace

static void readGpuMetrics(Part &P) {
  if (!P.DB.has("GPU_METRICS"))
    return;
  struct Metric {
    StringId Name = NullString;
    double Factor = 1;
  };
  using Key = std::pair<int64_t, int64_t>; // typeId, metricId
  std::map<Key, Metric> Metrics;
  std::map<int64_t, Metric> ByMetric; // files without typeId
  P.DB.forEach("TARGET_INFO_GPU_METRICS",
               {"typeId", "metricId", "metricName"}, [&](const Row &R) {
                 CounterName Name = counterName(R.text(2));
                 Metric M = {P.Into.pool().intern(Name.Name), Name.Factor};
                 int64_t Id = R.integer(1, -1);
                 Metrics.try_emplace({R.integer(0, -1), Id}, M);
                 ByMetric.try_emplace(Id, M);
               });
  MetricDevices Devices(P.DB);
  std::map<int64_t, MetricDevice> DeviceOf;
  enum : unsigned { At, Type, Id, Value };
  P.DB.forEach(
      "GPU_METRICS", {"timestamp", "typeId", "metricId", "value"},
      [&](const Row &R) {
        std::optional<int64_t> When = R.integer(At);
        std::optional<double> Number = R.real(Value);
        if (!When || !inRange(*When) || !Number) {
          ++P.Skipped;
          return;
        }
        int64_t TypeId = R.integer(Type, -1), MetricId = R.integer(Id, -1);
        auto [It, New] = Metrics.try_emplace({TypeId, MetricId});
        if (New) {
          if (auto Any = ByMetric.find(MetricId); Any != ByMetric.end())
            It->second = Any->second;
          else
            It->second.Name = P.Into.pool().intern(
                "gpu metric " + std::to_string(MetricId));
        }
        auto [Device, First] = DeviceOf.try_emplace(TypeId);
        if (First)
          Device->second = Devices.find(R.integer(Type));
        TableBuilder &Row = P.Into.table(TableId::counters);
        Row.addRow();
        Row.setId(counters::name, It->second.Name);
        Row.set(counters::at, *When);
        Row.set(counters::value, *Number * It->second.Factor);
        set(Row, counters::rank, Device->second.Pid);
        set(Row, counters::device, Device->second.Device);
        Row.set(counters::place, R.place());
      },
      1);
}

void readMemory(Part &P) {
  readAllocations(P);
  readPageFaults(P, "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "um_cpu_page_faults");
  readPageFaults(P, "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "um_gpu_page_faults");
  readGpuMetrics(P);
}

} // namespace culprit::nsys
