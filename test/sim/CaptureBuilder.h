//===- CaptureBuilder.h - Captures for tests --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Writes captures without a process to record, with the agent's own writer.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_SIM_CAPTUREBUILDER_H
#define CULPRIT_TEST_SIM_CAPTUREBUILDER_H

#include "Capture/FrameWriter.h"
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace culprit::capture {

class CaptureBuilder {
public:
  /// Unix time at which the capture begins, ns; all times count from it.
  static constexpr uint64_t Begin = 1700000000000000000;

  explicit CaptureBuilder(uint32_t Rank = ~0u,
                          FrameWriter::Options O = FrameWriter::Options())
      : File(memfd_create("capture", 0)) {
    Superblock Head = {};
    std::memcpy(Head.Magic, Magic, sizeof(Magic));
    Head.Major = MajorVersion;
    Head.Minor = MinorVersion;
    Head.ByteOrder = ByteOrder;
    Head.Created = Begin;
    Head.Pid = 42;
    Head.Rank = Rank;
    Head.How = Entry::Launched;
    std::strcpy(Head.Host, "node-7");
    Writer.open(File, Head, O);
  }
  ~CaptureBuilder() {
    Writer.close();
    close(File);
  }

  uint32_t name(const char *Text) { return Writer.name(Text); }
  /// The id for a null pointer is 0, as the agent writes it.
  template <typename Record> void add(const Record &R) {
    ++Lost.Seen;
    if (void *To = Writer.add(Record::Kind))
      std::memcpy(To, &R, sizeof(R));
  }
  /// A kernel without a name; times as of Begin.
  static KernelRecord kernel(uint64_t Start, uint64_t End) {
    KernelRecord R = {};
    R.start = Begin + Start;
    R.end = Begin + End;
    return R;
  }
  /// A moment (1), begin (2) or end (4) of an NVTX range of a thread.
  MarkerRecord marker(uint32_t Flags, uint32_t Id, uint64_t At,
                      const char *Name = nullptr) {
    MarkerRecord R = {};
    R.at = Begin + At;
    R.flags = Flags;
    R.id = Id;
    R.object = 2;
    R.process = 42;
    R.thread = 43;
    R.name = Name ? name(Name) : 0;
    return R;
  }
  void state(StateCode Code, const char *What) {
    Writer.addState(Code, 0, Begin, What);
  }
  void flush() { Writer.flush(Lost); }
  void finish(EndReason Reason = EndReason::Exit) {
    Writer.finish(Reason, Begin + 1000000000, Lost);
  }
  std::string bytes() const {
    std::string Out(static_cast<size_t>(lseek(File, 0, SEEK_END)), 0);
    if (pread(File, Out.data(), Out.size(), 0) < 0)
      Out.clear();
    return Out;
  }

  FrameWriter Writer;
  Drops Lost = {};

private:
  int File;
};

/// A record of every kind that becomes rows, each a little different from the
/// others, in a file of some KiB.
inline void addEveryKind(CaptureBuilder &B) {
  constexpr uint64_t T = CaptureBuilder::Begin;
  DeviceRecord D = {};
  D.id = 0;
  D.name = B.name("NVIDIA H200");
  D.memory = 150000000000;
  D.bandwidth = 4800000000; // kB/s
  D.core_clock = 1980000;   // kHz
  D.multiprocessors = 132;
  D.capability_major = 9;
  D.uuid_low = 0x0706050403020100;
  D.uuid_high = 0x0f0e0d0c0b0a0908;
  B.add(D);
  ContextRecord C = {};
  C.context = 1;
  B.add(C);

  auto Call = [&](const char *Name, uint32_t Domain, uint32_t Correlation,
                  uint64_t Start, uint64_t End) {
    CallRecord R = {};
    R.start = T + Start;
    R.end = T + End;
    R.name = B.name(Name);
    R.domain = Domain;
    R.process = 42;
    R.thread = 43;
    R.correlation = Correlation;
    B.add(R);
  };
  Call("cudaLaunchKernel_v7000", 2, 1, 1000, 1500);
  Call("cuLaunchKernelEx", 1, 2, 1600, 1700);
  Call("cudaMemcpyAsync_v3020", 2, 3, 1800, 1900);
  Call("cudaMemcpyPeerAsync_v4000", 2, 4, 2000, 2100);
  Call("cudaMemsetAsync_v3020", 2, 5, 2200, 2300);
  Call("cudaGraphLaunch_v10000", 2, 6, 2400, 2500);
  Call("cudaEventRecord_v3020", 2, 7, 2600, 2700);
  Call("cudaEventSynchronize_v3020", 2, 8, 2800, 9000);
  Call("cudaMalloc_v3020", 2, 9, 9100, 9200);

  auto Kernel = [&](const char *Name, uint32_t Correlation, uint64_t Start,
                    uint64_t End) {
    KernelRecord R = B.kernel(Start, End);
    R.name = B.name(Name);
    R.context = 1;
    R.stream = 7;
    R.correlation = Correlation;
    LaunchShape S;
    std::memset(&S, 0, sizeof(S));
    S.grid_x = 4;
    S.grid_y = 3;
    S.grid_z = 2;
    S.block_x = 128;
    S.block_y = S.block_z = 1;
    S.static_shared = 1024;
    S.dynamic_shared = 512;
    S.registers = 40;
    R.shape = B.Writer.name(&S, sizeof(S));
    return R;
  };
  B.add(Kernel("_ZN2ns4gemmIfEEvPT_", 1, 2000, 3000));
  KernelRecord Graph = Kernel("softmax_kernel", 6, 3000, 3100);
  Graph.graph = 5;
  Graph.graph_node = 11;
  B.add(Graph);
  B.add(Kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2, 3200, 4200));

  CopyRecord Copy = {};
  Copy.start = T + 4300;
  Copy.end = T + 4400;
  Copy.bytes = 1 << 20;
  Copy.context = 1;
  Copy.stream = 8;
  Copy.correlation = 3;
  Copy.copy_kind = 1; // HtoD, from pinned to device.
  Copy.src_kind = 2;
  Copy.dst_kind = 3;
  B.add(Copy);
  PeerCopyRecord Peer = {};
  Peer.start = T + 4500;
  Peer.end = T + 4600;
  Peer.bytes = 4096;
  Peer.context = 1;
  Peer.stream = 8;
  Peer.correlation = 4;
  Peer.dst_device = 1;
  Peer.copy_kind = 10;
  Peer.src_kind = Peer.dst_kind = 3;
  B.add(Peer);
  SetRecord Set = {};
  Set.start = T + 4700;
  Set.end = T + 4710;
  Set.bytes = 256;
  Set.context = 1;
  Set.stream = 7;
  Set.correlation = 5;
  Set.memory_kind = 3;
  B.add(Set);

  EventRecord Event = {};
  Event.correlation = 7;
  Event.context = 1;
  Event.stream = 8;
  Event.event = 3;
  Event.event_sync = 77;
  B.add(Event);
  SyncRecord Sync = {};
  Sync.start = T + 2810;
  Sync.end = T + 8990;
  Sync.type = 1;
  Sync.correlation = 8;
  Sync.context = 1;
  Sync.stream = ~0u;
  Sync.event = 3;
  Sync.event_sync = 77;
  B.add(Sync);

  MemoryRecord Memory = {};
  Memory.at = T + 9150;
  Memory.address = 0x7f0000000000;
  Memory.bytes = 1 << 21;
  Memory.operation = 1;
  Memory.memory_kind = 3;
  Memory.stream = ~0u;
  B.add(Memory);
  Memory.at = T + 9900;
  Memory.operation = 2;
  B.add(Memory);

  PagingRecord Paging = {};
  Paging.start = T + 5000;
  Paging.end = T + 5100;
  Paging.value = 65536;
  Paging.counter = 1; // Bytes to the device,
  Paging.flags = 2;   // for a page fault.
  B.add(Paging);
  Paging.start = T + 4990;
  Paging.value = 3;
  Paging.counter = 4; // Faults of the device.
  B.add(Paging);

  OverheadRecord Overhead = {};
  Overhead.start = T + 100;
  Overhead.end = T + 900;
  Overhead.kind = 5 << 16; // Lazy loading of functions,
  Overhead.object = 2;     // on a thread.
  Overhead.process = 42;
  Overhead.thread = 43;
  B.add(Overhead);

  auto Marker = [&](uint32_t Flags, uint32_t Id, uint64_t At,
                    const char *Name) {
    MarkerRecord R = B.marker(Flags, Id, At, Name);
    R.domain = B.name("training");
    B.add(R);
  };
  Marker(2, 1, 500, "step 12");
  Marker(2, 2, 900, "forward");
  Marker(4, 2, 2350, nullptr);
  Marker(1, 3, 2360, "checkpoint");
  Marker(4, 1, 9300, nullptr);
}

} // namespace culprit::capture

#endif // CULPRIT_TEST_SIM_CAPTUREBUILDER_H
