//===- CaptureLimitsTest.cpp - Full files, small rings, checksums -*- C++ -*-=//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "../../sim/CaptureBuilder.h"
#include "Capture/CaptureFile.h"
#include "gtest/gtest.h"
#include <cstring>
#include <string>

using namespace culprit::capture;

namespace {

void addNamed(FrameWriter &W, uint64_t Start, const char *Name) {
  if (void *To = W.add(RecordKind::Kernel)) {
    KernelRecord R = {};
    R.start = Start;
    R.end = Start + 5;
    R.name = W.name(Name);
    std::memcpy(To, &R, sizeof(R));
  }
}

// Texts that are forgotten get their ids anew, and the others keep theirs.
TEST(StringsTest, ForgetsTheNewest) {
  Strings S;
  ASSERT_TRUE(S.reserve());
  auto Text = [](unsigned I) { return "text " + std::to_string(I); };
  for (unsigned I = 1; I <= 5000; ++I)
    EXPECT_EQ(S.intern(Text(I).c_str()).Id, I);
  S.forgetFrom(2001);
  EXPECT_EQ(S.size(), 2000u);
  for (unsigned I = 5000; I > 2000; --I) {
    Strings::Named N = S.intern(Text(I).c_str());
    EXPECT_TRUE(N.New);
    EXPECT_EQ(N.Id, 7001 - I);
  }
  for (unsigned I = 1; I <= 5000; ++I) {
    Strings::Named N = S.intern(Text(I).c_str());
    EXPECT_FALSE(N.New);
    EXPECT_EQ(N.Id, I <= 2000 ? I : 7001 - I);
    size_t Size = 0;
    const char *Is = S.text(N.Id, Size);
    EXPECT_EQ(std::string(Is, Size), Text(I));
  }
  S.release();
}

// What names the others is in a file that is full, also when it comes last.
TEST(LimitsTest, KeepsNamingRecordsInAFullFile) {
  for (uint64_t MaxSize : {uint64_t(300) << 10, uint64_t(3) << 20}) {
    FrameWriter::Options O;
    O.MaxSize = MaxSize;
    CaptureBuilder B(0, O);
    FrameWriter &W = B.Writer;
    uint64_t Seen = 0;
    auto AddDevice = [&](uint32_t Id) {
      DeviceRecord D = {};
      D.id = Id;
      void *To = W.add(RecordKind::Device);
      ASSERT_TRUE(To);
      ++Seen;
      D.name = W.name(("device " + std::to_string(Id)).c_str());
      std::memcpy(To, &D, sizeof(D));
    };
    Drops Lost = {};
    addNamed(W, 1, "k");
    AddDevice(0); // Under way when the file becomes full.
    ++Seen;
    while (!W.isFull()) {
      // Names too: those that are not in the file must not be used.
      addNamed(W, Seen, ("kernel " + std::to_string(Seen)).c_str());
      ++Seen;
    }
    AddDevice(1);
    W.flush(Lost);
    for (uint64_t I = 0; I < 1000; ++I, ++Seen)
      EXPECT_EQ(W.add(RecordKind::Kernel), nullptr);
    AddDevice(2);
    Lost.Seen = Seen;
    EXPECT_EQ(W.finish(EndReason::Exit, 1, Lost), EndReason::FileFull);
    std::string Bytes = B.bytes();
    EXPECT_LE(Bytes.size(), MaxSize);
    CaptureFile C(Bytes);
    ASSERT_TRUE(C.end());
    EXPECT_EQ(C.end()->Reason, EndReason::FileFull);
    EXPECT_EQ(C.drops().Seen, C.drops().Written + C.drops().FileCap);
    EXPECT_GE(C.drops().FileCap, 1000u);
    EXPECT_EQ(C.recordsWithoutSchema(), 0u);
    // Only rings begin anew.
    EXPECT_FALSE(C.isRing());
    for (const FrameView &V : C.frames())
      EXPECT_EQ(V.Head.Epoch, 0u);
    std::string Devices;
    C.each<DeviceRecord>([&](const DeviceRecord &R, uint32_t Epoch, uint64_t) {
      Devices += std::string(C.text(Epoch, R.name)) + "\n";
    });
    EXPECT_EQ(Devices, "device 0\ndevice 1\ndevice 2\n");
    uint64_t Unnamed = 0;
    C.each<KernelRecord>([&](const KernelRecord &R, uint32_t Epoch, uint64_t) {
      Unnamed += C.text(Epoch, R.name).empty();
    });
    EXPECT_EQ(Unnamed, 0u);
  }
}

/// \p Bytes with \p Change made to its superblock.
template <typename Function>
std::string withHead(std::string Bytes, Function Change) {
  Superblock Head;
  std::memcpy(&Head, Bytes.data(), sizeof(Head));
  Change(Head);
  Head.Crc = crc32c(0, &Head, offsetof(Superblock, Crc));
  std::memcpy(Bytes.data(), &Head, sizeof(Head));
  return Bytes;
}

// The superblock says what a file does when it is full; before minor version 1
// the epochs had to.
TEST(LimitsTest, TellsWhetherItIsARing) {
  FrameWriter::Options O;
  O.MaxSize = 8 << 20;
  for (FullPolicy Full : {FullPolicy::Stop, FullPolicy::Ring}) {
    O.Full = Full;
    for (unsigned Count : {1u, 300000u}) {
      CaptureBuilder B(0, O);
      for (unsigned I = 0; I < Count; ++I)
        B.add(B.kernel(I, I + 1));
      B.finish();
      std::string Bytes = B.bytes();
      const bool IsRing = Full == FullPolicy::Ring;
      EXPECT_EQ(CaptureFile(Bytes).isRing(), IsRing);
      std::string Old = withHead(Bytes, [](Superblock &Head) {
        Head.Minor = 0;
        Head.Full = FullPolicy::Stop;
      });
      EXPECT_EQ(CaptureFile(Old).isRing(), IsRing && Count > 1);
      // A superblock that is damaged says nothing.
      Bytes[offsetof(Superblock, Full)] ^= 1;
      EXPECT_EQ(CaptureFile(Bytes).isRing(), IsRing && Count > 1);
    }
  }
  // A ring without a limit has no end to come back from.
  O.MaxSize = 0;
  CaptureBuilder B(0, O);
  B.finish();
  EXPECT_FALSE(CaptureFile(B.bytes()).isRing());
}

// A ring of 8 MiB has 8 MiB.
TEST(LimitsTest, StaysWithinASmallRing) {
  FrameWriter::Options O;
  O.MaxSize = 8 << 20;
  O.Full = FullPolicy::Ring;
  CaptureBuilder B(0, O);
  FrameWriter &W = B.Writer;
  const uint64_t Count = 600000; // 34 MB of kernels, with 25 MB of copies.
  std::string Long(60000, 'n');
  for (uint64_t I = 0; I < Count; ++I) {
    addNamed(W, I + 1, I % 1000 ? "k" : (Long + std::to_string(I)).c_str());
    CopyRecord Copy = {};
    Copy.start = I + 1;
    std::memcpy(W.add(RecordKind::Copy), &Copy, sizeof(Copy));
  }
  Drops Lost = {};
  Lost.Seen = 2 * Count;
  W.finish(EndReason::Detached, 1, Lost);
  std::string Bytes = B.bytes();
  EXPECT_LE(Bytes.size(), O.MaxSize);
  CaptureFile C(Bytes);
  EXPECT_EQ(C.drops().Written, 2 * Count);
  uint64_t Last = 0, Unnamed = 0;
  C.each<KernelRecord>([&](const KernelRecord &R, uint32_t Epoch, uint64_t) {
    Unnamed += C.text(Epoch, R.name).empty();
    Last = R.start;
  });
  EXPECT_EQ(Last, Count);
  EXPECT_EQ(Unnamed, 0u);
}

/// A whole frame of one string, the \p Number-th, in an epoch of its own.
std::string stringFrame(uint64_t Number, uint32_t Id) {
  StringHead S = {};
  S.Id = Id;
  S.Size = 4;
  std::string Payload(reinterpret_cast<const char *>(&S), sizeof(S));
  Payload += "abcd";
  Frame F = {};
  F.Magic = FrameMagic;
  F.Type = FrameType::Strings;
  F.Payload = static_cast<uint32_t>(Payload.size());
  F.Count = 1;
  F.Sequence = Number;
  F.Epoch = static_cast<uint32_t>(Number + 1);
  F.Crc = crc32c(crc32c(0, &F, offsetof(Frame, Crc)), Payload.data(),
                 Payload.size());
  std::string Out(reinterpret_cast<const char *>(&F), sizeof(F));
  Out += Payload;
  Out.resize((Out.size() + FrameAlign - 1) / FrameAlign * FrameAlign);
  return Out;
}

// 300 frames of 12 bytes, each of which asks for 16 MiB of places for texts:
// there is room for one such, and for as many as the bytes can fill.
TEST(LimitsTest, AFewBytesTakeNoGigabytes) {
  CaptureBuilder B;
  std::string Bytes = B.bytes().substr(0, SuperblockSize);
  constexpr uint32_t Largest = 1u << 20, Epochs = 300;
  for (uint64_t Number = 0; Number != Epochs; ++Number)
    Bytes += stringFrame(Number, Largest);
  CaptureFile C(Bytes);
  ASSERT_EQ(C.frames().size(), Epochs);
  EXPECT_EQ(C.gapBytes(), 0u);
  EXPECT_EQ(C.text(1, Largest), "abcd");
  for (uint32_t Epoch = 2; Epoch <= Epochs; ++Epoch)
    EXPECT_EQ(C.text(Epoch, Largest), "") << Epoch;
  // Ids that count up have room in each.
  Bytes.resize(SuperblockSize);
  for (uint64_t Number = 0; Number != Epochs; ++Number)
    Bytes += stringFrame(Number, 1);
  CaptureFile Dense(Bytes);
  EXPECT_EQ(Dense.text(Epochs, 1), "abcd");
}

TEST(CrcTest, IsCastagnoli) {
  // The check value of the CRC catalogue.
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

// However the bytes are divided: long runs are done in lanes side by side.
TEST(CrcTest, IsTheSameInParts) {
  std::string Bytes(20011, 0);
  uint32_t Word = 1;
  for (char &C : Bytes)
    C = static_cast<char>((Word = Word * 1664525 + 1013904223) >> 24);
  uint32_t OneByOne = 0;
  for (char C : Bytes)
    OneByOne = crc32c(OneByOne, &C, 1);
  EXPECT_EQ(crc32c(0, Bytes.data(), Bytes.size()), OneByOne);
  for (size_t First : {1, 7, 3071, 3072, 3073, 6144, 9999}) {
    uint32_t Crc = crc32c(0, Bytes.data(), First);
    EXPECT_EQ(crc32c(Crc, Bytes.data() + First, Bytes.size() - First), OneByOne)
        << First;
  }
}

} // namespace
