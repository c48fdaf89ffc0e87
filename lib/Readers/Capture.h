//===- Capture.h - Captures of culprit's own agent --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what `culprit attach` and `culprit record` write: `*.cprt`. The file
/// is of one process. One whose process was killed is as good as another, up
/// to where it ends, and says so.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CAPTURE_H
#define CULPRIT_READERS_CAPTURE_H

#include "Readers/Reader.h"

namespace culprit {

class CaptureReader : public Reader {
public:
  llvm::StringRef name() const override { return "culprit capture"; }
  llvm::StringRef endings() const override { return ".cprt"; }
  llvm::StringRef about() const override {
    return "*.cprt of `culprit attach` and `culprit record`: device work, CUDA "
           "calls, waits, allocations and NVTX ranges of one process";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_CAPTURE_H
