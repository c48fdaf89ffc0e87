//===- NsightSystemsContractTest.cpp ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What versions of the export schema differ in, and what must survive.
//
//===----------------------------------------------------------------------===//

#include "ProfileTestSupport.h"
#include "Readers/NsightSystems.h"
#include <fstream>
#include <sqlite3.h>
#include <zlib.h>

using namespace llvm;
using namespace culprit;

namespace {

class NsightContractTest : public ProfileTest {
protected:
  void make(const std::string &SQL) {
    sqlite3 *DB = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &DB), SQLITE_OK);
    char *Message = nullptr;
    sqlite3_exec(DB, SQL.c_str(), nullptr, nullptr, &Message);
    EXPECT_EQ(Message, nullptr) << Message;
    sqlite3_close(DB);
  }
  NsightSystemsReader Reader;
};

constexpr char Base[] =
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');"
    "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);";

// Up to 2021 every column is NOT NULL and what is unknown is 0 or -1.
TEST_F(NsightContractTest, DefaultFill) {
  make(std::string(Base) +
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT NOT NULL, 'end' INT "
       "NOT NULL, deviceId INT NOT NULL, streamId INT NOT NULL, correlationId "
       "INT NOT NULL, globalPid INT NOT NULL, demangledName INT NOT NULL, "
       "shortName INT NOT NULL, graphNodeId INT NOT NULL);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
       " (10, 20, 0, 7, 0, 0, 0, 1, 0), (30, 40, -1, 7, 5, 111 << 24, 1, 1, 0);"
       "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT NOT NULL, 'end' "
       "INT NOT NULL, globalTid INT NOT NULL, correlationId INT NOT NULL, "
       "nameId INT NOT NULL, returnValue INT NOT NULL);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES"
       " (1, 2, 0, 0, 2, 0), (3, 4, -1, -1, 2, 0);"
       "CREATE TABLE NVTX_EVENTS (start INT NOT NULL, 'end' INT NOT NULL, "
       "eventType INT NOT NULL, text TEXT NOT NULL, textId INT NOT NULL, "
       "globalTid INT NOT NULL);"
       "INSERT INTO NVTX_EVENTS VALUES (50, 0, 60, 'open', 0, 0),"
       " (60, -1, 60, 'open too', -1, 0), (70, 80, 59, '', 1, 0);");
  ASSERT_EQ(read(Reader), "");
  EXPECT_EQ(remarks(), "");
  EXPECT_EQ(cells(TableId::gpu_work, 0,
                  {"name", "correlation", "graph", "device", "rank"}),
            "gemm - - 0 0")
      << "no demangled name: the short one";
  EXPECT_EQ(cells(TableId::gpu_work, 1, {"correlation", "device"}), "5 -");
  EXPECT_EQ(cells(TableId::host_calls, 0, {"correlation", "pid", "tid"}),
            "- - -");
  EXPECT_EQ(cells(TableId::host_calls, 1, {"correlation", "pid"}), "- -");
  EXPECT_EQ(cells(TableId::ranges, 0, {"name", "stop"}), "open -");
  EXPECT_EQ(cells(TableId::ranges, 1, {"name", "stop"}), "open too -");
  EXPECT_EQ(cells(TableId::ranges, 2, {"name", "stop"}), "gemm 80");
}

// The highest version of a table that has rows is read; that two have some is
// worth a word.
TEST_F(NsightContractTest, TableSuffixes) {
  std::string Kernel = "(start INT, 'end' INT, demangledName INT);";
  make(std::string(Base) + "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V2" +
       Kernel + "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V3" + Kernel +
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL_V12" + Kernel +
       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL_V2 VALUES (1,2,1),(3,4,1);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL_V3 VALUES (5, 6, 1);"
       "CREATE TABLE NVTX_EVENTS_V2 (start INT, 'end' INT, text TEXT);"
       "INSERT INTO NVTX_EVENTS_V2 VALUES (1, 2, 'r');");
  EXPECT_EQ(match(Reader), Match::Certain);
  ASSERT_EQ(read(Reader), "");
  ASSERT_EQ(rows(TableId::gpu_work), 1u);
  EXPECT_EQ(cell(TableId::gpu_work, 0, "start"), "5");
  EXPECT_EQ(rows(TableId::ranges), 1u);
  EXPECT_EQ(remarks(),
            "tables CUPTI_ACTIVITY_KIND_KERNEL_V3 and "
            "CUPTI_ACTIVITY_KIND_KERNEL_V2 both have rows; "
            "CUPTI_ACTIVITY_KIND_KERNEL_V3 was read");
}

