//===- Preflight.h - Can this process be attached to? -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Everything that can be known before a thread is stopped. Each obstacle has a
/// name (Checks.def), a sentence for what is so and one for what to do. A
/// refusal means that nothing was touched.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_PREFLIGHT_H
#define CULPRIT_ATTACH_PREFLIGHT_H

#include "Attach/LinkMap.h"
#include "Attach/ProcessInfo.h"
#include "Attach/ProcessMaps.h"
#include "Support/Error.h"

namespace culprit::attach {

enum class Check {
#define ATTACH_CHECK(Id, Name, Level) Id,
#include "Attach/Checks.def"
};

/// "not-permitted", for machine-readable output.
llvm::StringRef checkName(Check Id);
/// Error is a refusal.
Severity checkLevel(Check Id);

struct Finding {
  Check Id;
  std::string Reason; ///< A sentence in the form of an error message.
  std::string Remedy; ///< What to do; empty where nothing need be done.
};

/// An agent of culprit that is in the process already.
struct LoadedAgent {
  std::string Version;
  uint64_t Begin = 0; ///< Address of culprit_agent_begin.
};

/// Is \p Name, the last part of a mapping's path, the agent's?
bool isAgentName(llvm::StringRef Name);

/// A process and the addresses that a call needs.
struct Target {
  ProcessInfo Info;
  ProcessMaps Maps;
  uint64_t Debug = 0; ///< Address of r_debug.
  uint64_t Dlopen = 0;
  uint64_t DlopenFlags = 0;
  uint64_t Dlerror = 0, ErrnoLocation = 0; ///< 0 when there is none.
  uint64_t Malloc = 0; ///< The one that the program's calls reach, or 0.
  uint64_t MemfdCreate = 0, Close = 0; ///< 0 before glibc 2.27.
  std::optional<LoadedAgent> Agent;
  bool HasCuda = false;
  std::string Cupti; ///< Path of a libcupti in the process, or empty.
};

struct Preflight {
  Target Process;
  std::vector<Finding> Findings; ///< In the order of Checks.def.

  bool isRefused() const;
  /// The first refusal as an error, or success.
  llvm::Error refusal() const;
};

/// Looks at process \p Pid. \p AgentVersion is that of the agent to be loaded:
/// another one in the process is a refusal. Never fails: what cannot be looked
/// at is a finding.
Preflight examine(pid_t Pid, llvm::StringRef AgentVersion);

/// The reason that a process of \p Status may not be traced by a process of
/// \p Own, when the kernel has said so. \p Yama is kernel.yama.ptrace_scope, 0
/// when there is none.
Finding whyNotPermitted(const ProcessInfo &Info, const ProcessStatus &Own,
                        unsigned Yama, bool InContainer);

/// Other users of CUPTI among the libraries of \p Maps and in \p Environment
/// (entries that end with zero bytes).
std::vector<Finding> otherClients(const ProcessMaps &Maps,
                                  llvm::StringRef Environment);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_PREFLIGHT_H
