//===- CaptureCheckTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureCheck.h"
#include "CaptureTestSupport.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace culprit::capture;

namespace {

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
  B.add(B.kernel(0, 5));
  B.Lost.Seen += 2;
  B.Lost.PoolOverflow = 1;
  B.finish();
  EXPECT_EQ(brokenOf(B.bytes()),
            "3 records seen, but 1 written and 1 counted as lost or left out: "
            "1 unaccounted for");
}

TEST_F(CaptureCheckTest, AFrameThatIsGoneIsMissed) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5)); // frames: 0 schema, 1 records, 2 drops
  B.flush();
  B.add(B.kernel(7, 9)); // 3 records, 4 drops, 5 end
  B.finish();
  std::string Bytes = B.bytes();
  size_t From = frameAt(Bytes, 3), To = frameAt(Bytes, 4);
  EXPECT_EQ(brokenOf(Bytes.substr(0, From) + Bytes.substr(To)),
            "1 frame is missing between those that are there\n"
            "kernel: 1 record in the file, where its end counts 2");
  // Without its first frame no record can be understood.
  From = frameAt(Bytes, 0);
  To = frameAt(Bytes, 1);
  EXPECT_EQ(brokenOf(Bytes.substr(0, From) + Bytes.substr(To)),
            "1 frame is missing between those that are there\n"
            "2 records cannot be read: what says how they are laid out is "
            "lost\n"
            "kernel: 0 records in the file, where its end counts 2");
}

TEST_F(CaptureCheckTest, AKilledProcessBreaksNothing) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5));
  B.flush();
  B.add(B.kernel(7, 9));
  B.flush();
  std::string Bytes = B.bytes();
  EXPECT_EQ(brokenOf(Bytes), "");
  // Torn in the last frame of records: the count before it holds.
  EXPECT_EQ(brokenOf(Bytes.substr(0, frameAt(Bytes, 3) + 40)), "");
}

// What a killed process leaves is the begin of a frame. One that has its whole
// length was written and then harmed.
TEST_F(CaptureCheckTest, AHarmedEndIsNotTorn) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5));
  B.finish();
  const std::string Bytes = B.bytes();
  FrameView End = CaptureFile(Bytes).frames().back();
  ASSERT_EQ(End.Head.Type, FrameType::End);
  for (size_t At = 0; At != sizeof(Frame) + End.Head.Payload; ++At) {
    // A length that is beyond the file is what a cut leaves too.
    if (At >= offsetof(Frame, Payload) && At < offsetof(Frame, Count))
      continue;
    std::string Harmed = Bytes;
    Harmed[End.Offset + At] ^= 1;
    EXPECT_EQ(brokenOf(Harmed),
              std::to_string(Bytes.size() - End.Offset) + " bytes at offset " +
                  std::to_string(End.Offset) + " are damaged")
        << At;
  }
  for (size_t Size = End.Offset + 1;
       Size != End.Offset + sizeof(Frame) + End.Head.Payload; ++Size) {
    EXPECT_EQ(brokenOf(Bytes.substr(0, Size)), "") << Size;
    // Of a machine that went down: there is room for it, and nothing in it.
    std::string Zeros(Size - End.Offset, 0);
    EXPECT_EQ(brokenOf(Bytes.substr(0, End.Offset) + Zeros), "") << Size;
  }
}

TEST_F(CaptureCheckTest, CountsForPrograms) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5));
  B.add(B.kernel(5, 9));
  B.add(CopyRecord{});
  B.Lost.PoolOverflow = 4;
  B.Lost.Unwanted = 3;
  B.Lost.Seen += 7;
  B.flush();
  auto Counts = [](const std::string &Bytes) {
    CaptureCheck C = checkCapture(CaptureFile(Bytes));
    std::string Out;
    if (C.Records)
      Out = std::to_string(C.Records->Seen) + " " +
            std::to_string(C.Records->Written) + " " +
            std::to_string(C.Records->Lost) + " " +
            std::to_string(C.Records->LeftOut);
    for (const CaptureCheck::Reason &L : C.Losses)
      if (L.Count)
        Out += "; " + L.Name.str() + " " + std::to_string(L.Count);
    auto Text = [](std::optional<uint64_t> Number) {
      return " " + (Number ? std::to_string(*Number) : "-");
    };
    for (const CaptureCheck::Kind &K : C.Kinds)
      Out += "; " + K.Name.str() + Text(K.Seen) + Text(K.Written) +
             Text(K.Overwritten) + Text(K.InFile);
    return Out;
  };
  EXPECT_EQ(Counts(B.bytes()), "10 3 4 3; buffers 4; kernel - - - 2; "
                               "copy - - - 1");
  B.add(B.kernel(9, 12));
  B.Lost.ZeroTime = 2; // kernels
  B.Lost.Seen += 2;
  uint64_t Seen[MaxRecordKind + 1] = {};
  Seen[unsigned(RecordKind::Kernel)] = 5;
  Seen[unsigned(RecordKind::Copy)] = 1;
  B.Writer.finish(EndReason::Exit, CaptureBuilder::Begin, B.Lost, Seen);
  std::string Bytes = B.bytes();
  EXPECT_EQ(Counts(Bytes), "13 4 6 3; buffers 4; times 2; kernel 5 3 0 3; "
                           "copy 1 1 0 1");
  // Nothing was counted before the first records.
  EXPECT_EQ(Counts(Bytes.substr(0, SuperblockSize)), "");
}

