//===- AddEntryFile.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/AddEntryFile.h"
#include "KB/AtomicFile.h"
#include "Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

/// How often a file may change under our hands before we give up.
static constexpr unsigned Attempts = 5;

namespace {

/// What tells a file from the one that took its place.
struct FileState {
  bool Exists = false;
  struct stat Stat = {};

  static FileState of(const std::string &Path) {
    FileState S;
    S.Exists = ::stat(Path.c_str(), &S.Stat) == 0;
    return S;
  }
  bool operator==(const FileState &O) const {
    if (!Exists || !O.Exists)
      return Exists == O.Exists;
    return Stat.st_ino == O.Stat.st_ino && Stat.st_dev == O.Stat.st_dev &&
           Stat.st_size == O.Stat.st_size &&
           Stat.st_mtim.tv_sec == O.Stat.st_mtim.tv_sec &&
           Stat.st_mtim.tv_nsec == O.Stat.st_mtim.tv_nsec;
  }
};

} // namespace

static Error writeText(const std::string &To, StringRef Text, StringRef Path) {
  std::error_code Code;
  raw_fd_ostream OS(To, Code); // shortens it, and keeps the file itself
  if (!Code) {
    OS << Text;
    OS.close();
    Code = OS.error();
    OS.clear_error();
  }
  if (Code)
    return failure(Path + ": " + Code.message(), "nothing was changed");
  return Error::success();
}

/// One attempt under the lock of \p New; \p Again is set when somebody who
/// takes no lock was faster.
static Error
attempt(const std::string &Path, Replacement &New,
        function_ref<Expected<std::string>(StringRef Old)> Change,
        bool &Again) {
  Again = false;
  FileState Before = FileState::of(Path);
  std::unique_ptr<MemoryBuffer> Old = MemoryBuffer::getMemBuffer("");
  if (Before.Exists) {
    if (!S_ISREG(Before.Stat.st_mode))
      return failure(Path + ": not a file");
    if (::access(Path.c_str(), W_OK) != 0)
      return failure(Path + ": may not be written to", "nothing was changed");
    // Volatile: read and not mapped, since others may shorten it.
    auto Read = MemoryBuffer::getFile(Path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false,
                                      /*IsVolatile=*/true);
    if (!Read)
      return failure(Path + ": " + Read.getError().message());
    Old = std::move(*Read);
  }
  Expected<std::string> Text = Change(Old->getBuffer());
  if (!Text)
    return Text.takeError();
  if (*Text == Old->getBuffer())
    return Error::success();
  if (Error E = writeText(New.path(), *Text, Path))
    return E;
  Again = !(FileState::of(Path) == Before);
  return Again ? Error::success() : New.commit();
}

Error updateFile(StringRef Path,
                 function_ref<Expected<std::string>(StringRef Old)> Change) {
  Expected<Replacement> New = Replacement::begin(Path);
  if (!New)
    return New.takeError();
  for (unsigned I = 0; I < Attempts; ++I) {
    bool Again;
    Error E = attempt(Path.str(), *New, Change, Again);
    if (E || !Again)
      return E;
  }
  return failure(Path + ": somebody else keeps writing to it",
                 "nothing was changed; try again when they are done");
}

} // namespace culprit
