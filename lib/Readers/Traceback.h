//===- Traceback.h - Python tracebacks in logs ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Puts tracebacks together from the lines of a log. Several ranks often die
/// at once and their tracebacks interleave line by line; what tells them apart
/// is the text in front of each line, "[rank0]: " or "(Worker pid=9) ". So one
/// traceback is open for each such prefix, and a line belongs to the one whose
/// prefix it has.
///
///   [rank0]: Traceback (most recent call last):
///   [rank1]: Traceback (most recent call last):
///   [rank0]:   File "train.py", line 3, in main
///   [rank1]:   File "train.py", line 9, in main
///   [rank0]: ValueError: no data
///   [rank1]: KeyError: 'loss'
///
/// Chained exceptions are tracebacks of their own, the cause first.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TRACEBACK_H
#define CULPRIT_READERS_TRACEBACK_H

#include "Readers/LogLine.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>
#include <vector>

namespace culprit {

/// An exception as it was printed.
struct PythonError {
  int64_t Line = 0; ///< Of the head, from 1.
  std::optional<int64_t> Rank;
  std::optional<double> WallTime; ///< Unix time of the head's own stamp.
  std::string Type;    ///< Class, with its module: torch.OutOfMemoryError.
  std::string Message; ///< First line first.
  std::vector<std::string> Frames; ///< "file:line function", innermost last.
};

/// Splits "ValueError: no data" into class and message; the class is empty
/// where the text does not begin with the name of one.
std::pair<llvm::StringRef, llvm::StringRef>
splitException(llvm::StringRef Text);

/// Collects tracebacks. Not thread-safe.
class TracebackReader {
public:
  using Sink = llvm::function_ref<void(const PythonError &)>;

  /// What a line is to the tracebacks.
  enum class Use {
    None,    ///< Nothing.
    Message, ///< Maybe one more line of a message; it may be more.
    Part     ///< A part of a traceback and nothing else.
  };

  /// Takes \p L, whose text has a head of a traceback if \p Head. Tracebacks
  /// that it completes go to \p Done.
  Use line(const LogLine &L, bool Head, Sink Done);
  /// Gives out what is still open at the end of the log.
  void finish(Sink Done);
  bool empty() const { return Open.empty(); }

private:
  struct Traceback {
    std::string Prefix;
    PythonError Error;
    bool InMessage = false;
    unsigned Foreign = 0; ///< Lines in between that were not its own.
    unsigned MessageLines = 0;
  };

  enum class Step { Own, OwnMessage, Foreign, Ended };
  Step advance(Traceback &T, const LogLine &L, llvm::StringRef Rest);
  Step advanceMessage(Traceback &T, const LogLine &L, llvm::StringRef Rest);

  void adoptPrefix(llvm::StringRef Text);

  std::vector<Traceback> Open;
};

} // namespace culprit

#endif // CULPRIT_READERS_TRACEBACK_H
