//===- ProcessInfo.h - What /proc says of a process -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Facts about a process that decide whether and how it can be attached to.
/// Only read, nothing is stopped.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_PROCESSINFO_H
#define CULPRIT_ATTACH_PROCESSINFO_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace culprit::attach {

/// The fields of /proc/PID/status that are used here.
struct ProcessStatus {
  std::string Name; ///< Without control characters.
  char State = '?';
  pid_t ThreadGroup = 0;
  pid_t TracerPid = 0;
  uid_t RealUid = 0, EffectiveUid = 0, SavedUid = 0, FileUid = 0;
  gid_t RealGid = 0, EffectiveGid = 0, SavedGid = 0, FileGid = 0;
  pid_t InnerPid = 0; ///< In its own pid namespace.
  unsigned Threads = 0;
  unsigned Seccomp = 0; ///< 1 strict, 2 filter.
  uint64_t Caught = 0;  ///< Signals with a handler; bit 0 is signal 1.
  uint64_t Effective = 0, Permitted = 0; ///< Capabilities.
  bool HasMemory = false;   ///< False of threads of the kernel.
  bool ShadowStack = false; ///< CET: returns are checked by the processor.

  static ProcessStatus parse(llvm::StringRef Text);
};

/// Of an executable file's first bytes.
struct FileKind {
  bool IsElf = false;
  unsigned Bits = 0;       ///< 32 or 64.
  uint16_t Machine = 0;    ///< EM_*.
  std::string Interpreter; ///< Empty of a static program.

  /// \p Bytes are the file's first 64 KiB or fewer.
  static FileKind parse(llvm::StringRef Bytes);
};

struct ProcessInfo {
  pid_t Pid = 0;
  ProcessStatus Status;
  uint64_t StartTime = 0; ///< Field 22 of stat, clock ticks: with Pid an
                          ///< identity.
  std::string Executable; ///< Its path as the kernel tells it; may be empty.
  FileKind Kind;          ///< IsElf is false when the file may not be read.
  bool OwnNamespaces = false; ///< Other mounts or pids than ours.

  /// Fails when there is no such process. What may not be looked at stays
  /// empty.
  static llvm::Expected<ProcessInfo> read(pid_t Pid);
};

/// The uid, capabilities and so on of culprit itself.
ProcessStatus ownStatus();

/// A process that was found by its name.
struct Namesake {
  pid_t Pid;
  bool HasCuda; ///< libcuda is among its libraries.
};

/// Processes that \p Name is the name of: as the kernel tells it, or the last
/// part of the command or of one of its first two arguments ("train.py"). Those
/// with libcuda first, then the youngest. culprit itself is not among them.
std::vector<Namesake> processesNamed(llvm::StringRef Name);

/// "name (pid 12)", for messages.
std::string describe(pid_t Pid);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_PROCESSINFO_H