// A newer schema is no news unless something is missed.
TEST_F(NsightContractTest, NewerSchema) {
  std::string Newer = "INSERT INTO META_DATA_EXPORT VALUES "
                      "('EXPORT_SCHEMA_VERSION', '3.31.0');";
  make(std::string(Base) + Newer +
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, 'end' INT, "
       "demangledName INT, novelty INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1, 1);");
  ASSERT_EQ(read(Reader), "");
  EXPECT_EQ(remarks(), "");
  make("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (begin INT, stop INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2);"
       "CREATE TABLE CUPTI_ACTIVITY_KIND_NOVELTY (start INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_NOVELTY VALUES (1);");
  ASSERT_EQ(read(Reader), "");
  EXPECT_EQ(remarks(),
            "table CUPTI_ACTIVITY_KIND_MEMCPY has no column 'start' and was "
            "not read\n"
            "table CUPTI_ACTIVITY_KIND_NOVELTY is not known and was left");
  ASSERT_EQ(S->Remarks.size(), 2u);
  EXPECT_EQ(S->Remarks[0].Hint,
            "its schema 3.31.0 is newer than the newest known here, 3.25");
  EXPECT_EQ(rows(TableId::gpu_work), 1u);
}

// nsys: 0 is pageable and 1 is pinned. CUPTI's header has 1 and 2, and a
// reader that takes those numbers calls pinned copies pageable.
TEST_F(NsightContractTest, MemoryKindsByNumberByLabelAndBySymbol) {
  std::string Copies =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, 'end' INT, "
      "bytes INT, copyKind INT, srcKind INT, dstKind INT, migrationCause INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 8, 1, 1, 2, NULL),"
      " (3, 4, 8, 2, 2, 0, NULL), (5, 6, 4096, 11, 4, 4, 2);";
  make(std::string(Base) + Copies);
  std::initializer_list<StringRef> Cells = {"copy_kind", "src_kind",
                                            "dst_kind"};
  for (const char *Enum :
       {"", "CREATE TABLE ENUM_CUDA_MEM_KIND (id INT, name TEXT); INSERT INTO "
            "ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE'),"
            "(1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED'), "
            "(2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC'),"
            "(4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED');"
            "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INT, name TEXT);"
            "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES "
            "(1, 'CUDA_MEMCPY_KIND_HTOD'), (2, 'CUDA_MEMCPY_KIND_DTOH'),"
            "(11, 'CUDA_MEMCPY_KIND_UVM_HTOD');"}) {
    make(Enum);
    ASSERT_EQ(read(Reader), "");
    EXPECT_EQ(remarks(), "");
    EXPECT_EQ(cells(TableId::gpu_work, 0, Cells), "HtoD pinned device");
    EXPECT_EQ(cells(TableId::gpu_work, 1, Cells), "DtoH device pageable");
    EXPECT_EQ(cells(TableId::gpu_work, 2, Cells), "HtoD managed managed");
    EXPECT_EQ(cell(TableId::gpu_work, 2, "name"),
              "Memcpy HtoD (Managed -> Managed) (page fault)");
  }
}

