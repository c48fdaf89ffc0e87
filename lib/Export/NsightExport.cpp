//===- NsightExport.cpp - Profiles as nsys exports them ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/NsightWriter.h"

using namespace llvm;

namespace culprit {
namespace nsight {

int64_t Writer::pidOf(Number Rank) const {
  auto It = Processes.find(Rank.value_or(0));
  return It == Processes.end() ? 1000 : It->second.Given;
}

void Writer::session() {
  const std::pair<StringRef, StringRef> Facts[] = {
      {"EXPORT_PRODUCT_NAME", "culprit"},
      {"EXPORT_PRODUCT_VERSION", Options.Version},
      {"EXPORT_SCHEMA_VERSION", "3.25.0"},
      {"EXPORT_SCHEMA_VERSION_MAJOR", "3"},
      {"EXPORT_SCHEMA_VERSION_MINOR", "25"},
      {"EXPORT_SCHEMA_VERSION_MICRO", "0"}};
  for (auto [Name, Text] : Facts)
    To.add(TableOf::Meta, {Name, Text});
  if (std::optional<int64_t> Epoch = C.epochNs())
    To.add(TableOf::Session, {*Epoch, std::nullopt, std::nullopt});
}

/// nsys knows ranks only as processes: each gets one, and one of its own, since
/// ranks of several machines may have the same pid.
void Writer::findProcesses() {
  std::map<int64_t, int64_t> Told;
  constexpr std::tuple<TableId, unsigned, unsigned> Columns[] = {
      {TableId::ranks, ranks::rank, ranks::pid},
      {TableId::host_calls, host_calls::rank, host_calls::pid},
      {TableId::ranges, ranges::rank, ranges::pid}};
  for (auto [Id, Rank, Pid] : Columns)
    each(Id, Rank, [&, Rank = Rank, Pid = Pid](const ExportRow &R) {
      if (Number P = R.number(Pid))
        Told.try_emplace(R.number(Rank).value_or(0), *P);
    });
  std::set<int64_t> Taken;
  int64_t Next = 1000;
  for (int64_t Rank : profiledRanks(C)) {
    if (Options.Rank && Rank != *Options.Rank)
      continue;
    auto It = Told.find(Rank);
    Process P = {It == Told.end() ? NullInt : It->second, NullInt};
    P.Given = P.Pid;
    while (P.Given == NullInt || !Taken.insert(P.Given & 0xffffff).second)
      P.Given = Next++;
    Processes[Rank] = P;
  }
}

void Writer::processes() {
  for (const auto &[Rank, P] : Processes)
    To.add(TableOf::Process, {idOf(P.Given, 0), P.Given & 0xffffff,
                              "rank " + std::to_string(Rank)});
}

void Writer::gpus() {
  // One row for each device of each rank: whether two are one and the same is
  // only known where they have a UUID. Scripts look up the device of a kernel
  // by the id, so that it is the ordinal as long as that is free.
  std::map<std::string, int64_t> Known;
  std::set<int64_t> Taken;
  each(TableId::devices, devices::rank, [&](const ExportRow &R) {
    Number Device = R.number(devices::device);
    std::string Uuid = R.text(devices::uuid).str();
    if (!Device)
      return;
    Number Rank = R.number(devices::rank);
    auto [It, New] = Known.try_emplace(
        Uuid.empty() ? std::to_string(Rank.value_or(0)) + "/" +
                           std::to_string(*Device)
                     : Uuid,
        *Device);
    if (New) {
      for (int64_t Next = 0; !Taken.insert(It->second).second; ++Next)
        It->second = Next;
      std::optional<double> Bandwidth = R.real(devices::bandwidth); // GB/s
      To.add(TableOf::Gpu,
             {It->second, R.text(devices::model), StringRef(),
              R.number(devices::memory),
              Bandwidth && *Bandwidth > 0 && *Bandwidth < 1e9
                  ? Number(int64_t(*Bandwidth * 1e9 + 0.5))
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

void Writer::remarks() {
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
                   threadOf(Rank, R.number(profiler_events::pid),
                            R.number(profiler_events::tid)),
                   To.string(Name),
                   It == Types.end() ? int64_t(0) : It->second});
         } else if (Kind != "overhead" && !Message.empty()) {
           To.add(TableOf::Diagnostic,
                  {Start.value_or(0), int64_t(Start ? 1 : 2), int64_t(1),
                   int64_t(Kind == "error" ? 3 : 2), Message, processOf(Rank)});
         }
       });
}

void Writer::analysis() {
  if (First <= Last)
    To.add(TableOf::Analysis, {Hardware, Last - First, First, Last});
}

Error Writer::write() {
  session();
  findProcesses();
  processes();
  gpus();
  work();
  contexts();
  calls();
  waits();
  memory();
  pageFaults();
  annotations();
  operators();
  remarks();
  threadNames();
  analysis();
  return To.finish();
}

} // namespace nsight

Error writeNsightExport(StringRef Path, const Case &C,
                        const ExportOptions &Options) {
  return nsight::Writer(Path, C, Options).write();
}

} // namespace culprit
