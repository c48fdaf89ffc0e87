//===- ShardIndex.h - Indexes of sharded checkpoints ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Checks model.safetensors.index.json and pytorch_model.bin.index.json
/// against the shards beside them: a shard that is missing, a tensor that is
/// in another shard than said or in none, a total size that does not hold. A
/// loader that trusts such an index leaves weights at their random beginning.
/// The tensors themselves are read with the shards.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SHARDINDEX_H
#define CULPRIT_READERS_SHARDINDEX_H

#include "Readers/Reader.h"

namespace culprit {

class ShardIndexReader : public Reader {
public:
  llvm::StringRef name() const override { return "checkpoint index"; }
  llvm::StringRef about() const override {
    return "model.safetensors.index.json, pytorch_model.bin.index.json";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// The shards that the index at \p Path names and that exist, each once, in
/// the order of their names.
std::vector<std::string> shardsOf(llvm::StringRef Path);

} // namespace culprit

#endif // CULPRIT_READERS_SHARDINDEX_H
