//===- Session.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Session.h"
#include "Agent/Describe.h"
#include "Agent/Text.h"
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace culprit::capture;

namespace culprit::agent {

// Without a constructor at run time: this library's constructor starts a thread
// that uses it, in whatever order the two would come.
constinit Session TheSession;

static uint32_t load(uint32_t &Word) {
  return __atomic_load_n(&Word, __ATOMIC_ACQUIRE);
}
static void store(uint32_t &Word, uint32_t Value) {
  __atomic_store_n(&Word, Value, __ATOMIC_RELEASE);
}

/// Until the word leaves the values below \p Least, by looking: this is
/// called a few times in a life.
static void waitFor(uint32_t &Word, uint32_t Least, unsigned Timeout) {
  for (unsigned Waited = 0; load(Word) < Least && Waited < Timeout; ++Waited)
    poll(nullptr, 0, 1);
}

static void atExit() { TheSession.endAtExit(3000); }

/// Whether this process is a child that was made without the handlers of fork,
/// as by a system call: it has all of the memory and not the thread.
bool Session::isChild() const {
  return __atomic_load_n(&Pid, __ATOMIC_RELAXED) !=
         static_cast<uint32_t>(getpid());
}

void Session::openWakeUp() {
  Holding H(WakeLock);
  WakeFile = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void Session::closeWakeUp() {
  Holding H(WakeLock);
  closeOnce(WakeFile);
}

/// Without it the session comes to what is asked of it some time later.
void Session::wakeUp() {
  Holding H(WakeLock);
  if (WakeFile >= 0)
    eventfd_write(WakeFile, 1);
}

void Session::start() {
  __atomic_store_n(&Pid, static_cast<uint32_t>(getpid()), __ATOMIC_RELAXED);
  store(LetGo, 0);
  store(ExitAsked, 0);
  store(Finalizing, 0);
  store(Phase, 1);
}

void Session::cancel() { store(Phase, 4); }

void Session::waitStarted(unsigned Timeout) {
  waitFor(Phase, 2, Timeout);
  if (load(Phase) < 2)
    store(LetGo, 1);
}

void Session::endAtExit(unsigned Timeout) {
  uint32_t P = load(Phase);
  if (P == 0 || P == 4 || isChild())
    return;
  store(ExitAsked, 1);
  wakeUp();
  waitFor(Phase, 4, Timeout);
}

void Session::forget() {
  // CUDA does not work in a child of fork; nothing is undone. But the file is
  // the parent's: what CUPTI still hands over here must not get into it.
  Records.forget();
  WakeLock = Lock();
  closeWakeUp();
  store(Phase, 0);
  store(Finalizing, 0);
  Control.close();
  closeOnce(File);
}

void Session::fail(StateCode Code, uint32_t Result, const char *What) {
  FailedMessage M = {};
  M.Code = Code;
  M.Result = Result;
  copyText(M.What, What);
  Control.send(MessageType::Failed, M);
}

void Session::run(const Origin &From) {
  // CUPTI's threads inherit the name of the one that starts them: they are not
  // this agent's.
  char Name[16];
  processName(Name);
  if (Name[0])
    prctl(PR_SET_NAME, Name);
  openWakeUp();
  if (begin(From)) {
    store(Phase, 2);
    EndReason Why = record();
    uint64_t Stopped = ticks();
    // While the process ends, CUPTI is left to itself as far as possible.
    if (Why != EndReason::Exit)
      disable();
    // The last buffers, also those that are not full.
    uint32_t Turn = Records.turn();
    A.ActivityFlushAll(cupti::FlushForced);
    waitForBuffers(Turn);
    // Before the detach: afterwards any call would attach CUPTI again.
    uint64_t LastDropped = dropped();
    if (Why != EndReason::Exit)
      restore();
    StateCode Detached = detach();
    waitForBuffers(Turn);
    Records.addState(Detached, 0,
                     Detached == StateCode::FullDetach
                         ? "cuptiFinalize was called"
                         : "CUPTI stays in the process, idle");
    DoneMessage M = {};
    M.Reason = Records.finish(Why, LastDropped);
    M.Detach = Detached;
    Records.status(M.Last);
    M.Last.AgentCpu = agentTime();
    M.FinishTime = ticks() - Stopped;
    tellEnd(M);
    Records.close();
    // Who hears this may attach again at once: what takes time is behind us.
    store(Phase, 3);
    Control.send(MessageType::Done, M);
  }
  closeOnce(File);
  Control.close();
  Alone = nullptr;
  closeWakeUp();
  ++Ended;
  store(Phase, 4);
}

bool Session::begin(const Origin &From) {
  Alone = nullptr;
  if (Control.connect(From.Folder, From.Socket)) {
    HelloMessage Hello = {};
    Hello.Protocol = ProtocolVersion;
    Hello.Pid = static_cast<uint32_t>(getpid());
    Hello.Thread = static_cast<uint32_t>(syscall(SYS_gettid));
    Hello.How = From.How;
    Hello.Sessions = Ended;
    copyText(Hello.Agent, AgentVersion);
    cupti::loadedLibrary("libcupti", Hello.CuptiPath,
                         sizeof(Hello.CuptiPath));
    if (!Control.send(MessageType::Hello, Hello) ||
        !Control.receiveStart(Asked, File, 10000))
      return false;
  } else if (!begunByFallback(From)) {
    return false;
  }
  // Pools are told by records of their own.
  if (Asked.Kinds >> unsigned(RecordKind::Memory) & 1)
    Asked.Kinds |= uint64_t(1) << unsigned(RecordKind::Pool);
  Began = ticks();
  CallsFrom = 0;
  uint64_t Begin = Began;
  if (!findCuda() || isRefused(From))
    return false;
  Superblock Head;
  describe(Head, From);
  if (int Error = Records.open(A, File, Head, Asked)) {
    char What[128];
    Text(What, sizeof(What)) << "the capture file cannot be written, errno "
                             << Error;
    fail(StateCode::FileFailed, static_cast<uint32_t>(Error), What);
    return false;
  }
  if (!subscribe(From)) {
    Records.close();
    return false;
  }
  if (Asked.CuptiPath[0] && strcmp(Asked.CuptiPath, A.Path)) {
    char What[600];
    Text(What, sizeof(What)) << "not " << Asked.CuptiPath << " but " << A.Path
                             << " is used, which the process has";
    Records.addState(StateCode::Note, 0, What);
  }
  if (A.Version == cupti::BadVersion)
    Records.addState(StateCode::Note, 0,
                     "CUPTI 13.0 before its Update 1 can hang when kernels are "
                     "switched off: it stays in the process and goes on, and "
                     "ranges of NVTX that begin before CUDA are left out");
  Records.addClock();
  watchCaptures(From.How == Entry::Launched);
  Enabled = enable();
  StartedMessage M = {};
  M.Cupti = A.Version;
  M.Driver = A.Driver;
  M.Kinds = Enabled;
  M.EnableTime = ticks() - Begin;
  if (load(LetGo))
    tellLate(M.EnableTime);
  copyText(M.CuptiPath, A.Path);
  // What exists already is told now: a file that becomes full has it.
  A.ActivityFlushAll(0);
  prctl(PR_SET_NAME, "culprit");
  // After CUPTI was loaded, so as to run before CUPTI's own handlers; before
  // anybody hears that it began, as the program may end at once.
  if (!HasExitHandler)
    HasExitHandler = atexit(atExit) == 0;
  Control.send(MessageType::Started, M);
  NextSecond = ticks() + 1000000000u;
  return true;
}

/// A process that began without CUPTI must not die of it.
bool Session::isRefused(const Origin &From) {
  if (From.How != Entry::Attached || A.Version != cupti::BadVersion)
    return false;
  cupti::unload(A);
  fail(StateCode::CuptiFailed, 0,
       "CUPTI 13.0 before its Update 1 can crash a running process: update to "
       "13.0 Update 1, or give another libcupti with --cupti PATH where the "
       "process has none; 'culprit record' works");
  return true;
}

/// Waits for a process that has no CUDA yet, then loads CUPTI.
bool Session::findCuda() {
  char Path[cupti::MaxPath];
  uint64_t Until = ticks() + uint64_t(Asked.WaitForCuda) * 1000000u;
  while (!cupti::loadedLibrary("libcuda", Path, sizeof(Path))) {
    if (ticks() >= Until || load(ExitAsked)) {
      fail(StateCode::CuptiMissing, 0,
           "the process has not loaded CUDA (libcuda.so.1)");
      return false;
    }
    if (Control.wait(100, WakeFile) != Channel::Event::Nothing)
      return false;
  }
  char Why[400];
  if (cupti::load(A, Asked.CuptiPath, Why, sizeof(Why)))
    return true;
  char What[496];
  Text(What, sizeof(What)) << "no libcupti for this process: " << Why;
  fail(StateCode::CuptiMissing, 0, What);
  return false;
}

/// Buffers may be on their way on a thread of CUPTI's when a flush returns, for
/// long on a busy machine. Those that stay, as they have no records, must not
/// be waited for long, nor those that threads took after \p Turn, which go on
/// while the process ends.
void Session::waitForBuffers(uint32_t Turn) {
  constexpr unsigned Most = 1000; // ms
  // While the process ends, nobody waits for what is empty.
  const unsigned Still = load(ExitAsked) ? 2 : 100;
  unsigned Out = Records.buffersInUse();
  for (unsigned Waited = 0, Since = 0; Out && Waited < Most && Since < Still;
       ++Waited, ++Since) {
    poll(nullptr, 0, 1);
    unsigned Now = Records.buffersInUse();
    if (Now != Out || Records.buffersFilled(Turn))
      Since = 0;
    Out = Now;
  }
}

/// Seconds with one decimal.
static Text &addSeconds(Text &To, uint64_t Ns) {
  return To << Ns / 1000000000u << "." << Ns / 100000000u % 10 << " s";
}

/// The program was let go before all kinds were enabled, \p Whole ns after the
/// begin.
void Session::tellLate(uint64_t Whole) {
  char What[160];
  Text T(What, sizeof(What));
  T << "CUPTI took ";
  addSeconds(T, Whole) << " to begin, for which the program did not wait";
  if (CallsFrom) {
    T << ": calls are recorded from +";
    addSeconds(T, CallsFrom - Began) << " on";
  }
  Records.addState(StateCode::Late, 0, What);
}

/// What the user must know of the end.
void Session::tellEnd(DoneMessage &M) {
  Text T(M.What, sizeof(M.What));
  if (int Error = Records.error()) {
    T << "write failed, errno " << Error;
    return;
  }
  if (M.Last.Overwritten) {
    uint64_t End = now();
    T << "the last ";
    addSeconds(T, End - M.Last.KeptFrom) << " of ";
    addSeconds(T, ticks() - Began)
        << " are kept: " << M.Last.Overwritten
        << " older records were overwritten";
    return;
  }
  if (load(LetGo) && CallsFrom) {
    T << "the program did not wait for CUPTI, which took long to begin: calls "
         "are recorded from +";
    addSeconds(T, CallsFrom - Began) << " on";
  }
}

EndReason Session::record() {
  while (true) {
    // It may have been asked before there was something to wake up.
    Channel::Event Said = load(ExitAsked) ? Channel::Event::Nothing
                                          : Control.wait(100, WakeFile);
    if (load(ExitAsked))
      return EndReason::Exit;
    switch (Said) {
    case Channel::Event::Stop:
      return EndReason::Detached;
    case Channel::Event::Lost:
      return EndReason::ControlLost;
    case Channel::Event::Nothing:
      break;
    }
    tick(ticks());
    if (Records.isFull())
      return EndReason::FileFull;
    if (EndReason Why; isOver(Why))
      return Why;
  }
}

void Session::tick(uint64_t At) {
  // Only complete buffers and records: never waits for the device.
  A.ActivityFlushAll(0);
  Records.flush(dropped());
  if (At >= NextSecond) {
    NextSecond = At + 1000000000u;
    Records.addClock();
    Records.addHeartbeat(agentTime());
  }
  StatusMessage M;
  Records.status(M);
  M.AgentCpu = agentTime();
  Control.offer(MessageType::Status, M);
}

/// Records that CUPTI lost since it was last asked.
uint64_t Session::dropped() {
  size_t Count = 0;
  if (A.ActivityGetNumDroppedRecords(nullptr, 0, &Count) != cupti::Success)
    return 0;
  return Count;
}

void Session::describe(Superblock &Head, const Origin &From) {
  describeProcess(Head);
  Head.How = From.How;
  Head.Cupti = A.Version;
  Head.Driver = A.Driver;
  Head.Kinds = Asked.Kinds;
  copyText(Head.CuptiPath, A.Path);
}

} // namespace culprit::agent
