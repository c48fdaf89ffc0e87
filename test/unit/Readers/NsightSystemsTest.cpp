//===- NsightSystemsTest.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystems.h"
#include "ProfileTestSupport.h"
#include "Support/Units.h"
#include "llvm/Support/MemoryBuffer.h"
#include <sqlite3.h>

using namespace llvm;
using namespace culprit;

namespace {

class NsightSystemsTest : public ProfileTest {
protected:
  /// Makes the file from SQL.
  void make(const char *SQL) {
    sqlite3 *DB = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &DB), SQLITE_OK);
    char *Message = nullptr;
    sqlite3_exec(DB, SQL, nullptr, nullptr, &Message);
    EXPECT_EQ(Message, nullptr) << Message;
    sqlite3_close(DB);
  }
  std::string bytes() {
    return (*MemoryBuffer::getFile(path()))->getBuffer().str();
  }
  NsightSystemsReader Reader;
};

// Process 111 is 111 << 24; its thread 112 is that + 112.
constexpr char Full[] = R"(
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000'),
  (3, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (4, 'poll'), (5, 'step 7');
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779630014975716426);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER,
  deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER,
  gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER,
  registersPerThread INTEGER, staticSharedMemory INTEGER,
  dynamicSharedMemory INTEGER, graphNodeId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (100, 150, 0, 1, 7, 11, 111 << 24, 1, 1, 8, 2, 1, 64, 1, 1, 32, 100, 28, 5),
  (200, 260, 1, 1, 9, 11, 112 << 24, NULL, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0, NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, "end" INTEGER,
  deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER,
  globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER,
  dstKind INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES
  (300, 310, 0, 1, 7, 12, 111 << 24, 4096, 1, 1, 2),
  (320, 330, 0, 1, 7, 13, 111 << 24, 8, 2, 2, 0);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET_V2 (start INTEGER, "end" INTEGER,
  deviceId INTEGER, streamId INTEGER, bytes INTEGER, memKind INTEGER,
  globalPid INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET_V2 VALUES
  (340, 341, 0, 7, 64, 2, 111 << 24);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, "end" INTEGER,
  deviceId INTEGER, streamId INTEGER, graphExecId INTEGER, globalPid INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES
  (400, 500, 0, 7, 2, 111 << 24);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER,
  returnValue INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
  (90, 95, (111 << 24) + 112, 11, 2, 0), (96, 80, 0, 1, 2, 0);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER,
  "end" INTEGER, deviceId INTEGER, streamId INTEGER, syncType INTEGER,
  globalPid INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES
  (500, 510, 0, 4294967295, 4, 111 << 24);
CREATE TABLE OSRT_API (start INTEGER, "end" INTEGER, globalTid INTEGER,
  nameId INTEGER);
INSERT INTO OSRT_API VALUES (10, 20, (111 << 24) + 113, 4);
CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER,
  text TEXT, textId INTEGER, globalTid INTEGER, domainId INTEGER);
INSERT INTO NVTX_EVENTS VALUES
  (0, NULL, 75, 'trainer', NULL, (111 << 24) + 111, 3),
  (50, 600, 59, NULL, 5, (111 << 24) + 111, 3),
  (60, 70, 59, 'iteration 2', NULL, (111 << 24) + 111, 0),
  (61, NULL, 60, 'open', NULL, (111 << 24) + 111, 0),
  (62, 63, 59, 'aten::add, op_id = 314', NULL, (111 << 24) + 111, 0),
  (64, NULL, 34, 'a mark', NULL, (111 << 24) + 111, 0);
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER,
  deviceId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER,
  memoryOperationType INTEGER);
INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES
  (5, 111 << 24, 0, 4096, 100, 2, 0), (6, 111 << 24, 0, 4096, 100, 2, 1),
  (7, 111 << 24, 0, 1, 50, 1, 0);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100', 132),
  (1, 'NVIDIA H100', 132), (2, 'NVIDIA H100', 132);
)";

