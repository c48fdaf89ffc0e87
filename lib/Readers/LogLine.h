//===- LogLine.h - One line of a log, taken apart ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Cleans a line as a terminal would show it and reads what loggers put in
/// front: time stamp, level, rank, the worker's name.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGLINE_H
#define CULPRIT_READERS_LOGLINE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace culprit {

struct LogLine {
  int64_t Number = 0;        ///< From 1.
  llvm::StringRef Text;      ///< Without colour codes; the last \r state only.
  llvm::StringRef Unstamped; ///< Text without a leading time stamp.
  llvm::StringRef Body;      ///< Text without stamp, level, rank and the like.
  llvm::StringRef Level; ///< debug, info, warning, error, critical or empty.
  bool Stamped = false;  ///< Begins with a time stamp of any form.
  bool Prefixed = false; ///< Has a stamp, a level or a rank in front.
  std::optional<double> WallTime; ///< Unix time.
  std::optional<int64_t> Rank;
};

/// Parses lines into views of the line or of a buffer of its own, which the
/// next call reuses.
class LogLineParser {
public:
  LogLine parse(llvm::StringRef Raw, int64_t Number);
  /// The same of a line that differs from one of \p Level in numbers alone:
  /// text, level and, if \p Stamped, time; no rank, and nothing is taken off
  /// the body.
  LogLine again(llvm::StringRef Raw, int64_t Number, llvm::StringRef Level,
                bool Stamped);

private:
  llvm::StringRef clean(llvm::StringRef Raw);
  std::string Buffer;
};

/// \p Text with each volatile part (numbers, addresses, paths, uuids) replaced
/// by <*>, into \p Out: lines that say the same have the same template.
void makeTemplate(llvm::StringRef Text, std::string &Out);

} // namespace culprit

#endif // CULPRIT_READERS_LOGLINE_H
