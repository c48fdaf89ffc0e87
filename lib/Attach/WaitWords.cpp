//===- WaitWords.cpp - What threads do, in words ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/WaitWords.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include <linux/futex.h>
#include <map>
#include <sys/syscall.h>

namespace culprit::attach {

/// Sorts of waits that are told one by one.
static constexpr size_t MostSorts = 4;

std::string callName(long Number) {
  switch (Number) {
#define NAME(Call)                                                             \
  case SYS_##Call:                                                             \
    return #Call;
#ifdef SYS_poll
    NAME(poll)
#endif
#ifdef SYS_select
    NAME(select)
#endif
#ifdef SYS_pause
    NAME(pause)
#endif
#ifdef SYS_epoll_wait
    NAME(epoll_wait)
#endif
    NAME(accept)
    NAME(accept4)
    NAME(clock_nanosleep)
    NAME(close)
    NAME(connect)
    NAME(epoll_pwait)
    NAME(epoll_pwait2)
    NAME(fcntl)
    NAME(fdatasync)
    NAME(flock)
    NAME(fsync)
    NAME(futex)
    NAME(io_getevents)
    NAME(ioctl)
    NAME(madvise)
    NAME(mmap)
    NAME(munmap)
    NAME(nanosleep)
    NAME(openat)
    NAME(ppoll)
    NAME(pselect6)
    NAME(pread64)
    NAME(pwrite64)
    NAME(read)
    NAME(readv)
    NAME(recvfrom)
    NAME(recvmsg)
    NAME(rt_sigsuspend)
    NAME(rt_sigtimedwait)
    NAME(sched_yield)
    NAME(semop)
    NAME(sendmsg)
    NAME(sendto)
    NAME(wait4)
    NAME(waitid)
    NAME(write)
    NAME(writev)
#undef NAME
  default:
    return ("system call " + llvm::Twine(Number)).str();
  }
}

/// Does the call have a timeout, by which rankWait() did not take it?
static bool isTimed(const SystemCall &Call) {
  const auto &A = Call.Arguments;
  switch (Call.Number) {
#ifdef SYS_epoll_wait
  case SYS_epoll_wait:
#endif
  case SYS_epoll_pwait:
    return int(A[3]) >= 0;
  case SYS_epoll_pwait2:
    return A[3] != 0;
#ifdef SYS_select
  case SYS_select:
#endif
  case SYS_pselect6:
    return A[4] != 0;
  default:
    return false;
  }
}

std::string waitWords(const ThreadState &T, const WaitText &Text,
                      const Memory &Memory) {
  if (!T.Call)
    return "running";
  SystemCall Call = *T.Call;
  Call.Number = originalNumber(Call.Number, Call.Pc, Memory);
  if (Call.Number < 0)
    return "in a wait that was resumed";
  std::string In = "in " + callName(Call.Number);
  if (!Text.contains(Call.Pc))
    return In + " outside of libc";
  if (rankWait(Call) != WaitRank::None)
    return In;
  switch (Call.Number) {
  case SYS_futex:
    return (Call.Arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT ||
                   (Call.Arguments[1] & FUTEX_CMD_MASK) == FUTEX_LOCK_PI
               ? "waiting for a lock (futex)"
               : In;
  default:
    return isTimed(Call) ? In + " with a timeout" : In;
  }
}

std::string describeThreads(const std::vector<ThreadState> &Threads,
                            const WaitText &Text, const Memory &Memory) {
  if (Threads.empty())
    return "it has ended";
  std::map<std::string, unsigned> Count;
  for (const ThreadState &T : Threads)
    ++Count[waitWords(T, Text, Memory)];
  if (Threads.size() == 1)
    return "its only thread was " + Count.begin()->first;
  if (Count.size() == 1)
    return ("all of its " + llvm::Twine(Threads.size()) + " threads were " +
            Count.begin()->first)
        .str();
  std::vector<std::pair<std::string, unsigned>> Sorts(Count.begin(),
                                                      Count.end());
  llvm::stable_sort(Sorts, [](const auto &A, const auto &B) {
    return A.second > B.second;
  });
  std::string Out =
      ("of its " + llvm::Twine(Threads.size()) + " threads ").str();
  unsigned Others = 0;
  for (size_t I = 0; I < Sorts.size(); ++I) {
    if (I >= MostSorts) {
      Others += Sorts[I].second;
      continue;
    }
    bool One = Sorts[I].second == 1;
    Out += ((I ? ", " : "") + llvm::Twine(Sorts[I].second) +
            (I ? "" : One ? " was" : " were") + " " + Sorts[I].first)
               .str();
  }
  if (Others)
    Out += (", " + llvm::Twine(Others) + " in other calls").str();
  return Out;
}

} // namespace culprit::attach
