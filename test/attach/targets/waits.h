//===- waits.h - What a watchful program counts ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef WAITS_H
#define WAITS_H

#include <poll.h>
#include <stdatomic.h>

extern atomic_int Over;
extern atomic_ulong Steps, Interrupted, WrongResult, WrongErrno, WrongMask,
    WrongStack, WrongRegisters, Traps, LostSignals, EarlySleeps, LateSleeps,
    Damaged;

enum { Marker = 12345 };

/// poll(Fds, 1, -1) with a pattern in every register that the call keeps and
/// in the vector registers. *Wrong is set when one came back changed.
int checkedPoll(struct pollfd *Fds, int *Wrong);

/// Seconds of CLOCK_MONOTONIC.
double now(void);

/// Sleeps of 20 ms that must not end early.
void *sleepThread(void *);

/// Relative timeouts: a stop neither shortens them nor begins them again. How
/// late they are is the scheduler's; twice as long is not.
void *timedThread(void *);

/// Allocates, and keeps a pattern in a vector register over each round.
void *busyThread(void *Seed);

#endif
