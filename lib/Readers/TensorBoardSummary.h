//===- TensorBoardSummary.h - One value of an event -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What a tensorboard Summary.Value says, and the hyperparameters of the
/// hparams plugin.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TENSORBOARDSUMMARY_H
#define CULPRIT_READERS_TENSORBOARDSUMMARY_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace culprit {

/// Views of the event's bytes.
struct SummaryValue {
  llvm::StringRef Tag;
  llvm::StringRef Plugin; ///< Set on the first value of a tag only.
  llvm::StringRef PluginData;
  std::optional<double> Number; ///< Of a scalar.
  enum { Nothing, Scalar, Text, Histogram, Media, Tensor } What = Nothing;
};

/// Reads a Summary.Value: simple_value, or a tensor of one number in any of
/// the forms of TensorProto. Fields that are broken or unknown are left out.
SummaryValue readSummaryValue(llvm::StringRef Bytes);

/// Calls \p Each with the settings in \p PluginData, an HParamsPluginData.
void readHyperparameters(
    llvm::StringRef PluginData,
    llvm::function_ref<void(llvm::StringRef, llvm::StringRef)> Each);

} // namespace culprit

#endif // CULPRIT_READERS_TENSORBOARDSUMMARY_H
