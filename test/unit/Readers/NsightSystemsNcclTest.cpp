//===- NsightSystemsNcclTest.cpp --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ProfileTestSupport.h"
#include "Readers/NsightSystems.h"
#include "llvm/ADT/StringExtras.h"
#include <sqlite3.h>

using namespace llvm;
using namespace culprit;

namespace {

/// \p Value as the digits of a 64-bit little-endian number.
std::string u64(uint64_t Value) {
  return toHex(StringRef(reinterpret_cast<const char *>(&Value), 8));
}
std::string u32(uint32_t Value) {
  return toHex(StringRef(reinterpret_cast<const char *>(&Value), 4));
}

/// The bytes of a payload in domain 1, as SQL has them: domain, schema, size,
/// whole size, struct.
std::string blob(uint64_t Schema, const std::string &Struct) {
  uint64_t Size = Struct.size() / 2;
  return "x'" + u64(1) + u64(Schema) + u64(Size) + u64(32 + Size) + Struct +
         "'";
}

class NsightNcclTest : public ProfileTest {
protected:
  void SetUp() override {
    ProfileTest::SetUp();
    SQL = R"(
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'cuLaunchKernelEx'),
  (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'),
  (3, 'ncclDevKernel_SendRecv'), (4, 'ncclDevKernel_AllGather_RING_LL'),
  (11, 'ncclAllReduce'), (12, 'ncclSend'), (13, 'ncclRecv'),
  (14, 'ncclAllGather'), (15, 'ncclGroupStart'), (16, 'ncclGroupEnd'),
  (17, 'ncclCommInitRank');
-- 5 is int, 18 uint64, 22 size_t; the first entry has no offset.
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INT, schemaId INT, idx INT,
  type INT, name TEXT, offset INT);
INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES
  (1, 4, 0, 18, 'NCCL communicator ID', NULL),
  (1, 4, 1, 22, 'Message size [bytes]', 8),
  (1, 9, 0, 18, 'NCCL communicator ID', NULL),
  (1, 9, 1, 22, 'Message size [bytes]', 8), (1, 9, 2, 5, 'Peer rank', 16),
  (1, 2, 0, 18, 'NCCL communicator ID', NULL),
  (1, 2, 1, 5, 'No. of ranks', 8), (1, 2, 2, 5, 'Rank', 12),
  (1, 2, 3, 5, 'CUDA device', 16),
  -- NCCL before 2.23 says nothing but the size.
  (1, 3, 0, 22, 'Message size [bytes]', NULL);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, textId INT,
  globalTid INT, domainId INT, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT,
  streamId INT, correlationId INT, globalPid INT, demangledName INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT,
  correlationId INT, nameId INT);
)";
  }
  void range(int Start, int Stop, int Name, const std::string &Blob = "NULL") {
    SQL += "INSERT INTO NVTX_EVENTS VALUES (" + std::to_string(Start) + ", " +
           std::to_string(Stop) + ", 59, " + std::to_string(Name) +
           ", (5 << 24) + 6, 1, " + Blob + ");\n";
  }
  /// A kernel \p Name that runs from \p Start, launched at \p Call.
  void kernel(int Start, int Name, int Call) {
    std::string Id = std::to_string(++Correlation);
    SQL += "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" +
           std::to_string(Start) + ", " + std::to_string(Start + 5) +
           ", 0, 7, " + Id + ", 5 << 24, " + std::to_string(Name) + ");\n" +
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" +
           std::to_string(Call) + ", " + std::to_string(Call + 1) +
           ", (5 << 24) + 6, " + Id + ", 1);\n";
  }
  void readAll() {
    sqlite3 *DB = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &DB), SQLITE_OK);
    char *Message = nullptr;
    sqlite3_exec(DB, SQL.c_str(), nullptr, nullptr, &Message);
    EXPECT_EQ(Message, nullptr) << Message;
    sqlite3_close(DB);
    ASSERT_EQ(read(Reader), "");
    EXPECT_EQ(remarks(), "");
  }
  std::string SQL;
  int Correlation = 0;
  NsightSystemsReader Reader;
  std::string collective(size_t Row) {
    return cells(TableId::collectives, Row,
                 {"op", "bytes", "group", "group_size", "seq", "enqueued"});
  }
};

// One call, one kernel: what the call says.
TEST_F(NsightNcclTest, CallAroundTheLaunch) {
  range(100, 120, 11, blob(4, u64(0xab) + u64(4096)));
  kernel(200, 2, 110);
  range(130, 150, 11, blob(4, u64(0xab) + u64(512)));
  kernel(220, 2, 140);
  kernel(240, 2, 160); // launched outside of any call
  readAll();
  EXPECT_EQ(collective(0),
            "all_reduce 4096 0x00000000000000ab - 0 100");
  EXPECT_EQ(collective(1),
            "all_reduce 512 0x00000000000000ab - 1 130");
  EXPECT_EQ(cells(TableId::collectives, 2, {"bytes", "group"}), "- -");
}

