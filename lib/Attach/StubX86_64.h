//===- StubX86_64.h - The instructions of a borrowed thread -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The block of memory that the stub works from, laid on the thread's stack,
/// and the stub's bytes.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_STUBX86_64_H
#define CULPRIT_ATTACH_STUBX86_64_H

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>

namespace culprit::attach {

/// In %rbx on entry. The stub knows the offsets.
struct CallBlock {
  uint64_t Blocked;       ///< Signal mask during the call.
  uint64_t Function;
  uint64_t Argument0, Argument1;
  uint64_t ErrnoLocation; ///< Function, or 0.
  uint64_t ErrorText;     ///< Function, or 0.
  uint64_t Results;       ///< Address of CallResults.
  uint64_t Token;
  uint64_t Frame;         ///< Stack pointer for rt_sigreturn; 0 is a trap.
  uint64_t Interrupting;  ///< Signals that end the thread's wait with EINTR.
  uint64_t FramePc;       ///< Address of the saved rip in the signal frame.
  uint64_t FrameResult;   ///< Address of the saved rax.
  uint64_t Pending;       ///< The stub's.
  uint64_t StackSize;
  uint64_t Errno;         ///< The stub's.
  uint64_t Vectors;       ///< To go on by restart_syscall, the vector state;
                          ///< 0 is to go on by rt_sigreturn.
};
static_assert(offsetof(CallBlock, ErrnoLocation) == 32);
static_assert(offsetof(CallBlock, Results) == 48);
static_assert(offsetof(CallBlock, Frame) == 64);
static_assert(offsetof(CallBlock, FramePc) == 80);
static_assert(offsetof(CallBlock, Pending) == 96);
static_assert(offsetof(CallBlock, Errno) == 112);
static_assert(offsetof(CallBlock, Vectors) == 120);
static_assert(sizeof(CallBlock) == 128);

extern "C" {
/// The stub, position-independent, padded to a multiple of 8.
extern const unsigned char culpritCallStub[]
    __attribute__((visibility("hidden")));
extern const unsigned char culpritCallStubEnd[]
    __attribute__((visibility("hidden")));
/// Behind its breakpoint instruction.
extern const unsigned char culpritCallStubTrapped[]
    __attribute__((visibility("hidden")));
}

} // namespace culprit::attach

#endif
#endif // CULPRIT_ATTACH_STUBX86_64_H
