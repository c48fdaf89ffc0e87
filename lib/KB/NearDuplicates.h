//===- NearDuplicates.h - Sets that are nearly the same ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds nearly equal sets of words among many without comparing all of them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_NEARDUPLICATES_H
#define CULPRIT_KB_NEARDUPLICATES_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace culprit {

/// Two sets of five keys or more are nearly the same when they share three
/// quarters of what either has.
bool nearlyEqual(llvm::ArrayRef<uint32_t> A, llvm::ArrayRef<uint32_t> B);

/// For each of \p Sets, which are sorted and hold keys below \p Keys, the first
/// set before it that is nearly equal, or its own index when there is none.
/// Exact: sets that share three quarters share some of the rarest keys of both,
/// and only those that do are compared.
std::vector<size_t> firstNearlyEqual(llvm::ArrayRef<std::vector<uint32_t>> Sets,
                                     size_t Keys);

} // namespace culprit

#endif // CULPRIT_KB_NEARDUPLICATES_H
