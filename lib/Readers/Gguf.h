//===- Gguf.h - Models of llama.cpp -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the header of a GGUF file, versions 2 and 3
/// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): its metadata
/// become `config` rows "gguf.KEY", its tensors rows of `tensors` without
/// values, their shapes in PyTorch's order, rows first. Of a list of more than
/// 16 elements "KEY.count" is told; where an id of a token is set, as
/// "tokenizer.ggml.eos_token_id", its text follows as "...eos_token". The
/// first file of a split model names the tokenizer; each file lists its own
/// tensors.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_GGUF_H
#define CULPRIT_READERS_GGUF_H

#include "Readers/Reader.h"

namespace culprit {

class GgufReader : public Reader {
public:
  llvm::StringRef name() const override { return "GGUF model"; }
  llvm::StringRef endings() const override { return ".gguf"; }
  llvm::StringRef about() const override {
    return "llama.cpp's models (.gguf): metadata and the list of tensors";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_GGUF_H
