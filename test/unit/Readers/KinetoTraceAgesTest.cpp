//===- KinetoTraceAgesTest.cpp - Traces of all ages and makers --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KinetoTestSupport.h"

using namespace llvm;

namespace culprit::kineto {
namespace {

using KinetoAgesTest = KinetoTest;

// CUPTI leaves -1 where it missed the call that recorded the event.
TEST_F(KinetoAgesTest, WaitsNameTheirEvent) {
  ASSERT_EQ(
      readEvents(
          {event("cuda_sync", "Stream Wait Event", "10", "2",
                 R"({"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7,
                     "wait_on_cuda_event_record_corr_id": 5169,
                     "wait_on_cuda_event_id": 1, "stream": 20,
                     "correlation": 5170, "device": 0, "context": 1})"),
           event("cuda_sync", "Event Sync", "20", "2",
                 R"({"cuda_sync_kind": "Event Sync", "wait_on_stream": -1,
                     "wait_on_cuda_event_record_corr_id": -1,
                     "wait_on_cuda_event_id": 4, "stream": 4294967295,
                     "correlation": 9, "device": 0})")}),
      "");
  EXPECT_EQ(cells(TableId::syncs, 0,
                  {"kind", "stream", "event", "waits_for", "recorded_on"}),
            "stream-wait 20 1 5169 7");
  EXPECT_EQ(cells(TableId::syncs, 1,
                  {"kind", "stream", "event", "waits_for", "recorded_on"}),
            "event - 4 - -");
}

// The profiler's line has process -1; newer ones name the thread held up.
TEST_F(KinetoAgesTest, OverheadIsTheProfilers) {
  ASSERT_EQ(readEvents({event("overhead", "Buffer Flush", "10", "2.5", "{}",
                              R"("pid": -1, "tid": 0)"),
                        event("overhead", "Activity Buffer Request", "20",
                              "2")}),
            "");
  EXPECT_EQ(rows(TableId::ranges), 0u);
  EXPECT_EQ(cells(TableId::profiler_events, 0,
                  {"kind", "name", "start", "dur", "rank", "pid", "tid"}),
            "overhead Buffer Flush 0 2500 0 - -");
  EXPECT_EQ(cells(TableId::profiler_events, 1, {"name", "pid", "tid"}),
            "Activity Buffer Request 10 11");
}

TEST_F(KinetoAgesTest, ProfilerLogIsKept) {
  ASSERT_EQ(readEvents({event("cpu_op", "a", "1", "1")},
                       R"X(, "ERROR": ["CUPTI failed"], "WARNING": [
          "Dropped 12 activity records",
          "Exceeded max GPU buffer count (9 > 8)", "odd"])X"),
            "");
  ASSERT_EQ(rows(TableId::profiler_events), 4u);
  EXPECT_EQ(cells(TableId::profiler_events, 0, {"kind", "message"}),
            "error CUPTI failed");
  EXPECT_EQ(cells(TableId::profiler_events, 1, {"kind", "count"}), "lost 12");
  EXPECT_EQ(cells(TableId::profiler_events, 2, {"kind", "count"}), "lost -");
  EXPECT_EQ(cells(TableId::profiler_events, 3, {"kind", "message"}),
            "warning odd");
}

TEST_F(KinetoAgesTest, CutIsARow) {
  std::string A = event("cpu_op", "a", "1", "1");
  ASSERT_EQ(readTrace(R"({"traceEvents": [)" + A + ", " +
                      A.substr(0, A.size() / 2)),
            "");
  ASSERT_EQ(rows(TableId::profiler_events), 1u);
  // 17 bytes open the list; a comma and a space follow the first event.
  EXPECT_EQ(cells(TableId::profiler_events, 0, {"kind", "message", "place"}),
            "cut ends in the middle of event 1 at byte " +
                std::to_string(17 + A.size() + 2) + " 1");
  ASSERT_EQ(readEvents({A}), "");
  EXPECT_EQ(rows(TableId::profiler_events), 0u);
}

// Phases B and E nest on a thread; threads do not mix.
TEST_F(KinetoAgesTest, PhasesArePairedByThread) {
  auto Phase = [](StringRef Ph, StringRef Name, StringRef Ts, StringRef Tid,
                  StringRef More = "") {
    return (R"({"ph": ")" + Ph + R"(", "pid": 1, "tid": )" + Tid +
            R"(, "ts": )" + Ts +
            (Name.empty() ? "" : R"(, "name": ")" + Name + "\"") + More + "}")
        .str();
  };
  ASSERT_EQ(
      readEvents(
          {event("cpu_op", "first", "0", "1"),
           Phase("B", "outer", "10", "5"), Phase("B", "other", "11", "6"),
           Phase("B", "aten::mm", "12", "5", R"(, "cat": "cpu_op")"),
           Phase("E", "", "14", "5"), Phase("E", "", "15", "6"),
           Phase("E", "", "20", "5", R"(, "args": {"x": 1})"),
           Phase("E", "", "21", "5"), Phase("B", "open", "22", "5"),
           Phase("B", "ProfilerStep#3", "30", "6",
                 R"(, "cat": "user_annotation")"),
           Phase("E", "", "35", "6")}),
      "");
  EXPECT_EQ(cells(TableId::host_ops, 1, {"name", "start", "dur", "tid"}),
            "aten::mm 12000 2000 5");
  ASSERT_EQ(rows(TableId::ranges), 4u);
  EXPECT_EQ(cells(TableId::ranges, 0, {"name", "start", "dur", "tid"}),
            "other 11000 4000 6");
  EXPECT_EQ(cells(TableId::ranges, 1, {"name", "start", "dur", "place"}),
            "outer 10000 10000 6");
  EXPECT_EQ(cells(TableId::ranges, 2, {"category", "step", "dur"}),
            "step 3 5000");
  EXPECT_EQ(cells(TableId::ranges, 3, {"name", "start", "stop", "place"}),
            "open 22000 - 8");
  EXPECT_EQ(remarks(), "1 of 11 events was skipped: event 7 at byte " +
                           std::to_string(StringRef(Written).find(
                               R"({"ph": "E", "pid": 1, "tid": 5, "ts": 21)")) +
                           ": it ends what never began");
}

