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

/// Reads \p Text, which a run printed and some other file holds: everything
/// but the metrics, which that file has from their source.
void readPrintedText(llvm::StringRef Text, Source &Into);

} // namespace culprit

#endif // CULPRIT_READERS_TEXTLOG_H
