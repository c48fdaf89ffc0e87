//===- Parallel.h - A loop on several threads -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Which thread does which part is left to chance, so parts must not depend on
/// each other, and results are put together in their order afterwards.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_PARALLEL_H
#define CULPRIT_SUPPORT_PARALLEL_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstddef>

namespace culprit {

/// Calls \p Do for 0 to \p Count - 1, each once, on \p Threads threads, of
/// which the caller's is one.
void inParallel(size_t Count, unsigned Threads,
                llvm::function_ref<void(size_t)> Do);

} // namespace culprit

#endif // CULPRIT_SUPPORT_PARALLEL_H
