//===- ProcFile.cpp - Files of /proc/PID ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/ProcFile.h"
#include "Support/Error.h"
#include "llvm/Support/Errno.h"
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace culprit::attach {

static constexpr size_t MaxSize = size_t(64) << 20;

void Descriptor::reset(int To) {
  if (Fd >= 0)
    ::close(Fd);
  Fd = To;
}

std::string procPath(pid_t Pid, const llvm::Twine &Name) {
  return ("/proc/" + llvm::Twine(int64_t(Pid)) + "/" + Name).str();
}

std::string withErrno(const llvm::Twine &What, int Errno) {
  return (What + ": " + llvm::sys::StrError(Errno)).str();
}

/// Leaves errno as the call that failed set it.
static bool readAll(const std::string &Path, std::string &Text) {
  Descriptor Fd(::open(Path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!Fd)
    return false;
  // Kernel files come a page at a time however much is asked for.
  size_t Used = 0;
  while (Used < MaxSize) {
    Text.resize(Used + 65536);
    ssize_t Got = ::read(Fd.get(), Text.data() + Used, Text.size() - Used);
    if (Got < 0 && errno == EINTR)
      continue;
    if (Got < 0)
      return false;
    if (Got == 0)
      break;
    Used += size_t(Got);
  }
  Text.resize(Used);
  return true;
}

llvm::Expected<std::string> readProcFile(pid_t Pid, const llvm::Twine &Name) {
  std::string Path = procPath(Pid, Name), Text;
  if (readAll(Path, Text))
    return Text;
  int Errno = errno;
  return failure(withErrno(Path, Errno),
                 Errno == ENOENT || Errno == ESRCH ? "the process has ended"
                                                   : "");
}

std::optional<std::string> readSmallFile(const llvm::Twine &Path) {
  std::string Text;
  if (!readAll(Path.str(), Text))
    return std::nullopt;
  return Text;
}

std::optional<std::string> readLink(const llvm::Twine &Path) {
  std::string Text(4096, '\0');
  ssize_t Got = ::readlink(Path.str().c_str(), Text.data(), Text.size());
  if (Got < 0)
    return std::nullopt;
  Text.resize(size_t(Got));
  return Text;
}

std::string printable(llvm::StringRef Text) {
  static constexpr char Digits[] = "0123456789abcdef";
  std::string Out;
  for (unsigned char C : Text.bytes()) {
    if (C >= 0x20 && C != 0x7f) {
      Out += char(C);
      continue;
    }
    Out += "\\x";
    Out += Digits[C >> 4];
    Out += Digits[C & 15];
  }
  return Out;
}

} // namespace culprit::attach