// A wait names the record by its own number, or by the event: then it is the
// last record before it. Event 9 is recorded twice, by calls 10 and 20.
TEST_F(NsightContractTest, WaitsForEvents) {
  make(std::string(Base) +
       "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (streamId INT, "
       "correlationId INT, globalPid INT, eventId INT, eventSyncId INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES"
       " (7, 10, 111 << 24, 9, 1), (8, 20, 111 << 24, 9, 2),"
       " (9, 12, 222 << 24, 9, NULL);"
       "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT, 'end' "
       "INT, streamId INT, correlationId INT, globalPid INT, syncType INT, "
       "eventId INT, eventSyncId INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES"
       " (1, 2, 13, 30, 111 << 24, 2, 9, 1),"      // by number: call 10
       " (3, 4, 13, 15, 111 << 24, 2, 9, NULL),"   // before 15: call 10
       " (5, 6, -1, 31, 111 << 24, 1, 9, NULL),"   // before 31: call 20
       " (7, 8, 13, 32, 111 << 24, 2, 9, 77),"     // its record was lost
       " (9, 9, 4294967295, 33, 111 << 24, 4, 9, 1);"); // waits for no event
  ASSERT_EQ(read(Reader), "");
  std::initializer_list<StringRef> Cells = {"kind", "stream", "event",
                                            "waits_for", "recorded_on"};
  EXPECT_EQ(cells(TableId::syncs, 0, Cells), "stream-wait 13 9 10 7");
  EXPECT_EQ(cells(TableId::syncs, 1, Cells), "stream-wait 13 9 10 7");
  EXPECT_EQ(cells(TableId::syncs, 2, Cells), "event - 9 20 8");
  EXPECT_EQ(cells(TableId::syncs, 3, Cells), "stream-wait 13 9 - -");
  EXPECT_EQ(cells(TableId::syncs, 4, Cells), "context - - - -");
}

// Thread 1: in 100, preempted 150, in 180, waits 200, in 260, killed 300,
// never again. Thread 2: two outs in a row, so nothing is known between them.
constexpr char Sched[] =
    "CREATE TABLE SCHED_EVENTS (start INT, cpu INT, isSchedIn INT, globalTid "
    "INT, threadState INT);"
    "INSERT INTO SCHED_EVENTS VALUES"
    " (180, 3, 1, (9 << 24) + 1, 1), (100, 2, 1, (9 << 24) + 1, 1),"
    " (150, 2, 0, (9 << 24) + 1, 1), (200, 3, 0, (9 << 24) + 1, 2),"
    " (260, 3, 1, (9 << 24) + 1, 1), (300, 3, 0, (9 << 24) + 1, 5),"
    " (400, 3, 1, (9 << 24) + 1, 1),"
    " (110, 4, 0, (9 << 24) + 2, 6), (120, 4, 0, (9 << 24) + 2, 3),"
    " (130, 4, 1, (9 << 24) + 2, 1);";

TEST_F(NsightContractTest, ThreadStates) {
  make(std::string(Base) + Sched);
  ASSERT_EQ(read(Reader), "");
  std::initializer_list<StringRef> Cells = {"state", "start", "stop",
                                            "pid",   "tid",   "cpu"};
  ASSERT_EQ(rows(TableId::thread_states), 6u);
  EXPECT_EQ(cells(TableId::thread_states, 0, Cells), "running 100 150 9 1 2");
  EXPECT_EQ(cells(TableId::thread_states, 1, Cells), "runnable 150 180 9 1 2");
  EXPECT_EQ(cells(TableId::thread_states, 2, Cells), "running 180 200 9 1 3");
  EXPECT_EQ(cells(TableId::thread_states, 3, Cells), "blocked 200 260 9 1 3");
  EXPECT_EQ(cells(TableId::thread_states, 4, Cells), "running 260 300 9 1 3");
  EXPECT_EQ(cells(TableId::thread_states, 5, Cells), "blocked 120 130 9 2 4");
}

// Without the state nobody knows whether the thread could have gone on.
TEST_F(NsightContractTest, ThreadStatesOfOldSchemas) {
  make(std::string(Base) +
       "CREATE TABLE SCHED_EVENTS (start INT, cpu INT, isSchedIn INT, "
       "globalTid INT); INSERT INTO SCHED_EVENTS VALUES"
       " (1, 0, 1, (9 << 24) + 1), (5, 0, 0, (9 << 24) + 1),"
       " (9, 0, 1, (9 << 24) + 1);");
  ASSERT_EQ(read(Reader), "");
  ASSERT_EQ(rows(TableId::thread_states), 2u);
  EXPECT_EQ(cells(TableId::thread_states, 0, {"state", "dur"}), "running 4");
  EXPECT_EQ(cells(TableId::thread_states, 1, {"state", "dur"}), "- 4");
}

