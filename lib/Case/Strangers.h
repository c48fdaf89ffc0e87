//===- Strangers.h - Profiles that are not of one job -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Profiles given together are taken for the ranks of one job. Some cannot be:
/// nothing in their collectives need say so, since single-GPU runs have none.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_STRANGERS_H
#define CULPRIT_CASE_STRANGERS_H

#include "Case/Source.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>

namespace culprit {

/// Warns at each profile whose device model differs from the first profile's,
/// or that was recorded at another time of day: more than an hour apart by
/// the clocks the files carry, before they are aligned.
void remarkStrangers(llvm::ArrayRef<std::unique_ptr<Source>> Sources);

} // namespace culprit

#endif // CULPRIT_CASE_STRANGERS_H
