//===- Agent.cpp - How the agent begins -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The ways in: dlopen by an injected call (the constructor finds the
/// session's folder beside the library), culprit_agent_begin for a second
/// session, and InitializeInjection, which libcuda calls in a process that was
/// launched with CUDA_INJECTION64_PATH. Each starts the agent's thread and
/// returns. InitializeInjectionNvtx2 is for NVTX, of which each module of the
/// program has its own, and starts nothing.
///
//===----------------------------------------------------------------------===//

#include "Agent/Describe.h"
#include "Agent/Session.h"
#include "Agent/Text.h"
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace culprit;
using namespace culprit::agent;

#define EXPORTED extern "C" __attribute__((visibility("default")))

/// Enough for CUPTI's calls; the default of 8 MiB is somebody's memory limit.
static constexpr size_t StackBytes = 1 << 20;

/// What the agent's thread does not block. A fault under a blocked signal ends
/// the process without the application's handler, and SIGSYS is how sandboxes
/// answer system calls; 32 and 33 are the C library's own, without which
/// setuid() of any thread would wait for ours for ever.
static constexpr uint64_t bitOf(int Signal) {
  return uint64_t(1) << (Signal - 1);
}
static constexpr uint64_t LeftOpen =
    bitOf(SIGSEGV) | bitOf(SIGBUS) | bitOf(SIGILL) | bitOf(SIGFPE) |
    bitOf(SIGTRAP) | bitOf(SIGSYS) | bitOf(32) | bitOf(33);

/// For which a program waits while CUPTI begins, ms. It takes some tenths of a
/// second, with many devices some seconds; one that hangs is not waited for.
static constexpr unsigned MostWait = 30000;

static Session::Origin TheOrigin;
static uint32_t Running; ///< 1 while there is a session.
static uint32_t Hooked;  ///< 1 when the handler of fork is set.

static void *runSession(void *) {
  TheSession.run(TheOrigin);
  __atomic_store_n(&Running, 0, __ATOMIC_RELEASE);
  return nullptr;
}

static void afterFork() {
  TheSession.forget();
  __atomic_store_n(&Running, 0, __ATOMIC_RELEASE);
}

/// Starts the thread with signals blocked: they are the application's.
static int startThread() {
  uint64_t All = ~LeftOpen, Before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &All, &Before, sizeof(All));
  pthread_attr_t Attributes;
  pthread_attr_init(&Attributes);
  pthread_attr_setstacksize(&Attributes, StackBytes);
  pthread_attr_setdetachstate(&Attributes, PTHREAD_CREATE_DETACHED);
  pthread_t Thread;
  int Error = pthread_create(&Thread, &Attributes, runSession, nullptr);
  pthread_attr_destroy(&Attributes);
  // glibc takes a library's thread-local memory out of the stack, and refuses
  // one that is too small for it.
  if (Error == EINVAL) {
    pthread_attr_init(&Attributes);
    pthread_attr_setdetachstate(&Attributes, PTHREAD_CREATE_DETACHED);
    Error = pthread_create(&Thread, &Attributes, runSession, nullptr);
    pthread_attr_destroy(&Attributes);
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &Before, nullptr, sizeof(Before));
  return Error;
}

/// Takes the place of the one session. One that has said that it is done goes
/// in some microseconds, on a busy machine in some milliseconds; who heard it
/// may ask for the next in that time.
static bool takeTurn() {
  constexpr unsigned Most = 1000; // ms
  for (unsigned Waited = 0;
       __atomic_exchange_n(&Running, 1, __ATOMIC_ACQ_REL); ++Waited) {
    if (!TheSession.isDone() || Waited == Most)
      return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

/// Begins a session as \p From says. 0; 1 when one is under way; 2 when there
/// can be no thread.
static int begin(const Session::Origin &From) {
  if (!takeTurn())
    return 1;
  TheOrigin = From;
  TheSession.start();
  if (!__atomic_exchange_n(&Hooked, 1, __ATOMIC_ACQ_REL))
    pthread_atfork(nullptr, nullptr, afterFork);
  if (startThread() == 0)
    return 0;
  TheSession.cancel();
  __atomic_store_n(&Running, 0, __ATOMIC_RELEASE);
  return 2;
}

static int beginIn(const char *Folder) {
  Session::Origin From;
  From.How = capture::Entry::Attached;
  copyText(From.Folder, Folder);
  copyText(From.Socket, capture::ControlFile);
  return begin(From);
}

EXPORTED const char culprit_agent_version[64] = "culprit " CULPRIT_VERSION;

EXPORTED int culprit_agent_begin(const char *Folder) { return beginIn(Folder); }

/// Loaded from a session's folder, the agent begins at once; loaded from where
/// it is installed, it waits to be called.
__attribute__((constructor)) static void loaded() {
  Dl_info Self;
  if (!dladdr(reinterpret_cast<void *>(&loaded), &Self) || !Self.dli_fname)
    return;
  char Folder[512];
  copyText(Folder, Self.dli_fname);
  char *Slash = strrchr(Folder, '/');
  if (!Slash)
    return;
  *Slash = 0;
  char Socket[600];
  Text(Socket, sizeof(Socket)) << Folder << "/" << capture::ControlFile;
  if (access(Socket, F_OK) == 0)
    beginIn(Folder);
}

/// Another program that this process was, or one with its number in another
/// container, may have the name: then a number comes behind that of the
/// process.
static void takeFreeName(Session::Origin &From) {
  const char *Mark = strstr(From.Fallback, "%p");
  if (!Mark)
    return;
  char Name[sizeof(From.Fallback)], Path[600];
  copyText(Name, From.Fallback);
  for (uint32_t I = 2; I < 1000; ++I) {
    capturePath(Path, sizeof(Path), Name);
    if (access(Path, F_OK) != 0)
      break;
    copyText(Name, From.Fallback);
    size_t Begin = static_cast<size_t>(Mark + 2 - From.Fallback);
    Text(Name + Begin, sizeof(Name) - Begin) << "-" << I << Mark + 2;
  }
  copyText(From.Fallback, Name);
}

/// Called by libcuda while the application initialises CUDA. Returns when
/// records are being made, so that the first kernel is among them.
EXPORTED int InitializeInjection(void) {
  Session::Origin From;
  From.How = capture::Entry::Launched;
  if (const char *Socket = getenv(capture::ControlVariable)) {
    copyText(From.Folder, Socket);
    if (char *Slash = strrchr(From.Folder, '/')) {
      *Slash = 0;
      copyText(From.Socket, Slash + 1);
    }
  }
  if (const char *Pattern = getenv(capture::FallbackVariable))
    copyText(From.Fallback, Pattern);
  if (const char *Options = getenv(capture::OptionsVariable))
    copyText(From.Options, Options);
  if (isAwaited(From.Fallback, From.Options))
    takeFreeName(From);
  else
    From.Fallback[0] = 0;
  if (begin(From) == 0)
    TheSession.waitStarted(
        static_cast<unsigned>(option(From.Options, "wait", MostWait)));
  return 1;
}

/// Called by each NVTX of a process that was launched with
/// NVTX_INJECTION64_PATH, at its first range: often before cuInit, in any
/// thread. 0 leaves that NVTX off for good. No lock is held over what the
/// loader does: the caller may be in a constructor of a library.
EXPORTED int InitializeInjectionNvtx2(void *GetExportTable) {
  return GetExportTable &&
         cupti::followNvtx(GetExportTable, getenv(capture::CuptiVariable),
                           TheSession.isActive());
}
