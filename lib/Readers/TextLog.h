//===- TextLog.h - Text logs ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what a run printed: every line into `log_lines`, exceptions, device
/// and driver errors into `errors`, printed metrics into `scalars`, stacks of
/// threads into `stacks`, what the NCCL watchdog says into `collectives` and
/// `process_groups`, requests that a server logs into `requests`. Works for stdout and stderr, launcher logs, NCCL_DEBUG
/// output and dmesg.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TEXTLOG_H
#define CULPRIT_READERS_TEXTLOG_H

#include "Readers/Reader.h"

namespace culprit {

class TextLogReader : public Reader {
public:
  llvm::StringRef name() const override { return "text log"; }
  llvm::StringRef about() const override {
    return "what a run printed: stdout, stderr, launcher and driver logs";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// How a log is read.
struct LogOptions {
  /// False for what a run printed and a file with its metrics holds.
  bool WithMetrics = true;
  /// Memory must not grow with the log: lines that differ from earlier ones in
  /// numbers alone are counted, see LogKinds.h.
  bool Large = false;
  uint64_t Bytes = 0; ///< Size of the log, as far as it is known.
};

/// Reads the log \p Text.
void readLogText(llvm::StringRef Text, Source &Into, const LogOptions &Options);

} // namespace culprit

#endif // CULPRIT_READERS_TEXTLOG_H
