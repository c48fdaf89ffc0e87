//===- SafePoint.cpp - Where a thread can be borrowed -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/SafePoint.h"
#include "Attach/ProcFile.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace culprit::attach {

static WaitRank rankFutex(const SystemCall &Call) {
  // Plain FUTEX_WAIT is how locks wait: its thread may hold others. Condition
  // variables, semaphores and joins use the form with a bit set.
  if ((Call.Arguments[1] & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET)
    return WaitRank::None;
  // With a deadline the form takes an absolute time.
  return Call.Arguments[3] == 0 ? WaitRank::Futex : WaitRank::DeadlineSleep;
}

/// A receive that waits for all bytes returns fewer when it is stopped.
static WaitRank rankReceive(uint64_t Flags) {
  return Flags & MSG_WAITALL ? WaitRank::None : WaitRank::Read;
}

WaitRank rankWait(const SystemCall &Call) {
  const auto &A = Call.Arguments;
  switch (Call.Number) {
#ifdef SYS_poll
  case SYS_poll:
    return int(A[2]) < 0 ? WaitRank::Poll : WaitRank::FinitePoll;
#endif
  case SYS_ppoll:
    // The C library passes a copy of the timeout, and the kernel writes what
    // is left of it there: entered again it goes on from that.
    return A[2] == 0 ? WaitRank::Poll : WaitRank::FinitePoll;
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
  case SYS_epoll_pwait:
    return int(A[3]) < 0 ? WaitRank::Epoll : WaitRank::None;
  case SYS_epoll_pwait2:
    return A[3] == 0 ? WaitRank::Epoll : WaitRank::None;
#ifdef SYS_pause
  case SYS_pause:
#endif
  case SYS_accept:
  case SYS_accept4:
    return WaitRank::Pause;
#ifdef SYS_select
  case SYS_select:
#endif
  case SYS_pselect6:
    return A[4] == 0 ? WaitRank::Pause : WaitRank::None;
  case SYS_read:
    return WaitRank::Read;
  case SYS_recvfrom:
    return rankReceive(A[3]);
  case SYS_recvmsg:
    return rankReceive(A[2]);
  case SYS_futex:
    return rankFutex(Call);
#ifdef SYS_nanosleep
  case SYS_nanosleep:
    return WaitRank::FiniteSleep;
#endif
  case SYS_clock_nanosleep:
    return A[1] & TIMER_ABSTIME ? WaitRank::DeadlineSleep
                                : WaitRank::FiniteSleep;
  default:
    return WaitRank::None;
  }
}

bool hasSocketTimeout(pid_t Pid, const SystemCall &Call) {
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_getfd)
  if (Call.Number != SYS_accept && Call.Number != SYS_accept4 &&
      Call.Number != SYS_recvfrom && Call.Number != SYS_recvmsg &&
      Call.Number != SYS_read)
    return false;
  int Number = int(Call.Arguments[0]);
  // Nothing else is duplicated: to close it may do something elsewhere.
  std::optional<std::string> Link =
      readLink(procPath(Pid, "fd/" + llvm::Twine(Number)));
  if (!Link || !llvm::StringRef(*Link).starts_with("socket:"))
    return false;
  Descriptor Process(int(::syscall(SYS_pidfd_open, Pid, 0)));
  Descriptor Socket(
      int(::syscall(SYS_pidfd_getfd, Process.get(), Number, 0)));
  timeval Time = {};
  socklen_t Size = sizeof Time;
  return Socket &&
         ::getsockopt(Socket.get(), SOL_SOCKET, SO_RCVTIMEO, &Time, &Size) ==
             0 &&
         (Time.tv_sec != 0 || Time.tv_usec != 0);
#else
  return false;
#endif
}

bool endsBySignal(long Number) {
  switch (Number) {
#ifdef SYS_poll
  case SYS_poll:
#endif
#ifdef SYS_select
  case SYS_select:
#endif
#ifdef SYS_pause
  case SYS_pause:
#endif
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
#ifdef SYS_nanosleep
  case SYS_nanosleep:
#endif
  case SYS_ppoll:
  case SYS_pselect6:
  case SYS_epoll_pwait:
  case SYS_epoll_pwait2:
  case SYS_clock_nanosleep:
    return true;
  default:
    return false;
  }
}

bool failsWhenStopped(long Number) {
  switch (Number) {
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
  case SYS_epoll_pwait:
  case SYS_epoll_pwait2:
  case SYS_rt_sigtimedwait:
  case SYS_semop:
  case SYS_semtimedop:
  case SYS_io_getevents:
  // With SO_RCVTIMEO or SO_SNDTIMEO; nothing was received yet.
  case SYS_accept:
  case SYS_accept4:
  case SYS_recvfrom:
  case SYS_recvmsg:
  case SYS_read:
    return true;
  default:
    return false;
  }
}

WaitText WaitText::find(const ProcessMaps &Maps) {
  WaitText Text;
  for (const Mapping &M : Maps.all())
    if (M.Executable && M.isFile() &&
        (isLibcName(M.name()) || isLibpthreadName(M.name())))
      Text.Ranges.push_back({M.Begin, M.End});
  return Text;
}

bool WaitText::contains(uint64_t Pc) const {
  return llvm::any_of(Ranges, [&](const std::pair<uint64_t, uint64_t> &R) {
    return R.first <= Pc && Pc < R.second;
  });
}

long originalNumber(long Number, uint64_t Pc, const Memory &Memory) {
  if (Number != SYS_restart_syscall)
    return Number;
#if defined(__x86_64__)
  // mov $imm32, %eax; syscall. Newer glibc loads the number from a register
  // far before, which cannot be told.
  uint8_t Code[7];
  if (!Memory.read(Pc - sizeof Code, Code, sizeof Code) || Code[0] != 0xb8 ||
      Code[5] != 0x0f || Code[6] != 0x05)
    return -1;
  int32_t Value;
  memcpy(&Value, Code + 1, sizeof Value);
  return Value;
#else
  return -1;
#endif
}

std::vector<SafeThread> rankThreads(pid_t Pid,
                                    const std::vector<ThreadState> &Threads,
                                    const WaitText &Text,
                                    const Memory &Memory) {
  std::vector<SafeThread> Ranked;
  for (const ThreadState &T : Threads) {
    if (!T.Call || !Text.contains(T.Call->Pc))
      continue;
    SafeThread S = {T.Tid, T.Name, WaitRank::None, *T.Call};
    S.Call.Number = originalNumber(T.Call->Number, T.Call->Pc, Memory);
    S.Rank = rankWait(S.Call);
    if (S.Rank != WaitRank::None)
      Ranked.push_back(std::move(S));
  }
  llvm::stable_sort(Ranked, [&](const SafeThread &A, const SafeThread &B) {
    if ((A.Rank == WaitRank::Epoll) != (B.Rank == WaitRank::Epoll))
      return B.Rank == WaitRank::Epoll;
    if ((A.Tid == Pid) != (B.Tid == Pid))
      return B.Tid == Pid;
    return A.Rank < B.Rank;
  });
  return Ranked;
}

} // namespace culprit::attach
