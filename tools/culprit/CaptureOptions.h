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

struct CapturePlan;

/// Options of one command, checked by plan():
///
///   static CaptureFlags Flags(AttachCommand);
struct CaptureFlags {
  explicit CaptureFlags(llvm::cl::SubCommand &Command);

  /// Everything that is settled before a process is looked at. Fails for a
  /// value that makes no sense, a file that cannot be made, and without an
  /// agent.
  llvm::Expected<CapturePlan> plan() const;

  llvm::cl::opt<std::string> Output, Kinds, MaxSize, Cupti;
  llvm::cl::opt<double, false, SecondsParser> Duration;
  llvm::cl::opt<bool> Ring, Finalize, NoFinalize, Diagnose, DryRun, Verbose,
      Quiet;

private:
  llvm::Expected<capture::StartMessage> start() const;
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

  /// Fails when the file of -o is there already, or none can be made where
  /// it would be: better known before hours of work than after.
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

/// What is to be recorded, into which files, and by what.
struct CapturePlan {
  capture::StartMessage Start;
  CaptureNames Names;
  std::string Agent; ///< Path of the library.
};

/// The words of --kinds that are in \p Kinds, by commas; what is not among
/// them is always recorded.
std::string kindWords(uint64_t Kinds);

} // namespace culprit

#endif // CULPRIT_TOOL_CAPTUREOPTIONS_H
