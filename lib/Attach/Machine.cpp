//===- Machine.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Machine.h"
#include "Attach/ProcFile.h"
#include <cstdlib>
#include <unistd.h>

namespace culprit::attach {

bool isGvisorKernel() {
  // Its words for /proc/version, the same in all of its releases.
  return llvm::StringRef(readSmallFile("/proc/version").value_or(""))
      .contains("#1 SMP Sun Jan 10 15:06:54 PST 2016");
}

unsigned yamaScope() {
  unsigned Scope = 0;
  if (std::optional<std::string> Text =
          readSmallFile("/proc/sys/kernel/yama/ptrace_scope"))
    (void)llvm::StringRef(*Text).trim().getAsInteger(10, Scope);
  return Scope;
}

bool mayTraceAll(const ProcessStatus &Own) {
  constexpr uint64_t TraceCapability = uint64_t(1) << 19; // CAP_SYS_PTRACE
  return (Own.Effective & TraceCapability) != 0;
}

llvm::StringRef containerName() {
  if (::access("/.dockerenv", F_OK) == 0)
    return "Docker";
  if (::access("/run/.containerenv", F_OK) == 0)
    return "Podman";
  return ::getenv("KUBERNETES_SERVICE_HOST") ? "Kubernetes" : "";
}

} // namespace culprit::attach
