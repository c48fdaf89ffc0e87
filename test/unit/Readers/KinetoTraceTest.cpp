//===- KinetoTraceTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTrace.h"
#include "KinetoTestSupport.h"
#include "Readers/KinetoTraceEvent.h"

using namespace llvm;
using namespace culprit;

// Not a using-directive: tests of a library are compiled together.
namespace culprit::kineto {
namespace {

using KinetoTraceTest = KinetoTest;

// 1712195495519689.047 us is beyond what a double holds to the nanosecond.
TEST(ScaledDecimalTest, IsExact) {
  EXPECT_EQ(scaledDecimal("1712195495519689.047", 3), 1712195495519689047);
  EXPECT_EQ(scaledDecimal("1669783687464181", 3), 1669783687464181000);
  EXPECT_EQ(scaledDecimal("0.0005", 3), 1);
  EXPECT_EQ(scaledDecimal("0.0004", 3), 0);
  EXPECT_EQ(scaledDecimal("-1.5", 3), -1500);
  EXPECT_EQ(scaledDecimal("1.5e3", 0), 1500);
  EXPECT_EQ(scaledDecimal("25e-1", 0), 3);
  EXPECT_EQ(scaledDecimal("9223372036854775807", 0), INT64_MAX);
  EXPECT_EQ(scaledDecimal("9223372036854775808", 0), std::nullopt);
  EXPECT_EQ(scaledDecimal("1e30", 0), std::nullopt);
  EXPECT_EQ(scaledDecimal("1e-999999999", 3), 0);
  for (StringRef Bad : {"", "-", ".", "NaN", "N/A", "null", "1x", "1e", "1..2"})
    EXPECT_EQ(scaledDecimal(Bad, 0), std::nullopt) << Bad.str();
}

TEST(DecodeStringTest, UndoesEscapes) {
  EXPECT_EQ(decodeString(R"(a\"b\\c\n)"), "a\"b\\c\n");
  EXPECT_EQ(decodeString(R"(\u00e9\ud83d\ude00)"), "\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(decodeString(R"(\ud83d!)"), "\xEF\xBF\xBD!");
  EXPECT_EQ(decodeString("a\xff"), "a\xEF\xBF\xBD");
  EXPECT_EQ(decodeString(R"(\u12)"), "\xEF\xBF\xBD"
                                     "12");
}

TEST_F(KinetoTraceTest, KernelHasAllItsColumns) {
  ASSERT_EQ(readTrace(R"({"schemaVersion": 1, "traceEvents": [)" +
                      event("kernel", "gemm", "1669783687000010", "5.25",
                            R"({"External id": 3, "device": 1, "context": 2,
        "stream": 7, "correlation": 99, "registers per thread": 32,
        "shared memory": 1024, "grid": [24, 2, 1], "block": [128, 1, 1],
        "graph node id": 0, "est. achieved occupancy %": NaN})") +
                      R"(], "distributedInfo": {"backend": "nccl", "rank": 3,
        "world_size": 8}})"),
            "");
  EXPECT_EQ(
      cells(TableId::gpu_work, 0,
            {"kind", "name", "start", "stop", "dur", "rank", "device",
             "context", "stream", "correlation", "external", "grid", "block",
             "registers", "shared_bytes", "graph", "role", "place"}),
      "kernel gemm 0 5250 5250 3 1 2 7 99 3 [24, 2, 1] [128, 1, 1] 32 "
      "1024 - compute 0");
  EXPECT_EQ(S->EpochNs, 1669783687000010000);
  EXPECT_EQ(cells(TableId::ranks, 0, {"rank", "world_size", "backend"}),
            "3 8 nccl");
  EXPECT_EQ(remarks(), "");
}

