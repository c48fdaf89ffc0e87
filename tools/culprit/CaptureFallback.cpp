//===- CaptureFallback.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CaptureFallback.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <chrono>
#include <cmath>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

using namespace llvm;

namespace culprit {

/// Around the number; the agent has the same.
static constexpr StringLiteral SignPrefix = ".culprit-", SignEnding = ".live";

/// Removes the signs in \p Folder that nobody holds any more.
static void removeLeftSigns(StringRef Folder) {
  std::error_code EC;
  for (sys::fs::directory_iterator I(Folder, EC), End; !EC && I != End;
       I.increment(EC)) {
    StringRef Name = sys::path::filename(I->path());
    sys::fs::file_status Status;
    // One that is just being made is not locked yet.
    if (!Name.starts_with(SignPrefix) || !Name.ends_with(SignEnding) ||
        sys::fs::status(I->path(), Status) ||
        Status.getLastModificationTime() + std::chrono::minutes(1) >
            std::chrono::system_clock::now())
      continue;
    attach::Descriptor File(
        ::open(I->path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (File && ::flock(File.get(), LOCK_EX | LOCK_NB) == 0)
      ::unlink(I->path().c_str());
  }
}

Expected<LifeSign> LifeSign::make(StringRef Pattern) {
  StringRef Folder = sys::path::parent_path(Pattern);
  removeLeftSigns(Folder);
  using std::chrono::system_clock;
  // Another culprit may have this pid, in a container that shares the folder.
  auto Number = uint64_t(std::chrono::nanoseconds(
                             system_clock::now().time_since_epoch())
                             .count());
  SmallString<256> Path(Folder);
  sys::path::append(Path, SignPrefix + Twine(Number) + SignEnding);
  attach::Descriptor File(
      ::open(Path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!File)
    return failure(attach::withErrno(Path, errno),
                   "name a file in a folder that can be written with -o");
  // Where a file system has no locks, that it is there says it.
  (void)::flock(File.get(), LOCK_EX | LOCK_NB);
  return LifeSign(std::move(File), Path.str().str(), Number);
}

LifeSign::~LifeSign() {
  if (File)
    ::unlink(Path.c_str());
}

std::string fallbackOptions(const capture::StartMessage &S, double Duration,
                            uint64_t Sign) {
  std::string Out =
      ("kinds=" + Twine(S.Kinds) + ",max-size=" + Twine(S.MaxSize) +
       (S.Full == capture::FullPolicy::Ring ? ",ring=1" : "") +
       ",finalize=" + Twine(S.Finalize))
          .str();
  if (Duration > 0)
    Out += ",duration=" + utostr(uint64_t(std::ceil(Duration * 1000)));
  if (Sign)
    Out += ",live=" + utostr(Sign);
  return Out;
}

/// "12", or "12-2" for a further program of the same process.
static bool isProcessPart(StringRef Text) {
  auto [Pid, Count] = Text.split('-');
  return !Pid.empty() && all_of(Pid, isDigit) && all_of(Count, isDigit);
}

std::vector<FileThere> fallbackCaptures(StringRef Pattern,
                                        ArrayRef<FileThere> Before) {
  auto [Head, Tail] = Pattern.split("%p");
  std::vector<FileThere> Out;
  std::error_code EC;
  for (sys::fs::directory_iterator I(sys::path::parent_path(Pattern), EC), End;
       !EC && I != End; I.increment(EC)) {
    StringRef Name = I->path();
    sys::fs::file_status Status;
    if (!Name.consume_front(Head) || !Name.consume_back(Tail) ||
        !isProcessPart(Name) || sys::fs::status(I->path(), Status) ||
        Status.getSize() == 0 ||
        llvm::any_of(Before, [&](const FileThere &Old) {
          return Old.Id == Status.getUniqueID();
        }))
      continue;
    Out.push_back({I->path(), Status.getUniqueID()});
  }
  llvm::sort(Out, [](const FileThere &A, const FileThere &B) {
    return A.Path < B.Path;
  });
  return Out;
}

} // namespace culprit