// Samples are moments: they have no length, and yield to SCHED_EVENTS.
TEST_F(NsightContractTest, CpuSamples) {
  std::string Samples =
      "CREATE TABLE COMPOSITE_EVENTS (id INT, start INT, cpu INT, threadState "
      "INT, globalTid INT, cpuCycles INT);"
      "INSERT INTO COMPOSITE_EVENTS VALUES (1, 50, 3, 1, (9 << 24) + 1, 7);";
  make(std::string(Base) + Samples);
  ASSERT_EQ(read(Reader), "");
  ASSERT_EQ(rows(TableId::thread_states), 1u);
  EXPECT_EQ(cells(TableId::thread_states, 0, {"state", "start", "dur", "tid"}),
            "running 50 0 1");
  make(Sched);
  ASSERT_EQ(read(Reader), "");
  EXPECT_EQ(rows(TableId::thread_states), 6u);
}

TEST_F(NsightContractTest, CountersAndPageFaults) {
  make(std::string(Base) +
       "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INT, metricId INT, "
       "metricName TEXT);"
       "INSERT INTO TARGET_INFO_GPU_METRICS VALUES"
       " (281543696187393, 4, 'SMs Active [Throughput %]'),"
       " (281543696187393, 1, 'GPC Clock Frequency [MHz]'),"
       " (281543696187393, 5, 'Something New [%]');"
       "CREATE TABLE GPU_METRICS (timestamp INT, typeId INT, metricId INT, "
       "value REAL);"
       "INSERT INTO GPU_METRICS VALUES (10, 281543696187393, 4, 97.5),"
       " (10, 281543696187393, 5, 3);"
       // 281543696187393 & 0xff = 1: nsys' GPU 1 is GPU 5, which process 77
       // calls device 0.
       "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, pwGpuId INT, uuid "
       "TEXT, memoryBandwidth INT, clockRate INT, busLocation TEXT);"
       "INSERT INTO TARGET_INFO_GPU VALUES (5, 'NVIDIA H100', 1, 'ab-cd', "
       "3352320000000, 1980000000, '0000:19:00.0');"
       "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT);"
       "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (5, 0, 77);"
       "CREATE TABLE CUDA_UM_GPU_PAGE_FAULT_EVENTS (start INT, 'end' INT, "
       "globalPid INT, deviceId INT, address INT, numberOfPageFaults INT);"
       "INSERT INTO CUDA_UM_GPU_PAGE_FAULT_EVENTS VALUES"
       " (20, 21, 77 << 24, 0, 4096, 32);"
       "CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (start INT, globalPid INT, "
       "address INT);"
       "INSERT INTO CUDA_UM_CPU_PAGE_FAULT_EVENTS VALUES (30, 77 << 24, 1);");
  ASSERT_EQ(read(Reader), "");
  std::initializer_list<StringRef> Cells = {"name", "at", "value", "rank",
                                            "device"};
  EXPECT_EQ(cells(TableId::counters, 0, Cells), "um_cpu_page_faults 30 1 0 -");
  EXPECT_EQ(cells(TableId::counters, 1, Cells), "um_gpu_page_faults 20 32 0 0");
  EXPECT_EQ(cells(TableId::counters, 2, Cells), "sm_active 10 97.5 0 0");
  EXPECT_EQ(cells(TableId::counters, 3, Cells), "Something New [%] 10 3 0 0");
  // 3,352,320,000,000 bytes a second are 3352.32 GB/s.
  EXPECT_EQ(cells(TableId::devices, 0,
                  {"device", "model", "bandwidth", "clock", "uuid"}),
            "0 NVIDIA H100 3352.32 1980000000 ab-cd");
}

