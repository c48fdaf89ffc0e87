//===- CaptureFileTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/CaptureFile.h"
#include "Capture/Decode.h"
#include "Capture/FrameWriter.h"
#include "gtest/gtest.h"
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace culprit::capture;

namespace {

/// A file in memory.
class TemporaryFile {
public:
  TemporaryFile() : Descriptor(memfd_create("capture", 0)) {}
  ~TemporaryFile() { close(Descriptor); }
  int descriptor() const { return Descriptor; }
  std::string bytes() const {
    std::string Out(static_cast<size_t>(lseek(Descriptor, 0, SEEK_END)), 0);
    EXPECT_EQ(pread(Descriptor, Out.data(), Out.size(), 0),
              static_cast<ssize_t>(Out.size()));
    return Out;
  }

private:
  int Descriptor;
};

Superblock someHead() {
  Superblock Head = {};
  std::memcpy(Head.Magic, Magic, sizeof(Magic));
  Head.Major = MajorVersion;
  Head.ByteOrder = ByteOrder;
  Head.Pid = 42;
  return Head;
}

void addKernel(FrameWriter &W, uint64_t Start, const char *Name) {
  if (void *To = W.add(RecordKind::Kernel)) {
    KernelRecord R = {};
    R.start = Start;
    R.end = Start + 5;
    R.name = W.name(Name);
    std::memcpy(To, &R, sizeof(R));
  }
}

/// Three kernels of two names in two frames, a copy, and an end.
std::string smallCapture() {
  TemporaryFile File;
  FrameWriter W;
  Superblock Head = someHead();
  EXPECT_EQ(W.open(File.descriptor(), Head, {}), 0);
  Drops Lost = {};
  addKernel(W, 100, "gemm");
  addKernel(W, 200, "softmax");
  W.flush(Lost);
  addKernel(W, 300, "gemm");
  CopyRecord Copy = {};
  Copy.start = 400;
  Copy.bytes = 1 << 20;
  std::memcpy(W.add(RecordKind::Copy), &Copy, sizeof(Copy));
  Lost.Seen = 4;
  W.finish(EndReason::Detached, 7, Lost);
  W.close();
  return File.bytes();
}

std::string kernelsOf(const CaptureFile &C) {
  std::string Out;
  C.each<KernelRecord>([&](const KernelRecord &R, uint32_t Epoch, uint64_t) {
    Out += std::to_string(R.start) + " " + std::string(C.text(Epoch, R.name)) +
           "\n";
  });
  return Out;
}

TEST(CaptureFileTest, ReadsWhatWasWritten) {
  std::string Bytes = smallCapture();
  CaptureFile C(Bytes);
  EXPECT_TRUE(C.isHeadGood());
  EXPECT_EQ(C.head().Pid, 42u);
  EXPECT_EQ(kernelsOf(C), "100 gemm\n200 softmax\n300 gemm\n");
  EXPECT_EQ(C.count(RecordKind::Copy), 1u);
  ASSERT_TRUE(C.end());
  EXPECT_EQ(C.end()->Reason, EndReason::Detached);
  EXPECT_EQ(C.total(RecordKind::Kernel), 3u);
  EXPECT_EQ(C.drops().Written, 4u);
  EXPECT_EQ(C.gapBytes(), 0u);
  EXPECT_EQ(C.missingFrames(), 0u);
}

// A process that is killed leaves the beginning of a file.
TEST(CaptureFileTest, GivesThePrefixOfATruncatedFile) {
  std::string Bytes = smallCapture();
  CaptureFile Whole(Bytes);
  std::string All = kernelsOf(Whole);
  for (size_t Size = 0; Size < Bytes.size(); ++Size) {
    CaptureFile C(std::string_view(Bytes).substr(0, Size));
    std::string Some = kernelsOf(C);
    EXPECT_EQ(Some, All.substr(0, Some.size()));
    EXPECT_FALSE(C.end());
    // What is there is either in a frame or told as a gap.
    uint64_t Framed = SuperblockSize;
    for (const FrameView &V : C.frames())
      Framed += (sizeof(Frame) + V.Head.Payload + 7) / 8 * 8;
    // Of the last frame the padding may be cut.
    uint64_t Told = Framed + C.gapBytes();
    EXPECT_GE(Told, std::max<uint64_t>(Size, SuperblockSize));
    EXPECT_LT(Told, std::max<uint64_t>(Size, SuperblockSize) + FrameAlign);
  }
}

// One frame at most is lost to a changed byte, and it is told.
TEST(CaptureFileTest, StepsOverADamagedFrame) {
  const std::string Bytes = smallCapture();
  CaptureFile Whole(Bytes);
  size_t Frames = Whole.frames().size();
  for (size_t I = 0; I < Bytes.size(); ++I) {
    std::string Damaged = Bytes;
    Damaged[I] = static_cast<char>(~Damaged[I]);
    CaptureFile C(Damaged);
    if (I < SuperblockSize) {
      EXPECT_FALSE(C.isHeadGood());
      EXPECT_EQ(C.frames().size(), Frames);
      continue;
    }
    if (C.frames().size() == Frames)
      continue; // A byte of padding.
    EXPECT_EQ(C.frames().size(), Frames - 1) << I;
    EXPECT_GT(C.gapBytes(), 0u);
    kernelsOf(C);
  }
}

// A file of another version: a field is missing, one is new, one is wider.
TEST(CaptureFileTest, GoesByTheSchema) {
  std::string Bytes = smallCapture();
  CaptureFile Whole(Bytes);
  std::string Out;
  for (const FrameView &V : Whole.frames()) {
    if (V.Head.Type != FrameType::Schema ||
        V.Head.Kind != uint16_t(RecordKind::Copy))
      continue;
    // `bytes` is called something else.
    std::string Changed = Bytes;
    char *At = Changed.data() + V.Offset + sizeof(Frame) + sizeof(SchemaHead);
    for (uint32_t I = 0; I < V.Head.Count; ++I, At += sizeof(SchemaField))
      if (!std::strcmp(At, "bytes"))
        std::memcpy(At, "octets", 7);
    Frame F = V.Head;
    F.Crc = crc32c(crc32c(0, &F, offsetof(Frame, Crc)),
                   Changed.data() + V.Offset + sizeof(Frame), F.Payload);
    std::memcpy(Changed.data() + V.Offset, &F, sizeof(F));
    CaptureFile C(Changed);
    C.each<CopyRecord>([&](const CopyRecord &R, uint32_t, uint64_t) {
      Out += std::to_string(R.start) + " " + std::to_string(R.bytes);
    });
  }
  EXPECT_EQ(Out, "400 0");
}

TEST(CaptureFileTest, TakesAnyBytes) {
  std::string Bytes(100000, 0);
  std::srand(1);
  for (char &C : Bytes)
    C = static_cast<char>(std::rand());
  // Heads of frames everywhere, each with a large payload.
  Frame F = {};
  F.Magic = FrameMagic;
  F.Payload = 50000;
  for (size_t At = SuperblockSize; At + sizeof(F) < Bytes.size(); At += 32)
    std::memcpy(Bytes.data() + At, &F, sizeof(F));
  CaptureFile C(Bytes);
  EXPECT_EQ(C.frames().size(), 0u);
  EXPECT_EQ(CaptureFile({}).frames().size(), 0u);
}

TEST(FrameWriterTest, StopsAtTheLimitAndCounts) {
  TemporaryFile File;
  FrameWriter W;
  Superblock Head = someHead();
  FrameWriter::Options O;
  O.MaxSize = 2 << 20;
  ASSERT_EQ(W.open(File.descriptor(), Head, O), 0);
  const uint64_t Count = 100000; // 56 bytes each: 5.6 MB.
  for (uint64_t I = 0; I < Count; ++I)
    addKernel(W, I + 1, "k");
  Drops Lost = {};
  Lost.Seen = Count;
  W.finish(EndReason::FileFull, 1, Lost);
  EXPECT_TRUE(W.isFull());
  std::string Bytes = File.bytes();
  EXPECT_LE(Bytes.size(), O.MaxSize);
  CaptureFile C(Bytes);
  ASSERT_TRUE(C.end());
  EXPECT_GT(C.drops().FileCap, 0u);
  EXPECT_EQ(C.drops().Written + C.drops().FileCap, Count);
  EXPECT_EQ(C.count(RecordKind::Kernel), C.drops().Written);
  W.close();
}

// A ring keeps the newest, with the names that they need.
TEST(FrameWriterTest, OverwritesTheOldestInARing) {
  TemporaryFile File;
  FrameWriter W;
  Superblock Head = someHead();
  FrameWriter::Options O;
  O.MaxSize = 32 << 20;
  O.SegmentBytes = 1;
  O.Full = FullPolicy::Ring;
  ASSERT_EQ(W.open(File.descriptor(), Head, O), 0);
  const uint64_t Count = 1000000; // 56 MB.
  for (uint64_t I = 0; I < Count; ++I)
    addKernel(W, I + 1, I % 2 ? "odd" : "even");
  Drops Lost = {};
  Lost.Seen = Count;
  W.finish(EndReason::Detached, 1, Lost);
  std::string Bytes = File.bytes();
  EXPECT_LE(Bytes.size(), O.MaxSize);
  CaptureFile C(Bytes);
  uint64_t Last = 0, Wrong = 0;
  C.each<KernelRecord>([&](const KernelRecord &R, uint32_t Epoch, uint64_t) {
    Wrong += C.text(Epoch, R.name) != ((R.start - 1) % 2 ? "odd" : "even");
    Wrong += Last && R.start != Last + 1;
    Last = R.start;
  });
  EXPECT_EQ(Last, Count);
  EXPECT_EQ(Wrong, 0u);
  // Three segments of 40 frames of 256 KiB; a segment is left with room for 20,
  // so that two of them hold at least 2 * 20 * 256 KiB / 120 records.
  EXPECT_GT(C.count(RecordKind::Kernel), 80000u);
  W.close();
}

TEST(FrameWriterTest, CountsWhatADiskDoesNotTake) {
  int Descriptor = open("/dev/full", O_RDWR);
  if (Descriptor < 0)
    GTEST_SKIP() << "no /dev/full";
  FrameWriter W;
  Superblock Head = someHead();
  EXPECT_EQ(W.open(Descriptor, Head, {}), ENOSPC);
  close(Descriptor);
}

// While nothing can be written records are counted as lost; afterwards all have
// their names again.
TEST(FrameWriterTest, KeepsNamesOverAFailure) {
  TemporaryFile File;
  FrameWriter W;
  Superblock Head = someHead();
  int Target = dup(File.descriptor());
  ASSERT_EQ(W.open(Target, Head, {}), 0);
  Drops Lost = {};
  addKernel(W, 1, "first");
  W.flush(Lost);
  int ReadOnly = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(ReadOnly, Target);
  close(ReadOnly);
  addKernel(W, 2, "second");
  W.flush(Lost);
  // A kind whose layout is not in the file yet.
  CopyRecord Copy = {};
  std::memcpy(W.add(RecordKind::Copy), &Copy, sizeof(Copy));
  W.flush(Lost);
  EXPECT_EQ(W.failed(), 2u);
  EXPECT_EQ(W.error(), EBADF);
  dup2(File.descriptor(), Target);
  addKernel(W, 3, "second");
  std::memcpy(W.add(RecordKind::Copy), &Copy, sizeof(Copy));
  Lost.Seen = 5;
  W.finish(EndReason::Detached, 1, Lost);
  W.close();
  close(Target);
  std::string Bytes = File.bytes();
  CaptureFile C(Bytes);
  EXPECT_EQ(kernelsOf(C), "1 first\n3 second\n");
  EXPECT_EQ(C.count(RecordKind::Copy), 1u);
  EXPECT_EQ(C.frames().back().Head.Epoch, 0u);
  EXPECT_EQ(C.recordsWithoutSchema(), 0u);
  EXPECT_EQ(C.drops().Seen, C.drops().Written + C.drops().WriteError);
}

// A second capture by the same writer stands for itself.
TEST(FrameWriterTest, BeginsAnew) {
  FrameWriter W;
  for (int Round = 0; Round < 2; ++Round) {
    TemporaryFile File;
    Superblock Head = someHead();
    ASSERT_EQ(W.open(File.descriptor(), Head, {}), 0);
    addKernel(W, 10, "gemm");
    Drops Lost = {};
    Lost.Seen = 1;
    W.finish(EndReason::Detached, 1, Lost);
    std::string Bytes = File.bytes();
    CaptureFile C(Bytes);
    EXPECT_EQ(kernelsOf(C), "10 gemm\n");
    EXPECT_EQ(C.missingFrames(), 0u);
    EXPECT_EQ(C.drops().Written, 1u);
    W.close();
  }
}

// Small frames alone, of an idle process, stay within the ring too.
TEST(FrameWriterTest, StaysInTheRingWhenIdle) {
  TemporaryFile File;
  FrameWriter W;
  Superblock Head = someHead();
  FrameWriter::Options O;
  O.MaxSize = 20 << 20;
  O.Full = FullPolicy::Ring;
  ASSERT_EQ(W.open(File.descriptor(), Head, O), 0);
  Drops Lost = {};
  addKernel(W, 1, "k");
  for (int I = 0; I < 400000; ++I) // 112 bytes each, 45 MB.
    W.flush(Lost);
  addKernel(W, 2, "k");
  W.finish(EndReason::Detached, 1, Lost);
  W.close();
  std::string Bytes = File.bytes();
  EXPECT_LE(Bytes.size(), O.MaxSize);
  CaptureFile C(Bytes);
  ASSERT_TRUE(C.end());
  EXPECT_EQ(kernelsOf(C), "2 k\n");
}

} // namespace
