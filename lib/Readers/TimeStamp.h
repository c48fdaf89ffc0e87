//===- TimeStamp.h - Time stamps of log lines -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the time stamps that loggers put in front of a line.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TIMESTAMP_H
#define CULPRIT_READERS_TIMESTAMP_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace culprit {

struct TimeStamp {
  size_t Length = 0; ///< Characters from the start of the text.
  /// Unix time in seconds, UTC when no zone is given; none where the stamp has
  /// no date or no year (syslog, glog, the kernel's uptime).
  std::optional<double> Unix;
};

/// The stamp that \p Text begins with: 2026-01-05 08:59:57,600,
/// [2026-01-05T08:59:57.6Z], 01/05/2026 08:59:57, Jan  5 08:59:57,
/// [12345.678901], 01-05 08:59:57 (vLLM's) or 08:59:57. Brackets around it
/// belong to it.
std::optional<TimeStamp> leadingTimeStamp(llvm::StringRef Text);

/// 05/Jan/2026:08:59:57 +0000, of access logs, as Unix seconds; UTC without a
/// zone.
std::optional<double> commonLogTime(llvm::StringRef Text);

/// Days from the new year to \p Day of \p Month, both from 1, for stamps that
/// name no year: none is taken for a leap year.
int daysIntoYear(int Month, int Day);

} // namespace culprit

#endif // CULPRIT_READERS_TIMESTAMP_H
