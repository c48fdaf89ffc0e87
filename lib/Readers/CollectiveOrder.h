//===- CollectiveOrder.h - Which collective is which ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Completes the `collectives` rows of one profile, whose kernels rarely say
/// enough about themselves.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_COLLECTIVEORDER_H
#define CULPRIT_READERS_COLLECTIVEORDER_H

#include "Case/Source.h"

namespace culprit {

/// Names the operations that a kernel's name does not tell (RCCL runs all in
/// ncclDevKernel_Generic) after the host range that launched them, and numbers
/// those without a recorded sequence number by their order of start on the
/// device, stream and operation: every rank issues the same ones in the same
/// order.
void numberCollectives(Source &Into);

} // namespace culprit

#endif // CULPRIT_READERS_COLLECTIVEORDER_H
