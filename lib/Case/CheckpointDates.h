//===- CheckpointDates.h - When a checkpoint was written --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `latest.pt` and `last_model.pth` say neither in their names nor inside which
/// step they are of. Two checkpoints can be compared only where both have one.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_CHECKPOINTDATES_H
#define CULPRIT_CASE_CHECKPOINTDATES_H

#include "Case/Case.h"
#include "Table/Table.h"
#include "llvm/ADT/ArrayRef.h"

namespace culprit {

/// Sets tensors.step of files none of whose tensors has one: to the updates
/// that the optimizer in the file counts (`state.0.step`), else, where the file
/// is called the last, to the last step at which its run logs a loss; and of
/// none whose weights would stand beside others of the same step. Returns
/// whether it set any. \p Segments are the first row of each input and its
/// place in \p Inputs.
bool dateCheckpoints(Table &Tensors, const Table &Scalars,
                     llvm::ArrayRef<std::pair<size_t, size_t>> Segments,
                     llvm::ArrayRef<InputSummary> Inputs,
                     const StringPool &Pool);

} // namespace culprit

#endif // CULPRIT_CASE_CHECKPOINTDATES_H
