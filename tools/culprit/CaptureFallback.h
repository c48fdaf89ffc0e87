//===- CaptureFallback.h - Processes that write by themselves ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A process of a recorded command that cannot reach culprit's socket, as in
/// another container, writes its capture by itself. What it is told for that,
/// and what it has written.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_CAPTUREFALLBACK_H
#define CULPRIT_TOOL_CAPTUREFALLBACK_H

#include "Attach/ProcFile.h"
#include "Capture/Protocol.h"
#include "llvm/Support/FileSystem.h"
#include <string>
#include <vector>

namespace culprit {

/// A file beside the captures, locked as long as culprit runs the command.
/// Only while it is locked a process begins to record by itself: who finds
/// neither a socket nor this was left behind by a command that has ended, and
/// nobody waits for its capture.
class LifeSign {
public:
  /// Makes the file in the folder of the capture \p Pattern; fails when none
  /// can be made there. Removes those of culprits that were killed.
  static llvm::Expected<LifeSign> make(llvm::StringRef Pattern);

  LifeSign(LifeSign &&) = default;
  LifeSign &operator=(LifeSign &&) = delete;
  ~LifeSign();

  /// The number in its name, which the process is told.
  uint64_t number() const { return Number; }

private:
  LifeSign(attach::Descriptor File, std::string Path, uint64_t Number)
      : File(std::move(File)), Path(std::move(Path)), Number(Number) {}

  attach::Descriptor File; ///< None after a move.
  std::string Path;
  uint64_t Number;
};

/// What such a process is told of \p S: CULPRIT_OPTIONS. \p Duration is in
/// seconds, 0 for no limit; \p Sign a LifeSign's number, 0 for none.
std::string fallbackOptions(const capture::StartMessage &S, double Duration,
                            uint64_t Sign);

/// A file as it lies there; the same path with another id is another file.
struct FileThere {
  std::string Path;
  llvm::sys::fs::UniqueID Id;
};

/// Captures of \p Pattern that processes wrote by themselves, in order, less
/// those of \p Before. Not by their times: a clock can be set back.
std::vector<FileThere> fallbackCaptures(llvm::StringRef Pattern,
                                        llvm::ArrayRef<FileThere> Before);

} // namespace culprit

#endif // CULPRIT_TOOL_CAPTUREFALLBACK_H
