//===- Lock.h - A lock of a word --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_LOCK_H
#define CULPRIT_AGENT_LOCK_H

#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace culprit::agent {

/// A mutex on a futex, which needs nothing of the C library: 0 is free, 1 is
/// taken, 2 is taken and waited for.
class Lock {
public:
  void take() {
    uint32_t Free = 0;
    if (__atomic_compare_exchange_n(&State, &Free, 1, false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return;
    while (__atomic_exchange_n(&State, 2, __ATOMIC_ACQUIRE) != 0)
      syscall(SYS_futex, &State, FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
  }
  void give() {
    if (__atomic_exchange_n(&State, 0, __ATOMIC_RELEASE) == 2)
      syscall(SYS_futex, &State, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

private:
  uint32_t State = 0;
};

/// Holds a lock for a scope.
class Holding {
public:
  explicit Holding(Lock &L) : L(L) { L.take(); }
  ~Holding() { L.give(); }
  Holding(const Holding &) = delete;
  Holding &operator=(const Holding &) = delete;

private:
  Lock &L;
};

} // namespace culprit::agent

#endif // CULPRIT_AGENT_LOCK_H
