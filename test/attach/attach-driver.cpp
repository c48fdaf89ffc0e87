//===- attach-driver.cpp - The injection alone ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the tests and the benchmark of lib/Attach run in place of culprit.
///
///   attach-driver examine PID             findings, one a line
///   attach-driver load PID FILE [OPTION]  dlopen of FILE
///   attach-driver begin PID FOLDER [..]   load or call FOLDER's agent
///   attach-driver session PID AGENT       as begin, in a folder made inside
///                                         the process's root
///   attach-driver threads PID             what each thread waits for
///
/// Options: --trap (restore by the tracer), --breakpoint (do not look for
/// parked threads), --parked (no breakpoint), --times N, --version TEXT (of the
/// agent that would be loaded).
///
//===----------------------------------------------------------------------===//

#include "Attach/Injection.h"
#include "Attach/SessionFolder.h"
#include "Attach/ThreadState.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <fcntl.h>
#include <thread>
#include <unistd.h>

using namespace culprit;
using namespace culprit::attach;

static int report(llvm::Error E) {
  for (const Diagnostic &D : toDiagnostics(std::move(E))) {
    llvm::errs() << "error: " << D.Message << "\n";
    if (!D.Hint.empty())
      llvm::errs() << "note: " << D.Hint << "\n";
  }
  return 1;
}

static int listThreads(pid_t Pid) {
  for (const ThreadState &T : threadsOf(Pid)) {
    llvm::outs() << T.Tid << " " << T.Name;
    if (T.Call)
      llvm::outs() << " call " << T.Call->Number << " arg2 "
                   << int64_t(T.Call->Arguments[2]);
    llvm::outs() << "\n";
  }
  return 0;
}

static int listFindings(const Preflight &P) {
  static const char *const Levels[] = {"note", "warning", "error"};
  for (const Finding &F : P.Findings)
    llvm::outs() << Levels[unsigned(checkLevel(F.Id))] << " "
                 << checkName(F.Id) << ": " << F.Reason << " -- " << F.Remedy
                 << "\n";
  return P.isRefused() ? 2 : 0;
}

/// Waits for the test agent's file in the session's folder.
static int runSession(const Target &T, llvm::StringRef Agent,
                      const InjectionOptions &Options) {
  llvm::Expected<SessionFolder> Folder = SessionFolder::create(T.Info);
  if (!Folder)
    return report(Folder.takeError());
  if (llvm::Error E = Folder->addAgent(Agent))
    return report(std::move(E));
  llvm::Expected<Injection> Done = beginSession(T, Folder->path(), Options);
  if (!Done)
    return report(Done.takeError());
  bool Ran = false;
  for (unsigned I = 0; I < 200 && !Ran; ++I) {
    Ran = ::faccessat(Folder->descriptor(), "ran", F_OK, 0) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::unlinkat(Folder->descriptor(), "ran", 0);
  llvm::outs() << "folder=" << Folder->path() << " ran=" << Ran << "\n";
  return Ran ? 0 : 1;
}

int main(int Count, char **Words) {
  pid_t Pid = 0;
  if (Count < 3 || llvm::StringRef(Words[2]).getAsInteger(10, Pid))
    return report(failure("usage: attach-driver WHAT PID ..."));
  llvm::StringRef What = Words[1];
  InjectionOptions Options;
  unsigned Times = 1;
  llvm::StringRef Version = "culprit test";
  for (int I = 3; I < Count; ++I) {
    llvm::StringRef Word = Words[I];
    if (Word == "--trap")
      Options.Trapping = true;
    else if (Word == "--breakpoint")
      Options.ParkedTime = std::chrono::milliseconds(-1);
    else if (Word == "--parked")
      Options.BreakpointTime = std::chrono::milliseconds(0);
    else if (Word == "--times" && I + 1 < Count)
      (void)llvm::StringRef(Words[++I]).getAsInteger(10, Times);
    else if (Word == "--version" && I + 1 < Count)
      Version = Words[++I];
  }
  if (What == "threads")
    return listThreads(Pid);
  if (What != "examine" && Count < 4)
    return report(failure("attach-driver " + What + ": no path given"));
  Preflight P;
  for (unsigned I = 0; I < Times; ++I) {
    // Anew when the agent has come; then as fast as can be, so that a kill at
    // a random moment finds an injection under way.
    if (I < 2)
      P = examine(Pid, Version);
    if (What == "examine")
      return listFindings(P);
    if (llvm::Error E = P.refusal())
      return report(std::move(E));
    if (What == "session")
      return runSession(P.Process, Words[3], Options);
    llvm::Expected<Injection> Done =
        What == "load" ? loadLibrary(P.Process, Words[3], Options)
                       : beginSession(P.Process, Words[3], Options);
    if (!Done)
      return report(Done.takeError());
    llvm::outs() << "thread=" << Done->Thread << " name=" << Done->ThreadName
                 << " by=" << (Done->ByBreakpoint ? "breakpoint" : "wait")
                 << " tried=" << Done->Tried
                 << llvm::format(" stopped_us=%.1f called_us=%.1f\n",
                                 double(Done->Stopped.count()) / 1e3,
                                 double(Done->Called.count()) / 1e3);
    llvm::outs().flush();
  }
  return 0;
}
