//===- SessionFolder.cpp - A folder that both processes see -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/SessionFolder.h"
#include "Capture/Protocol.h"
#include "Support/Error.h"
#include "llvm/ADT/SmallVector.h"
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace culprit::attach {

static constexpr char Prefix[] = "culprit-";
static constexpr size_t SuffixSize = 6;

/// Opens the folder \p Path below \p Root; links in it lead to places below
/// \p Root too. Kernels before 5.6 do without links at all.
static Descriptor openBelow(int Root, llvm::StringRef Path) {
  Path = Path.ltrim('/');
  std::string Whole = Path.empty() ? "." : Path.str();
  open_how How = {};
  How.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  How.resolve = RESOLVE_IN_ROOT;
  long Fd = syscall(SYS_openat2, Root, Whole.c_str(), &How, sizeof How);
  if (Fd >= 0 || (errno != ENOSYS && errno != EPERM))
    return Descriptor(int(Fd));
  Descriptor At(::openat(Root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  llvm::SmallVector<llvm::StringRef, 8> Parts;
  Path.split(Parts, '/', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef Part : Parts) {
    if (!At || Part == "..")
      return Descriptor();
    At = Descriptor(::openat(At.get(), Part.str().c_str(),
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  return At;
}

static bool isSame(int A, int B) {
  struct stat X, Y;
  return ::fstat(A, &X) == 0 && ::fstat(B, &Y) == 0 && X.st_dev == Y.st_dev &&
         X.st_ino == Y.st_ino;
}

/// Removes the files of a session in \p Folder; others stay, and with them the
/// folder.
static void removeFiles(int Folder) {
  ::unlinkat(Folder, capture::AgentFile, 0);
  ::unlinkat(Folder, capture::ControlFile, 0);
}

static sockaddr_un socketName(int Folder) {
  // By our own descriptor: a path may be longer than a socket's name.
  sockaddr_un Address = {};
  Address.sun_family = AF_UNIX;
  std::string Path = ("/proc/self/fd/" + llvm::Twine(Folder) + "/" +
                      capture::ControlFile)
                         .str();
  Path.copy(Address.sun_path, sizeof Address.sun_path - 1);
  return Address;
}

/// Does somebody listen on the control socket in \p Folder? Never waits: one
/// that is stopped takes no connection, and its queue fills up (EAGAIN).
static bool isAlive(int Folder) {
  Descriptor Socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un Address = socketName(Folder);
  return ::connect(Socket.get(), reinterpret_cast<sockaddr *>(&Address),
                   sizeof Address) == 0 ||
         errno != ECONNREFUSED;
}

/// Removes folders in \p Parent of culprits that did not come to do it. A
/// folder is theirs when its name fits, it belongs to \p User or to us, and
/// its socket is one that nobody listens on.
static void removeStale(int Parent, uid_t User) {
  int Fd = ::openat(Parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *List = Fd >= 0 ? ::fdopendir(Fd) : nullptr;
  if (!List)
    return;
  while (const dirent *Entry = ::readdir(List)) {
    llvm::StringRef Name = Entry->d_name;
    if (!Name.starts_with(Prefix) ||
        Name.size() != sizeof Prefix - 1 + SuffixSize)
      continue;
    Descriptor Folder(
        ::openat(Parent, Entry->d_name,
                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat S, Socket;
    if (!Folder || ::fstat(Folder.get(), &S) != 0 ||
        (S.st_uid != User && S.st_uid != ::geteuid()) ||
        ::fstatat(Folder.get(), capture::ControlFile, &Socket,
                  AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISSOCK(Socket.st_mode) || isAlive(Folder.get()))
      continue;
    removeFiles(Folder.get());
    ::unlinkat(Parent, Entry->d_name, AT_REMOVEDIR);
  }
  ::closedir(List);
}

static std::string randomName() {
  static constexpr char Letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device Random;
  std::string Name = Prefix;
  for (size_t I = 0; I < SuffixSize; ++I)
    Name += Letters[Random() % (sizeof Letters - 1)];
  return Name;
}

llvm::Expected<SessionFolder>
SessionFolder::createIn(Descriptor Parent, llvm::StringRef ParentPath,
                        uid_t User, gid_t Group, bool ForCode) {
  struct statvfs Mount;
  if (::fstatvfs(Parent.get(), &Mount) != 0)
    return failure(withErrno(ParentPath, errno));
  if (Mount.f_flag & ST_RDONLY)
    return failure(ParentPath + ": mounted read-only");
  if (ForCode && (Mount.f_flag & ST_NOEXEC))
    return failure(ParentPath + ": mounted noexec");
  removeStale(Parent.get(), User);
  SessionFolder Session;
  Session.HoldsCode = !(Mount.f_flag & ST_NOEXEC);
  int Errno = EEXIST;
  for (unsigned I = 0; I < 100 && Errno == EEXIST; ++I) {
    Session.Name = randomName();
    Errno = ::mkdirat(Parent.get(), Session.Name.c_str(), 0700) == 0 ? 0
                                                                     : errno;
  }
  if (Errno != 0)
    return failure(withErrno(ParentPath, Errno));
  Session.Folder = Descriptor(
      ::openat(Parent.get(), Session.Name.c_str(),
               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  Session.Parent = std::move(Parent);
  Session.Path = (ParentPath.rtrim('/') + "/" + Session.Name).str();
  Session.User = User;
  Session.Group = Group;
  // Without the right to give it away it stays ours, and is then of the same
  // user, or the process cannot come in.
  if (!Session.Folder ||
      (User != ::geteuid() &&
       ::fchown(Session.Folder.get(), User, Group) != 0))
    return failure(withErrno("cannot give " + Session.Path + " to user " +
                                 llvm::Twine(User),
                             errno));
  return Session;
}

/// The working directory as the process names it; empty when it has none that
/// it could name.
static std::string workingFolder(pid_t Pid) {
  // The link's text is told from our root; in the process's it is without that
  // of its own root.
  std::optional<std::string> Cwd = readLink(procPath(Pid, "cwd"));
  std::optional<std::string> Root = readLink(procPath(Pid, "root"));
  if (!Cwd || !Root)
    return "";
  llvm::StringRef Path = *Cwd;
  if (*Root != "/")
    Path.consume_front(*Root);
  return Path.str();
}

llvm::Expected<SessionFolder> SessionFolder::create(const ProcessInfo &Info) {
  pid_t Pid = Info.Pid;
  std::string Who =
      (Info.Status.Name + " (pid " + llvm::Twine(int64_t(Pid)) + ")").str();
  Descriptor Root(::open(procPath(Pid, "root").c_str(),
                         O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!Root)
    return failure(withErrno("cannot open the root of " + Who, errno));
  std::string Reasons;
  for (bool ForCode : {true, false}) {
    Reasons.clear();
    auto Try = [&](llvm::StringRef Path,
                   Descriptor Fd) -> std::optional<SessionFolder> {
      if (!Fd) {
        Reasons += (Reasons.empty() ? "" : "; ") + withErrno(Path, errno);
        return std::nullopt;
      }
      llvm::Expected<SessionFolder> Made =
          createIn(std::move(Fd), Path, Info.Status.FileUid,
                   Info.Status.FileGid, ForCode);
      if (Made)
        return std::move(*Made);
      Reasons +=
          (Reasons.empty() ? "" : "; ") + llvm::toString(Made.takeError());
      return std::nullopt;
    };
    for (llvm::StringRef Path : {"/tmp", "/dev/shm"})
      if (std::optional<SessionFolder> Made =
              Try(Path, openBelow(Root.get(), Path)))
        return std::move(*Made);
    std::string Path = workingFolder(Pid);
    Descriptor ByName;
    if (!Path.empty())
      ByName = openBelow(Root.get(), Path);
    Descriptor Itself(::open(procPath(Pid, "cwd").c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!ByName || !Itself || !isSame(ByName.get(), Itself.get()))
      Reasons += "; its working directory: out of reach";
    else if (std::optional<SessionFolder> Made = Try(Path, std::move(ByName)))
      return std::move(*Made);
  }
  return failure("no folder for the agent's socket in " + Who + ": " + Reasons,
                 "give the process a /tmp that can be written, as `docker run "
                 "--tmpfs /tmp`; or start it by `culprit record`");
}

llvm::Expected<SessionFolder>
SessionFolder::createHere(llvm::StringRef Parent) {
  Descriptor Fd(::open(Parent.str().c_str(),
                       O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!Fd)
    return failure(withErrno(Parent, errno));
  return createIn(std::move(Fd), Parent, ::geteuid(), ::getegid(),
                  /*ForCode=*/false); // The agent stays where it is installed.
}

llvm::Error copyFile(llvm::StringRef From, int Out, llvm::StringRef To) {
  Descriptor In(::open(From.str().c_str(), O_RDONLY | O_CLOEXEC));
  if (!In)
    return failure(withErrno(From, errno),
                   "the agent belongs to culprit's installation");
  char Part[65536];
  for (;;) {
    ssize_t Got = ::read(In.get(), Part, sizeof Part);
    if (Got < 0 && errno == EINTR)
      continue;
    if (Got < 0)
      return failure(withErrno(From, errno));
    if (Got == 0)
      return llvm::Error::success();
    for (ssize_t At = 0; At < Got;) {
      ssize_t Put = ::write(Out, Part + At, size_t(Got - At));
      if (Put < 0 && errno == EINTR)
        continue;
      if (Put <= 0)
        return failure(withErrno(To, errno),
                       errno == ENOSPC ? "make room there: the agent takes "
                                         "less than 1 MiB"
                                       : "");
      At += Put;
    }
  }
}

llvm::Error SessionFolder::addAgent(llvm::StringRef From) {
  std::string To = Path + "/" + capture::AgentFile;
  Descriptor Out(::openat(Folder.get(), capture::AgentFile,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          0500));
  if (!Out)
    return failure(withErrno(To, errno));
  if (llvm::Error E = copyFile(From, Out.get(), To))
    return E;
  if (User != ::geteuid() && ::fchown(Out.get(), User, Group) != 0)
    return failure(withErrno(To, errno));
  return llvm::Error::success();
}

llvm::Expected<Descriptor> SessionFolder::listen() {
  Descriptor Socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un Address = socketName(Folder.get());
  if (!Socket ||
      ::bind(Socket.get(), reinterpret_cast<sockaddr *>(&Address),
             sizeof Address) != 0 ||
      ::listen(Socket.get(), 64) != 0)
    return failure(
        withErrno(Path + "/" + capture::ControlFile, errno));
  if ((User != ::geteuid() &&
       ::fchownat(Folder.get(), capture::ControlFile, User, Group,
                  AT_SYMLINK_NOFOLLOW) != 0) ||
      ::fchmodat(Folder.get(), capture::ControlFile, 0600, 0) != 0)
    return failure(withErrno(Path + "/" + capture::ControlFile, errno));
  return Socket;
}

void SessionFolder::remove() {
  if (!Folder)
    return;
  removeFiles(Folder.get());
  ::unlinkat(Parent.get(), Name.c_str(), AT_REMOVEDIR);
  Folder.reset();
}

SessionFolder::~SessionFolder() { remove(); }

} // namespace culprit::attach
