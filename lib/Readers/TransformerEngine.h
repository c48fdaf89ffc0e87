//===- TransformerEngine.h - Statistics of its debug tools ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the statistics that NVIDIA-DL-Framework-Inspect writes for
/// TransformerEngine (LogTensorStats, LogFp8TensorStats), one a line:
///
///   INFO - decoder.layers.1.mlp.fc1_activation_max  iteration=000002 value=4.3
///
/// into `scalars`: activation_max of the layer decoder.layers.1.mlp.fc1 at
/// step 2. Tensors of its DumpTensors are files of torch.save.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TRANSFORMERENGINE_H
#define CULPRIT_READERS_TRANSFORMERENGINE_H

#include "Readers/Reader.h"

namespace culprit {

class TransformerEngineReader : public Reader {
public:
  llvm::StringRef name() const override { return "TransformerEngine log"; }
  llvm::StringRef about() const override {
    return "statistics logs of TransformerEngine's debug tools";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_TRANSFORMERENGINE_H
