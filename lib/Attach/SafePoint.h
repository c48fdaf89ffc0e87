//===- SafePoint.h - Where a thread can be borrowed -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// dlopen takes the locks of the allocator and of the dynamic linker. Called in
/// a thread that was stopped anywhere it deadlocks when that thread holds one:
/// measured, 28 % of the calls into a process that allocates much. A thread
/// that is blocked in a wait of libc, as poll or a condition variable, holds
/// neither, is in no restartable sequence, has no live vector registers by the
/// calling convention, and does no work that anybody waits for. CUDA gives its
/// processes such threads (they poll for events).
///
/// Waits are ranked: best are those that end only by an event. Those with a
/// timeout come after them: the kernel resumes them with what is left of it. A
/// wait that the kernel does not resume after a stop (epoll_wait) is taken only
/// when it has no timeout, because it must be entered anew, and only when there
/// is no other: should the tracer be killed between the stop and the writing of
/// the registers, the program sees EINTR.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_SAFEPOINT_H
#define CULPRIT_ATTACH_SAFEPOINT_H

#include "Attach/ElfImage.h"
#include "Attach/ProcessMaps.h"
#include "Attach/ThreadState.h"

namespace culprit::attach {

/// How good a wait is to be borrowed from; smaller is better.
enum class WaitRank : unsigned {
  Poll = 0,         ///< poll, ppoll without timeout.
  Pause = 3,        ///< pause, sigsuspend, accept, select without timeout.
  Read = 10,        ///< A read or receive that has got nothing yet.
  Futex = 20,       ///< A condition variable, semaphore or barrier.
  DeadlineSleep = 30, ///< Until a moment: entered again it ends in time.
  FinitePoll = 40,  ///< poll with a timeout.
  FiniteSleep = 45, ///< A relative sleep.
  Epoll = 50,       ///< Without timeout.
  None = 99,        ///< Not a wait, or one whose stop can be seen.
};

WaitRank rankWait(const SystemCall &Call);

/// Does the call wait for a socket with a timeout of its own (SO_RCVTIMEO)?
/// Stopped, it would begin it again. False where that cannot be asked, as
/// before Linux 5.6.
bool hasSocketTimeout(pid_t Pid, const SystemCall &Call);

/// Does a handled signal always end this wait with EINTR, whatever its
/// handler's SA_RESTART?
bool endsBySignal(long Number);

/// Would a stop of the thread alone end this call with EINTR, or has it ended
/// so? The kernel resumes other calls by itself.
bool failsWhenStopped(long Number);

struct SafeThread {
  pid_t Tid;
  std::string Name;
  WaitRank Rank;
  SystemCall Call;
};

/// The text of libc, and of libpthread before glibc 2.34: a wait counts only
/// when it was entered from there, by a function that holds no lock.
class WaitText {
public:
  static WaitText find(const ProcessMaps &Maps);
  bool contains(uint64_t Pc) const;

private:
  std::vector<std::pair<uint64_t, uint64_t>> Ranges;
};

/// The threads of \p Threads that can be borrowed, best first; the main
/// thread after the others, since it is the one that signals are sent to, and
/// epoll_wait after all.
/// \p Numbers of restarted calls (restart_syscall) are decoded by \p Memory.
std::vector<SafeThread> rankThreads(pid_t Pid,
                                    const std::vector<ThreadState> &Threads,
                                    const WaitText &Text,
                                    const Memory &Memory);

/// The number of the call before \p Pc when the kernel told \p Number: a call
/// that was resumed once reads as restart_syscall, and the instruction that
/// loaded the number tells. -1 when it cannot be told.
long originalNumber(long Number, uint64_t Pc, const Memory &Memory);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_SAFEPOINT_H
