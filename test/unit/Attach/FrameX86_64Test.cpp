//===- FrameX86_64Test.cpp - The hand-made signal frame ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/FrameX86_64.h"

#if defined(__x86_64__)

#include "gtest/gtest.h"
#include <cstring>

using namespace culprit::attach;

TEST(FrameTest, LiesBelowTheRedZoneAndAligned) {
  VectorLayout Layout;
  FrameRequest Request;
  Request.Registers = {};
  Request.Registers.rip = 0x1234;
  Request.Registers.rax = 7;
  Request.Registers.cs = 0x33;
  Request.Registers.ss = 0x2b;
  Request.Mask = 0xabcd;
  Request.Path = "/tmp/x/lib.so";
  Request.Vectors.assign(Layout.wholeSize(), 0);
  uint64_t Used = 7; // x87, SSE, AVX.
  memcpy(Request.Vectors.data() + 512, &Used, sizeof Used);
  for (uint64_t Rsp : {0x7fff00000000, 0x7fff00000008, 0x7fff0000003f}) {
    Request.Registers.rsp = Rsp;
    FramePiece Piece = makeFrame(Request, Layout);
    EXPECT_EQ(Piece.Address % 16, 0u);
    EXPECT_LE(Piece.Address + Piece.Bytes.size(), Rsp - 128);
    EXPECT_LE(Rsp - Piece.Address,
              frameRoom(Request.Vectors.size(), Request.Path.size()));
    CallBlock B;
    memcpy(&B, Piece.Bytes.data(), sizeof B);
    EXPECT_EQ(B.Frame % 16, 0u);
    EXPECT_STREQ(reinterpret_cast<const char *>(
                     &Piece.Bytes[B.Argument0 - Piece.Address]),
                 "/tmp/x/lib.so");
    SignalFrame F;
    uint64_t FrameAt = B.Frame - 8 - Piece.Address;
    memcpy(&F, &Piece.Bytes[FrameAt], sizeof F);
    EXPECT_EQ(F.Rip, 0x1234u);
    EXPECT_EQ(F.Rsp, Rsp);
    EXPECT_EQ(F.Mask, 0xabcdu);
    EXPECT_EQ(F.Segments, uint64_t(0x2b) << 48 | 0x33);
    EXPECT_EQ(B.FramePc, B.Frame - 8 + offsetof(SignalFrame, Rip));
    EXPECT_EQ(F.VectorState % 64, 0u);
    const uint8_t *State = &Piece.Bytes[F.VectorState - Piece.Address];
    uint32_t Magic1, Extended, Size, Magic2;
    memcpy(&Magic1, State + 464, 4);
    memcpy(&Extended, State + 468, 4);
    memcpy(&Size, State + 480, 4);
    EXPECT_EQ(Magic1, 0x46505853u);
    EXPECT_EQ(Size, Layout.usedSize(Request.Vectors));
    EXPECT_EQ(Extended, Size + 4);
    memcpy(&Magic2, State + Size, 4);
    EXPECT_EQ(Magic2, 0x46505845u);
    EXPECT_EQ(FrameAt + sizeof F <= F.VectorState - Piece.Address, true);
  }
}

TEST(FrameTest, OnlyUsedFeaturesCount) {
  VectorLayout Layout;
  std::vector<uint8_t> Vectors(Layout.wholeSize(), 0);
  EXPECT_EQ(Layout.usedSize(Vectors), 576u);
  uint64_t Avx = 4;
  memcpy(Vectors.data() + 512, &Avx, sizeof Avx);
  // Where the processor has AVX its upper halves follow the header: 256 bytes.
  EXPECT_TRUE(Layout.usedSize(Vectors) == 832 ||
              Layout.usedSize(Vectors) == 576);
  Vectors.resize(100);
  EXPECT_EQ(Layout.usedSize(Vectors), 100u);
}

TEST(FrameTest, TheTracerRestoresWithoutAFrame) {
  FrameRequest Request;
  Request.Registers = {};
  Request.Registers.rsp = 0x7fff00000000;
  Request.Vectors.assign(1024, 0);
  Request.Trapping = true;
  FramePiece Piece = makeFrame(Request, VectorLayout());
  CallBlock B;
  memcpy(&B, Piece.Bytes.data(), sizeof B);
  EXPECT_EQ(B.Frame, 0u);
}

TEST(FrameTest, AWaitIsResumedWithItsVectors) {
  FrameRequest Request;
  Request.Registers = {};
  Request.Registers.rsp = 0x7fff00000000;
  Request.Vectors.assign(1024, 0);
  CallBlock B;
  FramePiece Piece = makeFrame(Request, VectorLayout());
  memcpy(&B, Piece.Bytes.data(), sizeof B);
  EXPECT_EQ(B.Vectors, 0u);
  Request.Resuming = true;
  Piece = makeFrame(Request, VectorLayout());
  memcpy(&B, Piece.Bytes.data(), sizeof B);
  SignalFrame F;
  memcpy(&F, &Piece.Bytes[B.Frame - 8 - Piece.Address], sizeof F);
  EXPECT_EQ(B.Vectors, F.VectorState);
  EXPECT_EQ(B.Vectors % 64, 0u); // xrstor wants it.
}

TEST(FrameTest, AnArgumentThatIsANumberStays) {
  FrameRequest Request;
  Request.Registers = {};
  Request.Registers.rsp = 0x7fff00000000;
  Request.Vectors.assign(1024, 0);
  CallBlock B;
  FramePiece Piece = makeFrame(Request, VectorLayout());
  memcpy(&B, Piece.Bytes.data(), sizeof B);
  EXPECT_EQ(B.Argument0, Piece.Address + sizeof B);
  // 0 as well: it is a descriptor like any other.
  for (uint64_t Number : {0, 7}) {
    Request.Block.Argument0 = Number;
    Request.KeepArgument = true;
    Piece = makeFrame(Request, VectorLayout());
    memcpy(&B, Piece.Bytes.data(), sizeof B);
    EXPECT_EQ(B.Argument0, Number);
  }
}

TEST(StubTest, IsWhole) {
  size_t Size = size_t(culpritCallStubEnd - culpritCallStub);
  EXPECT_EQ(Size % 8, 0u);
  // Room for it is what the text of a library leaves of its last page.
  EXPECT_LT(Size, 480u);
  // int3 before the label that a trapped call ends at.
  EXPECT_EQ(culpritCallStubTrapped[-1], 0xcc);
}

#endif
