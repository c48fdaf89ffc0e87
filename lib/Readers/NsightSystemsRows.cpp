//===- NsightSystemsRows.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The tables of devices; NsightSystemsHost.cpp has those of the host.
//
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystemsRows.h"
#include "Readers/CollectiveOrder.h"
#include "Readers/KernelRoles.h"
#include "Readers/NsightSystemsIds.h"
#include "llvm/ADT/StringSwitch.h"
#include <set>

using namespace llvm;

namespace culprit::nsys {

// The columns that every kind of device work has, in this order; what is the
// kind's own follows.
#define WORK_COLUMNS                                                           \
  "start", "end", "globalPid", "deviceId", "contextId", "streamId",            \
      "correlationId", "graphNodeId"
enum : unsigned {
  WorkStart,
  WorkEnd,
  WorkPid,
  WorkDevice,
  WorkContext,
  WorkStream,
  WorkCorrelation,
  WorkGraphNode,
  WorkOwn
};

void RowMaker::readAll() {
  findRanks();
  kernels();
  copies();
  sets();
  graphs();
  calls();
  syncs();
  osCalls();
  nvtx();
  overhead("PROFILER_OVERHEAD");
  overhead("CUPTI_ACTIVITY_KIND_OVERHEAD");
  memory();
  devices();
  session();
  numberCollectives(Into);
}

void RowMaker::findRanks() {
  for (StringRef Table :
       {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"})
    DB.forEach(Table, {"globalPid"}, [&](const Row &R) {
      if (std::optional<int64_t> Global = R.integer(0))
        RankOfPid.try_emplace(pidOf(*Global), 0);
    });
  if (RankOfPid.empty()) { // other tools' files lack the process
    TableBuilder &Row = Into.table(TableId::ranks);
    Row.addRow();
    Row.set(ranks::rank, int64_t(0));
    Row.set(ranks::place, int64_t(0));
  }
  int64_t Next = 0;
  for (auto &[Pid, Rank] : RankOfPid) {
    Rank = Next++;
    TableBuilder &Row = Into.table(TableId::ranks);
    Row.addRow();
    Row.set(ranks::rank, Rank);
    Row.set(ranks::pid, Pid);
    Row.set(ranks::place, Rank);
  }
}

std::optional<int64_t> RowMaker::rankOf(std::optional<int64_t> GlobalId) const {
  if (RankOfPid.size() <= 1)
    return 0;
  auto It = GlobalId ? RankOfPid.find(pidOf(*GlobalId)) : RankOfPid.end();
  if (It == RankOfPid.end())
    return std::nullopt;
  return It->second;
}

std::optional<RowMaker::Span> RowMaker::span(const Row &R) {
  std::optional<int64_t> Start = R.integer(WorkStart),
                         Stop = R.integer(WorkEnd);
  if (Start && Stop && inRange(*Start) && inRange(*Stop) && *Stop >= *Start)
    return Span{*Start, *Stop};
  ++Skipped;
  return std::nullopt;
}

const RowMaker::NameInfo &RowMaker::kernelInfo(int64_t Id) {
  auto [It, New] = Kernels.try_emplace(Id);
  if (New) {
    StringRef Name = DB.string(Id), Role = kernelRole(Name);
    It->second.Id = Into.pool().intern(Name);
    It->second.Role = Into.pool().intern(Role);
    It->second.Communication = Role == "communication";
  }
  return It->second;
}

TableBuilder &RowMaker::work(const Row &R, Span S, StringRef Kind) {
  TableBuilder &Row = Into.table(TableId::gpu_work);
  Row.addRow();
  Row.set(gpu_work::kind, Kind);
  Row.set(gpu_work::start, S.Start);
  Row.set(gpu_work::stop, S.Stop);
  Row.set(gpu_work::dur, S.Stop - S.Start);
  set(Row, gpu_work::rank, rankOf(R.integer(WorkPid)));
  set(Row, gpu_work::device, R.integer(WorkDevice));
  set(Row, gpu_work::context, R.integer(WorkContext));
  set(Row, gpu_work::stream, R.integer(WorkStream));
  set(Row, gpu_work::correlation, R.integer(WorkCorrelation));
  if (R.integer(WorkGraphNode, 0) != 0)
    set(Row, gpu_work::graph, R.integer(WorkGraphNode));
  Row.set(gpu_work::place, R.place());
  return Row;
}

void RowMaker::kernels() {
  enum : unsigned {
    Demangled = WorkOwn,
    Short,
    Mangled,
    GridX,
    BlockX = GridX + 3,
    Registers = BlockX + 3,
    StaticShared,
    DynamicShared
  };
  DB.forEach(
      "CUPTI_ACTIVITY_KIND_KERNEL",
      {WORK_COLUMNS, "demangledName", "shortName", "mangledName", "gridX",
       "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
       "staticSharedMemory", "dynamicSharedMemory"},
      [&](const Row &R) {
        std::optional<Span> S = span(R);
        if (!S)
          return;
        TableBuilder &Row = work(R, *S, "kernel");
        std::optional<int64_t> NameId = R.integer(Demangled);
        for (unsigned Other : {Short, Mangled})
          if (!NameId)
            NameId = R.integer(Other);
        const NameInfo &Info = kernelInfo(NameId.value_or(-1));
        Row.setId(gpu_work::name, Info.Id);
        Row.setId(gpu_work::role, Info.Role);
        for (auto [Column, First] : {std::pair(gpu_work::grid, GridX),
                                     std::pair(gpu_work::block, BlockX)})
          if (R.integer(First))
            Row.setList(Column, {R.integer(First, 1), R.integer(First + 1, 1),
                                 R.integer(First + 2, 1)});
        set(Row, gpu_work::registers, R.integer(Registers));
        std::optional<int64_t> Static = R.integer(StaticShared),
                               Dynamic = R.integer(DynamicShared);
        if (Static || Dynamic)
          Row.set(gpu_work::shared_bytes,
                  sum(Static.value_or(0), Dynamic.value_or(0)));
        if (Info.Communication)
          collective(R, *S, Into.pool().text(Info.Id));
      });
}

void RowMaker::collective(const Row &R, Span S, StringRef Name) {
  TableBuilder &Row = Into.table(TableId::collectives);
  Row.addRow();
  if (StringRef Op = collectiveOp(Name); !Op.empty())
    Row.set(collectives::op, Op);
  set(Row, collectives::rank, rankOf(R.integer(WorkPid)));
  set(Row, collectives::device, R.integer(WorkDevice));
  set(Row, collectives::stream, R.integer(WorkStream));
  Row.set(collectives::start, S.Start);
  Row.set(collectives::stop, S.Stop);
  Row.set(collectives::dur, S.Stop - S.Start);
  Row.set(collectives::state, "completed");
  Row.set(collectives::place, R.place());
}

/// HtoD and its like. The numbers are the same in all versions, but a file's
/// own enumeration has the last word.
static StringRef copyKindOf(Database &DB, int64_t Kind) {
  StringRef Label = DB.label("ENUM_CUDA_MEMCPY_OPER", Kind);
  if (!Label.empty())
    return copyKinds(Label).Kind;
  switch (Kind) {
  case 1:
  case 11:
    return "HtoD";
  case 2:
  case 12:
    return "DtoH";
  case 8:
  case 13:
    return "DtoD";
  case 9:
    return "HtoH";
  case 10:
    return "PtoP";
  default:
    return {};
  }
}

/// nsys counts kinds of memory from 0 = pageable, one less than CUPTI does:
/// reading these with CUPTI's numbers turns pinned copies into pageable ones.
static StringRef memoryKindOf(Database &DB, std::optional<int64_t> Kind) {
  static constexpr StringLiteral Known[] = {
      "Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};
  if (!Kind)
    return {};
  StringRef Label = DB.label("ENUM_CUDA_MEM_KIND", *Kind);
  if (Label.empty() && *Kind >= 0 && *Kind < int64_t(std::size(Known)))
    Label = Known[*Kind];
  return memoryKind(Label);
}

static void setText(TableBuilder &Row, unsigned Column, StringRef Text) {
  if (!Text.empty())
    Row.set(Column, Text);
}

void RowMaker::copies() {
  enum : unsigned { Bytes = WorkOwn, Kind, From, To };
  DB.forEach("CUPTI_ACTIVITY_KIND_MEMCPY",
             {WORK_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind"},
             [&](const Row &R) {
               std::optional<Span> S = span(R);
               if (!S)
                 return;
               TableBuilder &Row = work(R, *S, "copy");
               set(Row, gpu_work::bytes, R.integer(Bytes));
               StringRef Direction = copyKindOf(DB, R.integer(Kind, 0));
               StringRef Source = memoryKindOf(DB, R.integer(From));
               StringRef Target = memoryKindOf(DB, R.integer(To));
               // Named as Kineto names them, so that reports read the same.
               std::string Name = "Memcpy";
               if (!Direction.empty())
                 Name += " " + Direction.str();
               if (!Source.empty() && !Target.empty())
                 Name += " (" + capitalised(Source) + " -> " +
                         capitalised(Target) + ")";
               Row.set(gpu_work::name, StringRef(Name));
               Row.set(gpu_work::role, "copy");
               setText(Row, gpu_work::copy_kind, Direction);
               setText(Row, gpu_work::src_kind, Source);
               setText(Row, gpu_work::dst_kind, Target);
             });
}

void RowMaker::sets() {
  enum : unsigned { Bytes = WorkOwn, Kind };
  DB.forEach("CUPTI_ACTIVITY_KIND_MEMSET", {WORK_COLUMNS, "bytes", "memKind"},
             [&](const Row &R) {
               std::optional<Span> S = span(R);
               if (!S)
                 return;
               TableBuilder &Row = work(R, *S, "set");
               set(Row, gpu_work::bytes, R.integer(Bytes));
               StringRef Target = memoryKindOf(DB, R.integer(Kind));
               std::string Name = "Memset";
               if (!Target.empty())
                 Name += " (" + capitalised(Target) + ")";
               Row.set(gpu_work::name, StringRef(Name));
               Row.set(gpu_work::role, "set");
               setText(Row, gpu_work::dst_kind, Target);
             });
}

/// With --cuda-graph-trace=graph a whole replay is one row and its kernels are
/// nowhere else.
void RowMaker::graphs() {
  enum : unsigned { Exec = WorkOwn };
  DB.forEach("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {WORK_COLUMNS, "graphExecId"},
             [&](const Row &R) {
               std::optional<Span> S = span(R);
               if (!S)
                 return;
               TableBuilder &Row = work(R, *S, "graph");
               std::string Name = "CUDA graph";
               if (std::optional<int64_t> Id = R.integer(Exec))
                 Name += " " + std::to_string(*Id);
               Row.set(gpu_work::name, StringRef(Name));
               Row.set(gpu_work::role, "compute");
             });
}

void RowMaker::syncs() {
  enum : unsigned { Type = WorkOwn };
  DB.forEach("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {WORK_COLUMNS, "syncType"},
             [&](const Row &R) {
               std::optional<Span> S = span(R);
               if (!S)
                 return;
               TableBuilder &Row = Into.table(TableId::syncs);
               Row.addRow();
               static constexpr StringLiteral Kinds[] = {"event", "stream-wait",
                                                         "stream", "context"};
               int64_t Kind = R.integer(Type, 0);
               if (Kind >= 1 && Kind <= 4)
                 Row.set(syncs::kind, Kinds[Kind - 1]);
               Row.set(syncs::start, S->Start);
               Row.set(syncs::stop, S->Stop);
               Row.set(syncs::dur, S->Stop - S->Start);
               set(Row, syncs::rank, rankOf(R.integer(WorkPid)));
               set(Row, syncs::device, R.integer(WorkDevice));
               // A wait for an event or a context has no stream: 2^32 - 1.
               std::optional<int64_t> Stream = R.integer(WorkStream);
               if (Stream && *Stream >= 0 && *Stream < UINT32_MAX)
                 Row.set(syncs::stream, *Stream);
               set(Row, syncs::correlation, R.integer(WorkCorrelation));
               Row.set(syncs::place, R.place());
             });
}

void RowMaker::memory() {
  enum : unsigned { Start, Pid, Device, Address, Bytes, Kind, Operation };
  DB.forEach("CUDA_GPU_MEMORY_USAGE_EVENTS",
             {"start", "globalPid", "deviceId", "address", "bytes", "memKind",
              "memoryOperationType"},
             [&](const Row &R) {
               std::optional<int64_t> At = R.integer(Start),
                                      Size = R.integer(Bytes);
               if (!At || !inRange(*At) || !Size || *Size < 0) {
                 ++Skipped;
                 return;
               }
               TableBuilder &Row = Into.table(TableId::memory_events);
               Row.addRow();
               Row.set(memory_events::at, *At);
               set(Row, memory_events::address, R.integer(Address));
               bool Freed = R.integer(Operation, 0) == 1;
               Row.set(memory_events::bytes, Freed ? -*Size : *Size);
               set(Row, memory_events::rank, rankOf(R.integer(Pid)));
               StringRef Memory = memoryKindOf(DB, R.integer(Kind));
               if (Memory == "pageable" || Memory == "pinned")
                 Row.set(memory_events::device, int64_t(-1));
               else
                 set(Row, memory_events::device, R.integer(Device));
               Row.set(memory_events::place, R.place());
             });
}

/// The devices that ranks used, or all when none was used. TARGET_INFO_GPU
/// numbers them as the machine does; TARGET_INFO_CUDA_DEVICE says what a
/// process calls them.
void RowMaker::devices() {
  std::map<int64_t, int64_t> CudaOfGpu;
  DB.forEach("TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId"}, [&](const Row &R) {
    if (R.integer(0) && R.integer(1))
      CudaOfGpu.try_emplace(*R.integer(0), *R.integer(1));
  });
  std::set<std::pair<int64_t, int64_t>> Used; // device, rank
  if (TableBuilder *Work = Into.existing(TableId::gpu_work)) {
    ArrayRef<int64_t> Device = Work->finished(gpu_work::device).ints(),
                      Rank = Work->finished(gpu_work::rank).ints();
    for (size_t I = 0; I != Device.size(); ++I)
      Used.insert({Device[I], Rank[I]});
  }
  DB.forEach(
      "TARGET_INFO_GPU",
      {"id", "name", "smCount", "totalMemory", "computeMajor", "computeMinor"},
      [&](const Row &R) {
        int64_t Gpu = R.integer(0, -1);
        auto It = CudaOfGpu.find(Gpu);
        int64_t Device = It == CudaOfGpu.end() ? Gpu : It->second;
        auto Add = [&](int64_t Rank) {
          TableBuilder &Row = Into.table(TableId::devices);
          Row.addRow();
          Row.set(devices::rank, Rank);
          Row.set(devices::device, Device);
          setText(Row, devices::model, R.text(1));
          setText(Row, devices::vendor, "nvidia");
          set(Row, devices::multiprocessors, R.integer(2));
          set(Row, devices::memory, R.integer(3));
          set(Row, devices::compute_major, R.integer(4));
          set(Row, devices::compute_minor, R.integer(5));
          Row.set(devices::place, R.place());
        };
        if (Used.empty())
          return Add(0);
        for (auto [Id, Rank] : Used)
          if (Id == Device && Rank != NullInt)
            Add(Rank);
      });
}

void RowMaker::session() {
  DB.forEach("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"},
             [&](const Row &R) {
               if (std::optional<int64_t> Epoch = R.integer(0);
                   Epoch && *Epoch > 0 && inRange(*Epoch))
                 Into.EpochNs = Epoch;
             });
}

} // namespace culprit::nsys
