//===- CaptureDevice.cpp - Work on devices ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureParts.h"
#include "Readers/DeviceRows.h"
#include "Readers/KernelRoles.h"
#include "llvm/Demangle/Demangle.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit::cprt {

namespace {

/// Where and when a piece of work ran: what every kind of it has.
struct Where {
  uint64_t Start, End;
  uint32_t Device, Context, Stream, Correlation;
  uint64_t GraphNode;
};

template <typename Record> Where whereOf(const Record &R) {
  return {R.start,  R.end,         R.device,    R.context,
          R.stream, R.correlation, R.graph_node};
}

class WorkOut : public WorkColumns {
public:
  WorkOut(Part &P, size_t N, StringRef Kind, StringRef DefaultRole)
      : WorkColumns(P.Into, N, Kind, DefaultRole), P(P) {}

  /// Starts a row; false when it has no usable time.
  bool begin(const Where &W) {
    int64_t Place = Next++;
    std::optional<Span> S = P.span(W.Start, W.End);
    if (!S)
      return false;
    WorkColumns::begin({S->Start, S->Stop, P.Rank, idOrNull(W.Device),
                        idOrNull(W.Context), idOrNull(W.Stream),
                        countedOrNull(W.Correlation),
                        P.externalOf(W.Correlation),
                        static_cast<int64_t>(W.GraphNode), Place});
    return true;
  }

  int64_t Next = 0; ///< Number of the next record of its kind.

private:
  Part &P;
};

} // namespace

static void readKernels(Part &P) {
  WorkOut Work(P, P.File.count(RecordKind::Kernel), "kernel", "compute");
  ColumnOut Grid(Work.T, gpu_work::grid, Work.N),
      Block(Work.T, gpu_work::block, Work.N),
      Registers(Work.T, gpu_work::registers, Work.N),
      Shared(Work.T, gpu_work::shared_bytes, Work.N);
  TextCache<KernelName> Names(P);
  auto Dimensions = [](ColumnOut &To, int64_t X, int64_t Y, int64_t Z) {
    if (X > 0)
      To.putList({X, Y, Z});
    else
      To.putList({});
  };
  P.File.each<KernelRecord>([&](const KernelRecord &R, uint32_t Epoch,
                                uint64_t) {
    if (!Work.begin(whereOf(R)))
      return;
    const KernelName &Name =
        Names(Epoch, R.name, [&](KernelName &Out, const std::string &Mangled) {
          Out.set(P.Into.pool(), demangle(Mangled));
        });
    const LaunchShape S = P.File.shape(Epoch, R.shape);
    Dimensions(Grid, S.grid_x, S.grid_y, S.grid_z);
    Dimensions(Block, S.block_x, S.block_y, S.block_z);
    Registers.put(S.registers);
    Shared.put(int64_t(S.static_shared) + S.dynamic_shared);
    Work.end(Name.Id, Name.Role);
    if (Name.Communication)
      addCollective(P.Into, Work.Row, Name);
  });
}

/// HtoD and its like by CUPTI's number; empty for arrays and unknown ones,
/// whose kinds of memory say more.
static StringRef copyKindOf(uint32_t Kind) {
  switch (Kind) {
  case 1:
    return "HtoD";
  case 2:
    return "DtoH";
  case 8:
    return "DtoD";
  case 9:
    return "HtoH";
  case 10:
    return "PtoP";
  default:
    return {};
  }
}

namespace {

/// Labels of copies as all profilers write them, with what they mean.
class CopyLabels {
public:
  struct Label {
    StringId Name = NullString, Kind = NullString, From = NullString,
             To = NullString;
  };

  explicit CopyLabels(StringPool &Pool) : Pool(Pool) {}

  const Label &operator()(uint32_t Kind, uint32_t From, uint32_t To,
                          StringRef Cause = "") {
    auto [It, New] = Known.try_emplace({Kind, From, To, Cause});
    Label &Out = It->second;
    if (!New)
      return Out;
    StringRef Direction = copyKindOf(Kind);
    Out.From = memoryKindOf(Pool, From);
    Out.To = memoryKindOf(Pool, To);
    auto Text = [&](StringId Id) {
      return Id ? Pool.text(Id) : StringRef();
    };
    std::string Name =
        copyLabel(Direction, Text(Out.From), Text(Out.To), Cause);
    if (!Out.From && !Out.To && !Direction.empty()) {
      // The device's side is known from the direction alone.
      CopyKinds Told = copyKinds("Memcpy " + Direction.str());
      if (!Told.Source.empty())
        Out.From = Pool.intern(Told.Source);
      if (!Told.Target.empty())
        Out.To = Pool.intern(Told.Target);
    }
    Out.Name = Pool.intern(Name);
    Out.Kind = Direction.empty() ? NullString : Pool.intern(Direction);
    return Out;
  }

private:
  StringPool &Pool;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, StringRef>, Label> Known;
};

/// The columns of copies.
class CopyOut {
public:
  CopyOut(Part &P, size_t N)
      : Labels(P.Into.pool()), Work(P, N, "copy", "copy"),
        Bytes(Work.T, gpu_work::bytes, N), Kind(Work.T, gpu_work::copy_kind, N),
        From(Work.T, gpu_work::src_kind, N), To(Work.T, gpu_work::dst_kind, N) {
  }

