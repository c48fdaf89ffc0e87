//===- NsightExport.cpp - Profiles as nsys exports them ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/Export.h"
#include "Export/ExportRows.h"
#include "Export/NsightStore.h"
#include "llvm/ADT/StringSwitch.h"
#include <map>

using namespace llvm;
using namespace culprit::nsight;

namespace culprit {

namespace {

using Number = std::optional<int64_t>;
/// What stands for "none" in columns that must not be null.
constexpr int64_t None = UINT32_MAX;

class NsightWriter {
public:
  NsightWriter(StringRef Path, const Case &C, const ExportOptions &Options)
      : To(Path), C(C), Options(Options) {}
  Error write();

private:
  void session();
  void processes();
  void gpus();
  void work();
  void kernel(const ExportRow &R);
  void copy(const ExportRow &R);
  void calls();
  void waits();
  void memory();
  void annotations();
  void operators();
  void remarks();

  int64_t pidOf(Number Rank) const;
  /// A GlobalId: hardware 1, then process and thread in 24 bits each.
  int64_t globalId(Number Rank, Number Pid, Number Tid) const {
    int64_t Process = Pid.value_or(pidOf(Rank)) & 0xffffff;
    return int64_t(1) << 48 | Process << 24 | (Tid.value_or(0) & 0xffffff);
  }
  int64_t processOf(Number Rank) const {
    return globalId(Rank, std::nullopt, 0);
  }
  void each(TableId Id, unsigned RankColumn,
            function_ref<void(const ExportRow &)> Visit) {
    forEachRow(C, Id, RankColumn, Options.Rank, Visit);
  }

