//===- CaptureCounts.cpp - What a capture holds, as JSON --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: capture-counts FILE
///
/// Prints the counts that tests of the agent hold against what a workload did,
/// with one object on one line. Exit 1 when FILE is no capture or its records
/// and what is said of them do not agree.
///
//===----------------------------------------------------------------------===//

#include "Capture/CaptureFile.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace culprit::capture;

static void number(const char *Key, uint64_t Value) {
  std::printf("\"%s\": %llu, ", Key, static_cast<unsigned long long>(Value));
}

using Spans = std::vector<std::pair<uint64_t, uint64_t>>;

static uint64_t sum(const Spans &All) {
  uint64_t Sum = 0;
  for (const auto &[Begin, End] : All)
    Sum += End - Begin;
  return Sum;
}

static uint64_t unionOf(Spans All) {
  std::sort(All.begin(), All.end());
  uint64_t Sum = 0, Until = 0;
  for (const auto &[Begin, End] : All) {
    Sum += End > Until ? End - std::max(Begin, Until) : 0;
    Until = std::max(Until, End);
  }
  return Sum;
}

int main(int Count, char **Arguments) {
  if (Count != 2) {
    std::fprintf(stderr, "usage: capture-counts FILE\n");
    return 2;
  }
  std::ifstream In(Arguments[1], std::ios::binary);
  std::string Bytes((std::istreambuf_iterator<char>(In)), {});
  if (!CaptureFile::isCapture(Bytes)) {
    std::fprintf(stderr, "capture-counts: %s is no capture\n", Arguments[1]);
    return 1;
  }
  CaptureFile C(Bytes);
  std::printf("{");
#define CAPTURE_RECORD(Id, Number, Name) number(Name, C.count(RecordKind::Id));
#include "Capture/Records.def"

  std::map<std::string, uint64_t> Names, Calls, Parts;
  std::map<std::string, std::set<uint32_t>> Streams;
  std::vector<std::pair<uint64_t, uint64_t>> Kernels, Copies;
  std::set<uint32_t> Launches, Threads;
  uint64_t CopyBytes = 0, Unnamed = 0, Unjoined = 0, Doubled = 0, BadShape = 0,
           Graphs = 0, BadTime = 0;
  C.each<CallRecord>([&](const CallRecord &R, uint32_t Epoch, uint64_t) {
    std::string Name(C.text(Epoch, R.name));
    Unnamed += Name.empty();
    ++Calls[Name];
    BadTime += R.end < R.start;
    Threads.insert(R.thread);
    if (Name.find("Launch") != std::string::npos)
      Doubled += !Launches.insert(R.correlation).second;
  });
  C.each<KernelRecord>([&](const KernelRecord &R, uint32_t Epoch, uint64_t) {
    std::string Name(C.text(Epoch, R.name));
    Unnamed += Name.empty();
    ++Names[Name];
    Streams[Name].insert(R.stream);
    Kernels.push_back({R.start, R.end});
    Unjoined += !Launches.count(R.correlation);
    Graphs += R.graph != 0;
    BadTime += R.end < R.start;
    LaunchShape S = C.shape(Epoch, R.shape);
    BadShape += S.grid_x != 1 || S.block_x != 256 || S.registers != 32;
  });
  C.each<CopyRecord>([&](const CopyRecord &R, uint32_t, uint64_t) {
    CopyBytes += R.bytes;
    Parts["copy_bytes " + std::to_string(R.copy_kind)] += R.bytes;
    Parts["copy_from " + std::to_string(R.src_kind)] += 1;
    Copies.push_back({R.start, R.end});
  });
  C.each<SetRecord>([&](const SetRecord &R, uint32_t, uint64_t) {
    Parts["set_bytes"] += R.bytes;
  });
  C.each<SyncRecord>([&](const SyncRecord &R, uint32_t, uint64_t) {
    ++Parts["sync " + std::to_string(R.type)];
  });
  C.each<MemoryRecord>([&](const MemoryRecord &R, uint32_t, uint64_t) {
    ++Parts["memory " + std::to_string(R.operation)];
  });
  C.each<PagingRecord>([&](const PagingRecord &R, uint32_t, uint64_t) {
    Parts["paging_bytes " + std::to_string(R.counter)] += R.value;
  });
  Parts["kernel_ns"] = sum(Kernels);
  Parts["kernel_union_ns"] = unionOf(Kernels);
  // Of copies and kernels, what was at the same time.
  auto Both = Kernels;
  Both.insert(Both.end(), Copies.begin(), Copies.end());
  Parts["overlap_ns"] = unionOf(Kernels) + unionOf(Copies) - unionOf(Both);
  for (const auto &[Name, N] : Parts)
    number(Name.c_str(), N);
  for (const auto &[Name, Of] : Streams)
    number(("streams " + Name).c_str(), Of.size());
  number("copy_bytes", CopyBytes);
  number("unnamed", Unnamed);
  number("unjoined", Unjoined);
  number("doubled", Doubled);
  number("bad_shape", BadShape);
  number("bad_time", BadTime);
  number("of_graphs", Graphs);
  number("threads", Threads.size());
  for (const auto &[Name, N] : Names)
    number(("kernel " + Name).c_str(), N);
  for (const auto &[Name, N] : Calls)
    number(("call " + Name).c_str(), N);

  const Drops &D = C.drops();
  uint64_t Lost = D.CuptiDropped + D.PoolOverflow + D.ZeroTime + D.FileCap +
                  D.WriteError + D.Unwanted;
  uint64_t Devices = 0, Contexts = 0;
  C.each<DeviceRecord>([&](const DeviceRecord &R, uint32_t Epoch, uint64_t) {
    Devices += !C.text(Epoch, R.name).empty();
  });
  C.each<ContextRecord>(
      [&](const ContextRecord &, uint32_t, uint64_t) { ++Contexts; });
  number("devices", Devices);
  number("contexts", Contexts);
  number("overwritten", C.overwritten());
  number("kept_from", C.keptFrom());
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  number("seen " Name, C.seen(RecordKind::Id));
#include "Capture/Records.def"
  number("seen", D.Seen);
  number("written", D.Written);
  number("cupti_dropped", D.CuptiDropped);
  number("pool_overflow", D.PoolOverflow);
  number("zero_time", D.ZeroTime);
  number("file_cap", D.FileCap);
  number("write_error", D.WriteError);
  number("unwanted", D.Unwanted);
  number("parse_stop", D.ParseStopBytes);
  number("gap_bytes", C.gapBytes());
  number("missing_frames", C.missingFrames());
  number("without_schema", C.recordsWithoutSchema());
  number("cupti", C.head().Cupti);
  number("heartbeats", C.heartbeats().size());
  if (!C.heartbeats().empty())
    number("agent_cpu", C.heartbeats().back().AgentCpu);
  number("size", Bytes.size());
  std::printf("\"states\": [");
  bool First = true;
  for (const StateView &S : C.states()) {
    std::printf("%s\"%u %.*s\"", First ? "" : ", ", unsigned(S.Head.Code),
                int(S.What.size()), S.What.data());
    First = false;
  }
  std::printf("], \"end\": %d}\n", C.end() ? int(C.end()->Reason) : 0);

  bool Good = C.isHeadGood() && D.Seen == D.Written + Lost &&
              !C.recordsWithoutSchema();
  if (!Good)
    std::fprintf(stderr, "capture-counts: %llu seen, %llu written, %llu lost\n",
                 static_cast<unsigned long long>(D.Seen),
                 static_cast<unsigned long long>(D.Written),
                 static_cast<unsigned long long>(Lost));
  return Good ? 0 : 1;
}
