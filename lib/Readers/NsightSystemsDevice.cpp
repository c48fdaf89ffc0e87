//===- NsightSystemsDevice.cpp - Work on devices ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/DeviceRows.h"
#include "Readers/KernelRoles.h"
#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit::nsys {

// The columns that every kind of device work has, in this order; what is the
// kind's own follows. The first two must be there.
#define WORK_COLUMNS                                                           \
  "start", "end", "globalPid", "deviceId", "contextId", "streamId",            \
      "correlationId", "graphNodeId"
enum : unsigned {
  WorkPid = 2,
  WorkDevice,
  WorkContext,
  WorkStream,
  WorkCorrelation,
  WorkGraphNode,
  WorkOwn
};

MemoryKinds::MemoryKinds(Database &DB, Source &Into)
    : Pageable(Into.pool().intern("pageable")),
      Pinned(Into.pool().intern("pinned")) {
  static constexpr StringLiteral Known[] = {
      "Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};
  for (int64_t I = 0; I != 16; ++I) {
    StringRef Label = DB.label("ENUM_CUDA_MEM_KIND", I);
    // Exports without labels have CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC.
    if (size_t At = Label.find("_KIND_"); At != StringRef::npos)
      Label = Label.drop_front(At + 6);
    std::string Name = Label.str();
    std::replace(Name.begin(), Name.end(), '_', ' ');
    if (!DB.has("ENUM_CUDA_MEM_KIND") && I < int64_t(std::size(Known)))
      Name = Known[I].str();
    if (StringRef Kind = memoryKind(Name); !Kind.empty())
      Kinds[I] = Into.pool().intern(Kind);
  }
}

/// HtoD and its like. The numbers are the same in all versions, but a file's
/// own enumeration has the last word.
static StringRef copyKindOf(Database &DB, int64_t Kind) {
  StringRef Label = DB.label("ENUM_CUDA_MEMCPY_OPER", Kind);
  if (!Label.empty()) {
    StringRef Symbol = Label.rsplit('_').second; // CUDA_MEMCPY_KIND_UVM_HTOD
    StringRef Named = StringSwitch<StringRef>(Symbol)
                          .Case("HTOD", "HtoD")
                          .Case("DTOH", "DtoH")
                          .Case("DTOD", "DtoD")
                          .Case("HTOH", "HtoH")
                          .Case("PTOP", "PtoP")
                          .Default({});
    return Named.empty() ? copyKinds(Label).Kind : Named;
  }
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

/// Why unified memory moved; empty for a copy that the program asked for.
static StringRef causeOf(Database &DB, std::optional<int64_t> Cause) {
  if (!Cause || *Cause <= 0)
    return {};
  if (StringRef Label = DB.label("ENUM_CUDA_UNIF_MEM_MIGRATION", *Cause);
      !Label.empty())
    return Label;
  static constexpr StringLiteral Known[] = {"User prefetch", "Page fault",
                                            "Speculative prefetch", "Eviction",
                                            "Access counters"};
  return *Cause <= int64_t(std::size(Known)) ? StringRef(Known[*Cause - 1])
                                             : StringRef();
}

namespace {

class WorkOut : public WorkColumns {
public:
  WorkOut(Part &P, StringRef Table, StringRef Kind, StringRef DefaultRole)
      : WorkColumns(P.Into, P.DB.rowsAtMost(Table), Kind, DefaultRole), P(P) {}

  /// Starts a row; false when it has no usable time.
  bool begin(const nsys::Row &R) {
    std::optional<Span> S = spanOf(R);
    if (!S) {
      ++P.Skipped;
      return false;
    }
    int64_t Pid = pidOf(R.integer(WorkPid));
    if (Pid != LastPid && Pid != NullInt)
      P.Found.Pids.insert(Pid);
    LastPid = Pid;
    WorkColumns::begin({S->Start, S->Stop, Pid, idOrNull(R.integer(WorkDevice)),
                        idOrNull(R.integer(WorkContext)),
                        idOrNull(R.integer(WorkStream)),
                        countedOrNull(R.integer(WorkCorrelation)), NullInt,
                        R.integer(WorkGraphNode, 0), R.place()});
    return true;
  }

private:
  Part &P;
  int64_t LastPid = NullInt;
};

/// Names and roles, found out once for each id of StringIds.
class KernelNames {
public:
  KernelNames(Part &P) : P(P) {}

  const KernelName &operator()(int64_t Demangled, std::optional<int64_t> Short,
                               std::optional<int64_t> Mangled) {
    auto [It, New] = Known.try_emplace(Demangled);
    KernelName &Out = It->second;
    if (!New)
      return Out;
    StringRef Name = P.DB.string(Demangled);
    for (std::optional<int64_t> Other : {Short, Mangled})
      if (Name.empty())
        Name = P.DB.string(Other);
    Out.set(P.Into.pool(), Name);
    return Out;
  }

private:
  Part &P;
  std::unordered_map<int64_t, KernelName> Known;
};

} // namespace

static void readKernels(Part &P) {
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
  constexpr StringLiteral Table = "CUPTI_ACTIVITY_KIND_KERNEL";
  WorkOut Work(P, Table, "kernel", "compute");
  ColumnOut Grid(Work.T, gpu_work::grid, Work.N),
      Block(Work.T, gpu_work::block, Work.N),
      RegistersOut(Work.T, gpu_work::registers, Work.N),
      Shared(Work.T, gpu_work::shared_bytes, Work.N);
  KernelNames Names(P);
  auto Dimensions = [](const Row &R, unsigned First, ColumnOut &Into) {
    std::optional<int64_t> X = R.integer(First);
    if (X)
      Into.putList({*X, R.integer(First + 1, 1), R.integer(First + 2, 1)});
    else
      Into.putList({});
  };
  P.DB.forEach(
      Table,
      {WORK_COLUMNS, "demangledName", "shortName", "mangledName", "gridX",
       "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
       "staticSharedMemory", "dynamicSharedMemory"},
      [&](const Row &R) {
        if (!Work.begin(R))
          return;
        std::optional<int64_t> NameId = R.integer(Demangled);
        for (unsigned Other : {Short, Mangled})
          if (!NameId)
            NameId = R.integer(Other);
        const KernelName &Name =
            Names(NameId.value_or(-1), R.integer(Short), R.integer(Mangled));
        Dimensions(R, GridX, Grid);
        Dimensions(R, BlockX, Block);
        RegistersOut.put(R.integer(Registers));
        std::optional<int64_t> Static = R.integer(StaticShared),
                               Dynamic = R.integer(DynamicShared);
        Shared.put(Static || Dynamic
                       ? sum(Static.value_or(0), Dynamic.value_or(0))
                       : NullInt);
        Work.end(Name.Id, Name.Role);
        if (!Name.Communication)
          return;
        P.Found.KernelOfCollective.push_back(Work.T.rows() - 1);
        addCollective(P.Into, Work.Row, Name);
      },
      2);
}

static void readCopies(Part &P, const MemoryKinds &Kinds) {
  enum : unsigned { Bytes = WorkOwn, Kind, From, To, Cause };
  constexpr StringLiteral Table = "CUPTI_ACTIVITY_KIND_MEMCPY";
  WorkOut Work(P, Table, "copy", "copy");
  ColumnOut BytesOut(Work.T, gpu_work::bytes, Work.N),
      KindOut(Work.T, gpu_work::copy_kind, Work.N),
      FromOut(Work.T, gpu_work::src_kind, Work.N),
      ToOut(Work.T, gpu_work::dst_kind, Work.N);
  StringPool &Pool = P.Into.pool();
  struct Label {
    StringId Kind = NullString, Name = NullString;
  };
  std::map<std::array<int64_t, 4>, Label> Labels;
  P.DB.forEach(
      Table,
      {WORK_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind",
       "migrationCause"},
      [&](const Row &R) {
        if (!Work.begin(R))
          return;
        int64_t Direction = R.integer(Kind, 0), Why = R.integer(Cause, 0);
        StringId Source = Kinds(R.integer(From)), Target = Kinds(R.integer(To));
        auto [It, New] = Labels.try_emplace({Direction, Source, Target, Why});
        if (New) {
          StringRef Known = copyKindOf(P.DB, Direction);
          auto Text = [&](StringId Id) {
            return Id ? Pool.text(Id) : StringRef();
          };
          std::string Name = copyLabel(Known, Text(Source), Text(Target),
                                       causeOf(P.DB, Why).lower());
          It->second.Name = Pool.intern(Name);
          It->second.Kind = Known.empty() ? NullString : Pool.intern(Known);
        }
        std::optional<int64_t> Size = R.integer(Bytes);
        BytesOut.put(Size && *Size >= 0 ? *Size : NullInt);
        KindOut.putText(It->second.Kind);
        FromOut.putText(Source);
        ToOut.putText(Target);
        Work.end(It->second.Name);
      },
      2);
}

static void readSets(Part &P, const MemoryKinds &Kinds) {
  enum : unsigned { Bytes = WorkOwn, Kind };
  constexpr StringLiteral Table = "CUPTI_ACTIVITY_KIND_MEMSET";
  WorkOut Work(P, Table, "set", "set");
  ColumnOut BytesOut(Work.T, gpu_work::bytes, Work.N),
      ToOut(Work.T, gpu_work::dst_kind, Work.N);
  StringPool &Pool = P.Into.pool();
  P.DB.forEach(
      Table, {WORK_COLUMNS, "bytes", "memKind"},
      [&](const Row &R) {
        if (!Work.begin(R))
          return;
        StringId Target = Kinds(R.integer(Kind));
        std::optional<int64_t> Size = R.integer(Bytes);
        BytesOut.put(Size && *Size >= 0 ? *Size : NullInt);
        ToOut.putText(Target);
        Work.end(Pool.intern(setLabel(Target ? Pool.text(Target) : "")));
      },
      2);
}

/// With --cuda-graph-trace=graph a whole replay is one row and its kernels are
/// nowhere else.
static void readGraphs(Part &P) {
  enum : unsigned { Exec = WorkOwn };
  constexpr StringLiteral Table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
  WorkOut Work(P, Table, "graph", "compute");
  P.DB.forEach(
      Table, {WORK_COLUMNS, "graphExecId"},
      [&](const Row &R) {
        if (!Work.begin(R))
          return;
        std::string Name = "CUDA graph";
        if (std::optional<int64_t> Id = R.integer(Exec))
          Name += " " + std::to_string(*Id);
        Work.end(P.Into.pool().intern(Name));
      },
      2);
}

void readDeviceWork(Part &P) {
  readKernels(P);
  MemoryKinds Kinds(P.DB, P.Into);
  readCopies(P, Kinds);
  readSets(P, Kinds);
  readGraphs(P);
}

} // namespace culprit::nsys