TEST_F(NsightSystemsTest, ReadsEveryTable) {
  make(Full);
  EXPECT_EQ(match(Reader), Match::Certain);
  std::string Before = bytes();
  ASSERT_EQ(read(Reader), "");
  EXPECT_TRUE(bytes() == Before) << "the evidence is never changed";
  EXPECT_EQ(S->EpochNs, 1779630014975716426);
  EXPECT_EQ(remarks(), "1 rows were skipped: they have no time or end before "
                       "they begin");

  EXPECT_EQ(cells(TableId::gpu_work, 0,
                  {"kind", "name", "start", "dur", "rank", "device", "context",
                   "stream", "correlation", "grid", "block", "registers",
                   "shared_bytes", "graph", "role", "place"}),
            "kernel gemm 100 50 0 0 1 7 11 [8, 2, 1] [64, 1, 1] 32 128 5 "
            "compute 1");
  EXPECT_EQ(cells(TableId::gpu_work, 1, {"rank", "graph", "role"}),
            "1 - communication")
      << "the second process is a rank of its own";
  EXPECT_EQ(
      cells(TableId::gpu_work, 2,
            {"kind", "name", "bytes", "copy_kind", "src_kind", "dst_kind"}),
      "copy Memcpy HtoD (Pinned -> Device) 4096 HtoD pinned device");
  EXPECT_EQ(cells(TableId::gpu_work, 3, {"copy_kind", "src_kind", "dst_kind"}),
            "DtoH device pageable");
  EXPECT_EQ(cells(TableId::gpu_work, 4, {"kind", "bytes", "dst_kind"}),
            "set 64 device");
  EXPECT_EQ(cells(TableId::gpu_work, 5, {"kind", "name", "dur", "role"}),
            "graph CUDA graph 2 100 compute");
  EXPECT_EQ(cells(TableId::collectives, 0,
                  {"op", "rank", "device", "stream", "seq", "dur"}),
            "all_reduce 1 1 9 0 60");
  EXPECT_EQ(rows(TableId::host_calls), 1u);
  EXPECT_EQ(
      cells(TableId::host_calls, 0,
            {"name", "role", "rank", "pid", "tid", "correlation", "result"}),
      "cudaLaunchKernel launch 0 111 112 11 0");
  EXPECT_EQ(cells(TableId::syncs, 0, {"kind", "stream", "dur"}),
            "context - 10");
  EXPECT_EQ(cells(TableId::host_ops, 0, {"name", "category", "tid"}),
            "poll runtime 113");
  EXPECT_EQ(cells(TableId::memory_events, 0, {"bytes", "device"}), "100 0");
  EXPECT_EQ(cells(TableId::memory_events, 1, {"bytes", "device"}), "-100 0");
  EXPECT_EQ(cell(TableId::memory_events, 2, "device"), "-1");
  EXPECT_EQ(rows(TableId::devices), 2u) << "the third was never used";
  EXPECT_EQ(cells(TableId::devices, 1, {"rank", "device", "multiprocessors"}),
            "1 1 132");
  EXPECT_EQ(cells(TableId::ranks, 1, {"rank", "pid"}), "1 112");
}

// Two ways of numbering nest; the one with the longest ranges is the step.
TEST_F(NsightSystemsTest, NvtxRanges) {
  make(Full);
  ASSERT_EQ(read(Reader), "");
  ASSERT_EQ(rows(TableId::ranges), 4u);
  EXPECT_EQ(
      cells(TableId::ranges, 0, {"name", "category", "step", "dur", "domain"}),
      "step 7 step 7 550 trainer");
  EXPECT_EQ(cells(TableId::ranges, 1, {"name", "category", "step", "domain"}),
            "iteration 2 annotation - -");
  EXPECT_EQ(cells(TableId::ranges, 2, {"name", "start", "stop", "dur"}),
            "open 61 - -");
  EXPECT_EQ(cells(TableId::ranges, 3, {"name", "start", "dur", "category"}),
            "a mark 64 0 annotation");
  EXPECT_EQ(cells(TableId::host_ops, 1, {"name", "category", "external"}),
            "aten::add operator 314");
}

// Steps of a hundred years each, as damage has them: their sum, beyond 63 bits,
// is still the longest.
TEST_F(NsightSystemsTest, LengthsOfStepsHaveASum) {
  make(Full);
  make("DELETE FROM NVTX_EVENTS;"
       "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) "
       "VALUES (0, 100, 59, 'iteration 1', 1),"
       "(-3000000000000000000, 3000000000000000000, 59, 'step 1', 1),"
       "(-3000000000000000000, 3000000000000000000, 59, 'step 2', 1),"
       "(-3000000000000000000, 3000000000000000000, 59, 'step 3', 1);");
  ASSERT_EQ(read(Reader), "");
  ASSERT_EQ(rows(TableId::ranges), 4u);
  for (unsigned I = 0; I != 4; ++I)
    EXPECT_EQ(cell(TableId::ranges, I, "category"), I ? "step" : "annotation");
}

// The file's own enumeration decides what a number means.
TEST_F(NsightSystemsTest, EnumerationsHaveTheLastWord) {
  make(Full);
  make("CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, name TEXT, label TEXT);"
       "INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, '', 'Unknown'),"
       "(1, '', 'Pageable'), (2, '', 'Device');");
  ASSERT_EQ(read(Reader), "");
  EXPECT_EQ(cell(TableId::gpu_work, 2, "src_kind"), "pageable");
  EXPECT_EQ(cell(TableId::gpu_work, 3, "dst_kind"), "-");
}

TEST_F(NsightSystemsTest, OtherDatabasesAreNotMatched) {
  make("CREATE TABLE runs (id INTEGER PRIMARY KEY, loss REAL);");
  EXPECT_EQ(match(Reader), Match::No);
  write("SQLite format 3\nbut not really");
  EXPECT_EQ(match(Reader), Match::No);
  write("");
  EXPECT_EQ(match(Reader), Match::No);
}

// Views of a stranger's file are not run: this one would never end.
TEST_F(NsightSystemsTest, ViewsAreNotRead) {
  make("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
       "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
       "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
       "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n;");
  EXPECT_EQ(read(Reader), "");
  EXPECT_EQ(rows(TableId::gpu_work), 0u);
}

TEST_F(NsightSystemsTest, TruncationIsOneSentence) {
  make(Full);
  std::string Whole = bytes();
  for (size_t Size = 100; Size < Whole.size(); Size += 1500) {
    write(StringRef(Whole).take_front(Size));
    std::string Error = read(Reader);
    if (Error.empty())
      Error = remarks();
    EXPECT_NE(Error.find("is cut off: it has " + formatCount(Size) +
                         " of 57,344 bytes"),
              std::string::npos)
        << Size << " " << Error;
  }
}

} // namespace
