//===- StackLines.h - Stacks of threads, printed as text --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Three tools print what each thread is doing, innermost frame first; alone
/// in a file, or in the middle of a log:
///
///   Thread 0x00007f1b2c3d4700 (most recent call first):        faulthandler
///     File "/app/train.py", line 31 in step
///   Thread 4242 (active+gil): "MainThread"                     py-spy dump
///       step (train.py:31)
///   Thread 4 (Thread 0x7fd09a75 (LWP 3913167) "worker"):       gdb, bt
///   #0  0x00007fd0b01abac1 in poll () from /lib64/libc.so.6
///
/// Ranks that write to one log put a prefix in front of each line, and one
/// stack is open for each prefix.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_STACKLINES_H
#define CULPRIT_READERS_STACKLINES_H

#include "Case/Source.h"
#include "Readers/LogLine.h"
#include <string>
#include <vector>

namespace culprit {

/// Collects the stacks of one text into `stacks`. Not thread-safe.
class StackLines {
public:
  explicit StackLines(Source *Into);

  /// Takes a line; true when it is part of a stack dump. Without a source it
  /// only tells.
  bool line(const LogLine &L);
  /// Writes what is still open.
  void finish();

  /// Whether no stack is open that a line might go on.
  bool idle() const { return Open.empty(); }

  /// Heads of threads seen.
  size_t heads() const { return Heads; }

private:
  enum class Tool { FaultHandler, PySpy, Gdb };
  struct Stack {
    Tool From;
    int64_t Line = 0;
    std::optional<int64_t> Rank, Pid, Tid;
    std::string Prefix, Name, State;
    std::vector<std::string> Frames; ///< Innermost first.
  };

  bool head(llvm::StringRef Text, Stack &Out) const;
  bool frame(llvm::StringRef Text, Stack &Into) const;
  void write(const Stack &Done);

  Source *S;
  std::optional<int64_t> FileRank;
  std::optional<int64_t> Pid; ///< Of the last "Process 12: ..." of py-spy.
  std::vector<Stack> Open;
  size_t Heads = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_STACKLINES_H
