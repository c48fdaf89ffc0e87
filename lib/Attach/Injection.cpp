//===- Injection.cpp - Makes a running process call a function --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Injection.h"
#include "Attach/Borrow.h"
#include "Attach/Caves.h"
#include "Attach/Helper.h"
#include "Attach/ProcFile.h"
#include "Capture/Protocol.h"
#include "llvm/Support/Errno.h"
#include <cerrno>
#include <random>
#include <sys/socket.h>
#include <sys/un.h>

namespace culprit::attach {

static constexpr size_t MaxPath = 1024;
static constexpr char RecordHint[] =
    "try again, or start the program by `culprit record`";

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
    return failure("attaching is not written for this processor",
                   "start the program by `culprit record`");
  std::optional<CodeCave> Code =
      findCodeCave(Memory, T.Maps, Caller->code());
  std::optional<uint64_t> Results = findResultsCave(Memory, T.Maps);
  CallResults Before = {};
  if (!Code || !Results ||
      !Memory.read(*Results, &Before, sizeof Before))
    return failure("no unused bytes behind the libraries of " +
                       describe(T.Info.Pid),
                   "start the program by `culprit record`");
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
                     " cannot be written");
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
  return ("is in system call " + llvm::Twine(int64_t(State->Call->Number)))
      .str();
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
      &Report, sizeof Report);
  if (E)
    return E;
  std::string Who = describe(T.Info.Pid);
  switch (Report.How) {
  case BorrowReport::End::NoSafePoint:
    return failure("no safe point in " + Who + " to load a library: " +
                       Report.Text,
                   RecordHint);
  case BorrowReport::End::Refused:
  case BorrowReport::End::Abandoned:
    return failure("cannot trace " + Who + ": " + Report.Text);
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
    return failure(Who + ": " + Report.Text);
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
    return failure("cannot load " + Path + " into " + describe(T.Info.Pid));
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

llvm::Expected<Injection> beginSession(const Target &T, llvm::StringRef Path,
                                       const InjectionOptions &Options) {
  if (!T.Agent)
    return loadLibrary(
        T, (Path + "/" + llvm::StringRef(capture::AgentFile)).str(), Options);
  llvm::Expected<Injection> Done =
      callWithPath(T, T.Agent->Begin, Path, Options);
  // An int: the upper half of the register says nothing.
  if (Done && uint32_t(Done->Value) == 1)
    return failure("culprit is attached to " + describe(T.Info.Pid) +
                       " already",
                   "end the other session first");
  if (Done && uint32_t(Done->Value) != 0)
    return failure("the agent in " + describe(T.Info.Pid) +
                   " cannot start its thread");
  return Done;
}

} // namespace culprit::attach
