//===- TorchNames.h - Names in checkpoints ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A tensor of a checkpoint is named by the keys that lead to it. Not all of
/// them are module paths: {"model": {"fc.weight": t}} holds the layer fc, and
/// the optimizer's {"state": {0: {"exp_avg": t}}} numbers the parameters.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TORCHNAMES_H
#define CULPRIT_READERS_TORCHNAMES_H

#include "Case/Source.h"
#include "Support/DataTree.h"

namespace culprit {

/// Whether \p Key at the top of a checkpoint holds the weights and is no part
/// of their names.
bool isModelKey(llvm::StringRef Key);

/// Whether \p Key at the top of a checkpoint holds an average of the weights,
/// and is no part of their names either.
bool isAverageKey(llvm::StringRef Key);

/// Whether \p Key at the top of a checkpoint is the step it is of.
bool isStepKey(llvm::StringRef Key);

/// The state of one optimizer in a checkpoint.
struct OptimizerNames {
  /// Of the parameters in the order the optimizer numbers them; empty when it
  /// does not keep them.
  std::vector<std::string> Names;
  std::vector<size_t> Groups; ///< Parameters of each.
  size_t Parameters = 0; ///< Of all groups.
};

/// What \p Dict says when it is the state_dict of an optimizer.
std::optional<OptimizerNames> optimizerNames(const DataTree &Tree,
                                             DataValue Dict);

/// A tensor that was found, before its layer is known.
struct FoundTensor {
  TensorRecord Record;
  std::string Path;     ///< Its name without what is no part of the model.
  std::string Storage;  ///< Key; empty when its data lie in the pickle.
  int Optimizer = -1;   ///< Number of the one whose state it is.
  int64_t Parameter = -1;
};

/// Gives the tensors \p Found their layers and roles. The state of parameter
/// 5 is of the layer of the sixth weight if the optimizer tells names or, if
/// there are as many weights as parameters and all shapes agree, when it has
/// one group, or two of which one has the matrices and one the vectors, places
/// and tokens; of other groups by a shape that one weight alone has. Of fewer parameters those are told whose
/// shapes leave no choice. Else the layer of a state stays its path.
void nameLayers(std::vector<FoundTensor> &Found,
                llvm::ArrayRef<OptimizerNames> Optimizers);

/// The layer, the role and the step in the name of a file that
/// TransformerEngine's DumpTensors writes: fc1_activation_iter_000100.pt.
struct EngineName {
  llvm::StringRef Layer, Tensor, Role;
  int64_t Step;
};
std::optional<EngineName> engineName(llvm::StringRef Stem);

} // namespace culprit

#endif // CULPRIT_READERS_TORCHNAMES_H
