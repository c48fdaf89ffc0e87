//===- ProcFile.h - Files of /proc/PID --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Files of /proc have no size and may change between two reads: they are read
/// by plain read(2) to the end, with a limit.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_PROCFILE_H
#define CULPRIT_ATTACH_PROCFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <sys/types.h>

namespace culprit::attach {

/// A descriptor that closes itself.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int Fd) : Fd(Fd) {}
  Descriptor(Descriptor &&Other) : Fd(Other.release()) {}
  Descriptor &operator=(Descriptor &&Other) {
    reset(Other.release());
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return Fd; }
  explicit operator bool() const { return Fd >= 0; }
  int release() {
    int Out = Fd;
    Fd = -1;
    return Out;
  }
  void reset(int To = -1);

private:
  int Fd = -1;
};

/// "/proc/PID/Name".
std::string procPath(pid_t Pid, const llvm::Twine &Name);

/// The text of /proc/PID/\p Name, at most 64 MiB.
llvm::Expected<std::string> readProcFile(pid_t Pid, const llvm::Twine &Name);

/// The text of \p Path or nothing; for files whose absence says something.
std::optional<std::string> readSmallFile(const llvm::Twine &Path);

/// Where the symbolic link at \p Path leads, or nothing.
std::optional<std::string> readLink(const llvm::Twine &Path);

/// \p Text, which a process chose, with its control characters as \xNN: the
/// terminal must not obey them.
std::string printable(llvm::StringRef Text);

/// "what: reason of errno".
std::string withErrno(const llvm::Twine &What, int Errno);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_PROCFILE_H
