//===- CaptureTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/Capture.h"
#include "../../sim/CaptureBuilder.h"
#include "ProfileTestSupport.h"
#include "Readers/CaptureCheck.h"

using namespace culprit;
using namespace culprit::capture;

namespace {

constexpr uint64_t T0 = CaptureBuilder::Begin;

class CaptureTest : public ProfileTest {
protected:
  std::string readBytes(const std::string &Bytes) {
    write(Bytes);
    return read(Reader);
  }
  /// The same without a file on a disk, for thousands of them.
  std::string readInMemory(std::string_view Bytes) {
    int File = memfd_create("capture", 0);
    EXPECT_EQ(::write(File, Bytes.data(), Bytes.size()),
              static_cast<ssize_t>(Bytes.size()));
    std::string Error = readFrom("/proc/self/fd/" + std::to_string(File));
    close(File);
    return Error;
  }
  std::string readFrom(const std::string &Name) {
    llvm::Expected<std::unique_ptr<InputFile>> Input = InputFile::open(Name);
    if (!Input)
      return toString(Input.takeError());
    S = std::make_unique<Source>("capture", Pool);
    llvm::Error E = Reader.read(**Input, *S);
    return E ? toString(std::move(E)) : "";
  }
  MarkerRecord marker(CaptureBuilder &B, uint32_t Flags, uint32_t Id,
                      uint64_t At, const char *Name = nullptr) {
    MarkerRecord R = {};
    R.at = T0 + At;
    R.flags = Flags;
    R.id = Id;
    R.object = 2;
    R.process = 42;
    R.thread = 43;
    R.name = Name ? B.name(Name) : 0;
    return R;
  }
  size_t allRows() {
    size_t Sum = 0;
    for (TableId Id : {TableId::gpu_work, TableId::host_calls, TableId::syncs,
                       TableId::ranges, TableId::memory_events,
                       TableId::counters, TableId::devices})
      Sum += rows(Id);
    return Sum;
  }
  CaptureReader Reader;
};

KernelRecord kernelAt(uint64_t Start, uint64_t End) {
  KernelRecord R = {};
  R.start = T0 + Start;
  R.end = T0 + End;
  return R;
}

TEST_F(CaptureTest, EveryKind) {
  CaptureBuilder B(3);
  addEveryKind(B);
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(match(Reader), Match::Certain);
  EXPECT_EQ(remarks(), "");
  EXPECT_EQ(S->EpochNs, int64_t(T0));

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
  B.add(marker(B, 4, 1, 90));
  B.add(marker(B, 2, 1, 10, "handed over"));
  // Two open ones of one name end in the order they began, not nested.
  B.add(marker(B, 2, 2, 20, "io"));
  B.add(marker(B, 2, 3, 30, "io"));
  B.add(marker(B, 4, 2, 40));
  B.add(marker(B, 4, 3, 50));
  B.add(marker(B, 2, 4, 60, "never closed"));
  B.add(marker(B, 4, 99, 70)); // began before the capture
  // The same id in another process is another range.
  MarkerRecord Other = marker(B, 4, 4, 80);
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
  B.add(marker(B, 2, 1, 0, "iteration 1"));
  B.add(marker(B, 2, 2, 10, "step 1"));
  B.add(marker(B, 4, 2, 20));
  B.add(marker(B, 2, 3, 30, "step 2"));
  B.add(marker(B, 4, 3, 40));
  B.add(marker(B, 4, 1, 100));
  B.add(marker(B, 2, 4, 110, "aten::add, op_id = 17, sizes = [[2, 3]]"));
  B.add(marker(B, 4, 4, 120));
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
  Wait.start = Wait.end = T0;
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
  KernelRecord K = kernelAt(0, 1);
  K.correlation = 5;
  B.add(K);
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(cell(TableId::gpu_work, 0, "external"), "70");
}

TEST_F(CaptureTest, AKilledProcessLeavesAUsableCapture) {
  CaptureBuilder B;
  B.add(kernelAt(0, 5));
  B.flush();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(rows(TableId::gpu_work), 1u);
  EXPECT_EQ(remarks(), "has no end: the process was killed, or is still being "
                       "recorded");
  EXPECT_EQ(cell(TableId::profiler_events, 0, "kind"), "cut");
}

TEST_F(CaptureTest, SaysWhatWasLostAndWhy) {
  CaptureBuilder B;
  B.add(kernelAt(0, 5));
  B.add(kernelAt(9, 5));  // ends before it begins
  KernelRecord NoTime = {};
  B.add(NoTime);
  B.Lost.CuptiDropped = 12;
  B.Lost.PoolOverflow = 1;
  B.Lost.Seen += 13;
  B.state(StateCode::KindRefused, "memory: CUPTI_ERROR_NOT_COMPATIBLE");
  B.finish(EndReason::FileFull);
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(remarks(),
            "ends early: the file reached its largest size\n"
            "12 records were lost: CUPTI had no room for them\n"
            "1 record was lost: all buffers of the agent were in use when they "
            "came\n"
            "memory: CUPTI_ERROR_NOT_COMPATIBLE\n"
            "2 records were skipped: without a time, or ended before it began");
  EXPECT_EQ(cells(TableId::profiler_events, 0, {"kind", "start"}),
            "cut 1000000000");
  EXPECT_EQ(cells(TableId::profiler_events, 1, {"kind", "name", "count"}),
            "lost CUPTI 12");
  EXPECT_EQ(cells(TableId::profiler_events, 2, {"kind", "name", "count"}),
            "lost buffers 1");
  EXPECT_EQ(cell(TableId::profiler_events, 3, "kind"), "warning");
}

TEST_F(CaptureTest, AClockThatWasSetIsTold) {
  CaptureBuilder B;
  B.add(kernelAt(0, 5));
  B.Writer.addClock({T0, 1000, 1000, T0});
  B.Writer.addClock({T0 + 1000000000, 1000001000, 1000001000, T0});
  B.Writer.addClock({T0 + 500000000, 2000001000, 2000001000, T0});
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(remarks(), "the clock of the host was set back by 1.50 s");
}

TEST_F(CaptureTest, RefusesWhatItCannotRead) {
  CaptureBuilder B;
  std::string Bytes = B.bytes();
  EXPECT_EQ(readBytes(Bytes.substr(0, 100)),
            path() + ": ends inside of its head, at byte 100 of 4096");
  Superblock Head;
  std::memcpy(&Head, Bytes.data(), sizeof(Head));
  Head.Major = 2;
  Head.Crc = crc32c(0, &Head, offsetof(Superblock, Crc));
  std::memcpy(Bytes.data(), &Head, sizeof(Head));
  EXPECT_EQ(readBytes(Bytes), path() + ": is a capture of format 2, of which "
                                       "only 1 is known here");
}

// Whatever is cut off: what is there is a beginning of the whole, and it is
// said that something is missing.
TEST_F(CaptureTest, CutAtEveryByte) {
  CaptureBuilder B;
  addEveryKind(B);
  B.finish();
  const std::string Bytes = B.bytes();
  ASSERT_EQ(readBytes(Bytes), "");
  const size_t Whole = allRows();
  size_t Before = 0;
  for (size_t Size = 0; Size < Bytes.size(); ++Size) {
    std::string Error = readInMemory(std::string_view(Bytes).substr(0, Size));
    if (Size < SuperblockSize) {
      ASSERT_NE(Error, "") << Size;
      continue;
    }
    ASSERT_EQ(Error, "") << Size;
    ASSERT_GE(allRows(), Before) << Size;
    ASSERT_LE(allRows(), Whole) << Size;
    Before = allRows();
    // Padding behind the end is nothing.
    std::string_view View(Bytes.data(), Size);
    CaptureFile File(View);
    ASSERT_EQ(remarks().empty(), File.end() != nullptr) << Size;
    checkCapture(File);
  }
  EXPECT_EQ(Before, Whole);
}

TEST_F(CaptureTest, EveryByteFlipped) {
  CaptureBuilder B;
  addEveryKind(B);
  B.finish();
  const std::string Bytes = B.bytes();
  ASSERT_EQ(readBytes(Bytes), "");
  const size_t Whole = allRows();
  for (size_t At = 0; At < Bytes.size(); ++At) {
    std::string Bad = Bytes;
    Bad[At] = static_cast<char>(Bad[At] ^ (1 << At % 8));
    CaptureFile File(Bad);
    CaptureCheck Check = checkCapture(File);
    std::string Error = readInMemory(Bad);
    ASSERT_EQ(Error, "") << At;
    ASSERT_LE(allRows(), Whole) << At;
    if (allRows() < Whole) {
      ASSERT_NE(remarks(), "") << At;
      ASSERT_FALSE(Check.Broken.empty()) << At;
    }
    // What no checksum covers is padding and changes nothing.
    if (remarks().empty()) {
      ASSERT_TRUE(Check.Broken.empty()) << At << ' ' << Check.Broken[0];
    }
  }
}

class CaptureCheckTest : public testing::Test {
protected:
  static std::string brokenOf(const std::string &Bytes) {
    std::string Out;
    for (const std::string &Text : checkCapture(CaptureFile(Bytes)).Broken)
      Out += (Out.empty() ? "" : "\n") + Text;
    return Out;
  }
  /// Where the frame \p Number of \p Bytes begins.
  static size_t frameAt(const std::string &Bytes, size_t Number) {
    return CaptureFile(Bytes).frames()[Number].Offset;
  }
};

TEST_F(CaptureCheckTest, AWholeCaptureIsGood) {
  CaptureBuilder B;
  addEveryKind(B);
  B.Lost.Unwanted = 3;
  B.Lost.Seen += 3;
  B.finish();
  std::string Bytes = B.bytes();
  EXPECT_EQ(brokenOf(Bytes), "");
  // 1 device, 1 context, 9 calls, 3 kernels, 1 copy, 1 peer copy, 1 set,
  // 1 event, 1 sync, 2 memory, 2 paging, 1 overhead, 5 markers: 29.
  EXPECT_EQ(checkCapture(CaptureFile(Bytes)).Sum,
            "32 records seen = 29 written + 3 lost or left out");
}

TEST_F(CaptureCheckTest, SeenIsWrittenAndLost) {
  CaptureBuilder B;
  B.add(kernelAt(0, 5));
  B.Lost.Seen += 2;
  B.Lost.PoolOverflow = 1;
  B.finish();
  EXPECT_EQ(brokenOf(B.bytes()),
            "3 records seen, but 1 written and 1 counted as lost or left out: "
            "1 unaccounted for");
}

TEST_F(CaptureCheckTest, AFrameThatIsGoneIsMissed) {
  CaptureBuilder B;
  B.add(kernelAt(0, 5)); // frames: 0 schema, 1 records, 2 drops
  B.flush();
  B.add(kernelAt(7, 9)); // 3 records, 4 drops, 5 end
  B.finish();
  std::string Bytes = B.bytes();
  size_t From = frameAt(Bytes, 3), To = frameAt(Bytes, 4);
  EXPECT_EQ(brokenOf(Bytes.substr(0, From) + Bytes.substr(To)),
            "1 frame is missing between those that are there\n"
            "kernel: 1 in the file, 2 by its end");
  // Without its first frame no record can be understood.
  From = frameAt(Bytes, 0);
  To = frameAt(Bytes, 1);
  EXPECT_EQ(brokenOf(Bytes.substr(0, From) + Bytes.substr(To)),
            "1 frame is missing between those that are there\n"
            "2 records have no layout\n"
            "kernel: 0 in the file, 2 by its end");
}

TEST_F(CaptureCheckTest, AKilledProcessBreaksNothing) {
  CaptureBuilder B;
  B.add(kernelAt(0, 5));
  B.flush();
  B.add(kernelAt(7, 9));
  B.flush();
  std::string Bytes = B.bytes();
  EXPECT_EQ(brokenOf(Bytes), "");
  // Torn in the last frame of records: the count before it holds.
  EXPECT_EQ(brokenOf(Bytes.substr(0, frameAt(Bytes, 3) + 40)), "");
}

TEST_F(CaptureCheckTest, ARingMayForgetWhatIsOld) {
  FrameWriter::Options O;
  O.MaxSize = 1;
  O.Full = FullPolicy::Ring;
  CaptureBuilder B(~0u, O);
  // The smallest ring is of some 20 MiB, a kernel of 136 bytes.
  for (uint64_t I = 0; I != 300000; ++I)
    B.add(kernelAt(I, I + 1));
  B.finish();
  std::string Bytes = B.bytes();
  CaptureFile File(Bytes);
  ASSERT_GT(File.frames().back().Head.Epoch, 0u);
  ASSERT_LT(File.count(RecordKind::Kernel), 300000u);
  EXPECT_EQ(brokenOf(Bytes), "");
}

} // namespace
