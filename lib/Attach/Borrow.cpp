//===- Borrow.cpp - Finding a thread for a call -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Borrow.h"
#include "Attach/Caves.h"
#include "Attach/ProcFile.h"
#include "Attach/WaitWords.h"
#include "llvm/ADT/STLExtras.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>

namespace culprit::attach {

using Clock = Tracee::Clock;
using std::chrono::milliseconds;

/// The agent's own thread, in a process that has one.
static constexpr char AgentThread[] = "culprit";
/// A thread that was interrupted stops at once unless it is in the kernel
/// without a way out, as on a dead network file system.
static constexpr milliseconds StopTime(2000);
/// How long one thread has a breakpoint before the next is tried.
static constexpr milliseconds BreakpointTurn(300);

static void copyText(char *To, size_t Size, llvm::StringRef Text) {
  size_t Length = std::min(Size - 1, Text.size());
  memcpy(To, Text.data(), Length);
  To[Length] = 0;
}

namespace {

class Borrower {
public:
  Borrower(const Target &T, CallRequest Request,
           const InjectionOptions &Options, HelperSide &Side,
           BorrowReport &Report)
      : T(T), Request(std::move(Request)), Options(Options), Side(Side),
        Report(Report), Process(T.Info.Pid),
        Maps(T.Maps), Links(Process, T.Debug), Text(WaitText::find(Maps)),
        Caller(RemoteCaller::create(Process, Maps, Text, Links)) {}

  void run();

private:
  bool fromParked();
  bool fromBreakpoint();
  bool tryParked(const SafeThread &S);
  bool tryBreakpoint(const ThreadState &S, Clock::time_point Until);
  bool setBreakpoint(Tracee &Thread, bool &IsOver);
  bool beginInMalloc(Tracee &Thread, bool Fits, llvm::StringRef Name);
  bool mayCallHere(Tracee &Thread);
  bool begin(Tracee &Thread, RemoteCaller::Place At, llvm::StringRef Name);
  bool finishTrapped(Tracee &Thread);
  void waitForReturn();
  /// Nobody waits for the report any more.
  bool isAbandoned() {
    if (Side.isWanted())
      return false;
    Report.How = BorrowReport::End::Abandoned;
    return true;
  }
  void note(llvm::StringRef Why) { ++Reasons[Why.str()]; }

