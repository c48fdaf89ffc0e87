//===- NsightDevice.cpp - What devices did ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/NsightWriter.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit::nsight {

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

// The columns with which all work begins, in the order of NsightTables.def.
#define WORK_VALUES(R)                                                         \
  R.number(gpu_work::start), R.number(gpu_work::stop),                         \
      R.number(gpu_work::device).value_or(None),                               \
      R.number(gpu_work::context).value_or(None),                              \
      R.number(gpu_work::stream).value_or(None),                               \
      R.number(gpu_work::correlation), processOf(R.number(gpu_work::rank))

void Writer::kernel(const ExportRow &R) {
  StringRef Name = R.text(gpu_work::name);
  ArrayRef<int64_t> Grid = R.list(gpu_work::grid),
                    Block = R.list(gpu_work::block);
  auto Dimension = [](ArrayRef<int64_t> List, size_t I) {
    return I < List.size() ? List[I] : int64_t(0);
  };
  // Which part of the shared memory is static is not in a case.
  To.add(TableOf::Kernel,
         {WORK_VALUES(R), To.string(Name), To.string(shortName(Name)),
          R.number(gpu_work::registers).value_or(0),
          Dimension(Grid, 0), Dimension(Grid, 1), Dimension(Grid, 2),
          Dimension(Block, 0), Dimension(Block, 1), Dimension(Block, 2),
          int64_t(0), R.number(gpu_work::shared_bytes).value_or(0),
          R.number(gpu_work::graph)});
}

/// nsys counts from 0 = pageable, one less than CUPTI.
static std::optional<int64_t> memoryNumber(StringRef Kind) {
  return StringSwitch<std::optional<int64_t>>(Kind)
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

void Writer::copy(const ExportRow &R) {
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
          Into, Cause ? Number(Cause) : std::nullopt,
          R.number(gpu_work::graph)});
}

void Writer::work() {
  each(TableId::gpu_work, gpu_work::rank, [&](const ExportRow &R) {
    Number Start = R.number(gpu_work::start), Stop = R.number(gpu_work::stop);
    if (!Start || !Stop)
      return;
    widen(*Start, *Stop);
    Number Device = R.number(gpu_work::device),
           Context = R.number(gpu_work::context);
    if (Device && Context)
      Contexts.insert({pidOf(R.number(gpu_work::rank)), *Device, *Context});
    StringRef Kind = R.text(gpu_work::kind);
    if (Kind == "kernel")
      return kernel(R);
    if (Kind == "copy")
      return copy(R);
    if (Kind == "set")
      return To.add(TableOf::Set,
                    {WORK_VALUES(R), R.number(gpu_work::bytes).value_or(0),
                     R.number(gpu_work::graph),
                     memoryNumber(R.text(gpu_work::dst_kind))});
    int64_t Graph = 0;
    R.text(gpu_work::name).rsplit(' ').second.getAsInteger(10, Graph);
    To.add(TableOf::Graph, {WORK_VALUES(R), Graph});
  });
}

void Writer::contexts() {
  for (auto [Pid, Device, Context] : Contexts)
    To.add(TableOf::Context, {Pid, Device, Context});
}

void Writer::waits() {
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

void Writer::memory() {
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
            int64_t(*Bytes < 0), R.number(memory_events::stream)});
  });
}

/// Of all counters those that nsys has as events.
void Writer::pageFaults() {
  each(TableId::counters, counters::rank, [&](const ExportRow &R) {
    StringRef Name = R.text(counters::name);
    Number At = R.number(counters::at);
    std::optional<double> Value = R.real(counters::value);
    if (!At || !Value || !(*Value > 0 && *Value < 1e15))
      return;
    int64_t Process = processOf(R.number(counters::rank));
    // A row is one fault of a CPU, and any number of a device.
    if (Name == "um_cpu_page_faults" && *Value == 1)
      To.add(TableOf::CpuFault, {*At, Process});
    else if (Name == "um_gpu_page_faults")
      To.add(TableOf::GpuFault,
             {*At, Process, R.number(counters::device).value_or(None),
              static_cast<int64_t>(*Value)});
  });
}

} // namespace culprit::nsight
