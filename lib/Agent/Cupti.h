//===- Cupti.h - The libcupti of this process -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the libcupti to use and its functions. A process must never hold two:
/// one that is there already is taken, whatever its version.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_CUPTI_H
#define CULPRIT_AGENT_CUPTI_H

#include "Agent/CuptiAbi.h"

namespace culprit::cupti {

/// Of a path with its end, as PATH_MAX: one that is cut names nothing.
inline constexpr size_t MaxPath = 4096;

/// The functions of one libcupti; those it does not have are null.
struct Api {
#define CUPTI_FUNCTION(Name, Needed, Parameters)                               \
  Result(*Name) Parameters = nullptr;
#include "Agent/CuptiApi.def"

  uint32_t Version = 0; ///< cuptiGetVersion.
  uint32_t Driver = 0;  ///< cuDriverGetVersion, 0 when it was not asked.
  void *Loaded = nullptr; ///< The library, when load() brought it.
  char Path[MaxPath] = {};

  /// The name of \p Code for a message.
  const char *text(Result Code) const;
};

/// The API version of CUDA 13.0 before its first update. In it switching off
/// kernels can hang, and NVTX that begins before CUPTI can crash.
inline constexpr uint32_t BadVersion = 130000;

/// The path of the first library in the process whose file name begins with
/// \p Name, in \p Path of \p Size bytes; false when there is none.
bool loadedLibrary(const char *Name, char *Path, size_t Size);

/// Loads, in this order: the libcupti in the process, \p Asked for, the one
/// beside the process's libcudart, the one the loader finds. On failure \p Why
/// says what was tried.
bool load(Api &A, const char *Asked, char *Why, size_t WhySize);

/// Undoes load() of a library that was not in the process before and of which
/// nothing but the version was asked. Else nothing happens.
void unload(Api &A);

/// Has CUPTI follow the NVTX of one module, whose \p GetExportTable is given.
/// It is libcupti of load(), but chosen without a call of CUDA. False when NVTX
/// has to stay off. \p IsActive says that CUPTI has a session.
bool followNvtx(void *GetExportTable, const char *Asked, bool IsActive);

} // namespace culprit::cupti

#endif // CULPRIT_AGENT_CUPTI_H