TEST_F(KinetoTraceTest, OldCategoriesReadTheSame) {
  ASSERT_EQ(
      readTrace(
          R"({"traceEvents": [)" +
          event("Operator", "ProfilerStep#5", "100", "50") + "," +
          event("Operator", "aten::add", "101", "2",
                R"({"External id": 2, "Input dims": [[1,
                   2], []], "Input type": ["Float", ""]})",
                R"("pid": 10, "tid": "11")") +
          "," +
          event("Runtime", "cudaMemcpyAsync", "102", "3",
                R"({"correlation": 4, "external id": 2})") +
          "," +
          event("Memcpy", "Memcpy HtoD (Pageable -> Device)", "103", "4",
                R"({"device": 0, "stream": 7, "correlation": 4,
                    "bytes": 1000})",
                R"("pid": 0, "tid": "stream 7")") +
          "," + event("Memset", "Memset (Device)", "110", "1") + "," +
          event("Operator", "enumerate(DataLoader)#_It.__next__", "120", "9") +
          "," + event("Trace", "PyTorch Profiler (0)", "90", "500") +
          R"(, {"name": "Record Window End", "ph": "i", "s": "g", "pid": "",
               "tid": "", "ts": 600}]})"),
      "");
  EXPECT_EQ(rows(TableId::host_ops), 1u);
  EXPECT_EQ(cells(TableId::host_ops, 0,
                  {"name", "category", "tid", "external", "shapes", "dtypes"}),
            R"(aten::add operator 11 2 [[1, 2], []] ["Float", ""])");
  EXPECT_EQ(cells(TableId::ranges, 0, {"name", "category", "step", "dur"}),
            "ProfilerStep#5 step 5 50000");
  EXPECT_EQ(cell(TableId::ranges, 1, "category"), "dataloader");
  EXPECT_EQ(cells(TableId::host_calls, 0,
                  {"name", "role", "correlation", "external"}),
            "cudaMemcpyAsync copy 4 2");
  EXPECT_EQ(cells(TableId::gpu_work, 0,
                  {"kind", "stream", "bytes", "copy_kind", "src_kind",
                   "dst_kind", "role"}),
            "copy 7 1000 HtoD pageable device copy");
  EXPECT_EQ(cells(TableId::gpu_work, 1, {"kind", "dst_kind", "role"}),
            "set device set");
  EXPECT_EQ(S->EpochNs, std::nullopt) << "100 us is no Unix time";
}

TEST_F(KinetoTraceTest, RelativeTimesCountFromTheBase) {
  ASSERT_EQ(readTrace(R"({"traceEvents": [)" +
                      event("cpu_op", "a", "2000000.5", "1") +
                      R"(], "baseTimeNanoseconds": 1751410836000000000})"),
            "");
  EXPECT_EQ(S->EpochNs, 1751410838000000500);
  EXPECT_EQ(cell(TableId::host_ops, 0, "start"), "0");
}

TEST_F(KinetoTraceTest, SyncMemoryAndCounters) {
  ASSERT_EQ(
      readTrace("[" +
                event("cuda_sync", "Stream Wait Event", "10", "2",
                      R"({"cuda_sync_kind": "Stream Wait Event", "stream": 20,
                    "correlation": 5, "device": 0})") +
                "," +
                event("cuda_sync", "Context Sync", "20", "2",
                      R"({"stream": 4294967295, "device": 0})") +
                R"(, {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]",
               "pid": 1, "tid": 1, "ts": 11, "args": {"Device Type": 1,
               "Device Id": 2, "Addr": 4096, "Bytes": -512,
               "Total Allocated": 100, "Total Reserved": 200}},
             {"ph": "i", "name": "[memory]", "ts": 12, "args":
               {"Device Type": 0, "Device Id": -1, "Bytes": 4}},
             {"ph": "C", "name": "GPU", "pid": 0, "ts": 13, "args":
               {"GPU": 1.5, "memory": 2}})"),
      "");
  EXPECT_EQ(cells(TableId::syncs, 0, {"kind", "stream", "correlation"}),
            "stream-wait 20 5");
  EXPECT_EQ(cells(TableId::syncs, 1, {"kind", "stream"}), "context -");
  EXPECT_EQ(
      cells(TableId::memory_events, 0,
            {"at", "address", "bytes", "device", "allocated", "reserved"}),
      "1000 4096 -512 2 100 200");
  EXPECT_EQ(cell(TableId::memory_events, 1, "device"), "-1");
  EXPECT_EQ(cells(TableId::counters, 0, {"name", "at", "value"}),
            "GPU 3000 1.5");
  EXPECT_EQ(cells(TableId::counters, 1, {"name", "value"}), "GPU/memory 2");
  EXPECT_EQ(remarks(), "") << "a bare list may stay open";
}

