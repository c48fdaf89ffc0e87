//===- ChromeTrace.cpp - Traces as Kineto writes them -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/ChromeWriter.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace llvm;

namespace culprit {


void TraceWriter::findFlows() {
  forEachRow(C, TableId::gpu_work, gpu_work::rank, Rank,
             [&](const ExportRow &R) {
               if (Number Id = R.number(gpu_work::correlation))
                 Launched.insert(*Id);
             });
  forEachRow(C, TableId::host_calls, host_calls::rank, Rank,
             [&](const ExportRow &R) {
               Number Id = R.number(host_calls::correlation);
               if (Id && Launched.contains(*Id))
                 Called.insert(*Id);
             });
}

void TraceWriter::workArguments(const ExportRow &R) {
  argument("External id", R.number(gpu_work::external));
  argument("device", R.number(gpu_work::device));
  argument("context", R.number(gpu_work::context));
  argument("stream", R.number(gpu_work::stream));
  argument("correlation", R.number(gpu_work::correlation));
  argument("registers per thread", R.number(gpu_work::registers));
  argument("shared memory", R.number(gpu_work::shared_bytes));
  listArgument("grid", R.list(gpu_work::grid));
  listArgument("block", R.list(gpu_work::block));
  argument("graph node id", R.number(gpu_work::graph));
  Number Bytes = R.number(gpu_work::bytes);
  argument("bytes", Bytes);
  Number Length = R.number(gpu_work::dur);
  if (Bytes && Length && *Length > 0) {
    key("memory bandwidth (GB/s)");
    OS << format("%.6g", double(*Bytes) / double(*Length));
  }
}

void TraceWriter::work() {
  forEachRow(
      C, TableId::gpu_work, gpu_work::rank, Rank, [&](const ExportRow &R) {
        Number Start = R.number(gpu_work::start), Dur = R.number(gpu_work::dur);
        if (!Start || !Dur)
          return;
        StringRef Kind = R.text(gpu_work::kind);
        // Kineto has no event for a whole graph: one that its readers pass.
        StringRef Category = Kind == "kernel" ? "kernel"
                             : Kind == "copy" ? "gpu_memcpy"
                             : Kind == "set"  ? "gpu_memset"
                                              : "gpu_graph";
        Number Device = R.number(gpu_work::device),
               Stream = R.number(gpu_work::stream);
        event("X", Category, R.text(gpu_work::name), Device, Stream, *Start,
              Dur);
        workArguments(R);
        endEvent();
        Number Id = R.number(gpu_work::correlation);
        if (Id && Called.contains(*Id))
          flow("f", Device, Stream, *Start, *Id);
      });
}

void TraceWriter::calls() {
  forEachRow(
      C, TableId::host_calls, host_calls::rank, Rank, [&](const ExportRow &R) {
        Number Start = R.number(host_calls::start),
               Dur = R.number(host_calls::dur), Pid = R.number(host_calls::pid),
               Tid = R.number(host_calls::tid),
               Id = R.number(host_calls::correlation);
        if (!Start || !Dur)
          return;
        StringRef Name = R.text(host_calls::name);
        bool Driver =
            Name.starts_with("cu") && Name.size() > 2 && Name[2] < 'a';
        event("X", Driver ? "cuda_driver" : "cuda_runtime", Name, Pid, Tid,
              *Start, Dur);
        argument("External id", R.number(host_calls::external));
        argument("correlation", Id);
        argument("result", R.number(host_calls::result));
        endEvent();
        if (Id && Launched.contains(*Id))
          flow("s", Pid, Tid, *Start, *Id);
      });
}

void TraceWriter::waits() {
  forEachRow(C, TableId::syncs, syncs::rank, Rank, [&](const ExportRow &R) {
    Number Start = R.number(syncs::start), Dur = R.number(syncs::dur);
    if (!Start || !Dur)
      return;
    StringRef Kind = R.text(syncs::kind);
    StringRef Name = Kind == "event"         ? "Event Sync"
                     : Kind == "stream-wait" ? "Stream Wait Event"
                     : Kind == "stream"      ? "Stream Sync"
                     : Kind == "context"     ? "Context Sync"
                                             : Kind;
    int64_t Line = lineOf(WaitLine, R.number(syncs::stream).value_or(-1));
    event("X", "cuda_sync", Name, R.number(syncs::device), Line, *Start, Dur);
    textArgument("cuda_sync_kind", Name);
    argument("device", R.number(syncs::device));
    argument("stream", R.number(syncs::stream));
    argument("correlation", R.number(syncs::correlation));
    argument("wait_on_cuda_event_id", R.number(syncs::event));
    argument("wait_on_cuda_event_record_corr_id", R.number(syncs::waits_for));
    argument("wait_on_stream", R.number(syncs::recorded_on));
    endEvent();
  });
}

void TraceWriter::operators() {
  bool HasNamedRanges = false;
  forEachRow(C, TableId::ranges, ranges::rank, Rank, [&](const ExportRow &R) {
    HasNamedRanges |= R.text(ranges::category) != "annotation";
  });
  forEachRow(C, TableId::host_ops, host_ops::rank, Rank,
             [&](const ExportRow &R) {
               Number Start = R.number(host_ops::start),
                      Dur = R.number(host_ops::dur);
               if (!Start || !Dur)
                 return;
               StringRef Kind = R.text(host_ops::category);
               if (Kind == "operator" && HasNamedRanges)
                 Operators.insert({R.text(host_ops::name), Start,
                                   R.number(host_ops::tid)});
               event("X",
                     Kind == "operator" ? "cpu_op"
                     : Kind == "python" ? "python_function"
                                        : "os_call",
                     R.text(host_ops::name), R.number(host_ops::pid),
                     R.number(host_ops::tid), *Start, Dur);
               argument("External id", R.number(host_ops::external));
               textArgument("shapes", R.text(host_ops::shapes));
               endEvent();
             });
}

/// Some operators are ranges by their name, as a fetch of the data loader, and
/// stand in both tables. Their event says both.
bool TraceWriter::isToldByOperator(const ExportRow &R) const {
  return R.text(ranges::category) != "annotation" &&
         Operators.count({R.text(ranges::name), R.number(ranges::start),
                          R.number(ranges::tid)});
}

/// A range that belongs to no thread. Viewers nest what is on one line, and
/// such ranges overlap as they like: each is on the first line that is free. A
/// line has a word where others have a thread, so that none is read back.
void TraceWriter::processRange(const ExportRow &R, int64_t Start,
                               Number Length) {
  size_t Line = 0;
  while (Line != RangeLines.size() && RangeLines[Line] > Start)
    ++Line;
  // Beyond these there is no more to see.
  constexpr size_t MostLines = 64;
  if (Line == RangeLines.size() && Line != MostLines)
    RangeLines.push_back(0);
  Line = std::min(Line, RangeLines.size() - 1);
  RangeLines[Line] = Length ? lineOf(Start, *Length) : INT64_MAX;
  event(Length ? "X" : "B", "user_annotation", R.text(ranges::name),
        R.number(ranges::pid), "ranges " + std::to_string(Line + 1), Start,
        Length);
}

void TraceWriter::annotations() {
  forEachRow(C, TableId::ranges, ranges::rank, Rank, [&](const ExportRow &R) {
    Number Start = R.number(ranges::start), Dur = R.number(ranges::dur),
           Pid = R.number(ranges::pid), Tid = R.number(ranges::tid),
           Step = R.number(ranges::step);
    StringRef Name = R.text(ranges::name);
    if (!Start || isToldByOperator(R))
      return;
    // By this name all that reads PyTorch's traces knows a step.
    if (Step && Dur && !Name.starts_with("ProfilerStep")) {
      event("X", "user_annotation", "ProfilerStep#" + std::to_string(*Step),
            Pid, Tid, *Start, Dur);
      endEvent();
    }
    if (Tid)
      event(Dur ? "X" : "B", "user_annotation", Name, Pid, Tid, *Start, Dur);
    else
      processRange(R, *Start, Dur);
    textArgument("domain", R.text(ranges::domain));
    endEvent();
  });
}

void TraceWriter::memory() {
  forEachRow(C, TableId::memory_events, memory_events::rank, Rank,
             [&](const ExportRow &R) {
               Number At = R.number(memory_events::at),
                      Bytes = R.number(memory_events::bytes),
                      Device = R.number(memory_events::device);
               if (!At || !Bytes)
                 return;
               line();
               OS << R"({"ph":"i","s":"t","cat":"cpu_instant_event",)"
                  << R"("name":"[memory]","pid":)" << HostPid.value_or(0)
                  << R"(,"tid":)" << HostPid.value_or(0) << R"(,"ts":)";
               time(*At);
               OS << R"(,"args":{)";
               beginArguments();
               argument("Addr", R.number(memory_events::address));
               argument("Bytes", Bytes);
               argument("Device Type", Device == -1 ? 0 : 1);
               argument("Device Id", Device);
               argument("Total Allocated", R.number(memory_events::allocated));
               argument("Total Reserved", R.number(memory_events::reserved));
               endEvent();
             });
}

void TraceWriter::samples() {
  forEachRow(C, TableId::counters, counters::rank, Rank,
             [&](const ExportRow &R) {
               Number At = R.number(counters::at);
               std::optional<double> Value = R.real(counters::value);
               if (!At || !Value || !std::isfinite(*Value))
                 return;
               Number Device = R.number(counters::device);
               event("C", "counter", R.text(counters::name),
                     Device ? Device : HostPid, 0, *At, std::nullopt);
               key("value");
               OS << format("%.17g", *Value);
               argument("device", Device);
               endEvent();
             });
}

void TraceWriter::overheads() {
  forEachRow(C, TableId::profiler_events, profiler_events::rank, Rank,
             [&](const ExportRow &R) {
               Number Start = R.number(profiler_events::start),
                      Dur = R.number(profiler_events::dur);
               if (R.text(profiler_events::kind) != "overhead" || !Start ||
                   !Dur)
                 return;
               // -1 is the profiler's own line.
               Number Pid = R.number(profiler_events::pid);
               event("X", "overhead", R.text(profiler_events::name),
                     Pid.value_or(-1),
                     R.number(profiler_events::tid).value_or(0), *Start, Dur);
               endEvent();
             });
}

void TraceWriter::write() {
  header();
  OS << "\"traceEvents\":[";
  findFlows();
  names();
  calls();
  operators();
  annotations();
  work();
  waits();
  memory();
  samples();
  overheads();
  OS << "\n]}\n";
}

void writeChromeTrace(raw_ostream &OS, const Case &C, int64_t Rank,
                      const ExportOptions &Options) {
  TraceWriter(OS, C, Rank, Options).write();
}

} // namespace culprit
