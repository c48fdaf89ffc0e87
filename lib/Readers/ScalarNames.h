//===- ScalarNames.h - What loggers call a scalar ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Maps the names that loggers write to the canonical names that detectors
/// ask for. The list is ScalarNames.def. Readers ask once per distinct name.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SCALARNAMES_H
#define CULPRIT_READERS_SCALARNAMES_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace culprit {

/// What a key of a record is: a scalar, or what places the record.
enum class FieldKind {
  Scalar,
  Step,
  Batch, ///< A step that begins again with each epoch, or a size.
  Rank,
  Time,
  Layer,
  Metric,
  Value,
  Set, ///< Names the set of data that was measured on.
  Other
};

struct ScalarName {
  std::string Name;   ///< loss, grad_norm/blocks.0, or the raw name.
  std::string Metric; ///< Name without the layer.
  std::string Layer;  ///< Empty for a scalar of the run.
  double Factor = 1;  ///< What takes the logged value to the canonical unit.
  bool Known = false; ///< Whether ScalarNames.def or a rule has it.
  bool Weak = false;  ///< Only where a record has no better of that name.
};

FieldKind fieldKind(llvm::StringRef Raw);

/// The canonical name of \p Raw: train/loss -> loss, eval_loss -> val_loss,
/// perf/step_time -> step_time, grad_norm/blocks.0 -> grad_norm of the layer
/// blocks.0. An unknown name stays as it is.
ScalarName scalarName(llvm::StringRef Raw);

/// The same for a record that names \p Layer beside its numbers.
ScalarName layerScalarName(llvm::StringRef Raw, llvm::StringRef Layer);

/// Whether \p Raw says how well a model does: a line without such a number is
/// not taken for a training step.
bool isLossLike(llvm::StringRef Raw);

} // namespace culprit

#endif // CULPRIT_READERS_SCALARNAMES_H