// 10 MB between the two sides of a span put them into different chunks.
TEST_F(KinetoAgesTest, PhasesArePairedAcrossChunks) {
  std::string Text = R"({"traceEvents": [
      {"ph": "B", "pid": 1, "tid": 5, "ts": 1, "name": "all"})";
  for (int I = 0; I != 100000; ++I)
    Text += ",\n" + event("cpu_op", "aten::add", std::to_string(I + 2), "1");
  Text += R"(, {"ph": "E", "pid": 1, "tid": 5, "ts": 200001}]})";
  ASSERT_GT(Text.size(), size_t(9) << 20);
  ASSERT_EQ(readTrace(Text), "");
  EXPECT_EQ(rows(TableId::host_ops), 100000u);
  EXPECT_EQ(cells(TableId::host_ops, 99999, {"start", "place"}),
            "100000000 100000"); // 100001 us, counted from the first event
  EXPECT_EQ(cells(TableId::ranges, 0, {"name", "start", "dur", "place"}),
            "all 0 200000000 100001");
  EXPECT_EQ(remarks(), "");
}

// The CUPTI range profiler writes one event a range, a counter an argument.
TEST_F(KinetoAgesTest, CountersOfAllKinds) {
  ASSERT_EQ(
      readEvents(
          {event("cuda_profiler_range", "__autorange__", "10", "5",
                 R"({"smsp__inst_executed.sum": 123, "sm__cycles": "N/A"})"),
           R"({"ph": "C", "name": "CUDA memory", "pid": 0, "ts": 11,
               "args": {"device": 1, "allocated": 5, "reserved": 1e3}})",
           R"({"ph": "C", "name": "GPU utilization", "pid": 0, "ts": 12,
               "args": {"value": 97.5}})"}),
      "");
  ASSERT_EQ(rows(TableId::counters), 4u);
  EXPECT_EQ(cells(TableId::counters, 0, {"name", "at", "value"}),
            "smsp__inst_executed.sum 0 123");
  EXPECT_EQ(cells(TableId::counters, 1, {"name", "device", "value"}),
            "CUDA memory/allocated 1 5");
  EXPECT_EQ(cells(TableId::counters, 2, {"name", "value"}),
            "CUDA memory/reserved 1000");
  EXPECT_EQ(cells(TableId::counters, 3, {"name", "value"}),
            "GPU utilization 97.5");
}

