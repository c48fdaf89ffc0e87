//===- FrameX86_64.cpp - A signal frame made by hand ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/FrameX86_64.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cpuid.h>
#include <cstring>

namespace culprit::attach {

static constexpr uint64_t RedZone = 128;
/// The legacy state and the header that says which features follow.
static constexpr size_t LegacySize = 512, HeaderSize = 64;
/// In the legacy state: bytes that the processor leaves to software.
static constexpr size_t SoftwareBytes = 464, SoftwareSize = 48;
static constexpr uint32_t Magic1 = 0x46505853, Magic2 = 0x46505845;
static constexpr uint64_t X87AndSse = 3;

/// uc_flags: the vector state is extended, ss is saved and to be restored.
static constexpr uint64_t FrameFlags = 1 | 2 | 4;
/// No valid value: the kernel then leaves the alternate stack as it is, which
/// ptrace cannot read.
static constexpr int32_t KeepAltStack = 0x40;

static uint64_t alignDown(uint64_t Value, uint64_t To) {
  return Value & ~(To - 1);
}
static uint64_t alignUp(uint64_t Value, uint64_t To) {
  return alignDown(Value + To - 1, To);
}

static uint64_t usedFeatures(llvm::ArrayRef<uint8_t> Vectors) {
  uint64_t Features = 0;
  if (Vectors.size() >= LegacySize + HeaderSize)
    memcpy(&Features, Vectors.data() + LegacySize, sizeof Features);
  return Features;
}

VectorLayout::VectorLayout() : Whole(LegacySize + HeaderSize) {
  for (unsigned I = 2; I < 63; ++I) {
    uint32_t Size, Offset, C, D;
    if (!__get_cpuid_count(0xd, I, &Size, &Offset, &C, &D) || Size == 0)
      continue;
    // Bit 0 of C: a feature for the kernel only, not in this state.
    if (C & 1)
      continue;
    Ends[I] = Offset + Size;
    Whole = std::max(Whole, size_t(Ends[I]));
  }
}

size_t VectorLayout::usedSize(llvm::ArrayRef<uint8_t> Vectors) const {
  uint64_t Features = usedFeatures(Vectors);
  size_t Size = LegacySize + HeaderSize;
  for (unsigned I = 2; I < 63; ++I)
    if (Features >> I & 1)
      Size = std::max(Size, size_t(Ends[I]));
  return std::min(Size, Vectors.size());
}

static size_t blockSize(size_t PathSize) {
  return alignUp(sizeof(CallBlock) + PathSize + 1, 16);
}

size_t frameRoom(size_t VectorSize, size_t PathSize) {
  // Alignments take at most 64 each.
  return RedZone + 3 * 64 + VectorSize + sizeof(Magic2) + sizeof(SignalFrame) +
         blockSize(PathSize);
}

/// Marks \p State, of \p Size used bytes, as the kernel marks it in a frame.
static void markVectors(uint8_t *State, uint32_t Size, uint64_t Features) {
  struct {
    uint32_t Magic, ExtendedSize;
    uint64_t Features;
    uint32_t Size;
  } Software = {Magic1, uint32_t(Size + sizeof Magic2), Features | X87AndSse,
                Size};
  memset(State + SoftwareBytes, 0, SoftwareSize);
  memcpy(State + SoftwareBytes, &Software, 20);
  memcpy(State + Size, &Magic2, sizeof Magic2);
}

FramePiece makeFrame(const FrameRequest &Request,
                     const VectorLayout &Layout) {
  const user_regs_struct &R = Request.Registers;
  size_t Used = Layout.usedSize(Request.Vectors);
  uint64_t Vectors = alignDown(
      R.rsp - RedZone - Request.Vectors.size() - sizeof Magic2, 64);
  uint64_t Frame = alignDown(Vectors - sizeof(SignalFrame), 16) - 8;
  uint64_t Begin = alignDown(Frame - blockSize(Request.Path.size()), 64);

  FramePiece Piece;
  Piece.Address = Begin;
  Piece.Bytes.resize(Vectors - Begin + Used + sizeof Magic2);
  uint8_t *State = Piece.Bytes.data() + (Vectors - Begin);
  memcpy(State, Request.Vectors.data(), Used);
  markVectors(State, uint32_t(Used), usedFeatures(Request.Vectors));

  SignalFrame F = {};
  F.Flags = FrameFlags;
  F.AltStackFlags = KeepAltStack;
  F.R8 = R.r8;
  F.R9 = R.r9;
  F.R10 = R.r10;
  F.R11 = R.r11;
  F.R12 = R.r12;
  F.R13 = R.r13;
  F.R14 = R.r14;
  F.R15 = R.r15;
  F.Rdi = R.rdi;
  F.Rsi = R.rsi;
  F.Rbp = R.rbp;
  F.Rbx = R.rbx;
  F.Rdx = R.rdx;
  F.Rax = R.rax;
  F.Rcx = R.rcx;
  F.Rsp = R.rsp;
  F.Rip = R.rip;
  F.Rflags = R.eflags;
  F.Segments = (R.cs & 0xffff) | (R.ss & 0xffff) << 48;
  F.VectorState = Vectors;
  F.Mask = Request.Mask;
  memcpy(Piece.Bytes.data() + (Frame - Begin), &F, sizeof F);

  CallBlock B = Request.Block;
  if (!Request.KeepArgument)
    B.Argument0 = Begin + sizeof(CallBlock);
  // The kernel takes the frame to begin 8 below the stack pointer.
  B.Frame = Request.Trapping ? 0 : Frame + 8;
  B.Vectors = Request.Resuming ? Vectors : 0;
  B.FramePc = Frame + offsetof(SignalFrame, Rip);
  B.FrameResult = Frame + offsetof(SignalFrame, Rax);
  memcpy(Piece.Bytes.data(), &B, sizeof B);
  memcpy(Piece.Bytes.data() + sizeof B, Request.Path.data(),
         Request.Path.size());
  return Piece;
}

} // namespace culprit::attach

#endif
