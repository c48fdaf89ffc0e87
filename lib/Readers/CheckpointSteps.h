//===- CheckpointSteps.h - Steps that several files tell --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Many trainers name a checkpoint by a number and say nowhere whether that
/// counts steps: model000500.pt of guided-diffusion, net_g_500.pth of BasicSR,
/// epoch_3.pt. One such file may be a resnet50.pth; of several that hold the
/// same tensors under the same name the number tells the order, and the steps
/// that the optimizer beside them has counted tell what it counts.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CHECKPOINTSTEPS_H
#define CULPRIT_READERS_CHECKPOINTSTEPS_H

#include "Case/Source.h"

namespace culprit {

/// Gives the tensors of \p Sources, all of one case, that have no step the one
/// that their files tell together: the updates of the optimizer where these are
/// in proportion to the numbers of the files, else the numbers themselves.
/// Folders take the place of files where they have the numbers, and the epochs
/// that best.pt and last.pt name inside where nothing beside them has a step.
void tellCheckpointSteps(llvm::ArrayRef<std::unique_ptr<Source>> Sources);

} // namespace culprit

#endif // CULPRIT_READERS_CHECKPOINTSTEPS_H
