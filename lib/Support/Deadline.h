//===- Deadline.h - When long work has to end -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A detector has a time limit, and most of its time goes in C++. A loop that
/// may take long asks timeIsUp() now and then and ends early when it says so;
/// what it returns then is of no use, and who set the deadline must not use
/// it. Where no deadline is set, time is never up.
///
///   TimeCheck Late;
///   for (size_t I = 0; I != Rows && !Late(); ++I)
///     ...
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_DEADLINE_H
#define CULPRIT_SUPPORT_DEADLINE_H

#include "llvm/Support/Error.h"
#include <chrono>
#include <cstddef>

namespace culprit {

/// Sets the deadline of this thread as long as it lives; the one before comes
/// back after it. Threads that are started meanwhile have none.
class Deadline {
public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point At);
  ~Deadline();
  Deadline(const Deadline &) = delete;
  Deadline &operator=(const Deadline &) = delete;

private:
  Clock::time_point At;
  const Deadline *Before;
  friend bool timeIsUp();
};

/// Whether this thread's deadline has passed: about 25 ns.
bool timeIsUp();

/// What a function that ended early may return. Who set the deadline says it
/// in words of its own.
llvm::Error outOfTime();

/// Asks timeIsUp() once in 2^16 units of work, which should take some ns each.
/// Stays true when it was.
class TimeCheck {
public:
  /// After \p Work more units.
  bool operator()(size_t Work = 1) {
    Done += Work;
    if (Done < Interval)
      return false;
    Up = Up || timeIsUp();
    Done = Up ? Interval : 0;
    return Up;
  }

private:
  static constexpr size_t Interval = size_t(1) << 16;
  size_t Done = 0;
  bool Up = false;
};

} // namespace culprit

#endif // CULPRIT_SUPPORT_DEADLINE_H