  const Target &T;
  CallRequest Request;
  const InjectionOptions &Options;
  HelperSide &Side;
  BorrowReport &Report;
  ProcessMemory Process;
  ProcessMaps Maps;
  LinkMap Links;
  WaitText Text;
  std::unique_ptr<RemoteCaller> Caller;
  Clock::time_point Begun;
  std::vector<ThreadState> Seen; ///< When a wait was looked for last.
  std::map<std::string, unsigned> Reasons; ///< Why threads were not taken.
};

} // namespace

/// Starts the call in a stopped thread. False leaves it stopped.
bool Borrower::begin(Tracee &Thread, RemoteCaller::Place At,
                     llvm::StringRef Name) {
  bool Trapping = Options.Trapping || T.Info.Status.ShadowStack;
  switch (Caller->start(Thread, Request, At, Trapping)) {
  case RemoteCaller::Outcome::Unfit:
    note(Caller->reason());
    return false;
  case RemoteCaller::Outcome::Started:
    break;
  case RemoteCaller::Outcome::Trapped:
    if (!finishTrapped(Thread))
      return true;
    break;
  }
  Begun = Clock::now();
  Report.Thread = Thread.tid();
  Report.ByBreakpoint = At == RemoteCaller::Place::Function;
  Report.StoppedFor = std::chrono::nanoseconds(Thread.stoppedFor()).count();
  copyText(Report.ThreadName, sizeof Report.ThreadName, Name);
  waitForReturn();
  return true;
}

/// A thread that ends its call with a breakpoint instruction must find its
/// tracer: there is no giving up, only going on without being waited for.
bool Borrower::finishTrapped(Tracee &Thread) {
  if (Caller->finishTrapped(Thread, Options.CallTime))
    return true;
  Report.How = BorrowReport::End::Unfinished;
  Report.Thread = Thread.tid();
  Side.publish();
  while (Thread.isTraced() &&
         !Caller->finishTrapped(Thread, Options.CallTime)) {
  }
  return false;
}

void Borrower::waitForReturn() {
  std::chrono::microseconds Pause(20);
  for (;;) {
    CallResults R;
    if (!Process.read(Request.Results, &R, sizeof R)) {
      Report.How = BorrowReport::End::Unfinished;
      copyText(Report.Text, sizeof Report.Text, "the process has ended");
      return;
    }
    if (R.Done == Request.Token) {
      Report.CalledFor =
          std::chrono::nanoseconds(Clock::now() - Begun).count();
      Report.How = BorrowReport::End::Returned;
      Report.Value = R.Value;
      if (R.Stack > uint64_t(-4096)) {
        Report.How = BorrowReport::End::NoStack;
        Report.Value = uint64_t(-int64_t(R.Stack));
      } else if (R.Error) {
        copyText(Report.Text, sizeof Report.Text,
                 Process.text(R.Error, sizeof Report.Text).value_or(""));
      }
      return;
    }
    if (Clock::now() - Begun > Options.CallTime) {
      Report.How = BorrowReport::End::Unfinished;
      return;
    }
    std::this_thread::sleep_for(Pause);
    Pause = std::min<std::chrono::microseconds>(Pause * 2, milliseconds(2));
  }
}

/// True when the search is over.
bool Borrower::tryParked(const SafeThread &S) {
  if (S.Rank != WaitRank::Epoll && failsWhenStopped(S.Call.Number) &&
      hasSocketTimeout(T.Info.Pid, S.Call)) {
    note("a socket has a timeout (SO_RCVTIMEO)");
    return false;
  }
  Tracee Thread(S.Tid);
  if (!Thread.seize()) {
    if (errno == ESRCH)
      return false; // It ended just now.
    Report.How = BorrowReport::End::Refused;
    copyText(Report.Text, sizeof Report.Text, withErrno("ptrace", errno));
    return true;
  }
  ++Report.Tried;
  Thread.interrupt();
  switch (Thread.wait(StopTime)) {
  case Tracee::Stop::Asked:
    break;
  case Tracee::Stop::Gone:
    return false;
  case Tracee::Stop::Timeout:
    // It will stop some time, and only the end of this helper lets it go.
    note("a thread cannot be stopped");
    return true;
  case Tracee::Stop::Signal:
    note("a signal is waiting for it");
    Thread.detach(Thread.signal());
    return false;
  case Tracee::Stop::Group:
    note("the process is stopped");
    return false;
  }
  if (begin(Thread, RemoteCaller::Place::Wait, S.Name))
    return true;
  Caller->hideStop(Thread);
  return false;
}

bool Borrower::fromParked() {
  Clock::time_point End = Clock::now() + Options.ParkedTime;
  while (Clock::now() < End) {
    if (isAbandoned())
      return true;
    Seen = threadsOf(T.Info.Pid);
    llvm::erase_if(Seen, [](const ThreadState &S) {
      return S.Name == AgentThread;
    });
    if (Seen.empty())
      break;
    std::vector<SafeThread> Safe =
        rankThreads(T.Info.Pid, Seen, Text, Process);
    // A thread's stack may be younger than the maps we have.
    if (llvm::any_of(Safe, [&](const SafeThread &S) {
          return !Maps.find(S.Call.StackPointer);
        })) {
      if (llvm::Expected<ProcessMaps> Now = ProcessMaps::read(T.Info.Pid))
        Maps = std::move(*Now);
      else
        llvm::consumeError(Now.takeError());
    }
    for (const SafeThread &S : Safe)
      if (isAbandoned() || tryParked(S))
        return true;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return false;
}

/// At the entry of malloc: is the caller neither libc nor the dynamic linker
/// nor the allocator, any of which may hold a lock of its own there?
bool Borrower::mayCallHere(Tracee &Thread) {
  const Mapping *Caller = Maps.find(this->Caller->returnAddress(Thread));
  const Mapping *Allocator = Maps.find(T.Malloc);
  if (!Caller || !Allocator)
    return false;
  llvm::StringRef Name = Caller->name();
  return !isLibcName(Name) && !isLibpthreadName(Name) && !isLoaderName(Name) &&
         !isLibdlName(Name) && Caller->Path != Allocator->Path;
}

/// Stops a thread and sets a breakpoint at the entry of malloc. Otherwise
/// \p IsOver says whether the search is.
bool Borrower::setBreakpoint(Tracee &Thread, bool &IsOver) {
  IsOver = false;
  Thread.interrupt();
  Tracee::Stop Why = Thread.wait(StopTime);
  if (Why == Tracee::Stop::Gone)
    return false;
  if (Why == Tracee::Stop::Timeout) {
    note("a thread cannot be stopped");
    IsOver = true; // As in tryParked().
    return false;
  }
  bool IsSet =
      Why == Tracee::Stop::Asked && Caller->setBreakpoint(Thread, T.Malloc);
  if (!IsSet)
    note(Why == Tracee::Stop::Asked ? "the processor has no free breakpoint"
                                    : "it was stopped by a signal");
  Caller->hideStop(Thread);
  return IsSet;
}

/// A thread that stands at the entry of malloc, and is let go where the call
/// could not begin. True when the search is over.
bool Borrower::beginInMalloc(Tracee &Thread, bool Fits, llvm::StringRef Name) {
  Caller->setBreakpoint(Thread, 0);
  if (Fits && begin(Thread, RemoteCaller::Place::Function, Name))
    return true;
  note("malloc was called from inside libc");
  Thread.detach();
  return false;
}

/// True when the search is over.
bool Borrower::tryBreakpoint(const ThreadState &S, Clock::time_point Until) {
  Tracee Thread(S.Tid);
  if (!Thread.seize())
    return false;
  ++Report.Tried;
  bool IsOver;
  if (!setBreakpoint(Thread, IsOver))
    return IsOver;
  Thread.resume();
  bool Asked = false;
  for (;;) {
    Tracee::Stop Why = Thread.wait(milliseconds(20));
    if (Why == Tracee::Stop::Gone)
      return false;
    if (Why == Tracee::Stop::Timeout) {
      // Once only: the next stop comes in any case.
      if (!Asked && (Clock::now() >= Until || !Side.isWanted())) {
        Asked = true;
        Thread.interrupt();
      }
      continue;
    }
    if (Why == Tracee::Stop::Signal && Thread.signal() == SIGTRAP &&
        Caller->pc(Thread) == T.Malloc) {
      bool Fits = Side.isWanted() && mayCallHere(Thread);
      if (Fits || Asked || Clock::now() >= Until)
        return beginInMalloc(Thread, Fits, S.Name);
      Thread.resume(); // The kernel steps over the breakpoint.
      continue;
    }
    if (Why == Tracee::Stop::Signal) {
      Thread.resume(Thread.signal());
      continue;
    }
    // Asked for, or the whole process is being stopped. A stop comes before
    // signals: that of the breakpoint may be behind it and must not reach the
    // program.
    Caller->setBreakpoint(Thread, 0);
    if (Thread.hasPendingBreakpoint()) {
      Asked = true;
      Thread.resume();
      continue;
    }
    Caller->hideStop(Thread);
    Thread.detach();
    note("it did not call malloc in time");
    return false;
  }
}

bool Borrower::fromBreakpoint() {
  if (!T.Malloc) {
    note("the program's malloc was not found for a breakpoint");
    return false;
  }
  Clock::time_point End = Clock::now() + Options.BreakpointTime;
  std::map<pid_t, uint64_t> Before;
  while (Clock::now() < End) {
    if (isAbandoned())
      return true;
    std::vector<ThreadState> Threads = threadsOf(T.Info.Pid);
    llvm::erase_if(Threads, [](const ThreadState &S) {
      return S.Name == AgentThread || S.Call;
    });
    // The busiest since the last round first.
    std::map<pid_t, uint64_t> Used, Since;
    for (const ThreadState &S : Threads) {
      Used[S.Tid] = cpuTicks(T.Info.Pid, S.Tid);
      Since[S.Tid] = Used[S.Tid] - std::min(Used[S.Tid], Before[S.Tid]);
    }
    Before = std::move(Used);
    llvm::stable_sort(Threads, [&](const ThreadState &A, const ThreadState &B) {
      return Since[A.Tid] > Since[B.Tid];
    });
    for (const ThreadState &S : Threads) {
      if (isAbandoned())
        return true;
      if (Clock::now() >= End)
        break;
      if (tryBreakpoint(S, std::min(End, Clock::now() + BreakpointTurn)))
        return true;
    }
    if (Threads.empty())
      std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

void Borrower::run() {
  if (!Caller) {
    Report.How = BorrowReport::End::Refused;
    copyText(Report.Text, sizeof Report.Text,
             "attaching is not written for this processor");
    return;
  }
  if (!fromParked() && Options.BreakpointTime.count() > 0)
    fromBreakpoint();
  if (Report.How != BorrowReport::End::NoSafePoint)
    return;
  std::string All = describeThreads(Seen, Text, Process);
  for (const auto &[Why, Count] : Reasons)
    All += "; " + Why;
  copyText(Report.Text, sizeof Report.Text, All);
}

void borrowThread(const Target &T, CallRequest Request,
                  const InjectionOptions &Options,
                  HelperSide &Side, BorrowReport &Report) {
  Borrower(T, std::move(Request), Options, Side, Report).run();
}

} // namespace culprit::attach
