//===- Injection.h - Makes a running process call a function ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// From a process and a request to a call that was made. In order:
///
///   1. Threads that are blocked in a safe wait, best first (SafePoint.h). One
///      is stopped, looked at again, redirected and let go; a thread that is
///      not fit any more is let go as if nothing had been.
///   2. None for two seconds: a hardware breakpoint at the entry of the
///      program's malloc, in one busy thread after the other. At that
///      instruction the thread holds no lock of the allocator. Taken only when
///      it was not called from libc or the dynamic linker, which may hold
///      their own.
///   3. Else an error that says what was tried.
///
/// Other threads of the process are never stopped.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_INJECTION_H
#define CULPRIT_ATTACH_INJECTION_H

#include "Attach/Preflight.h"
#include <chrono>
#include <functional>

namespace culprit::attach {

struct InjectionOptions {
  std::chrono::milliseconds ParkedTime{2000}; ///< To look for a safe wait.
  std::chrono::milliseconds BreakpointTime{5000}; ///< Then, in all; 0 is never.
  std::chrono::milliseconds CallTime{10000}; ///< For the function to return.
  bool Trapping = false; ///< Restore by the tracer, for tests of that way.
  /// True ends the search for a thread, by an error.
  std::function<bool()> GivenUp = [] { return false; };
};

struct Injection {
  pid_t Thread = 0; ///< That was borrowed.
  std::string ThreadName;
  bool ByBreakpoint = false;
  unsigned Tried = 0; ///< Threads that were stopped, this one included.
  uint64_t Value = 0; ///< What the function returned.
  std::chrono::nanoseconds Stopped{}; ///< The thread under trace and not
                                      ///< running.
  std::chrono::nanoseconds Called{};  ///< From then to the function's return,
                                      ///< as seen from here.
};

/// Loads the library at \p Path, as the process sees it, by dlopen.
llvm::Expected<Injection> loadLibrary(const Target &T, llvm::StringRef Path,
                                      const InjectionOptions &Options = {});

/// Calls the function at \p Address of the process with \p Path.
llvm::Expected<Injection> callWithPath(const Target &T, uint64_t Address,
                                       llvm::StringRef Path,
                                       const InjectionOptions &Options = {});

/// Begins a session in the folder \p Path: loads the agent in it, or calls
/// the one that the process has already.
llvm::Expected<Injection> beginSession(const Target &T, llvm::StringRef Path,
                                       const InjectionOptions &Options = {});

/// Likewise where no library can be loaded from that folder: the process makes
/// a file in memory, which gets what is in \p Agent, loads it and closes it.
/// Four calls; what the injection tells is of the one that loads.
llvm::Expected<Injection>
beginSessionFromMemory(const Target &T, llvm::StringRef Path,
                       llvm::StringRef Agent,
                       const InjectionOptions &Options = {});

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_INJECTION_H
