//===- Tracee.h - One thread of another process, under ptrace ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A thread that is seized, stopped and let go. Everything here is about one
/// thread: the others of its process run on. The kernel ties a tracee to the
/// thread that seized it, so an object is used by the thread that made it; when
/// that thread ends, the kernel lets the tracee go.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_TRACEE_H
#define CULPRIT_ATTACH_TRACEE_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sys/types.h>

namespace culprit::attach {

class Tracee {
public:
  using Clock = std::chrono::steady_clock;

  enum class Stop {
    Asked,   ///< By interrupt().
    Group,   ///< The process is stopped by SIGSTOP or the terminal.
    Signal,  ///< A signal is about to be delivered: signal().
    Gone,    ///< The thread has ended.
    Timeout, ///< Not stopped yet.
  };

  explicit Tracee(pid_t Tid) : Tid(Tid) {}
  Tracee(const Tracee &) = delete;
  Tracee &operator=(const Tracee &) = delete;
  /// Lets the thread go when it is stopped, delivering what was pending.
  ~Tracee();

  pid_t tid() const { return Tid; }
  /// Sets errno when it fails.
  bool seize();
  bool interrupt();
  /// Spins at first: a stopped thread is of no use to anybody.
  Stop wait(Clock::duration Timeout);
  int signal() const { return Signal; }
  bool isStopped() const { return Stopped; }
  /// False also after the thread has ended.
  bool isTraced() const { return Seized; }

  /// Goes on under trace, with \p Signal delivered if it is not 0.
  bool resume(int Signal = 0);
  bool detach(int Signal = 0);
  /// The sum of the stops, each from interrupt() or from when it was seen to
  /// the resume() or detach(). Running under trace is not counted.
  Clock::duration stoppedFor() const { return StoppedFor; }

  bool readSet(int Set, void *To, size_t &Size) const;
  bool writeSet(int Set, const void *From, size_t Size) const;
  bool signalMask(uint64_t &Mask) const;
  bool setSignalMask(uint64_t Mask) const;
  /// Is a signal that is not in \p Mask waiting for the thread or for its
  /// process?
  bool hasPendingSignal(uint64_t Mask) const;
  /// Has the thread met its hardware breakpoint, and waits the signal of that
  /// behind the stop it is in?
  bool hasPendingBreakpoint() const;
  /// Into memory that the process may not write itself, as its code. \p Size
  /// is a multiple of 8.
  bool poke(uint64_t Address, const void *From, size_t Size) const;

private:
  pid_t Tid;
  bool Seized = false, Stopped = false, Interrupted = false;
  int Signal = 0;
  Clock::time_point StopBegin;
  Clock::duration StoppedFor{};
};

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_TRACEE_H
