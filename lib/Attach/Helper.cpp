//===- Helper.cpp - Work that outlives us -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Helper.h"
#include "Attach/ProcFile.h"
#include "Support/Error.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace culprit::attach {

static bool writeAll(int Fd, const void *From, size_t Size) {
  const char *At = static_cast<const char *>(From);
  while (Size) {
    ssize_t Put = ::write(Fd, At, Size);
    if (Put < 0 && errno == EINTR)
      continue;
    if (Put <= 0)
      return false;
    At += Put;
    Size -= size_t(Put);
  }
  return true;
}

/// Ends early, with what there is, when \p GivenUp.
static bool readAll(int Fd, void *To, size_t Size,
                    llvm::function_ref<bool()> GivenUp) {
  char *At = static_cast<char *>(To);
  while (Size) {
    if (GivenUp())
      return false;
    pollfd P = {Fd, POLLIN, 0};
    if (::poll(&P, 1, 100) <= 0)
      continue;
    ssize_t Got = ::read(Fd, At, Size);
    if (Got < 0 && errno == EINTR)
      continue;
    if (Got <= 0)
      return false;
    At += Got;
    Size -= size_t(Got);
  }
  return true;
}

bool HelperSide::isWanted() const {
  pollfd P = {Pipe, 0, 0}; // An error says that nobody reads.
  return ::getppid() == Parent &&
         (Pipe < 0 || ::poll(&P, 1, 0) == 0 || !(P.revents & POLLERR));
}

void HelperSide::publish() {
  if (Pipe < 0)
    return;
  writeAll(Pipe, Report, Size);
  ::close(Pipe);
  Pipe = -1;
}

llvm::Error runInHelper(llvm::function_ref<void(HelperSide &)> Work,
                        void *Report, size_t Size,
                        llvm::function_ref<bool()> GivenUp) {
  int Ends[2];
  if (::pipe2(Ends, O_CLOEXEC) != 0)
    return failure(withErrno("cannot make a pipe", errno));
  Descriptor Reads(Ends[0]), Writes(Ends[1]);
  const pid_t Parent = ::getpid();
  pid_t Child = ::fork();
  if (Child < 0)
    return failure(withErrno("cannot start a helper process", errno));
  if (Child == 0) {
    ::setpgid(0, 0);
    Reads.reset();
    // Handlers of the parent are not for this process, and a terminal's
    // signals do not reach it any more.
    for (int Signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
      ::signal(Signal, SIG_IGN);
    HelperSide Side(Parent, Writes.release(), Report, Size);
    Work(Side);
    Side.publish();
    ::_exit(0);
  }
  Writes.reset();
  bool Whole = readAll(Reads.get(), Report, Size, GivenUp);
  Reads.reset();
  if (!Whole && GivenUp())
    return failure("stopped before the agent was loaded");
  // It ends at once, or stays with a thread that it must not leave; then it is
  // not waited for.
  for (unsigned I = 0; I < 200; ++I) {
    pid_t Ended = ::waitpid(Child, nullptr, WNOHANG);
    if (Ended == Child || (Ended < 0 && errno != EINTR))
      break;
    ::usleep(500);
  }
  if (!Whole)
    return failure("the helper process that traces was killed",
                   "see whether memory ran out; the process is unharmed "
                   "unless it was waiting at a breakpoint");
  return llvm::Error::success();
}

} // namespace culprit::attach