  void add(const Where &W, uint64_t Size, const CopyLabels::Label &L) {
    if (!Work.begin(W))
      return;
    Bytes.put(Size <= INT64_MAX ? static_cast<int64_t>(Size) : NullInt);
    Kind.putText(L.Kind);
    From.putText(L.From);
    To.putText(L.To);
    Work.end(L.Name);
  }
  /// A record that is no row.
  void pass() { ++Work.Next; }

  CopyLabels Labels;

private:
  WorkOut Work;
  ColumnOut Bytes, Kind, From, To;
};

} // namespace

template <typename Record> static void readCopies(Part &P) {
  if (!P.File.count(Record::Kind))
    return;
  CopyOut Out(P, P.File.count(Record::Kind));
  P.File.each<Record>([&](const Record &R, uint32_t, uint64_t) {
    Out.add(whereOf(R), R.bytes,
            Out.Labels(R.copy_kind, R.src_kind, R.dst_kind));
  });
}

static void readSets(Part &P) {
  if (!P.File.count(RecordKind::Set))
    return;
  WorkOut Work(P, P.File.count(RecordKind::Set), "set", "set");
  ColumnOut Bytes(Work.T, gpu_work::bytes, Work.N),
      To(Work.T, gpu_work::dst_kind, Work.N);
  StringPool &Pool = P.Into.pool();
  P.File.each<SetRecord>([&](const SetRecord &R, uint32_t, uint64_t) {
    if (!Work.begin(whereOf(R)))
      return;
    StringId Target = memoryKindOf(Pool, R.memory_kind);
    Bytes.put(R.bytes <= INT64_MAX ? static_cast<int64_t>(R.bytes) : NullInt);
    To.putText(Target);
    Work.end(Pool.intern(setLabel(Target ? Pool.text(Target) : "")));
  });
}

/// With the kind `graphs` a whole replay is one record and its kernels are
/// nowhere else.
static void readGraphs(Part &P) {
  if (!P.File.count(RecordKind::GraphLaunch))
    return;
  WorkOut Work(P, P.File.count(RecordKind::GraphLaunch), "graph", "compute");
  P.File.each<GraphLaunchRecord>(
      [&](const GraphLaunchRecord &R, uint32_t, uint64_t) {
        if (Work.begin({R.start, R.end, R.device, R.context, R.stream,
                        R.correlation, 0}))
          Work.end(P.Into.pool().intern("CUDA graph " +
                                        std::to_string(R.graph)));
      });
}

void readDeviceWork(Part &P) {
  if (P.File.count(RecordKind::Kernel))
    readKernels(P);
  readCopies<CopyRecord>(P);
  readCopies<PeerCopyRecord>(P);
  readSets(P);
  readGraphs(P);
}

/// Why unified memory moved.
static StringRef causeOf(uint32_t Cause) {
  static constexpr StringLiteral Known[] = {"user prefetch", "page fault",
                                            "speculative prefetch", "eviction",
                                            "access counters"};
  return Cause >= 1 && Cause <= std::size(Known) ? StringRef(Known[Cause - 1])
                                                 : StringRef();
}

static void addFaults(Part &P, const PagingRecord &R, StringRef Name,
                      uint32_t Device, uint64_t Faults, int64_t Place) {
  std::optional<int64_t> At = P.time(R.start);
  if (!At) {
    ++P.Skipped;
    return;
  }
  TableBuilder &Row = P.Into.table(TableId::counters);
  Row.addRow();
  Row.set(counters::name, Name);
  Row.set(counters::at, *At);
  Row.set(counters::value, static_cast<double>(Faults));
  Row.set(counters::rank, P.Rank);
  if (Device != ~0u)
    Row.set(counters::device, int64_t(Device));
  Row.set(counters::place, Place);
}

void readPaging(Part &P) {
  size_t N = P.File.count(RecordKind::Paging);
  if (!N)
    return;
  // CUpti_ActivityUnifiedMemoryCounterKind.
  enum : uint32_t {
    HtoD = 1,
    DtoH = 2,
    CpuFaults = 3,
    GpuFaults = 4,
    DtoD = 8
  };
  constexpr uint32_t Managed = 5;
  CopyOut Out(P, N);
  int64_t Place = 0;
  P.File.each<PagingRecord>([&](const PagingRecord &R, uint32_t, uint64_t) {
    auto Migrate = [&](uint32_t Kind, uint32_t Device) {
      // CUPTI leaves the stream undefined.
      Out.add({R.start, R.end, Device, ~0u, ~0u, 0, 0}, R.value,
              Out.Labels(Kind, Managed, Managed, causeOf(R.flags)));
    };
    switch (R.counter) {
    case HtoD:
      Migrate(1, R.dst);
      break;
    case DtoH:
      Migrate(2, R.src);
      break;
    case DtoD:
      Migrate(8, R.src);
      break;
    case CpuFaults:
      // One record is one fault; its value is a program counter.
      addFaults(P, R, "um_cpu_page_faults", ~0u, 1, Place);
      Out.pass();
      break;
    case GpuFaults:
      addFaults(P, R, "um_gpu_page_faults", R.src, R.value, Place);
      Out.pass();
      break;
    default: // Thrashing and its like: hints of the driver without a table.
      Out.pass();
      break;
    }
    ++Place;
  });
}

} // namespace culprit::cprt
