//===- CaptureTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Capture.h"
#include "CaptureTestSupport.h"

using namespace culprit;
using namespace culprit::capture;

namespace {

TEST_F(CaptureTest, EveryKind) {
  CaptureBuilder B(3);
  addEveryKind(B);
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(match(Reader), Match::Certain);
  EXPECT_EQ(remarks(), "");
  EXPECT_EQ(S->EpochNs, int64_t(CaptureBuilder::Begin));

  ASSERT_EQ(rows(TableId::gpu_work), 7u);
  EXPECT_EQ(cells(TableId::gpu_work, 0,
                  {"kind", "name", "start", "stop", "dur", "rank", "device",
                   "context", "stream", "correlation", "grid", "block",
                   "registers", "shared_bytes", "graph", "role", "place"}),
            "kernel void ns::gemm<float>(float*) 2000 3000 1000 3 0 1 7 1 "
            "[4, 3, 2] [128, 1, 1] 40 1536 - compute 0");
  EXPECT_EQ(cells(TableId::gpu_work, 1, {"name", "graph", "role"}),
            "softmax_kernel 11 compute");
  EXPECT_EQ(cell(TableId::gpu_work, 2, "role"), "communication");
  EXPECT_EQ(cells(TableId::gpu_work, 3,
                  {"kind", "name", "bytes", "copy_kind", "src_kind",
                   "dst_kind", "stream", "role"}),
            "copy Memcpy HtoD (Pinned -> Device) 1048576 HtoD pinned device 8 "
            "copy");
  EXPECT_EQ(cells(TableId::gpu_work, 4, {"name", "copy_kind", "device"}),
            "Memcpy PtoP (Device -> Device) PtoP 0");
  EXPECT_EQ(cells(TableId::gpu_work, 5,
                  {"kind", "name", "bytes", "dst_kind", "role"}),
            "set Memset (Device) 256 device set");
  EXPECT_EQ(cells(TableId::gpu_work, 6,
                  {"name", "bytes", "stream", "correlation"}),
            "Memcpy HtoD (Managed -> Managed) (page fault) 65536 - -");

  ASSERT_EQ(rows(TableId::host_calls), 9u);
  EXPECT_EQ(cells(TableId::host_calls, 0,
                  {"name", "role", "start", "stop", "pid", "tid",
                   "correlation", "result"}),
            "cudaLaunchKernel launch 1000 1500 42 43 1 0");
  EXPECT_EQ(cells(TableId::host_calls, 8, {"name", "role", "place"}),
            "cudaMalloc allocate 8");
  EXPECT_EQ(cells(TableId::syncs, 0,
                  {"kind", "start", "stop", "device", "stream", "correlation",
                   "event", "waits_for", "recorded_on"}),
            "event 2810 8990 0 - 8 3 7 8");
  EXPECT_EQ(cells(TableId::memory_events, 0,
                  {"at", "address", "bytes", "device", "stream"}),
            "9150 139637976727552 2097152 0 -");
  EXPECT_EQ(cell(TableId::memory_events, 1, "bytes"), "-2097152");
  EXPECT_EQ(cells(TableId::counters, 0, {"name", "at", "value", "device"}),
            "um_gpu_page_faults 4990 3 0");
  EXPECT_EQ(cells(TableId::profiler_events, 0,
                  {"kind", "name", "dur", "pid", "tid"}),
            "overhead Lazy function loading (CUDA) 800 42 43");
  EXPECT_EQ(cells(TableId::devices, 0,
                  {"model", "vendor", "memory", "multiprocessors", "clock",
                   "bandwidth", "uuid"}),
            "NVIDIA H200 nvidia 150000000000 132 1980000000 4800 "
            "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(cells(TableId::ranks, 0, {"rank", "host", "pid"}), "3 node-7 42");
  EXPECT_EQ(cells(TableId::collectives, 0, {"op", "start", "stop", "state"}),
            "all_reduce 3200 4200 completed");

  ASSERT_EQ(rows(TableId::ranges), 3u);
  EXPECT_EQ(cells(TableId::ranges, 0,
                  {"name", "category", "start", "stop", "domain", "step",
                   "tid"}),
            "step 12 step 500 9300 training 12 43");
  EXPECT_EQ(cells(TableId::ranges, 1, {"name", "category", "start", "stop"}),
            "forward annotation 900 2350");
  EXPECT_EQ(cells(TableId::ranges, 2, {"name", "start", "stop"}),
            "checkpoint 2360 2360");
}

TEST_F(CaptureTest, RangesArePairedByTheirIds) {
  CaptureBuilder B;
  // Ended by another thread, whose buffer came first.
  B.add(B.marker(4, 1, 90));
  B.add(B.marker(2, 1, 10, "handed over"));
  // Two open ones of one name end in the order they began, not nested.
  B.add(B.marker(2, 2, 20, "io"));
  B.add(B.marker(2, 3, 30, "io"));
  B.add(B.marker(4, 2, 40));
  B.add(B.marker(4, 3, 50));
  B.add(B.marker(2, 4, 60, "never closed"));
  B.add(B.marker(4, 99, 70)); // began before the capture
  // The same id in another process is another range.
  MarkerRecord Other = B.marker(4, 4, 80);
  Other.process = 7;
  B.add(Other);
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  ASSERT_EQ(rows(TableId::ranges), 4u);
  EXPECT_EQ(cells(TableId::ranges, 0, {"name", "start", "stop"}),
            "handed over 10 90");
  EXPECT_EQ(cells(TableId::ranges, 1, {"start", "stop"}), "20 40");
  EXPECT_EQ(cells(TableId::ranges, 2, {"start", "stop"}), "30 50");
  EXPECT_EQ(cells(TableId::ranges, 3, {"name", "stop", "dur"}),
            "never closed - -");
  EXPECT_EQ(cells(TableId::profiler_events, 0, {"kind", "message"}),
            "warning 2 ranges began before the capture and cannot be named");
}

TEST_F(CaptureTest, TheLongestNumberedRangesAreTheSteps) {
  CaptureBuilder B;
  B.add(B.marker(2, 1, 0, "iteration 1"));
  B.add(B.marker(2, 2, 10, "step 1"));
  B.add(B.marker(4, 2, 20));
  B.add(B.marker(2, 3, 30, "step 2"));
  B.add(B.marker(4, 3, 40));
  B.add(B.marker(4, 1, 100));
  B.add(B.marker(2, 4, 110, "aten::add, op_id = 17, sizes = [[2, 3]]"));
  B.add(B.marker(4, 4, 120));
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  ASSERT_EQ(rows(TableId::ranges), 3u);
  EXPECT_EQ(cells(TableId::ranges, 0, {"name", "category", "step"}),
            "iteration 1 step 1");
  EXPECT_EQ(cells(TableId::ranges, 1, {"name", "category", "step"}),
            "step 1 annotation -");
  EXPECT_EQ(cells(TableId::host_ops, 0,
                  {"name", "category", "external", "shapes", "dur"}),
            "aten::add operator 17 [[2, 3]] 10");
}

// Before 12.8 a wait does not say which record of its event it is for.
TEST_F(CaptureTest, AWaitIsForTheLastRecordOfItsEventBefore) {
  CaptureBuilder B;
  for (uint32_t Call : {5u, 9u}) {
    EventRecord R = {};
    R.correlation = Call;
    R.stream = Call + 100;
    R.event = 3;
    B.add(R);
  }
  SyncRecord Wait = {};
  Wait.start = Wait.end = CaptureBuilder::Begin;
  Wait.type = 2;
  Wait.event = 3;
  for (uint32_t Call : {4u, 7u, 10u}) {
    Wait.correlation = Call;
    B.add(Wait);
  }
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(cells(TableId::syncs, 0, {"kind", "waits_for"}), "stream-wait -");
  EXPECT_EQ(cells(TableId::syncs, 1, {"waits_for", "recorded_on"}), "5 105");
  EXPECT_EQ(cells(TableId::syncs, 2, {"waits_for", "recorded_on"}), "9 109");
}

TEST_F(CaptureTest, OperatorsAreKnownByTheirExternalIds) {
  CaptureBuilder B;
  // The framework's own operators count before its annotations (4).
  for (auto [Kind, Id] : {std::pair(4u, 80u), {3u, 70u}, {4u, 81u}}) {
    ExternalRecord R = {};
    R.external = Id;
    R.kind = Kind;
    R.correlation = 5;
    B.add(R);
  }
  KernelRecord K = B.kernel(0, 1);
  K.correlation = 5;
  B.add(K);
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(cell(TableId::gpu_work, 0, "external"), "70");
}

// Two pools of device 0 and one of device 1; a counter is their sum by device.
TEST_F(CaptureTest, PoolsOfMemoryAreCounters) {
  CaptureBuilder B;
  constexpr uint32_t Created = 1, Destroyed = 2, Trimmed = 3, Imported = 2;
  auto Pool = [&](uint64_t At, uint32_t Operation, uint32_t Device,
                  uint64_t Address, uint64_t Size, uint64_t Used,
                  uint32_t Type = 1) {
    PoolRecord R = {};
    R.at = CaptureBuilder::Begin + At;
    R.operation = Operation;
    R.type = Type;
    R.device = Device;
    R.address = Address;
    R.size = Size;
    R.used = Used;
    B.add(R);
  };
  // The second came in a buffer before that of the first.
  Pool(20, Created, 0, 0xb, 500, 100);
  Pool(10, Created, 0, 0xa, 4000, 1000);
  Pool(30, Created, 1, 0xa, 7, 0);
  Pool(40, Trimmed, 0, 0xa, 2000, 900);
  Pool(45, Created, 0, 0xc, 12345, 0, Imported);
  Pool(50, Destroyed, 0, 0xb, 500, 0);
  Pool(60, Trimmed, 0, 0xa, ~0ull, 0); // damage
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  std::string Samples;
  for (unsigned I = 0; I != rows(TableId::counters); ++I)
    Samples += cells(TableId::counters, I,
                     {"name", "at", "value", "device", "place"}) +
               "\n";
  EXPECT_EQ(Samples, "memory_pool_size 10 4000 0 1\n"
                     "memory_pool_used 10 1000 0 1\n"
                     "memory_pool_size 20 4500 0 0\n"
                     "memory_pool_used 20 1100 0 0\n"
                     "memory_pool_size 30 7 1 2\n"
                     "memory_pool_used 30 0 1 2\n"
                     "memory_pool_size 40 2500 0 3\n"
                     "memory_pool_used 40 1000 0 3\n"
                     "memory_pool_size 50 2000 0 5\n"
                     "memory_pool_used 50 900 0 5\n");
  EXPECT_EQ(remarks(),
            "1 record was skipped: without a time, or ended before it began");
}

} // namespace
