//===- FrameX86_64.h - A signal frame made by hand --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What rt_sigreturn reads: all registers of a thread, its vector state and its
/// signal mask, in the kernel's layout, together with the block that the stub
/// works from. One piece of memory that is laid below the red zone of the
/// thread's stack:
///
///   top - 128            red zone
///   vector state         as large as the processor's, only its used part and
///                        the magic word behind it are written
///   SignalFrame          8 below a multiple of 16, as a call leaves it
///   CallBlock, path      the stub's %rbx and, until it has its own, its stack
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_FRAMEX86_64_H
#define CULPRIT_ATTACH_FRAMEX86_64_H

#if defined(__x86_64__)

#include "Attach/StubX86_64.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <sys/user.h>
#include <vector>

namespace culprit::attach {

/// The kernel's struct rt_sigframe up to the signal mask. (The C library's
/// ucontext_t has a longer mask.)
struct SignalFrame {
  uint64_t Return; ///< Not used by rt_sigreturn.
  uint64_t Flags;
  uint64_t Link;
  uint64_t AltStack;
  int32_t AltStackFlags;
  int32_t Unused;
  uint64_t AltStackSize;
  uint64_t R8, R9, R10, R11, R12, R13, R14, R15;
  uint64_t Rdi, Rsi, Rbp, Rbx, Rdx, Rax, Rcx, Rsp, Rip, Rflags;
  uint64_t Segments; ///< cs, gs, fs, ss, 16 bits each.
  uint64_t Error, Trap, OldMask, Cr2;
  uint64_t VectorState; ///< Address.
  uint64_t Reserved[8];
  uint64_t Mask;
};
// The stub knows these, 8 less from where it counts.
static_assert(offsetof(SignalFrame, R8) == 48);
static_assert(offsetof(SignalFrame, Rdi) == 112);
static_assert(offsetof(SignalFrame, Rflags) == 184);
static_assert(offsetof(SignalFrame, VectorState) == 232);
static_assert(offsetof(SignalFrame, Mask) == 304);

/// Where the processor keeps each feature of the vector state. Asked once: in
/// a virtual machine each question to the processor takes tens of
/// microseconds, too long while a thread is stopped.
class VectorLayout {
public:
  VectorLayout();

  /// Bytes of \p Vectors that hold its used features, at least the legacy part
  /// and the header. rt_sigreturn refuses a larger state than the thread's
  /// own, and where the processor has tile registers what ptrace gives is
  /// larger.
  size_t usedSize(llvm::ArrayRef<uint8_t> Vectors) const;
  /// Of all features.
  size_t wholeSize() const { return Whole; }

private:
  uint32_t Ends[64] = {};
  size_t Whole;
};

struct FrameRequest {
  user_regs_struct Registers; ///< To go on with.
  uint64_t Mask = 0;          ///< Likewise.
  std::vector<uint8_t> Vectors; ///< As NT_X86_XSTATE gives it.
  CallBlock Block = {};       ///< Addresses within the piece are filled in.
  llvm::StringRef Path;       ///< Its address becomes Argument0,
  bool KeepArgument = false;  ///< unless that is a number already.
  bool Trapping = false;
  bool Resuming = false; ///< The kernel is to resume a wait.
};

struct FramePiece {
  uint64_t Address = 0; ///< Of the first byte, which is the CallBlock's.
  std::vector<uint8_t> Bytes;
};

/// Bytes below the stack pointer that a piece takes, red zone included.
size_t frameRoom(size_t VectorSize, size_t PathSize);

FramePiece makeFrame(const FrameRequest &Request, const VectorLayout &Layout);

} // namespace culprit::attach

#endif
#endif // CULPRIT_ATTACH_FRAMEX86_64_H
