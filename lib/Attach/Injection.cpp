//===- Injection.cpp - Makes a running process call a function --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Injection.h"
#include "Attach/Borrow.h"
#include "Attach/Caves.h"
#include "Attach/Helper.h"
#include "Attach/ProcFile.h"
#include "Attach/SessionFolder.h"
#include "Attach/WaitWords.h"
#include "Capture/Protocol.h"
#include "llvm/Support/Errno.h"
#include <cerrno>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace culprit::attach {

static constexpr size_t MaxPath = 1024;
static constexpr char UseRecord[] = "start the program by `culprit record`";
static constexpr char WaitHint[] =
    "one must wait in libc (poll, a condition variable, a short sleep) or call "
    "malloc for a moment: try again while the program works, or start it by "
    "`culprit record`";

/// Held while a call is made, so that two of us do not use one process at
/// once. A name that only lives as long as its socket: nothing to clean up.
static llvm::Expected<Descriptor> lockProcess(const Target &T) {
  Descriptor Lock(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un Name = {};
  Name.sun_family = AF_UNIX;
  std::string Text = ("culprit-attach-" + llvm::Twine(int64_t(T.Info.Pid)) +
                      "-" + llvm::Twine(T.Info.StartTime))
                         .str();
  Text.copy(Name.sun_path + 1, sizeof Name.sun_path - 2);
  socklen_t Size = offsetof(sockaddr_un, sun_path) + 1 + Text.size();
  if (!Lock || ::bind(Lock.get(), reinterpret_cast<sockaddr *>(&Name), Size))
    return failure("another culprit is attaching to " + describe(T.Info.Pid),
                   "wait until it has ended");
  return Lock;
}

/// Finds the places for the stub and its results and makes sure that no call
/// is under way.
static llvm::Error findPlaces(const Target &T, CallRequest &Request) {
  ProcessMemory Memory(T.Info.Pid);
  WaitText Text = WaitText::find(T.Maps);
  LinkMap Links(Memory, T.Debug);
  std::unique_ptr<RemoteCaller> Caller =
      RemoteCaller::create(Memory, T.Maps, Text, Links);
  if (!Caller)
    return failure("attaching is not written for this processor", UseRecord);
  std::optional<CodeCave> Code =
      findCodeCave(Memory, T.Maps, Caller->code());
  std::optional<uint64_t> Results = findResultsCave(Memory, T.Maps);
  CallResults Before = {};
  if (!Code || !Results ||
      !Memory.read(*Results, &Before, sizeof Before))
    return failure("no unused bytes behind the libraries of " +
                       describe(T.Info.Pid),
                   UseRecord);
  if (Before.Magic == ResultsMagic && Before.Started != Before.Done)
    return failure("an earlier call into " + describe(T.Info.Pid) +
                       " has not returned",
                   "see what its threads wait for: gdb -p " +
                       llvm::Twine(int64_t(T.Info.Pid)) +
                       " -batch -ex 'thread apply all bt'");
  if (Before.Magic != ResultsMagic) {
    Before = {};
    Before.Magic = ResultsMagic;
    if (!Memory.write(*Results, &Before, sizeof Before))
      return failure("the memory of " + describe(T.Info.Pid) +
                         " cannot be written",
                     "it may have just ended; else a kernel option or a "
                     "security module forbids it: start the program by "
                     "`culprit record`");
  }
  Request.Code = Code->Address;
  Request.CodeWritten = Code->Written;
  Request.Results = *Results;
  return llvm::Error::success();
}

/// What thread \p Tid does, for a call that does not return.
static std::string whereIs(pid_t Pid, pid_t Tid) {
  std::optional<ThreadState> State = threadState(Pid, Tid);
  if (!State)
    return "has ended";
  if (!State->Call)
    return "is running";
  return "is in " + callName(State->Call->Number);
}

/// What to do when the dynamic linker of the process said \p Why.
static const char *loadHint(llvm::StringRef Why) {
  if (Why.contains("GLIBC_"))
    return "its C library is too old for the agent; use an image with glibc "
           "2.25 or newer";
  if (Why.contains("failed to map") || Why.contains("ermission denied"))
    return "a security module may forbid code from new files (dmesg, ausearch "
           "-m avc); or start the program by `culprit record`";
  return UseRecord;
}

static llvm::Expected<Injection> call(const Target &T, CallRequest Request,
                                      const InjectionOptions &Options) {
  if (Request.Path.size() > MaxPath)
    return failure("the path is longer than " + llvm::Twine(MaxPath) +
                   " bytes: " + Request.Path);
  llvm::Expected<Descriptor> Lock = lockProcess(T);
  if (!Lock)
    return Lock.takeError();
  if (llvm::Error E = findPlaces(T, Request))
    return E;
  std::random_device Random;
  Request.Token = (uint64_t(Random()) << 32 | Random()) | 1;
  Request.ErrnoLocation = T.ErrnoLocation;
  Request.Caught = T.Info.Status.Caught;

  BorrowReport Report;
  llvm::Error E = runInHelper(
      [&](HelperSide &Side) {
        borrowThread(T, Request, Options, Side, Report);
      },
      &Report, sizeof Report, Options.GivenUp);
  if (E)
    return E;
  std::string Who = describe(T.Info.Pid);
  switch (Report.How) {
  case BorrowReport::End::NoSafePoint:
    return failure("no safe point in " + Who + " to load a library: " +
                       Report.Text,
                   WaitHint);
  case BorrowReport::End::Refused:
  case BorrowReport::End::Abandoned:
    return failure("cannot trace " + Who + ": " + Report.Text,
                   "another tracer may have come in between (TracerPid in "
                   "/proc/" +
                       llvm::Twine(int64_t(T.Info.Pid)) +
                       "/status), or the seccomp filter of this container "
                       "forbids ptrace: docker run --cap-add SYS_PTRACE");
  case BorrowReport::End::NoStack:
    return failure(withErrno("no memory for a stack in " + Who,
                             int(Report.Value)),
                   "raise its limit of memory (ulimit -v)");
  case BorrowReport::End::Unfinished:
    return failure("the call into " + Who + " has not returned: thread " +
                       llvm::Twine(int64_t(Report.Thread)) + " " +
                       (Report.Text[0] ? std::string(Report.Text)
                                       : whereIs(T.Info.Pid, Report.Thread)),
                   "nothing was undone; see where it waits: gdb -p " +
                       llvm::Twine(int64_t(T.Info.Pid)) +
                       " -batch -ex 'thread apply all bt'");
  case BorrowReport::End::Returned:
    break;
  }
  if (Report.Value == 0 && Report.Text[0])
    return failure(Who + ": " + Report.Text, loadHint(Report.Text));
  Injection Done;
  Done.Thread = Report.Thread;
  Done.ThreadName = Report.ThreadName;
  Done.ByBreakpoint = Report.ByBreakpoint != 0;
  Done.Tried = Report.Tried;
  Done.Value = Report.Value;
  Done.Stopped = std::chrono::nanoseconds(Report.StoppedFor);
  Done.Called = std::chrono::nanoseconds(Report.CalledFor);
  return Done;
}

llvm::Expected<Injection> loadLibrary(const Target &T, llvm::StringRef Path,
                                      const InjectionOptions &Options) {
  CallRequest Request;
  Request.Function = T.Dlopen;
  Request.Path = Path.str();
  Request.Number = T.DlopenFlags;
  Request.ErrorText = T.Dlerror;
  llvm::Expected<Injection> Done = call(T, std::move(Request), Options);
  if (Done && Done->Value == 0)
    return failure("cannot load " + Path + " into " + describe(T.Info.Pid),
                   UseRecord);
  return Done;
}

llvm::Expected<Injection> callWithPath(const Target &T, uint64_t Address,
                                       llvm::StringRef Path,
                                       const InjectionOptions &Options) {
  CallRequest Request;
  Request.Function = Address;
  Request.Path = Path.str();
  return call(T, std::move(Request), Options);
}

/// What culprit_agent_begin, called as \p Done, returned.
static llvm::Error checkBegun(llvm::Expected<Injection> &Done,
                              const Target &T) {
  if (!Done)
    return Done.takeError();
  // An int: the upper half of the register says nothing.
  switch (uint32_t(Done->Value)) {
  case 0:
    return llvm::Error::success();
  case 1:
    return failure("culprit is attached to " + describe(T.Info.Pid) +
                       " already",
                   "end that first, or wait for it: pgrep -af 'culprit "
                   "(attach|record)'");
  default:
    return failure("the agent in " + describe(T.Info.Pid) +
                       " cannot start its thread",
                   "raise its limit of threads (ulimit -u, or pids.max of its "
                   "control group)");
  }
}

llvm::Expected<Injection> beginSession(const Target &T, llvm::StringRef Path,
                                       const InjectionOptions &Options) {
  if (!T.Agent)
    return loadLibrary(
        T, (Path + "/" + llvm::StringRef(capture::AgentFile)).str(), Options);
  llvm::Expected<Injection> Done =
      callWithPath(T, T.Agent->Begin, Path, Options);
  if (llvm::Error E = checkBegun(Done, T))
    return E;
  return Done;
}

/// The address of culprit_agent_begin in what was just loaded.
static uint64_t findBegin(const Target &T) {
  ProcessMemory Memory(T.Info.Pid);
  llvm::Expected<ProcessMaps> Maps = ProcessMaps::read(T.Info.Pid);
  if (!Maps) {
    llvm::consumeError(Maps.takeError());
    return 0;
  }
  for (const Mapping *M : Maps->images(isAgentName)) {
    llvm::Expected<ElfImage> Image =
        ElfImage::open(Memory, M->Begin, M->name());
    if (!Image)
      llvm::consumeError(Image.takeError());
    else if (auto Symbol = Image->find(capture::BeginSymbol))
      return Symbol->Address;
  }
  return 0;
}

llvm::Expected<Injection>
beginSessionFromMemory(const Target &T, llvm::StringRef Path,
                       llvm::StringRef Agent, const InjectionOptions &Options) {
  std::string Who = describe(T.Info.Pid);
  if (!T.MemfdCreate || !T.Close)
    return failure(Who + " has no folder that a library can be loaded from, "
                         "and its C library no files in memory",
                   "give it a /tmp that is not mounted noexec; or start it by "
                   "`culprit record`");
  CallRequest Make;
  Make.Function = T.MemfdCreate;
  Make.Path = capture::AgentFile;
  Make.Number = MFD_CLOEXEC;
  llvm::Expected<Injection> Made = call(T, std::move(Make), Options);
  if (!Made)
    return Made.takeError();
  int Fd = int(uint32_t(Made->Value));
  if (Fd < 0)
    return failure(Who + " has no folder that a library can be loaded from, "
                         "and may not make a file in memory",
                   "give it a /tmp that is not mounted noexec; or start it by "
                   "`culprit record`");
  auto Close = [&](llvm::Error Why) {
    CallRequest Request;
    Request.Function = T.Close;
    Request.First = uint64_t(Fd);
    // One descriptor that stays is no reason to give up what works.
    llvm::Expected<Injection> Closed = call(T, std::move(Request), Options);
    if (!Closed)
      llvm::consumeError(Closed.takeError());
    return Why;
  };
  std::string Name = ("fd/" + llvm::Twine(Fd)).str();
  Descriptor Out(
      ::open(procPath(T.Info.Pid, Name).c_str(), O_WRONLY | O_CLOEXEC));
  llvm::Error Copied =
      Out ? copyFile(Agent, Out.get(), "the file in memory of " + Who)
          : failure(withErrno("the file in memory of " + Who, errno));
  if (Copied)
    return Close(std::move(Copied));
  Out.reset();
  llvm::Expected<Injection> Loaded =
      loadLibrary(T, "/proc/self/" + Name, Options);
  if (!Loaded)
    return Close(Loaded.takeError());
  if (llvm::Error E = Close(llvm::Error::success()))
    return E;
  uint64_t Begin = findBegin(T);
  if (!Begin)
    return failure("the agent was loaded into " + Who + " and is not found",
                   UseRecord);
  llvm::Expected<Injection> Done = callWithPath(T, Begin, Path, Options);
  if (llvm::Error E = checkBegun(Done, T))
    return E;
  return Loaded;
}

} // namespace culprit::attach
