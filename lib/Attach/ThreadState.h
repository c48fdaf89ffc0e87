//===- ThreadState.h - What each thread is waiting for ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The threads of a process and the system call each is blocked in, from
/// /proc/PID/task/TID/syscall: read by the kernel without stopping or even
/// waking the thread.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_THREADSTATE_H
#define CULPRIT_ATTACH_THREADSTATE_H

#include "llvm/ADT/StringRef.h"
#include <array>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace culprit::attach {

/// A blocked system call.
struct SystemCall {
  long Number = -1;
  std::array<uint64_t, 6> Arguments = {};
  uint64_t StackPointer = 0;
  uint64_t Pc = 0; ///< Behind the instruction that entered the kernel.

  /// "7 0x.. 0x.. 0x.. 0x.. 0x.. 0x.. 0xSP 0xPC". Nothing for "running" and
  /// for "-1 0xSP 0xPC", blocked but not by a call (a page fault).
  static std::optional<SystemCall> parse(llvm::StringRef Line);
};

struct ThreadState {
  pid_t Tid = 0;
  std::string Name;
  std::optional<SystemCall> Call; ///< Empty of a running thread.
};

/// All threads, ordered by id. Threads that end meanwhile are left out.
std::vector<ThreadState> threadsOf(pid_t Pid);

/// The state of one thread; nothing when it is gone.
std::optional<ThreadState> threadState(pid_t Pid, pid_t Tid);

/// CPU time that the thread has used, clock ticks; 0 when it is gone.
uint64_t cpuTicks(pid_t Pid, pid_t Tid);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_THREADSTATE_H
