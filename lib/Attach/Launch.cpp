//===- Launch.cpp - A command that is recorded from its start ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Launch.h"
#include "Attach/ProcFile.h"
#include "Capture/Protocol.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char **environ;

namespace culprit::attach {

/// The value of \p Name in \p Environment, or nothing.
static std::optional<llvm::StringRef>
valueOf(llvm::ArrayRef<std::string> Environment, llvm::StringRef Name) {
  for (const std::string &Entry : Environment) {
    auto [Key, Value] = llvm::StringRef(Entry).split('=');
    if (Key == Name)
      return Value;
  }
  return std::nullopt;
}

bool isOtherTool(llvm::StringRef Value) {
  return !Value.empty() && Value.rsplit('/').second != capture::AgentFile &&
         Value != capture::AgentFile;
}

/// Refuses an \p Environment in which \p Name stands for another tool.
static llvm::Error checkFree(llvm::ArrayRef<std::string> Environment,
                             llvm::StringRef Name, llvm::StringRef Agent,
                             const llvm::Twine &Hint) {
  std::optional<llvm::StringRef> Other = valueOf(Environment, Name);
  if (!Other || *Other == Agent || !isOtherTool(*Other))
    return llvm::Error::success();
  return failure(Name + " names another tool: " + *Other, Hint);
}

llvm::Expected<std::vector<std::string>>
launchEnvironment(llvm::ArrayRef<std::string> Environment,
                  const LaunchOptions &Options) {
  if (llvm::Error E = checkFree(Environment, CudaInjection, Options.Agent,
                                "libcuda loads one library at most; unset it, "
                                "or run without `culprit record`"))
    return E;
  if (llvm::Error E =
          Options.Nvtx
              ? checkFree(Environment, NvtxInjection, Options.Agent,
                          "NVTX loads one library at most; unset it, or record "
                          "without NVTX ranges: --kinds=kernels,copies,calls")
              : llvm::Error::success())
    return E;
  const std::pair<llvm::StringRef, llvm::StringRef> Ours[] = {
      {CudaInjection, Options.Agent},
      {NvtxInjection,
       Options.Nvtx ? llvm::StringRef(Options.Agent) : llvm::StringRef()},
      {capture::ControlVariable, Options.Control},
      {capture::FallbackVariable, Options.Fallback},
      {capture::OptionsVariable, Options.Options},
      {capture::CuptiVariable, Options.Cupti}};
  std::vector<std::string> Out;
  for (const std::string &Entry : Environment) {
    auto [Name, Value] = llvm::StringRef(Entry).split('=');
    bool IsOurs = llvm::any_of(
        Ours, [&](const auto &Pair) { return Name == Pair.first; });
    // Without our interest in NVTX another tool may have it.
    if (!IsOurs ||
        (Name == NvtxInjection && !Options.Nvtx && isOtherTool(Value)))
      Out.push_back(Entry);
  }
  for (const auto &[Name, Value] : Ours)
    if (!Value.empty())
      Out.push_back((Name + "=" + Value).str());
  return Out;
}

/// Those that one sends to a command to end or steer it.
static constexpr int Forwarded[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
                                    SIGUSR1, SIGUSR2, SIGWINCH};
static std::atomic<pid_t> Receiver;
static std::atomic<unsigned> Interruptions;
static struct sigaction Before[std::size(Forwarded)];

static void forward(int Signal, siginfo_t *Info, void *) {
  int Errno = errno;
  // The terminal sends to its whole foreground group, the command included.
  bool FromTerminal = Info->si_code == SI_KERNEL;
  if (Signal == SIGINT)
    ++Interruptions;
  pid_t To = Receiver.load();
  if (!FromTerminal && To > 0)
    ::kill(To, Signal);
  errno = Errno;
}

unsigned Launch::interruptions() { return Interruptions; }

llvm::Expected<Launch> Launch::start(const LaunchOptions &Options) {
  if (Receiver.load() != 0)
    return failure("a command is being recorded already");
  std::vector<std::string> Environment;
  for (char **Entry = environ; *Entry; ++Entry)
    Environment.push_back(*Entry);
  llvm::Expected<std::vector<std::string>> Next =
      launchEnvironment(Environment, Options);
  if (!Next)
    return Next.takeError();
  std::vector<char *> Words, Entries;
  for (const std::string &Word : Options.Command)
    Words.push_back(const_cast<char *>(Word.c_str()));
  for (const std::string &Entry : *Next)
    Entries.push_back(const_cast<char *>(Entry.c_str()));
  Words.push_back(nullptr);
  Entries.push_back(nullptr);

  // Handlers before the command: a signal between the two must not be lost.
  // It would find nobody, so it is held back until there is somebody.
  sigset_t Held, Old;
  sigemptyset(&Held);
  for (int Signal : Forwarded)
    sigaddset(&Held, Signal);
  pthread_sigmask(SIG_BLOCK, &Held, &Old);
  Interruptions = 0;
  posix_spawnattr_t Attributes;
  posix_spawnattr_init(&Attributes);
  // The mask is as it was. What culprit's caller ignored (nohup) stays
  // ignored; handlers do not survive an exec by themselves.
  posix_spawnattr_setsigmask(&Attributes, &Old);
  posix_spawnattr_setflags(&Attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t Pid = 0;
  int Error = ::posix_spawnp(&Pid, Words[0], nullptr, &Attributes,
                             Words.data(), Entries.data());
  posix_spawnattr_destroy(&Attributes);
  if (Error == 0) {
    Receiver = Pid;
    struct sigaction Action = {};
    Action.sa_sigaction = forward;
    Action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&Action.sa_mask);
    for (size_t I = 0; I < std::size(Forwarded); ++I) {
      sigaction(Forwarded[I], nullptr, &Before[I]);
      if (Before[I].sa_handler != SIG_IGN)
        sigaction(Forwarded[I], &Action, nullptr);
    }
  }
  pthread_sigmask(SIG_SETMASK, &Old, nullptr);
  if (Error != 0)
    return failure(withErrno(Options.Command.front(), Error),
                   Error == ENOENT ? "give the command as in a shell, with "
                                     "its path if it is not in PATH"
                                   : "");
  return Launch(Pid);
}

Launch::Launch(Launch &&Other) : Pid(Other.Pid), Status(Other.Status) {
  Other.Pid = 0;
}

Launch::~Launch() {
  if (Pid == 0)
    return;
  for (size_t I = 0; I < std::size(Forwarded); ++I)
    sigaction(Forwarded[I], &Before[I], nullptr);
  Receiver = 0;
}

std::optional<ExitStatus> Launch::wait(std::chrono::milliseconds Timeout) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point Until = Clock::now() + Timeout;
  while (!Status) {
    int Word = 0;
    pid_t Got = ::waitpid(Pid, &Word, WNOHANG);
    if (Got == Pid && (WIFEXITED(Word) || WIFSIGNALED(Word))) {
      // Its number may be another process's from now on.
      Receiver = -1;
      Status = WIFEXITED(Word)
                   ? ExitStatus{WEXITSTATUS(Word), 0}
                   : ExitStatus{128 + WTERMSIG(Word), WTERMSIG(Word)};
    } else if (Got < 0 && errno != EINTR) {
      Receiver = -1;
      Status = ExitStatus{1, 0};
    } else if (Clock::now() >= Until) {
      break;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return Status;
}

bool Launch::send(int Signal) {
  return !Status && Pid > 0 && ::kill(Pid, Signal) == 0;
}

} // namespace culprit::attach
