//===- CaptureDamageTest.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CaptureTestSupport.h"
#include "Readers/CaptureCheck.h"

using namespace culprit;
using namespace culprit::capture;

namespace {

class CaptureDamageTest : public CaptureTest {};

TEST_F(CaptureDamageTest, AKilledProcessLeavesAUsableCapture) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5));
  B.flush();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(rows(TableId::gpu_work), 1u);
  EXPECT_EQ(remarks(), "has no end: the process was killed, or is still being "
                       "recorded");
  EXPECT_EQ(cell(TableId::profiler_events, 0, "kind"), "cut");
}

TEST_F(CaptureDamageTest, SaysWhatWasLostAndWhy) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5));
  B.add(B.kernel(9, 5));  // ends before it begins
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

TEST_F(CaptureDamageTest, AClockThatWasSetIsTold) {
  CaptureBuilder B;
  constexpr uint64_t T0 = CaptureBuilder::Begin;
  B.add(B.kernel(0, 5));
  B.Writer.addClock({T0, 1000, 1000, T0});
  B.Writer.addClock({T0 + 1000000000, 1000001000, 1000001000, T0});
  B.Writer.addClock({T0 + 500000000, 2000001000, 2000001000, T0});
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(remarks(), "the clock of the host was set back by 1.50 s");
}

// A file that is full may have begun new strings, as each part of a ring does;
// what is missing from it was not overwritten.
TEST_F(CaptureDamageTest, AFullFileIsNoRing) {
  FrameWriter::Options O;
  O.MaxSize = 250000;
  CaptureBuilder B(~0u, O);
  for (uint64_t I = 0; I != 6000; ++I)
    B.add(B.kernel(I, I + 1));
  B.finish(EndReason::FileFull);
  std::string Bytes = withLastEpoch(B.bytes());
  FrameView Third = CaptureFile(Bytes).frames()[2];
  ASSERT_GT(CaptureFile(Bytes).frames().back().Head.Epoch, 0u);
  Bytes[Third.Offset + sizeof(Frame)] ^= 1;
  ASSERT_EQ(readBytes(Bytes), "");
  EXPECT_NE(remarks().find("are damaged; 1 frame lost"), std::string::npos)
      << remarks();
  for (size_t Row = 0; Row < rows(TableId::profiler_events); ++Row)
    EXPECT_NE(cell(TableId::profiler_events, Row, "name"), "ring");
}

TEST_F(CaptureDamageTest, RefusesWhatItCannotRead) {
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
TEST_F(CaptureDamageTest, CutAtEveryByte) {
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

TEST_F(CaptureDamageTest, EveryByteFlipped) {
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

TEST_F(CaptureDamageTest, NumbersOfAnySize) {
  CaptureBuilder B;
  constexpr uint64_t T0 = CaptureBuilder::Begin;
  B.add(B.kernel(0, 5));
  // Ranges of a hundred years each: their sum is beyond 63 bits.
  for (uint32_t Id = 1; Id != 6; ++Id) {
    MarkerRecord R = B.marker(2, Id, 0, "step 1");
    R.at = 315532800000000000;
    B.add(R);
    R = B.marker(4, Id, 0);
    R.at = 3999999999999999999;
    B.add(R);
  }
  B.Lost.CuptiDropped = B.Lost.PoolOverflow = ~0ull;
  B.Writer.addClock({T0, 0, 0, T0});
  B.Writer.addClock({T0 + (1ull << 63), 0, 0, T0});
  B.finish();
  ASSERT_EQ(readBytes(B.bytes()), "");
  EXPECT_EQ(cells(TableId::ranges, 4, {"category", "dur"}),
            "step 3684467199999999999");
  // A few such counts have a sum.
  EXPECT_EQ(cells(TableId::profiler_events, 1, {"name", "count"}),
            "buffers 36028797018963967");
  EXPECT_NE(remarks().find("the clock of the host was set back by"),
            std::string::npos)
      << remarks();
}

// That nothing was found says nothing of the process when something is missing.
TEST_F(CaptureDamageTest, WhyThereIsNoRecord) {
  auto Hint = [&](const std::string &Bytes) {
    EXPECT_EQ(readBytes(Bytes), "");
    return S->Remarks.back().Message + ": " + S->Remarks.back().Hint;
  };
  CaptureBuilder Idle;
  Idle.finish();
  EXPECT_EQ(Hint(Idle.bytes()),
            path() + ": holds no records: the process did nothing on a device "
                     "while it was recorded");
  CaptureBuilder B;
  B.add(B.kernel(0, 5)); // frames: 0 schema, 1 records
  B.finish();
  std::string Bytes = B.bytes();
  Bytes.resize(CaptureFile(Bytes).frames()[1].Offset + 40);
  EXPECT_EQ(Hint(Bytes),
            path() + ": holds no records: none was left in what could be read");
}

} // namespace
