//===- Session.h - One capture of this process ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the agent's thread does from the first word to culprit to the last.
/// All of CUPTI, CUDA and the files is touched by this thread, beside the
/// callbacks of CUPTI itself.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_SESSION_H
#define CULPRIT_AGENT_SESSION_H

#include "Agent/Channel.h"
#include "Agent/StreamCaptures.h"
#include "Agent/Sink.h"

namespace culprit::agent {

/// There is one in a process; it can run again after it has ended.
class Session {
public:
  /// Where culprit listens, or where to write when it does not.
  struct Origin {
    capture::Entry How = capture::Entry::Attached;
    char Folder[512] = {};
    char Socket[64] = {};
    char Fallback[512] = {}; ///< Path of the capture; `%p` is the pid.
    char Options[256] = {};  ///< For it: `max-size=...,kinds=...`.
  };

  /// Says that a session is about to run.
  void start();
  /// Takes start() back.
  void cancel();
  /// Runs a session on the calling thread.
  void run(const Origin &From);

  /// Waits until the kinds are enabled or it failed, at most \p Timeout ms.
  /// After that the session tells that the program was not kept waiting.
  void waitStarted(unsigned Timeout);
  /// Ends a running session since the process ends, and waits for it at most
  /// \p Timeout ms. Callable from an exit handler.
  void endAtExit(unsigned Timeout);
  /// Whether records are being made.
  bool isActive() const {
    return __atomic_load_n(&Phase, __ATOMIC_ACQUIRE) == 2;
  }
  /// Whether the last session has said, or is about to say, that it is done:
  /// its thread ends in microseconds, on a busy machine in milliseconds.
  bool isDone() const {
    return __atomic_load_n(&Phase, __ATOMIC_ACQUIRE) >= 3;
  }
  /// In a child after fork(), where the thread is not.
  void forget();

private:
  bool begin(const Origin &From);
  bool begunByFallback(const Origin &From);
  bool findCuda();
  bool isRefused(const Origin &From);
  bool subscribe(const Origin &From);
  void setAttributes(const Origin &From);
  void watchCaptures(bool FromStart);
  bool mayFinalize(int Domain, uint32_t Id, const cupti::CallbackData &Data);
  uint64_t enable();
  void enableCalls();
  void fail(capture::StateCode Code, uint32_t Result, const char *What);
  void tellLate(uint64_t Begin);
  void tellEnd(capture::DoneMessage &M);
  bool isChild() const;
  void wakeUp();
  void openWakeUp();
  void closeWakeUp();
  capture::EndReason record();
  bool isOver(capture::EndReason &Why) const;
  void tick(uint64_t At);
  uint64_t dropped();
  void waitForBuffers(uint32_t Turn);
  uint64_t agentTime() const { return threadTime() + Records.callbackTime(); }
  void disable();
  void restore();
  capture::StateCode detach();
  void describe(capture::Superblock &Head, const Origin &From);

  static void onRequest(uint8_t **Buffer, size_t *Size, size_t *MaxRecords);
  static void onComplete(cupti::Context *C, uint32_t Stream, uint8_t *Buffer,
                         size_t Size, size_t Valid);
  static void onCall(void *User, int Domain, uint32_t Id,
                     const cupti::CallbackData *Data);

  cupti::Api A;
  cupti::Subscriber *Subscriber = nullptr;
  Channel Control;
  Sink Records;
  StreamCaptures Captures;
  capture::StartMessage Asked = {};
  int File = -1;
  /// Of a session that culprit does not hear of; null of any other.
  const Origin *Alone = nullptr;
  uint64_t Enabled = 0;
  uint64_t NextSecond = 0;
  bool WholeDriver = false; ///< All driver calls are enabled.
  bool HasThreadIds = false;
  int ThreadIds = 0;  ///< As they were before.
  uint32_t Ended = 0; ///< Sessions before.
  bool HasExitHandler = false;
  // Words between threads, by atomic operations.
  uint32_t Phase = 0; ///< 0 idle, 1 starting, 2 recording, 3 done, 4 gone.
  uint32_t ExitAsked = 0;
  uint32_t LetGo = 0; ///< The program goes on though it should wait.
  uint32_t Pid = 0;   ///< Of the process that has the thread.
  Lock WakeLock;
  int WakeFile = -1;  ///< An eventfd that ends a wait; behind WakeLock.
  uint64_t Began = 0, CallsFrom = 0; ///< ticks().
  uint32_t Finalizing = 0; ///< One of those below.
  static constexpr uint32_t FinalizeNot = 0, FinalizeInWait = 1,
                            FinalizeInAny = 2, FinalizeRuns = 3,
                            FinalizeDone = 4;
};

extern Session TheSession;

} // namespace culprit::agent

#endif // CULPRIT_AGENT_SESSION_H