TEST_F(KinetoTraceTest, CollectivesAreNamedAndNumbered) {
  StringRef On = R"({"device": 0, "stream": 9})";
  ASSERT_EQ(
      readTrace(R"({"traceEvents": [)" +
                event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                      "300", "5", On) +
                "," +
                event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float()",
                      "100", "5", On) +
                "," +
                event("kernel", "ncclDevKernel_Generic", "200", "5",
                      R"({"device": 0, "stream": 9, "Collective name":
                "_allgather_base", "In msg nelems": 8, "Out msg nelems": 16,
                "dtype": "BFloat16", "Process Group Name": "0", "Seq": 41})") +
                "," +
                event("kernel", "ncclDevKernel_Generic", "400", "5",
                      R"({"device": 0, "stream": 9, "correlation": 77})") +
                "," +
                event("hip_runtime", "hipLaunchKernel", "350", "3",
                      R"({"correlation": 77})") +
                "," + event("user_annotation", "nccl:broadcast", "340", "20") +
                "]}"),
      "");
  EXPECT_EQ(cells(TableId::collectives, 0, {"op", "seq", "stream", "state"}),
            "all_reduce 1 9 completed");
  EXPECT_EQ(cells(TableId::collectives, 1, {"op", "seq", "bytes"}),
            "all_reduce 0 -");
  EXPECT_EQ(
      cells(TableId::collectives, 2, {"op", "seq", "bytes", "dtype", "group"}),
      "all_gather 41 32 bfloat16 0");
  EXPECT_EQ(cells(TableId::collectives, 3, {"op", "seq"}), "broadcast 0")
      << "named by the range that launched it";
}

// A fetch counts once: the frame on thread 11 holds the annotation, of the two
// nested frames on thread 12 the outer stands.
TEST_F(KinetoTraceTest, LoaderFramesBecomeRangesOnce) {
  StringRef Frame = "torch/utils/data/dataloader.py(630): __next__";
  StringRef Other = R"("pid": 10, "tid": 12)";
  ASSERT_EQ(
      readTrace(
          R"({"traceEvents": [)" +
          event("python_function", Frame, "100", "50") + "," +
          event("user_annotation", "enumerate(DataLoader)#It.__next__", "101",
                "48") +
          "," + event("python_function", Frame, "200", "50", "{}", Other) +
          "," + event("python_function", Frame, "210", "10", "{}", Other) +
          "]}"),
      "");
  ASSERT_EQ(rows(TableId::ranges), 2u);
  EXPECT_EQ(rows(TableId::host_ops), 3u);
  EXPECT_EQ(
      cells(TableId::ranges, 1, {"category", "start", "stop", "tid", "place"}),
      "dataloader 100000 150000 12 2");
}

TEST_F(KinetoTraceTest, DevicesAreThoseUsed) {
  StringRef Devices = R"("deviceProperties": [
    {"id": 0, "name": "Tesla V100", "numSms": 80},
    {"id": 1, "name": "Tesla V100", "totalGlobalMem": 34079637504,
     "computeMajor": 7, "computeMinor": 0, "numSms": 80}], )";
  ASSERT_EQ(
      readTrace(("{" + Devices + R"("traceEvents": [)" +
                 event("kernel", "k", "1", "1", R"({"device": 1})") + "]}")
                    .str()),
      "");
  ASSERT_EQ(rows(TableId::devices), 1u);
  EXPECT_EQ(
      cells(TableId::devices, 0,
            {"device", "vendor", "multiprocessors", "memory", "compute_major"}),
      "1 nvidia 80 34079637504 7");
  ASSERT_EQ(readTrace(("{" + Devices + R"("traceEvents": [)" +
                       event("cpu_op", "a", "1", "1") + "]}")
                          .str()),
            "");
  EXPECT_EQ(rows(TableId::devices), 2u) << "that none was used is a finding";
}