// What nsys says of its own record; information in passing is left out.
TEST_F(NsightContractTest, ProfilerEvents) {
  make(std::string(Base) +
       "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INT, 'end' INT, "
       "globalTid INT, nameId INT, overheadType INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES"
       " (10, 30, (9 << 24) + 4, 1, 3), (40, 45, (9 << 24) + 4, NULL, 7);"
       "CREATE TABLE PROFILER_OVERHEAD (start INT, 'end' INT, globalTid INT, "
       "nameId INT); INSERT INTO PROFILER_OVERHEAD VALUES (1, 2, NULL, 1);"
       "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INT, timestampType INT, "
       "source INT, severity INT, text TEXT, globalPid INT);"
       "INSERT INTO DIAGNOSTIC_EVENT VALUES"
       " (5, 1, 1, 1, 'Number of CUPTI events produced: 70, CUPTI buffers: "
       "50.', NULL),"
       " (6, 1, 1, 2, 'Not all NVTX events might have been collected.', 9<<24),"
       " (7, 2, 3, 1, 'Event buffer is full: 1,234 events were dropped', 0),"
       " (8, 1, 2, 3, 'CUDA profiling stopped early', NULL),"
       " (9, 1, 2, 2, 'Scheduling information is absent.', NULL);");
  ASSERT_EQ(read(Reader), "");
  std::initializer_list<StringRef> Cells = {"kind", "name", "start", "dur",
                                            "tid",  "count"};
  EXPECT_EQ(cells(TableId::profiler_events, 0, Cells),
            "overhead gemm 1 1 - -");
  EXPECT_EQ(cells(TableId::profiler_events, 1, Cells),
            "overhead Buffer flush (Profiler) 10 20 4 -");
  EXPECT_EQ(cells(TableId::profiler_events, 2, Cells),
            "overhead Lazy function loading (CUDA) 40 5 4 -");
  ASSERT_EQ(rows(TableId::profiler_events), 7u);
  EXPECT_EQ(cells(TableId::profiler_events, 3, {"kind", "start", "pid"}),
            "lost 6 9");
  EXPECT_EQ(cells(TableId::profiler_events, 4, {"kind", "start", "count"}),
            "lost - 1234");
  EXPECT_EQ(cells(TableId::profiler_events, 5, {"kind", "message"}),
            "error CUDA profiling stopped early");
  EXPECT_EQ(cell(TableId::profiler_events, 6, "kind"), "warning");
}

// SQLite puts any text into an integer column: such a row has no time, and a
// text is no number.
TEST_F(NsightContractTest, TextInIntegerColumns) {
  make(std::string(Base) +
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, 'end' INTEGER, "
       "deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid "
       "INTEGER, demangledName INTEGER, gridX INTEGER);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
       " ('soon', 20, 0, 7, 1, 1 << 24, 1, 1),"
       " (10, 20, 'zero', x'00', '12 or so', 1 << 24, 1, 1e300),"
       " (9223372036854775807, -9223372036854775808, 0, 0, 0, 0, 1, 1);");
  ASSERT_EQ(read(Reader), "");
  ASSERT_EQ(rows(TableId::gpu_work), 1u);
  EXPECT_EQ(cells(TableId::gpu_work, 0,
                  {"start", "device", "stream", "correlation", "grid"}),
            "10 - - - -");
  EXPECT_EQ(remarks(), "2 rows were skipped: they have no time or end before "
                       "they begin");
}

// Inside of a gzip the database is read from memory.
TEST_F(NsightContractTest, Compressed) {
  make(std::string(Base) +
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, 'end' INT);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2);");
  std::ifstream In(path(), std::ios::binary);
  std::string Bytes((std::istreambuf_iterator<char>(In)), {});
  gzFile Out = gzopen(path().c_str(), "wb");
  gzwrite(Out, Bytes.data(), unsigned(Bytes.size()));
  gzclose(Out);
  EXPECT_EQ(match(Reader), Match::Certain);
  ASSERT_EQ(read(Reader), "");
  EXPECT_EQ(rows(TableId::gpu_work), 1u);
}

} // namespace
