//===- TensorNames.h - What a tensor's name and file tell -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Dumps name a tensor by module path and role, and often keep the step and
/// the rank in the names of files and folders alone. The forms are those of
/// hooks people write by hand, of wrappers (DDP, FSDP, torch.compile) and of
/// msprobe.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_TENSORNAMES_H
#define CULPRIT_CASE_TENSORNAMES_H

#include "Case/Source.h"

namespace culprit {

struct TensorName {
  std::string Layer; ///< Module path without wrappers; never empty.
  std::string Role;  ///< input, output, weight, grad, state or value.
};

/// "module.blocks.1.attn.scores.output" is layer "blocks.1.attn.scores", role
/// "output".
TensorName splitTensorName(llvm::StringRef Name);

/// What the path of a dump tells.
struct DumpPath {
  std::string Name; ///< Of the file, without step and extensions.
  std::optional<int64_t> Step, Rank, Token;
  std::string Variant; ///< Empty unless a well-known word.
};

/// "run/rank3/000311_blocks.1.mlp.output.npy" is rank 3, step 311 and name
/// "blocks.1.mlp.output"; "cached/step_12.npz" is variant cached, step 12;
/// "checkpoints/000200/pretrained_model/model.safetensors" is step 200.
DumpPath splitDumpPath(llvm::StringRef Path);

/// Whether a folder is named by the step of the checkpoint in it, as LeRobot's
/// checkpoints/000200. A number of one or two digits may be that of an epoch.
bool isCheckpointNumber(llvm::StringRef Name, llvm::StringRef Parent);

/// Fills the members of \p Record that are still empty from its name, which
/// is that of the file if it has none, and from \p Path.
void completeTensorRecord(TensorRecord &Record, llvm::StringRef Path);

} // namespace culprit

#endif // CULPRIT_CASE_TENSORNAMES_H
