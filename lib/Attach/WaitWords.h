//===- WaitWords.h - What threads do, in words ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Sentences for people about what SafePoint.h decides: what the threads of a
/// process were in when none of them could be borrowed.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_WAITWORDS_H
#define CULPRIT_ATTACH_WAITWORDS_H

#include "Attach/SafePoint.h"

namespace culprit::attach {

/// "poll", or "system call 400" for one without a name here.
std::string callName(long Number);

/// "running", "in poll", and for a wait that cannot be borrowed why: "waiting
/// for a lock (futex)", "in clock_nanosleep for more than 10 s".
std::string waitWords(const ThreadState &T, const WaitText &Text,
                      const Memory &Memory);

/// "its thread was running", "of its 12 threads 8 were waiting for a lock
/// (futex), 4 running": the most frequent first. "it has ended" of no threads.
std::string describeThreads(const std::vector<ThreadState> &Threads,
                            const WaitText &Text, const Memory &Memory);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_WAITWORDS_H
