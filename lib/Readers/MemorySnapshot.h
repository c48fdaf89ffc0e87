//===- MemorySnapshot.h - PyTorch's allocator, block by block ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what torch.cuda.memory._dump_snapshot writes: every segment of the
/// caching allocator with its blocks, and the latest allocations and frees.
/// As a pickle of any age, or the same as JSON.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_MEMORYSNAPSHOT_H
#define CULPRIT_READERS_MEMORYSNAPSHOT_H

#include "Readers/Reader.h"

namespace culprit {

class MemorySnapshotReader : public Reader {
public:
  llvm::StringRef name() const override { return "PyTorch memory snapshot"; }
  llvm::StringRef about() const override {
    return "the CUDA caching allocator's blocks and history, pickle or JSON";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_MEMORYSNAPSHOT_H
