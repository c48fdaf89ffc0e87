//===- KernelRoles.h - What names of the GPU world mean ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells kernels, API calls, collectives, copies and ranges apart by their
/// names, the same for every profile format. The lists are in KernelRoles.def.
/// None of it is fast: readers ask once per distinct name.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KERNELROLES_H
#define CULPRIT_READERS_KERNELROLES_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace culprit {

/// "communication" or "compute".
llvm::StringRef kernelRole(llvm::StringRef Name);

/// launch, copy, set, sync, allocate, free, load, event or other.
llvm::StringRef callRole(llvm::StringRef Name);

/// \p Name without the version that CUPTI appends: cudaLaunchKernel_v7000.
/// Names whose version is their own, as cuMemAlloc_v2, lose it too.
llvm::StringRef callName(llvm::StringRef Name);

/// The operation of a collective's or a communication kernel's name, as
/// collectives.op has it; empty when the name does not tell.
llvm::StringRef collectiveOp(llvm::StringRef Name);

/// The dtype that c10d and ATen call \p Name, or \p Name itself.
llvm::StringRef canonicalDtype(llvm::StringRef Name);
/// Bytes of one element of a canonical dtype, 0 when unknown.
unsigned dtypeBytes(llvm::StringRef Dtype);

/// How a copy or a set is labelled, each empty when unknown.
struct CopyKinds {
  llvm::StringRef Kind;   ///< HtoD, DtoH, DtoD, HtoH or PtoP.
  llvm::StringRef Source; ///< pageable, pinned, device, array or managed.
  llvm::StringRef Target; ///< Likewise; also the memory of a set.
};
/// From labels such as "Memcpy HtoD (Pageable -> Device)",
/// "CopyDeviceToHost" and "Memset (Device)".
CopyKinds copyKinds(llvm::StringRef Label);
/// The canonical kind of memory of "Pageable", "Managed Static", ...
llvm::StringRef memoryKind(llvm::StringRef Name);

/// step, dataloader, optimizer, collective or annotation. Only a profiler's
/// own step is one by its name; of the words that people use (stepNumber) a
/// reader must choose one, for "step 3" may be a part of "iteration 7".
llvm::StringRef rangeCategory(llvm::StringRef Name);
/// The number in a name such as ProfilerStep#12, step 12 or iteration_12.
std::optional<int64_t> stepNumber(llvm::StringRef Name);

/// "nvidia" or "amd" for a device of that model name, or empty.
llvm::StringRef deviceVendor(llvm::StringRef Model);

} // namespace culprit

#endif // CULPRIT_READERS_KERNELROLES_H