/// Of \p Kernels kernels, in a file of \p MaxSize bytes at most.
static std::string limited(FullPolicy Full, uint64_t MaxSize,
                           uint64_t Kernels) {
  FrameWriter::Options O;
  O.MaxSize = MaxSize;
  O.Full = Full;
  CaptureBuilder B(~0u, O);
  for (uint64_t I = 0; I != Kernels; ++I)
    B.add(B.kernel(I, I + 1));
  B.finish(Full == FullPolicy::Stop ? EndReason::FileFull : EndReason::Exit);
  return B.bytes();
}

TEST_F(CaptureCheckTest, ARingMayForgetWhatIsOld) {
  // The smallest ring is of 4 MiB, a kernel of 80 bytes and more.
  std::string Bytes = limited(FullPolicy::Ring, LeastRingSize, 120000);
  CaptureFile File(Bytes);
  ASSERT_GT(File.frames().back().Head.Epoch, 0u);
  ASSERT_LT(File.count(RecordKind::Kernel), 120000u);
  ASSERT_GT(File.frames().front().Head.Sequence, 0u);
  EXPECT_EQ(brokenOf(Bytes), "");
}

// All but the oldest must be there: whichever byte of whichever frame is
// harmed, it is told, as damage and not as what a ring overwrote.
TEST_F(CaptureCheckTest, DamageInARing) {
  const std::string Bytes = limited(FullPolicy::Ring, LeastRingSize, 120000);
  CaptureFile File(Bytes);
  unsigned Number = 0;
  for (const FrameView &V : File.frames()) {
    if (Number++ % 7 && V.Head.Type != FrameType::Strings)
      continue;
    std::string Harmed = Bytes;
    Harmed[V.Offset + Number % (sizeof(Frame) + V.Head.Payload)] ^= 1;
    if (std::string_view(Harmed) == Bytes)
      continue;
    EXPECT_NE(brokenOf(Harmed).find("are damaged"), std::string::npos)
        << Number << ": " << brokenOf(Harmed);
  }
  // A part is read as zeros that was written: a copy that skipped a block.
  const FrameView &Middle = File.frames()[File.frames().size() / 2];
  std::string Skipped = Bytes;
  std::fill_n(Skipped.begin() + static_cast<ptrdiff_t>(Middle.Offset),
              sizeof(Frame) + Middle.Head.Payload, '\0');
  EXPECT_NE(brokenOf(Skipped).find("missing between"), std::string::npos);
}

TEST_F(CaptureCheckTest, ARingThatWasCut) {
  const std::string Bytes = limited(FullPolicy::Ring, LeastRingSize, 120000);
  ASSERT_EQ(brokenOf(Bytes), "");
  // The file ends with a part that is neither the oldest nor the newest, or
  // with the end: without it something is missing in any case.
  for (size_t Size : {Bytes.size() / 4, Bytes.size() / 2, Bytes.size() - 4096,
                      Bytes.size() * 3 / 4}) {
    CaptureFile Cut(std::string_view(Bytes).substr(0, Size));
    CaptureCheck Check = checkCapture(Cut);
    EXPECT_TRUE(Check.Cut || !Check.Broken.empty()) << Size;
  }
}