TEST_F(KinetoAgesTest, PythonFramesKeepTheirNesting) {
  ASSERT_EQ(
      readEvents({event("python_function", "train.py(10): main", "10", "90.5",
                        R"({"Python id": 1, "Python parent id": null})"),
                  event("python_function", "nn.Module: Linear_0", "20", "10",
                        R"({"Python id": 2, "Python parent id": 1,
                            "Python module id": 0})")}),
      "");
  EXPECT_EQ(cells(TableId::host_ops, 0, {"name", "category", "stop"}),
            "train.py(10): main python 90500");
  EXPECT_EQ(cells(TableId::host_ops, 1, {"name", "start", "stop", "tid"}),
            "nn.Module: Linear_0 10000 20000 11");
}

// displayTimeUnit only tells a viewer what to print; times stay microseconds.
TEST_F(KinetoAgesTest, DisplayUnitChangesNothing) {
  ASSERT_EQ(readEvents({event("cpu_op", "a", "2000000.5", "1.25")},
                       R"(, "displayTimeUnit": "ns",
                          "baseTimeNanoseconds": 1751410836000000000)"),
            "");
  EXPECT_EQ(cell(TableId::host_ops, 0, "dur"), "1250");
  EXPECT_EQ(S->EpochNs, 1751410838000000500);
}

TEST_F(KinetoAgesTest, AmdAndPeerCopies) {
  ASSERT_EQ(
      readEvents(
          {event("kernel", "Cijk_Alik", "10", "5",
                 R"({"device": 2, "stream": 0, "correlation": 5179,
                     "kind": "Dispatch Kernel", "grid": [1, 40, 1],
                     "block": [256, 1, 1]})"),
           event("gpu_memcpy", "CopyDeviceToDevice", "20", "5",
                 R"X({"device": 2, "stream": 0, "kind": "DtoD",
                      "memory bandwidth (GB/s)": N/A, "bytes": 8})X"),
           event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "30", "5",
                 R"({"fromDevice": 0, "inDevice": 1, "toDevice": 3,
                     "fromContext": 1, "inContext": 2, "toContext": 3,
                     "stream": 7, "correlation": 18446744073709551615})")}),
      "");
  EXPECT_EQ(cells(TableId::gpu_work, 0, {"device", "stream", "grid", "block"}),
            "2 0 [1, 40, 1] [256, 1, 1]");
  EXPECT_EQ(cells(TableId::gpu_work, 1, {"copy_kind", "bytes"}), "DtoD 8");
  EXPECT_EQ(cells(TableId::gpu_work, 2,
                  {"copy_kind", "device", "context", "correlation"}),
            "PtoP 1 2 -");
}

// 1,215 MHz on both edges of 5,120 lines: 2 * 1.215e9 * 5120 / 8 bytes a
// second.
TEST_F(KinetoAgesTest, DevicesHaveWhatTheHeaderTells) {
  ASSERT_EQ(readEvents({event("cpu_op", "a", "1", "1")},
                       R"(, "deviceProperties": [{"id": 0,
        "name": "NVIDIA A100", "totalGlobalMem": 42297524224, "computeMajor": 8, "computeMinor": 0,
        "numSms": 108, "clockRate": 1410000, "memoryClockRate": 1215000,
        "memoryBusWidth": 5120, "uuid": "GPU-1"}])"),
            "");
  EXPECT_EQ(cells(TableId::devices, 0,
                  {"model", "vendor", "multiprocessors", "compute_major",
                   "memory", "bandwidth", "clock", "uuid"}),
            "NVIDIA A100 nvidia 108 8 42297524224 1555.2 1410000000 GPU-1");
}

} // namespace
} // namespace culprit::kineto
