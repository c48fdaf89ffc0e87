//===- Tracee.cpp - One thread of another process, under ptrace -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Tracee.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

namespace culprit::attach {

/// A thread with a core of its own stops within this; then we sleep between
/// looks, to leave the processor to it.
static constexpr std::chrono::microseconds SpinTime(200);

Tracee::~Tracee() {
  if (Stopped)
    detach(Signal);
}

bool Tracee::seize() {
  Seized = ptrace(PTRACE_SEIZE, Tid, nullptr, nullptr) == 0;
  return Seized;
}

bool Tracee::interrupt() {
  StopBegin = Clock::now();
  Interrupted = true;
  return ptrace(PTRACE_INTERRUPT, Tid, nullptr, nullptr) == 0;
}

Tracee::Stop Tracee::wait(Clock::duration Timeout) {
  Clock::time_point Begin = Clock::now();
  for (;;) {
    int Status = 0;
    pid_t Got = waitpid(Tid, &Status, __WALL | WNOHANG);
    if (Got < 0 && errno != EINTR) {
      Seized = Stopped = false;
      return Stop::Gone;
    }
    if (Got == Tid) {
      if (!WIFSTOPPED(Status)) {
        Seized = Stopped = false;
        return Stop::Gone;
      }
      Stopped = true;
      if (!Interrupted)
        StopBegin = Clock::now();
      Interrupted = false;
      if (Status >> 16 == PTRACE_EVENT_STOP) {
        Signal = 0;
        return WSTOPSIG(Status) == SIGTRAP ? Stop::Asked : Stop::Group;
      }
      Signal = WSTOPSIG(Status);
      return Stop::Signal;
    }
    Clock::duration Waited = Clock::now() - Begin;
    if (Waited >= Timeout)
      return Stop::Timeout;
    if (Waited < SpinTime) {
      sched_yield();
    } else {
      timespec Pause = {0, 20000};
      nanosleep(&Pause, nullptr);
    }
  }
}

bool Tracee::resume(int With) {
  Signal = 0;
  if (ptrace(PTRACE_CONT, Tid, nullptr, With) != 0)
    return false;
  Stopped = false;
  StoppedFor += Clock::now() - StopBegin;
  return true;
}

bool Tracee::detach(int With) {
  Signal = 0;
  bool Done = ptrace(PTRACE_DETACH, Tid, nullptr, With) == 0;
  StoppedFor += Clock::now() - StopBegin;
  Seized = Stopped = false;
  return Done;
}

bool Tracee::readSet(int Set, void *To, size_t &Size) const {
  iovec Place = {To, Size};
  if (ptrace(PTRACE_GETREGSET, Tid, Set, &Place) != 0)
    return false;
  Size = Place.iov_len;
  return true;
}

bool Tracee::writeSet(int Set, const void *From, size_t Size) const {
  iovec Place = {const_cast<void *>(From), Size};
  return ptrace(PTRACE_SETREGSET, Tid, Set, &Place) == 0;
}

bool Tracee::signalMask(uint64_t &Mask) const {
  return ptrace(PTRACE_GETSIGMASK, Tid, sizeof Mask, &Mask) == 0;
}

bool Tracee::setSignalMask(uint64_t Mask) const {
  return ptrace(PTRACE_SETSIGMASK, Tid, sizeof Mask, &Mask) == 0;
}

bool Tracee::hasPendingSignal(uint64_t Mask) const {
  for (uint32_t Flags : {0u, unsigned(PTRACE_PEEKSIGINFO_SHARED)}) {
    siginfo_t Infos[32];
    __ptrace_peeksiginfo_args Which = {0, Flags, 32};
    long Count = ptrace(PTRACE_PEEKSIGINFO, Tid, &Which, Infos);
    if (Count < 0)
      return true; // Cannot be told: as if there were one.
    for (long I = 0; I < Count; ++I)
      if (Infos[I].si_signo > 0 && Infos[I].si_signo <= 64 &&
          !(Mask >> (Infos[I].si_signo - 1) & 1))
        return true;
  }
  return false;
}

bool Tracee::hasPendingBreakpoint() const {
  siginfo_t Infos[32];
  __ptrace_peeksiginfo_args Which = {0, 0, 32};
  long Count = ptrace(PTRACE_PEEKSIGINFO, Tid, &Which, Infos);
  for (long I = 0; I < Count; ++I)
    if (Infos[I].si_signo == SIGTRAP && Infos[I].si_code == TRAP_HWBKPT)
      return true;
  return false;
}

bool Tracee::poke(uint64_t Address, const void *From, size_t Size) const {
  for (size_t At = 0; At + sizeof(long) <= Size; At += sizeof(long)) {
    long Word;
    memcpy(&Word, static_cast<const char *>(From) + At, sizeof Word);
    if (ptrace(PTRACE_POKEDATA, Tid, Address + At, Word) != 0)
      return false;
  }
  return true;
}

} // namespace culprit::attach
