//===- CaptureOptions.h - What attach and record have in common -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The options of `culprit attach` and `culprit record`, the names of their
/// files, and where the agent is.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOL_CAPTUREOPTIONS_H
#define CULPRIT_TOOL_CAPTUREOPTIONS_H

#include "Capture/Protocol.h"
#include "Options.h"
#include <sys/types.h>

namespace culprit {

/// Options of one command, checked by start():
///
///   static CaptureFlags Flags(AttachCommand);
struct CaptureFlags {
  explicit CaptureFlags(llvm::cl::SubCommand &Command);

  /// What the agent is asked for. Fails for a value that makes no sense.
  llvm::Expected<capture::StartMessage> start() const;

  llvm::cl::opt<std::string> Output, Kinds, MaxSize, Cupti;
  llvm::cl::opt<double, false, SecondsParser> Duration;
  llvm::cl::opt<bool> Ring, Finalize, NoFinalize, Diagnose, DryRun, Verbose,
      Quiet;
};

/// The version that an agent of this culprit tells.
std::string agentVersion();

/// libculprit-agent.so of this installation; CULPRIT_AGENT names another.
llvm::Expected<std::string> findAgent();

/// Names for captures that are nobody's yet. Nothing is overwritten: a name
/// that is taken gets a number.
class CaptureNames {
public:
  /// \p Output is that of -o; empty for culprit-PID-TIME.cprt, of the time now.
  explicit CaptureNames(std::string Output);

  /// Fails when the file of -o is there already, or its folder is not.
  llvm::Error check() const;

  /// The name for process \p Pid. With -o the first process gets that very
  /// name, further ones have their number before the ending.
  std::string next(pid_t Pid);

  /// The absolute name of which `%p` is the number of a process, for a process
  /// that writes a capture by itself.
  std::string pattern() const;

private:
  std::string withPid(const llvm::Twine &Pid) const;

  std::string Output, Time;
  bool Given = false; ///< The name of -o.
};

/// The words of --kinds that are in \p Kinds, by commas; what is not among
/// them is always recorded.
std::string kindWords(uint64_t Kinds);

} // namespace culprit

#endif // CULPRIT_TOOL_CAPTUREOPTIONS_H
