//===- Machine.h - What this machine allows ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the kernel and the container that culprit runs in say of tracing: the
/// preflight of one process and `culprit doctor` ask the same.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_MACHINE_H
#define CULPRIT_ATTACH_MACHINE_H

#include "Attach/ProcessInfo.h"
#include "llvm/ADT/StringRef.h"

namespace culprit::attach {

/// Is the kernel that of gVisor, which has no full ptrace?
bool isGvisorKernel();

/// kernel.yama.ptrace_scope; 0 where there is no yama.
unsigned yamaScope();

/// Does \p Own have CAP_SYS_PTRACE?
bool mayTraceAll(const ProcessStatus &Own);

/// "Docker", "Podman" or "Kubernetes"; empty when not in one that is known.
llvm::StringRef containerName();

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_MACHINE_H
