//===- BatchSize.h - Settings that make up a batch --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Rows a step are rows of a device times accumulated batches times ranks.
/// Half of the one and twice of the other is the same batch.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_BATCHSIZE_H
#define CULPRIT_CASE_BATCHSIZE_H

#include "Case/SettingChanges.h"

namespace culprit {

/// The part that a key plays in the size of a batch.
enum class BatchPart { None, Micro, Accumulation, Ranks, Global };

BatchPart batchPart(llvm::StringRef Key);

/// "the batch stays at 64 rows" where the factors of both sides have one
/// product, or both are told one batch as a whole; empty where they do not, or
/// where a side does not tell.
std::string unchangedBatch(const Settings &A, const Settings &B);

} // namespace culprit

#endif // CULPRIT_CASE_BATCHSIZE_H
