//===- AtomicFile.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/AtomicFile.h"
#include "Support/Error.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <utility>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

static std::string reason(int Code) {
  return std::error_code(Code, std::generic_category()).message();
}

/// Whether \p Handle is still the file at \p Path; a writer that we waited for
/// has renamed it.
static bool isAt(int Handle, const std::string &Path) {
  struct stat Open, There;
  return fstat(Handle, &Open) == 0 && stat(Path.c_str(), &There) == 0 &&
         Open.st_dev == There.st_dev && Open.st_ino == There.st_ino;
}

Expected<Replacement> Replacement::begin(StringRef Path) {
  Replacement R;
  SmallString<256> Real;
  R.Target = sys::fs::real_path(Path, Real) ? Path.str() : Real.str().str();
  SmallString<256> Beside(sys::path::parent_path(R.Target));
  sys::path::append(Beside,
                    "." + sys::path::filename(R.Target) + ".culprit-new");
  R.Temporary = Beside.str().str();
  while (true) {
    R.Handle = open(R.Temporary.c_str(),
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                    0666);
    struct stat Found;
    bool Opened = R.Handle >= 0;
    bool Odd = !Opened && (errno == ELOOP || errno == EISDIR);
    if (Odd ||
        (Opened && fstat(R.Handle, &Found) == 0 && !S_ISREG(Found.st_mode))) {
      if (Opened)
        close(std::exchange(R.Handle, -1));
      return failure(R.Temporary + ": is no plain file, and a new " +
                         sys::path::filename(Path) + " is written there first",
                     "move it away");
    }
    if (!Opened)
      return failure(Path + ": cannot be written here: " + reason(errno),
                     "name a file in a folder that you may write to");
    while (flock(R.Handle, LOCK_EX) != 0)
      if (errno != EINTR)
        return failure(Path + ": " + reason(errno));
    if (isAt(R.Handle, R.Temporary))
      break;
    close(R.Handle);
    R.Handle = -1;
  }
  if (ftruncate(R.Handle, 0) != 0)
    return failure(Path + ": " + reason(errno));
  struct stat Old;
  if (stat(R.Target.c_str(), &Old) == 0)
    (void)fchmod(R.Handle, Old.st_mode & 07777);
  return R;
}

Replacement::Replacement(Replacement &&Other) noexcept
    : Target(std::move(Other.Target)), Temporary(std::move(Other.Temporary)),
      Handle(std::exchange(Other.Handle, -1)) {}

Replacement::~Replacement() {
  if (Handle < 0)
    return;
  unlink(Temporary.c_str());
  close(Handle);
}

Error Replacement::commit() {
  if (fsync(Handle) != 0 && errno != EINVAL)
    return failure(Target + ": " + reason(errno));
  if (rename(Temporary.c_str(), Target.c_str()) != 0)
    return failure(Target + ": " + reason(errno));
  // The rename itself; where a folder cannot be synced, it is not worse off.
  std::string Folder = sys::path::parent_path(Target).str();
  int Parent =
      open(Folder.empty() ? "." : Folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (Parent >= 0) {
    (void)fsync(Parent);
    close(Parent);
  }
  close(Handle);
  Handle = -1;
  return Error::success();
}

} // namespace culprit
