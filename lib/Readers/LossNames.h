//===- LossNames.h - The loss of a log that calls it otherwise --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Names of losses have no end: focal_tversky_loss, train/custom_loss. A file
/// none of whose columns is known for a loss, and one of which is named as one,
/// means that one; so does a lone total among several.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOSSNAMES_H
#define CULPRIT_READERS_LOSSNAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// Columns that are the loss of training and that of validation; empty where
/// there are none, or they have names that are known.
struct LossNames {
  std::string Training, HeldOut;
};

/// The losses among \p Keys, which are all columns of a file.
LossNames lossNames(llvm::ArrayRef<std::string> Keys);

} // namespace culprit

#endif // CULPRIT_READERS_LOSSNAMES_H
