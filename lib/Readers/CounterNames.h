//===- CounterNames.h - What tools call a counter ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Maps the names that nvidia-smi, DCGM, dynolog and Nsight Systems write to
/// the canonical names that detectors ask for. The list is CounterNames.def.
/// Readers ask once per distinct name.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_COUNTERNAMES_H
#define CULPRIT_READERS_COUNTERNAMES_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

struct CounterName {
  std::string Name;   ///< gpu_util, or the raw name.
  double Factor = 1;  ///< What takes the written value to the canonical unit.
  bool Known = false; ///< Whether CounterNames.def has it.
};

/// The canonical name of \p Raw. A unit in brackets behind it is left out and
/// counts where it differs from the usual: "memory.used [MiB]".
CounterName counterName(llvm::StringRef Raw);

} // namespace culprit

#endif // CULPRIT_READERS_COUNTERNAMES_H
