//===- LogMatcher.h - Log fragments of entries in log lines -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the `Log` fragments of all entries in a log, in one pass however
/// many there are.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_LOGMATCHER_H
#define CULPRIT_KB_LOGMATCHER_H

#include "KB/Entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <memory>
#include <string>
#include <vector>

namespace culprit {

/// A fragment that occurred.
struct LogMatch {
  unsigned Entry = 0;          ///< Index into the entries given.
  unsigned Fragment = 0;       ///< Index into its LogFragments.
  std::vector<unsigned> Lines; ///< Indices of the lines, ascending, at most
                               ///< LogMatcher::MaxLines.
  unsigned Count = 0;          ///< All lines, also those beyond.
};

/// A fragment and what it is told as in a LogMatch.
struct LogFragment {
  unsigned Entry = 0;
  unsigned Fragment = 0;
  std::string Text;
};

/// A fragment as it is looked for: in a line in lower case, where \p Exact is
/// not set with foldNumbers(), these pieces stand in this order. Without pieces
/// it is too short and never matches.
struct LogPieces {
  bool Exact = false;
  std::vector<std::string> Pieces;
};
LogPieces logPieces(llvm::StringRef Fragment);

/// \p S with every number as one `0`.
std::string foldNumbers(llvm::StringRef S);

/// The fragments of a list of entries, compiled. Immutable and safe to use
/// from several threads; holds no reference to the entries.
///
/// A fragment matches within one line, in any case. `...` in it is any text
/// on that line. Numbers in a fragment stand for any number, since they are
/// ranks, sizes and steps, unless the word before says that the number is the
/// message: error, code, Xid, signal, errno, status.
class LogMatcher {
public:
  static constexpr unsigned MaxLines = 100;
  /// Shorter fragments would match by accident and are ignored.
  static constexpr unsigned MinFragment = 4;

  explicit LogMatcher(llvm::ArrayRef<Entry> Entries);
  /// Of some fragments only.
  explicit LogMatcher(llvm::ArrayRef<LogFragment> Fragments);
  LogMatcher(LogMatcher &&) noexcept;
  LogMatcher &operator=(LogMatcher &&) noexcept;
  ~LogMatcher();

  /// The fragments that occur in \p Lines, by entry, then fragment.
  std::vector<LogMatch> match(llvm::ArrayRef<llvm::StringRef> Lines) const;
  /// The same for the lines of \p Text.
  std::vector<LogMatch> match(llvm::StringRef Text) const;

private:
  struct State;
  std::unique_ptr<const State> S;
};

} // namespace culprit

#endif // CULPRIT_KB_LOGMATCHER_H
