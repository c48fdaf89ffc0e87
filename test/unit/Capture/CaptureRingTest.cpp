//===- CaptureRingTest.cpp - Rings and full disks ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../../sim/CaptureBuilder.h"
#include "Capture/CaptureFile.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <string>

using namespace culprit::capture;

namespace {

/// Room first: names before it may be of the part of the ring before.
template <typename Record>
void addNamed(CaptureBuilder &B, Record R, const std::string &Name) {
  ++B.Lost.Seen;
  if (void *To = B.Writer.add(Record::Kind)) {
    R.name = B.name(Name.c_str());
    std::memcpy(To, &R, sizeof(R));
  }
}

void addNaming(CaptureBuilder &B, uint32_t Number) {
  DeviceRecord D = {};
  D.id = Number;
  addNamed(B, D, "device " + std::to_string(Number));
  ContextRecord C = {};
  C.context = 1 + Number;
  B.add(C);
  StreamRecord S = {};
  S.stream = 10 + Number;
  B.add(S);
  NameRecord N = {};
  N.thread = 100 + Number;
  addNamed(B, N, "thread " + std::to_string(Number));
}

std::string namingOf(const CaptureFile &C) {
  std::string Out;
  C.each<DeviceRecord>([&](const DeviceRecord &R, uint32_t Epoch, uint64_t) {
    Out += std::to_string(R.id) + "=" + std::string(C.text(Epoch, R.name)) +
           " ";
  });
  C.each<ContextRecord>([&](const ContextRecord &R, uint32_t, uint64_t) {
    Out += "c" + std::to_string(R.context) + " ";
  });
  C.each<StreamRecord>([&](const StreamRecord &R, uint32_t, uint64_t) {
    Out += "s" + std::to_string(R.stream) + " ";
  });
  C.each<NameRecord>([&](const NameRecord &R, uint32_t Epoch, uint64_t) {
    Out += std::to_string(R.thread) + "=" +
           std::string(C.text(Epoch, R.name)) + " ";
  });
  return Out;
}

/// Kernels up to the number \p Count; the second device appears at \p Second.
void fill(CaptureBuilder &B, uint64_t Count, uint64_t Second) {
  addNaming(B, 0);
  for (uint64_t I = 0; I < Count; ++I) {
    addNamed(B, B.kernel(I, I + 1), I % 2 ? "odd" : "even");
    if (I == Second)
      addNaming(B, 1);
  }
}

// However often a ring wrote over what came first, devices, contexts, streams
// and threads are in it, once each; what is gone is counted by kind.
TEST(RingTest, KeepsWhatNamesTheRest) {
  struct Round {
    uint64_t Size, Count, Second;
  };
  // A kernel is 56 bytes: 4 MiB hold less than 75,000.
  for (Round R : {Round{1, 20000, 100}, Round{1, 40000, 100},
                  Round{1, 400000, 200000}, Round{1, 400000, 399990},
                  Round{16u << 20, 900000, 300000}}) {
    FrameWriter::Options O;
    O.MaxSize = R.Size;
    O.Full = FullPolicy::Ring;
    CaptureBuilder B(0, O);
    fill(B, R.Count, R.Second);
    B.finish();
    std::string Bytes = B.bytes();
    EXPECT_LE(Bytes.size(), std::max(R.Size, LeastRingSize));
    CaptureFile C(Bytes);
    EXPECT_EQ(namingOf(C), "0=device 0 1=device 1 c1 c2 s10 s11 "
                           "100=thread 0 101=thread 1 ")
        << R.Count;
    uint64_t Next = 0, Wrong = 0;
    C.each<KernelRecord>([&](const KernelRecord &K, uint32_t Epoch, uint64_t) {
      uint64_t I = K.start - CaptureBuilder::Begin;
      Wrong += (Next && I != Next) ||
               C.text(Epoch, K.name) != (I % 2 ? "odd" : "even");
      Next = I + 1;
    });
    EXPECT_EQ(Wrong, 0u);
    EXPECT_EQ(Next, R.Count);
    EXPECT_EQ(C.total(RecordKind::Kernel), R.Count);
    uint64_t InFile = 0;
    for (unsigned K = 1; K <= MaxRecordKind; ++K)
      InFile += C.count(RecordKind(K));
    EXPECT_EQ(C.count(RecordKind::Kernel),
              R.Count - C.overwritten(RecordKind::Kernel));
    EXPECT_EQ(C.drops().Seen, InFile + C.overwritten());
    EXPECT_EQ(C.overwritten() > 0, R.Count > 100000);
    EXPECT_EQ(C.keptFrom() > 0, C.overwritten() > 0);
    EXPECT_EQ(B.Writer.overwritten(), C.overwritten());
    EXPECT_EQ(B.Writer.kept(unsigned(RecordKind::Kernel)),
              C.count(RecordKind::Kernel));
  }
}

// Most of a ring is in use: two thirds, seven of eight parts.
TEST(RingTest, IsMostlyFull) {
  for (uint64_t Size : {uint64_t(16) << 20, uint64_t(64) << 20}) {
    FrameWriter::Options O;
    O.MaxSize = Size;
    O.Full = FullPolicy::Ring;
    CaptureBuilder B(0, O);
    fill(B, 2 * Size / sizeof(KernelRecord), 5);
    B.finish();
    std::string Bytes = B.bytes();
    CaptureFile C(Bytes);
    EXPECT_GT(C.count(RecordKind::Kernel) * sizeof(KernelRecord), Size / 2);
  }
}

// The end tells both what came and what is there.
TEST(EndTest, TellsWhatCame) {
  CaptureBuilder B;
  B.add(B.kernel(0, 5));
  ++B.Lost.Seen;
  ++B.Lost.ZeroTime;
  uint64_t Seen[MaxRecordKind + 1] = {};
  Seen[unsigned(RecordKind::Kernel)] = 2;
  Seen[unsigned(RecordKind::Copy)] = 3; // All of them lost.
  B.Writer.finish(EndReason::Exit, 1, B.Lost, Seen);
  std::string Bytes = B.bytes();
  CaptureFile C(Bytes);
  ASSERT_TRUE(C.end());
  EXPECT_EQ(C.seen(RecordKind::Kernel), 2u);
  EXPECT_EQ(C.total(RecordKind::Kernel), 1u);
  EXPECT_EQ(C.seen(RecordKind::Copy), 3u);
  EXPECT_EQ(C.total(RecordKind::Copy), 0u);
  EXPECT_EQ(C.seen(RecordKind::Set), 0u);
}

#ifdef F_SEAL_GROW
// A disk without room, here a file that must not grow: the end is there none
// the less, and says why, and what was given up for it is counted.
TEST(EndTest, HasRoomOnAFullDisk) {
  for (uint64_t Count : {uint64_t(200), uint64_t(100000)}) {
    int File = memfd_create("disk", MFD_ALLOW_SEALING);
    ASSERT_GE(File, 0);
    Superblock Head = {};
    std::memcpy(Head.Magic, Magic, sizeof(Magic));
    FrameWriter W;
    ASSERT_EQ(W.open(File, Head, {}), 0);
    Drops Lost = {};
    auto Add = [&](uint64_t I) {
      KernelRecord K = CaptureBuilder::kernel(I, I + 1);
      K.name = W.name("k");
      if (void *To = W.add(RecordKind::Kernel))
        std::memcpy(To, &K, sizeof(K));
      ++Lost.Seen;
    };
    for (uint64_t I = 0; I < Count; ++I)
      Add(I);
    W.flush(Lost);
    ASSERT_EQ(fcntl(File, F_ADD_SEALS, F_SEAL_GROW), 0);
    for (uint64_t I = 0; I < 30000; ++I)
      Add(Count + I);
    W.flush(Lost);
    EXPECT_EQ(W.finish(EndReason::Exit, 1, Lost), EndReason::Exit);
    W.close();
    std::string Bytes(static_cast<size_t>(lseek(File, 0, SEEK_END)), 0);
    ASSERT_GT(pread(File, Bytes.data(), Bytes.size(), 0), 0);
    close(File);
    CaptureFile C(Bytes);
    ASSERT_TRUE(C.end());
    EXPECT_EQ(C.gapBytes(), 0u);
    EXPECT_EQ(C.missingFrames(), 0u);
    EXPECT_EQ(C.drops().Seen, Count + 30000);
    EXPECT_EQ(C.drops().Seen, C.drops().Written + C.drops().WriteError);
    EXPECT_EQ(C.drops().Written, C.count(RecordKind::Kernel));
    EXPECT_EQ(C.total(RecordKind::Kernel), C.count(RecordKind::Kernel));
    EXPECT_GE(C.count(RecordKind::Kernel), Count > 1000 ? Count / 2 : 0);
    ASSERT_EQ(C.states().size(), 1u);
    EXPECT_EQ(C.states()[0].Head.Code, StateCode::FileFailed);
    EXPECT_EQ(C.states()[0].What,
              "the capture could not be written: operation not permitted");
  }
}
#endif

} // namespace
