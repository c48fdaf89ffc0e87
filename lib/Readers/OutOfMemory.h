//===- OutOfMemory.h - Figures of out-of-memory texts -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the sizes that an out-of-memory error names.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_OUTOFMEMORY_H
#define CULPRIT_READERS_OUTOFMEMORY_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace culprit {

/// Bytes, each where the text tells.
struct MemoryFigures {
  std::optional<int64_t> Asked, Capacity, ReservedUnallocated;
};

/// Understands PyTorch's texts of 2.x and before, TensorFlow's and others'
/// "allocating tensor with shape [8, 65536, 4096]" where a dtype is named, and
/// the kernel's "Killed process ... anon-rss:123kB" (as Asked).
MemoryFigures memoryFigures(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_READERS_OUTOFMEMORY_H
