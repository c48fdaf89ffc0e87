//===- BatchNames.h - What a tensor of a batch is ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Trainers call the same thing `labels`, `targets`, `tgt_y` or
/// `decoder_target_tokens`, and detectors ask for one name. A word says little
/// alone (`x`, `y`, `text`), so what stands beside it has to agree: labels have
/// the shape of their ids, a map of classes that of its image.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_BATCHNAMES_H
#define CULPRIT_CASE_BATCHNAMES_H

#include "Table/Table.h"

namespace culprit {

/// Gives the tensors of dumped batches, `batch.*`, the names that detectors
/// know in tensors.name: input_ids, labels, attention_mask, boxes. The name as
/// dumped stays in tensors.layer. A name that any batch of the run has for
/// something else, or whose role is not sure, stays as it is.
void nameBatches(Table &Tensors, StringPool &Pool);

} // namespace culprit

#endif // CULPRIT_CASE_BATCHNAMES_H