// A killed process leaves its newest frame torn, in a ring before older ones.
TEST_F(CaptureCheckTest, ATornFrameInARing) {
  std::string Bytes = limited(FullPolicy::Ring, LeastRingSize, 120000);
  FrameView Last = CaptureFile(Bytes).frames().back();
  ASSERT_EQ(Last.Head.Type, FrameType::End);
  // Half of the end was written.
  size_t Half = (sizeof(Frame) + Last.Head.Payload) / 2;
  std::fill_n(Bytes.begin() + static_cast<ptrdiff_t>(Last.Offset + Half),
              sizeof(Frame) + Last.Head.Payload - Half, '\0');
  CaptureFile Torn(Bytes);
  CaptureCheck Check = checkCapture(Torn);
  EXPECT_EQ(brokenOf(Bytes), "");
  EXPECT_TRUE(Check.Cut);
  ASSERT_FALSE(Check.Notes.empty());
  EXPECT_EQ(Check.Notes[0].substr(0, 26), "the last frame is torn: th");
}

// A file that is full may have begun new strings, and is no ring for that.
TEST_F(CaptureCheckTest, DamageInAFullFile) {
  const std::string Bytes =
      withLastEpoch(limited(FullPolicy::Stop, 250000, 6000));
  CaptureFile File(Bytes);
  ASSERT_GT(File.frames().back().Head.Epoch, 0u);
  ASSERT_EQ(brokenOf(Bytes), "");
  for (const FrameView &V : File.frames()) {
    std::string Harmed = Bytes;
    Harmed[V.Offset + sizeof(Frame) + V.Head.Payload / 2] ^= 1;
    EXPECT_NE(brokenOf(Harmed).find("are damaged"), std::string::npos)
        << V.Offset << ": " << brokenOf(Harmed);
  }
  std::string Skipped = Bytes;
  const FrameView &First = File.frames()[2];
  Skipped.erase(First.Offset, File.frames()[3].Offset - First.Offset);
  EXPECT_NE(brokenOf(Skipped).find("1 frame is missing"), std::string::npos);
}

// Each reason says what it means and what may help.
TEST_F(CaptureCheckTest, EachLossIsTold) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5));
  B.finish();
  std::string Bytes = B.bytes();
  // The writer counts some of these itself, so they go into its last frame.
  FrameView Last = CaptureFile(Bytes).frames().back();
  char *At = Bytes.data() + Last.Offset;
  EndHead End;
  std::memcpy(&End, At + sizeof(Frame), sizeof(End));
  Drops &D = End.Lost;
  uint64_t Count = 2;
  for (uint64_t Drops::*Counter :
       {&Drops::CuptiDropped, &Drops::PoolOverflow, &Drops::ZeroTime,
        &Drops::FileCap, &Drops::WriteError, &Drops::Unwanted}) {
    D.*Counter = Count;
    D.Seen += Count++;
  }
  D.ParseStopBytes = 64;
  D.StringsFull = 1;
  std::memcpy(At + sizeof(Frame), &End, sizeof(End));
  Last.Head.Crc = crc32c(crc32c(0, &Last.Head, offsetof(Frame, Crc)),
                         At + sizeof(Frame), Last.Head.Payload);
  std::memcpy(At, &Last.Head, sizeof(Frame));
  CaptureCheck Check = checkCapture(CaptureFile(Bytes));
  EXPECT_EQ(Check.Sum, "28 records seen = 1 written + 27 lost or left out");
  EXPECT_TRUE(Check.Broken.empty());
  EXPECT_FALSE(Check.Cut);
  std::string Notes;
  for (const std::string &Note : Check.Notes)
    Notes += Note + "\n";
  EXPECT_EQ(
      Notes,
      "2 records were lost: CUPTI had no room for them; record less, as "
      "--kinds=kernels,copies,calls, or for a shorter time\n"
      "3 records were lost: all buffers of the agent were in use when they "
      "came; record less, as --kinds=kernels,copies,calls, or for a shorter "
      "time\n"
      "4 records were lost: CUPTI could not time these kernels; record for "
      "longer, end it while the device is idle, or give a newer CUPTI with "
      "--cupti PATH\n"
      "5 records were lost: the file had reached its largest size; raise "
      "--max-size, or keep the newest with --ring\n"
      "6 records were lost: they could not be written; make room on the disk, "
      "or name a file on another one with -o\n"
      "7 records were left out: of kinds or calls that were not asked for; "
      "--kinds chooses them\n"
      "64 bytes of CUPTI's buffers could not be read, and the records in them "
      "are not among those seen; this CUPTI may be newer than the agent\n"
      "1 name found no room and read <strings-full>; does the program put "
      "numbers into its range names?\n"
      "ended: the process exited\n");
}

} // namespace