TEST_F(KinetoTraceTest, BrokenEventsAreSkippedAndCounted) {
  std::string Good = event("cpu_op", "good", "10", "1");
  ASSERT_EQ(readTrace(R"({"traceEvents": [)" + Good + "," +
                      event("cpu_op", "bad", "10", "NaN") + "," +
                      event("cpu_op", "bad", "N/A", "1") + "," +
                      event("cpu_op", R"(un"escaped)", "10", "1") + "," + Good +
                      ",," + event("cpu_op", "ctrl\x01\n\xff", "10", "1") +
                      ",]}"),
            "");
  EXPECT_EQ(rows(TableId::host_ops), 3u);
  EXPECT_EQ(cells(TableId::host_ops, 1, {"name", "place"}), "good 4");
  EXPECT_EQ(cell(TableId::host_ops, 2, "name"), "ctrl\x01\n\xEF\xBF\xBD");
  EXPECT_EQ(remarks(), "3 of 6 events were skipped, the first being event 1 "
                       "at byte 116: its duration is no number");
}

TEST_F(KinetoTraceTest, NumbersAboveInt64AreNull) {
  ASSERT_EQ(readTrace("[" +
                      event("kernel", "k", "1", "1",
                            R"({"correlation": 18446744073709551615,
                                "stream": 7})") +
                      "]"),
            "");
  EXPECT_EQ(cells(TableId::gpu_work, 0, {"correlation", "stream"}), "- 7");
}

TEST_F(KinetoTraceTest, EveryCutKeepsWhatCameBefore) {
  std::string First = R"({"traceEvents": [)" + event("cpu_op", "a", "1", "1");
  std::string Whole = First + ", " + event("cpu_op", "b", "2", "1") +
                      R"(], "distributedInfo": {"rank": 1}})";
  size_t SecondAt = First.size() + 2, ListEnd = Whole.find("], \"dist");
  for (size_t Size = First.size(); Size != Whole.size(); ++Size) {
    ASSERT_EQ(readTrace(StringRef(Whole).take_front(Size)), "") << Size;
    EXPECT_EQ(rows(TableId::host_ops), Size < ListEnd ? 1u : 2u) << Size;
    std::string Want =
        Size <= SecondAt || Size >= ListEnd
            ? "ends at byte " + std::to_string(Size) +
                  " before its last bracket, " +
                  (Size < ListEnd ? "1 event read" : "2 events read")
            : "ends in the middle of event 1 at byte " +
                  std::to_string(SecondAt) + ", 1 event read";
    EXPECT_EQ(remarks(), Want) << Size;
  }
}

TEST_F(KinetoTraceTest, GarbageIsAnError) {
  EXPECT_EQ(readTrace(R"({"traceEvents": [{]]]]!)"),
            path() + ": no event could be read; event 0 at byte 17: it is "
                     "malformed");
  EXPECT_EQ(readTrace(R"({"schemaVersion": 1, "deviceProperties": [)"),
            path() + ": has no list of events");
  EXPECT_EQ(readTrace(R"({"traceEvents": []})"), "");
  EXPECT_EQ(remarks(), "holds no events");
}

TEST_F(KinetoTraceTest, DetectionGoesByContent) {
  write(R"(  {"a": 1, "traceEvents" : []})");
  EXPECT_EQ(match(Reader), Match::Certain);
  write(R"([ {"ph": "X", "pid": 1}])");
  EXPECT_EQ(match(Reader), Match::Likely);
  // A raw memory timeline, a config, a log of JSON lines.
  for (StringRef Other :
       {R"([[-1, 1, 37888, 7], [5, 0, 1, 2]])", R"({"model": {"n_layer": 12}})",
        R"({"step": 1, "loss": 2.5})", ""}) {
    write(Other);
    EXPECT_EQ(match(Reader), Match::No) << Other.str();
  }
}

} // namespace
} // namespace culprit::kineto