// ncclAllGather notes what one rank gives; with 8 ranks the output is 8 times
// that. Of an unknown number of ranks the output is not known.
TEST_F(NsightNcclTest, GatherCountsItsOutput) {
  range(1, 90, 17, blob(2, u64(0xab) + u32(8) + u32(3) + u32(0) + u32(0)));
  range(100, 120, 14, blob(4, u64(0xab) + u64(1000)));
  kernel(200, 4, 110);
  range(130, 150, 14, blob(4, u64(0xcd) + u64(1000)));
  kernel(220, 4, 140);
  readAll();
  EXPECT_EQ(collective(0),
            "all_gather 8000 0x00000000000000ab 8 0 100");
  EXPECT_EQ(collective(1),
            "all_gather - 0x00000000000000cd - 0 130");
  // The largest communicator says which rank of the job this is.
  EXPECT_EQ(cells(TableId::ranks, 0, {"rank", "world_size", "pid"}), "3 8 5");
  EXPECT_EQ(cell(TableId::gpu_work, 0, "rank"), "3");
}

// A group launches at its end: one kernel for a send and two receives. Bytes
// are those of the larger direction: 300 against 100 + 150.
TEST_F(NsightNcclTest, GroupOfSendsAndReceives) {
  range(1, 90, 17, blob(2, u64(0xab) + u32(4) + u32(0) + u32(0) + u32(0)));
  range(99, 100, 15);
  range(101, 102, 12, blob(9, u64(0xab) + u64(300) + u32(1) + u32(0)));
  range(103, 104, 13, blob(9, u64(0xab) + u64(100) + u32(2) + u32(0)));
  range(105, 106, 13, blob(9, u64(0xab) + u64(150) + u32(3) + u32(0)));
  range(107, 120, 16);
  kernel(200, 3, 110);
  range(130, 150, 12, blob(9, u64(0xab) + u64(64) + u32(2) + u32(0)));
  kernel(220, 3, 140);
  readAll();
  EXPECT_EQ(cells(TableId::collectives, 0, {"op", "bytes", "peer", "group_size"}),
            "send_recv 300 - 4");
  EXPECT_EQ(cells(TableId::collectives, 1, {"op", "bytes", "peer", "seq"}),
            "send 64 2 1");
}

// Two all-reduces of a group in two kernels: in order. Three calls in two
// kernels: nobody knows which, but all are of one communicator.
TEST_F(NsightNcclTest, GroupOfSeveralKernels) {
  range(99, 100, 15);
  range(101, 102, 11, blob(4, u64(0xab) + u64(10)));
  range(103, 104, 11, blob(4, u64(0xcd) + u64(20)));
  range(107, 120, 16);
  kernel(200, 2, 110);
  kernel(210, 2, 112);
  range(129, 130, 15);
  for (int I : {131, 133, 135})
    range(I, I + 1, 11, blob(4, u64(0xab) + u64(10)));
  range(137, 150, 16);
  kernel(220, 2, 140);
  kernel(230, 2, 142);
  readAll();
  EXPECT_EQ(cells(TableId::collectives, 0, {"bytes", "group"}),
            "10 0x00000000000000ab");
  EXPECT_EQ(cells(TableId::collectives, 1, {"bytes", "group"}),
            "20 0x00000000000000cd");
  EXPECT_EQ(cells(TableId::collectives, 2, {"bytes", "group", "seq"}),
            "- 0x00000000000000ab 1");
}

// The payload may be digits in a text, may lack the communicator, and may be
// damaged in any way.
TEST_F(NsightNcclTest, OtherPayloads) {
  std::string Text = blob(4, u64(0xab) + u64(4096)).substr(1);
  range(100, 120, 11, Text);
  kernel(200, 2, 110);
  range(130, 150, 11, blob(3, u64(77)));
  kernel(220, 2, 140);
  for (int I = 0; I != 5; ++I) {
    const char *Broken[] = {"x''", "'zz'", "x'0102'", "17", nullptr};
    std::string Cut = blob(4, u64(0xab)); // the size is beyond its struct
    range(300 + 20 * I, 310 + 20 * I, 11, Broken[I] ? Broken[I] : Cut);
    kernel(400 + 20 * I, 2, 305 + 20 * I);
  }
  // A size that would wrap around.
  range(500, 510, 11,
        "x'" + u64(1) + u64(4) + u64(UINT64_MAX) + u64(48) + u64(1) + u64(2) +
            "'");
  kernel(600, 2, 505);
  readAll();
  EXPECT_EQ(cells(TableId::collectives, 0, {"bytes", "group"}),
            "4096 0x00000000000000ab");
  EXPECT_EQ(cells(TableId::collectives, 1, {"bytes", "group"}), "77 -");
  for (size_t I = 2; I != 8; ++I)
    EXPECT_EQ(cells(TableId::collectives, I, {"bytes", "group"}), "- -") << I;
}

} // namespace
