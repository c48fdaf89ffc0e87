//===- Session.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Session.h"
#include "Agent/Describe.h"
#include "Agent/Text.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
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

void Session::start() {
  store(ExitAsked, 0);
  store(Finalizing, 0);
  store(Phase, 1);
}

void Session::cancel() { store(Phase, 3); }

void Session::waitStarted(unsigned Timeout) { waitFor(Phase, 2, Timeout); }

void Session::endAtExit(unsigned Timeout) {
  uint32_t P = load(Phase);
  if (P == 0 || P == 3)
    return;
  store(ExitAsked, 1);
  waitFor(Phase, 3, Timeout);
}

void Session::forget() {
  // CUDA does not work in a child of fork; nothing is undone. But the file is
  // the parent's: what CUPTI still hands over here must not get into it.
  Records.forget();
  store(Phase, 0);
  store(Finalizing, 0);
  Control.close();
  if (File >= 0)
    ::close(File);
  File = -1;
}

void Session::fail(StateCode Code, uint32_t Result, const char *What) {
  FailedMessage M = {};
  M.Code = Code;
  M.Result = Result;
  copyText(M.What, What);
  Control.send(MessageType::Failed, M);
}

void Session::run(const Origin &From) {
  if (begin(From)) {
    store(Phase, 2);
    EndReason Why = record();
    uint64_t Stopped = ticks();
    // While the process ends, CUPTI is left to itself as far as possible.
    if (Why != EndReason::Exit)
      disable();
    // The last buffers, also those that are not full.
    A.ActivityFlushAll(cupti::FlushForced);
    waitForBuffers();
    // Before the detach: afterwards any call would attach CUPTI again.
    uint64_t LastDropped = dropped();
    if (Why != EndReason::Exit)
      restore();
    StateCode Detached = detach();
    if (unsigned Out = waitForBuffers()) {
      char What[96];
      Text(What, sizeof(What))
          << Out << " buffers, empty ones maybe, stayed with CUPTI";
      Records.addState(StateCode::Note, 0, What);
    }
    Records.addState(Detached, 0,
                     Detached == StateCode::FullDetach
                         ? "cuptiFinalize was called"
                         : "CUPTI stays in the process, idle");
    Records.finish(Why, LastDropped);
    DoneMessage M = {};
    M.Reason = Why;
    M.Detach = Detached;
    Records.status(M.Last);
    M.Last.AgentCpu = agentTime();
    M.FinishTime = ticks() - Stopped;
    if (int Error = Records.error())
      Text(M.What, sizeof(M.What)) << "write failed, errno " << Error;
    Control.send(MessageType::Done, M);
    Records.close();
  }
  if (File >= 0)
    ::close(File);
  File = -1;
  Control.close();
  ++Ended;
  store(Phase, 3);
}

bool Session::begin(const Origin &From) {
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
  uint64_t Begin = ticks();
  if (!findCuda())
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
  if (!subscribe()) {
    Records.close();
    return false;
  }
  Records.addClock();
  Enabled = enable();
  StartedMessage M = {};
  M.Cupti = A.Version;
  M.Driver = A.Driver;
  M.Kinds = Enabled;
  M.EnableTime = ticks() - Begin;
  copyText(M.CuptiPath, A.Path);
  Control.send(MessageType::Started, M);
  NextSecond = ticks() + 1000000000u;
  // After CUPTI was loaded, so as to run before CUPTI's own handlers.
  if (!HasExitHandler)
    HasExitHandler = atexit(atExit) == 0;
  return true;
}

bool Session::begunByFallback(const Origin &From) {
  if (!From.Fallback[0])
    return false;
  Asked = startFromOptions(From.Options);
  char Path[600];
  capturePath(Path, sizeof(Path), From.Fallback);
  File = open(Path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  return File >= 0;
}

/// Waits for a process that has no CUDA yet, then loads CUPTI.
bool Session::findCuda() {
  char Path[256];
  uint64_t Until = ticks() + uint64_t(Asked.WaitForCuda) * 1000000u;
  while (!cupti::loadedLibrary("libcuda", Path, sizeof(Path))) {
    if (ticks() >= Until || load(ExitAsked)) {
      fail(StateCode::CuptiMissing, 0,
           "the process has not loaded CUDA (libcuda.so.1)");
      return false;
    }
    if (Control.wait(100) != Channel::Event::Nothing)
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

/// Buffers may be on their way on a thread of CUPTI's when a flush returns.
/// Those that stay, as they have no records, must not be waited for long. Gives
/// how many they are.
unsigned Session::waitForBuffers() {
  constexpr unsigned Most = 1000, Still = 100; // ms
  unsigned Out = Records.buffersInUse();
  for (unsigned Waited = 0, Since = 0; Out && Waited < Most && Since < Still;
       ++Waited, ++Since) {
    poll(nullptr, 0, 1);
    unsigned Now = Records.buffersInUse();
    if (Now != Out)
      Since = 0;
    Out = Now;
  }
  return Out;
}

EndReason Session::record() {
  while (true) {
    switch (Control.wait(100)) {
    case Channel::Event::Stop:
      return EndReason::Detached;
    case Channel::Event::Lost:
      return EndReason::ControlLost;
    case Channel::Event::Nothing:
      break;
    }
    if (load(ExitAsked))
      return EndReason::Exit;
    tick(ticks());
    if (Records.isFull())
      return EndReason::FileFull;
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
