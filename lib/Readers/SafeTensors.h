//===- SafeTensors.h - safetensors files ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads checkpoints and dumps in the safetensors format
/// (https://github.com/huggingface/safetensors#format) without copying them.
/// Of the `__metadata__`, "step", "rank", "token", "variant" and "order" (a
/// JSON list of names in the order of execution) become columns.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SAFETENSORS_H
#define CULPRIT_READERS_SAFETENSORS_H

#include "Readers/Reader.h"

namespace culprit {

class SafeTensorsReader : public Reader {
public:
  llvm::StringRef name() const override { return "safetensors"; }
  llvm::StringRef endings() const override { return ".safetensors"; }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

struct NamedBytes {
  std::string Name;
  uint64_t Bytes;
};

/// The tensors that the header of the safetensors file \p Contents names.
/// None when it cannot be read.
std::vector<NamedBytes> safeTensorNames(llvm::StringRef Contents);

} // namespace culprit

#endif // CULPRIT_READERS_SAFETENSORS_H