  Store To;
  const Case &C;
  const ExportOptions &Options;
  std::map<int64_t, int64_t> Pids; ///< By rank.
};

} // namespace

/// Ranks without a process get one, in order: nsys knows only these.
int64_t NsightWriter::pidOf(Number Rank) const {
  auto It = Pids.find(Rank.value_or(0));
  return It == Pids.end() ? 1000 + Rank.value_or(0) : It->second;
}

void NsightWriter::session() {
  const std::pair<StringRef, StringRef> Facts[] = {
      {"EXPORT_PRODUCT_NAME", "culprit"},
      {"EXPORT_PRODUCT_VERSION", Options.Version},
      {"EXPORT_SCHEMA_VERSION", "3.25.0"},
      {"EXPORT_SCHEMA_VERSION_MAJOR", "3"},
      {"EXPORT_SCHEMA_VERSION_MINOR", "25"}};
  for (auto [Name, Text] : Facts)
    To.add(TableOf::Meta, {Name, Text});
  if (std::optional<int64_t> Epoch = C.epochNs())
    To.add(TableOf::Session, {*Epoch, std::nullopt, std::nullopt});
}

void NsightWriter::processes() {
  each(TableId::ranks, ranks::rank, [&](const ExportRow &R) {
    if (Number Pid = R.number(ranks::pid))
      Pids.try_emplace(R.number(ranks::rank).value_or(0), *Pid);
  });
  for (int64_t Rank : profiledRanks(C))
    if (!Options.Rank || Rank == *Options.Rank)
      To.add(TableOf::Process,
             {processOf(Rank), pidOf(Rank), "rank " + std::to_string(Rank)});
}

void NsightWriter::gpus() {
  // One row for each device of each rank: whether two are one and the same is
  // only known where they have a UUID.
  std::map<std::string, int64_t> Known;
  each(TableId::devices, devices::rank, [&](const ExportRow &R) {
    Number Device = R.number(devices::device);
    std::string Uuid = R.text(devices::uuid).str();
    if (!Device)
      return;
    Number Rank = R.number(devices::rank);
    int64_t Next = static_cast<int64_t>(Known.size());
    auto [It, New] = Known.try_emplace(
        Uuid.empty() ? std::to_string(Rank.value_or(0)) + "/" +
                           std::to_string(*Device)
                     : Uuid,
        Next);
    if (New) {
      std::optional<double> Bandwidth = R.real(devices::bandwidth);
      To.add(TableOf::Gpu,
             {It->second, R.text(devices::model), StringRef(),
              R.number(devices::memory),
              Bandwidth ? Number(int64_t(*Bandwidth * 1e9 + 0.5))
                        : std::nullopt,
              R.number(devices::clock), R.number(devices::multiprocessors),
              It->second, Uuid, *Device, R.number(devices::compute_major),
              R.number(devices::compute_minor)});
    }
    To.add(TableOf::CudaDevice,
           {It->second, *Device, pidOf(Rank), Uuid,
            R.number(devices::multiprocessors).value_or(0)});
  });
}

/// `gemm` of `void ns::gemm<float>(float *)`: what nsys groups kernels by.
static StringRef shortName(StringRef Name) {
  constexpr StringLiteral Anonymous = "(anonymous namespace)::";
  if (size_t At = Name.rfind(Anonymous); At != StringRef::npos)
    Name = Name.drop_front(At + Anonymous.size());
  StringRef Base = Name.take_front(Name.find_first_of("<(")).rtrim();
  if (size_t At = Base.rfind("::"); At != StringRef::npos)
    Base = Base.drop_front(At + 2);
  if (size_t At = Base.rfind(' '); At != StringRef::npos)
    Base = Base.drop_front(At + 1);
  return Base.empty() ? Name : Base;
}

// The columns that all work has, in the order of NsightTables.def.
#define WORK_VALUES(R)                                                         \
  R.number(gpu_work::start), R.number(gpu_work::stop),                         \
      R.number(gpu_work::device).value_or(None),                               \
      R.number(gpu_work::context).value_or(None),                              \
      R.number(gpu_work::stream).value_or(None),                               \
      R.number(gpu_work::correlation), processOf(R.number(gpu_work::rank)),    \
      R.number(gpu_work::graph)

void NsightWriter::kernel(const ExportRow &R) {
  StringRef Name = R.text(gpu_work::name);
  ArrayRef<int64_t> Grid = R.list(gpu_work::grid),
                    Block = R.list(gpu_work::block);
  auto Dimension = [](ArrayRef<int64_t> List, size_t I) {
    return I < List.size() ? List[I] : int64_t(0);
  };
  // Which part of the shared memory is static is not in a case.
  To.add(TableOf::Kernel,
         {WORK_VALUES(R), To.string(Name), To.string(shortName(Name)),
          std::nullopt, R.number(gpu_work::registers).value_or(0),
          Dimension(Grid, 0), Dimension(Grid, 1), Dimension(Grid, 2),
          Dimension(Block, 0), Dimension(Block, 1), Dimension(Block, 2),
          int64_t(0), R.number(gpu_work::shared_bytes).value_or(0)});
}

/// nsys counts from 0 = pageable, one less than CUPTI.
static Number memoryNumber(StringRef Kind) {
  return StringSwitch<Number>(Kind)
      .Case("pageable", 0)
      .Case("pinned", 1)
      .Case("device", 2)
      .Case("array", 3)
      .Case("managed", 4)
      .Default(std::nullopt);
}

/// Why unified memory moved, from the end of the name of such a copy.
static int64_t causeNumber(StringRef Name) {
  return StringSwitch<int64_t>(Name.rsplit(" (").second)
      .Case("user prefetch)", 1)
      .Case("page fault)", 2)
      .Case("speculative prefetch)", 3)
      .Case("eviction)", 4)
      .Case("access counters)", 5)
      .Default(0);
}

void NsightWriter::copy(const ExportRow &R) {
  Number From = memoryNumber(R.text(gpu_work::src_kind)),
         Into = memoryNumber(R.text(gpu_work::dst_kind));
  int64_t Cause = causeNumber(R.text(gpu_work::name));
  int64_t Kind = StringSwitch<int64_t>(R.text(gpu_work::copy_kind))
                     .Case("HtoD", Cause ? 11 : 1)
                     .Case("DtoH", Cause ? 12 : 2)
                     .Case("DtoD", Cause ? 13 : 8)
                     .Case("HtoH", 9)
                     .Case("PtoP", 10)
                     .Default(0);
  To.add(TableOf::Copy,
         {WORK_VALUES(R), R.number(gpu_work::bytes).value_or(0), Kind, From,
          Into, Cause ? Number(Cause) : std::nullopt});
}

void NsightWriter::work() {
  each(TableId::gpu_work, gpu_work::rank, [&](const ExportRow &R) {
    if (!R.number(gpu_work::start) || !R.number(gpu_work::stop))
      return;
    StringRef Kind = R.text(gpu_work::kind);
    if (Kind == "kernel")
      return kernel(R);
    if (Kind == "copy")
      return copy(R);
    if (Kind == "set")
      return To.add(TableOf::Set,
                    {WORK_VALUES(R), R.number(gpu_work::bytes).value_or(0),
                     memoryNumber(R.text(gpu_work::dst_kind))});
    int64_t Graph = 0;
    R.text(gpu_work::name).rsplit(' ').second.getAsInteger(10, Graph);
    To.add(TableOf::Graph, {WORK_VALUES(R), Graph});
  });
}

void NsightWriter::calls() {
  each(TableId::host_calls, host_calls::rank, [&](const ExportRow &R) {
    Number Start = R.number(host_calls::start),
           Stop = R.number(host_calls::stop);
    if (!Start || !Stop)
      return;
    StringRef Name = R.text(host_calls::name);
    bool Driver = Name.starts_with("cu") && Name.size() > 2 && Name[2] < 'a';
    To.add(TableOf::Call,
           {*Start, *Stop, int64_t(Driver),
            globalId(R.number(host_calls::rank), R.number(host_calls::pid),
                     R.number(host_calls::tid)),
            R.number(host_calls::correlation), To.string(Name),
            R.number(host_calls::result).value_or(0)});
  });
}

void NsightWriter::waits() {
  // A case has the records of events only where something waits for them.
  using Key = std::tuple<int64_t, int64_t, int64_t>; // rank, event, call
  std::map<Key, int64_t> Recorded;
  each(TableId::syncs, syncs::rank, [&](const ExportRow &R) {
    Number Start = R.number(syncs::start), Stop = R.number(syncs::stop);
    if (!Start || !Stop)
      return;
    Number Rank = R.number(syncs::rank), Event = R.number(syncs::event),
           Call = R.number(syncs::waits_for), Id;
    if (Call) {
      auto [It, New] = Recorded.try_emplace(
          {Rank.value_or(0), Event.value_or(None), *Call},
          static_cast<int64_t>(Recorded.size()) + 1);
      Id = It->second;
      if (New)
        To.add(TableOf::Event,
               {int64_t(0), R.number(syncs::device).value_or(None), None,
                R.number(syncs::recorded_on).value_or(None), *Call,
                processOf(Rank), Event.value_or(None), It->second});
    }
    int64_t Type = StringSwitch<int64_t>(R.text(syncs::kind))
                       .Case("event", 1)
                       .Case("stream-wait", 2)
                       .Case("stream", 3)
                       .Case("context", 4)
                       .Default(0);
    To.add(TableOf::Sync,
           {*Start, *Stop, R.number(syncs::device).value_or(None), None,
            R.number(syncs::stream).value_or(None),
            R.number(syncs::correlation), processOf(Rank), Type,
            Event.value_or(None), Id});
  });
}

void NsightWriter::memory() {
  each(TableId::memory_events, memory_events::rank, [&](const ExportRow &R) {
    Number At = R.number(memory_events::at),
           Bytes = R.number(memory_events::bytes),
           Device = R.number(memory_events::device);
    if (!At || !Bytes || *Bytes == INT64_MIN)
      return;
    bool Host = Device == -1;
    To.add(TableOf::Memory,
           {*At, processOf(R.number(memory_events::rank)),
            Host ? None : Device.value_or(None), None,
            R.number(memory_events::address),
            *Bytes < 0 ? -*Bytes : *Bytes, int64_t(Host ? 1 : 2),
            int64_t(*Bytes < 0)});
  });
}

void NsightWriter::annotations() {
  enum : int64_t { Mark = 34, PushPop = 59, StartEnd = 60, Domain = 75 };
  std::map<std::pair<int64_t, StringRef>, int64_t> Domains; // pid, name
  each(TableId::ranges, ranges::rank, [&](const ExportRow &R) {
    Number Start = R.number(ranges::start), Stop = R.number(ranges::stop),
           Tid = R.number(ranges::tid);
    if (!Start)
      return;
    int64_t Thread =
        globalId(R.number(ranges::rank), R.number(ranges::pid), Tid);
    int64_t Id = 0;
    if (StringRef Name = R.text(ranges::domain); !Name.empty()) {
      auto [It, New] =
          Domains.try_emplace({Thread >> 24, Name},
                              static_cast<int64_t>(Domains.size()) + 1);
      Id = It->second;
      if (New)
        To.add(TableOf::Nvtx, {int64_t(0), std::nullopt, Domain, Name, Thread,
                               std::nullopt, std::nullopt, Id});
    }
    bool IsMark = Stop == Start;
    To.add(TableOf::Nvtx,
           {*Start, IsMark ? std::nullopt : Stop,
            IsMark        ? Mark
            : Tid && Stop ? PushPop
                          : StartEnd,
            R.text(ranges::name), Thread, std::nullopt, std::nullopt, Id});
  });
}

/// Operators as torch.autograd.profiler.emit_nvtx writes them.
void NsightWriter::operators() {
  each(TableId::host_ops, host_ops::rank, [&](const ExportRow &R) {
    Number Start = R.number(host_ops::start), Stop = R.number(host_ops::stop),
           Id = R.number(host_ops::external);
    if (!Start || !Stop || R.text(host_ops::category) != "operator")
      return;
    std::string Text = R.text(host_ops::name).str() + ", seq = 0";
    if (Id)
      Text = R.text(host_ops::name).str() + ", op_id = " + std::to_string(*Id);
    if (StringRef Shapes = R.text(host_ops::shapes); !Shapes.empty())
      Text += ", sizes = " + Shapes.str();
    To.add(TableOf::Nvtx,
           {*Start, *Stop, int64_t(59), Text,
            globalId(R.number(host_ops::rank), R.number(host_ops::pid),
                     R.number(host_ops::tid)),
            std::nullopt, std::nullopt, int64_t(0)});
  });
}

void NsightWriter::remarks() {
  StringMap<int64_t> Types;
#define NSIGHT_ENUM(TABLE, ID, NAME, LABEL)                                    \
  if (StringRef(TABLE) == "ENUM_CUPTI_OVERHEAD_TYPE")                          \
    Types[LABEL] = ID;
#include "Export/NsightTables.def"
  each(TableId::profiler_events, profiler_events::rank,
       [&](const ExportRow &R) {
         Number Start = R.number(profiler_events::start),
                Stop = R.number(profiler_events::stop),
                Rank = R.number(profiler_events::rank);
         StringRef Kind = R.text(profiler_events::kind),
                   Name = R.text(profiler_events::name),
                   Message = R.text(profiler_events::message);
         if (Kind == "overhead" && Start && Stop) {
           auto It = Types.find(Name);
           To.add(TableOf::Overhead,
                  {*Start, *Stop, int64_t(103),
                   globalId(Rank, R.number(profiler_events::pid),
                            R.number(profiler_events::tid)),
                   std::nullopt, To.string(Name),
                   It == Types.end() ? int64_t(0) : It->second});
         } else if (Kind != "overhead" && !Message.empty()) {
           To.add(TableOf::Diagnostic,
                  {Start.value_or(0), int64_t(Start ? 1 : 2), int64_t(1),
                   int64_t(Kind == "error" ? 3 : 2), Message, processOf(Rank)});
         }
       });
}

Error NsightWriter::write() {
  session();
  processes();
  gpus();
  work();
  calls();
  waits();
  memory();
  annotations();
  operators();
  remarks();
  return To.finish();
}

Error writeNsightExport(StringRef Path, const Case &C,
                        const ExportOptions &Options) {
  return NsightWriter(Path, C, Options).write();
}

} // namespace culprit
