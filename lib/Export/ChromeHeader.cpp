//===- ChromeHeader.cpp - What stands before the events ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/ChromeWriter.h"

using namespace llvm;

namespace culprit {

void TraceWriter::devices() {
  OS << "\"deviceProperties\":[";
  bool Any = false;
  forEachRow(C, TableId::devices, devices::rank, Rank, [&](const ExportRow &R) {
    OS << (std::exchange(Any, true) ? ",\n" : "\n") << '{';
    beginArguments();
    argument("id", R.number(devices::device));
    textArgument("name", R.text(devices::model));
    argument("totalGlobalMem", R.number(devices::memory));
    argument("computeMajor", R.number(devices::compute_major));
    argument("computeMinor", R.number(devices::compute_minor));
    argument("numSms", R.number(devices::multiprocessors));
    if (Number Clock = R.number(devices::clock)) // in kHz
      argument("clockRate", *Clock / 1000);
    textArgument("uuid", R.text(devices::uuid));
    OS << '}';
  });
  OS << "],\n";
}

/// What the profiler said of its record, as Kineto's own log in a trace.
void TraceWriter::remarks() {
  bool Any = false;
  forEachRow(C, TableId::profiler_events, profiler_events::rank, Rank,
             [&](const ExportRow &R) {
               StringRef Message = R.text(profiler_events::message);
               if (R.text(profiler_events::kind) == "overhead" ||
                   Message.empty())
                 return;
               OS << (std::exchange(Any, true) ? "," : "\"WARNING\":[");
               Number Lost = R.number(profiler_events::count);
               quoted(Lost ? "Dropped " + std::to_string(*Lost) +
                                 " activity records: " + Message.str()
                           : Message.str());
             });
  if (Any)
    OS << "],\n";
}

void TraceWriter::header() {
  OS << "{\n\"schemaVersion\":1,\n";
  devices();
  forEachRow(C, TableId::ranks, ranks::rank, Rank, [&](const ExportRow &R) {
    if (!HostPid)
      HostPid = R.number(ranks::pid);
    if (StringRef Host = R.text(ranks::host); !Host.empty()) {
      OS << "\"host_name\":";
      quoted(Host);
      OS << ",\n";
    }
    Number World = R.number(ranks::world_size);
    if (Rank == 0 && !World)
      return;
    OS << "\"distributedInfo\":{";
    beginArguments();
    argument("rank", Rank);
    argument("world_size", World);
    textArgument("backend", R.text(ranks::backend));
    OS << "},\n";
  });
  remarks();
  OS << "\"exportedBy\":\"culprit " << Options.Version << "\",\n";
  OS << "\"displayTimeUnit\":\"ms\",\n";
  if (std::optional<int64_t> Epoch = C.epochNs())
    OS << "\"baseTimeNanoseconds\":" << *Epoch << ",\n";
}

/// Names of the lines, in the order that Kineto gives them.
void TraceWriter::names() {
  std::set<std::pair<int64_t, int64_t>> Lines;
  auto Take = [&](TableId Id, unsigned RankColumn, unsigned Device,
                  unsigned Stream, int64_t Base) {
    forEachRow(C, Id, RankColumn, Rank, [&](const ExportRow &R) {
      if (Number D = R.number(Device))
        Lines.insert({*D, lineOf(Base, R.number(Stream).value_or(-1))});
    });
  };
  Take(TableId::gpu_work, gpu_work::rank, gpu_work::device, gpu_work::stream,
       0);
  Take(TableId::syncs, syncs::rank, syncs::device, syncs::stream, WaitLine);
  std::set<int64_t> Devices;
  for (auto [Device, Stream] : Lines) {
    if (Devices.insert(Device).second) {
      metadata("process_name", Device, 0, "GPU " + std::to_string(Device));
      metadata("process_sort_index", Device, 0, lineOf(5000000, Device));
    }
    bool Wait = Stream >= WaitLine - 1;
    int64_t Id = Wait ? Stream - WaitLine : Stream;
    if (Id >= 0)
      metadata("thread_name", Device, Stream,
               (Wait ? "waits for stream " : "stream ") + std::to_string(Id));
    else if (Wait)
      metadata("thread_name", Device, Stream, "waits");
  }
  if (HostPid)
    metadata("process_name", *HostPid, *HostPid,
             "process " + std::to_string(*HostPid));
}

} // namespace culprit
