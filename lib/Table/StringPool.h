//===- StringPool.h - Interned strings --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One pool a case. A million kernels have a few hundred names; columns hold
/// 4-byte ids. Lookups by id are wait-free and interning is safe from several
/// threads; readers of large files should keep an Interner each, so that a
/// repeated string costs no lock. Ids depend on the order of interning and so
/// on thread timing: never print or sort by an id, only by its text.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_STRINGPOOL_H
#define CULPRIT_TABLE_STRINGPOOL_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace culprit {

using StringId = uint32_t;

/// The id of "no string". The empty string is a string of its own.
inline constexpr StringId NullString = 0;

class StringPool {
public:
  StringPool();
  ~StringPool();

  /// The id of \p Text, which is copied when new. Never NullString.
  StringId intern(llvm::StringRef Text);

  /// The id of \p Text if some column may hold it, NullString otherwise. Lets
  /// a filter on an unknown string match nothing at no cost.
  StringId lookup(llvm::StringRef Text) const;

  /// The text of \p Id; empty for NullString.
  llvm::StringRef text(StringId Id) const {
    const llvm::StringRef *Chunk =
        Chunks[Id >> ChunkBits].load(std::memory_order_acquire);
    return Chunk[Id & (ChunkSize - 1)];
  }

  /// One more than the largest id.
  size_t size() const { return Next.load(std::memory_order_acquire); }

private:
  static constexpr unsigned ChunkBits = 12;
  static constexpr size_t ChunkSize = size_t(1) << ChunkBits;
  static constexpr size_t MaxChunks = size_t(1) << 16;

  mutable std::mutex Lock;
  llvm::StringMap<StringId> Ids;
  std::unique_ptr<std::atomic<llvm::StringRef *>[]> Chunks;
  std::atomic<size_t> Next{0};
};

/// A reader's own cache in front of a pool: one hash look-up without a lock
/// for a string it has seen before. Not thread-safe.
class Interner {
public:
  explicit Interner(StringPool &Pool) : Pool(Pool) {}

  StringId operator()(llvm::StringRef Text) {
    auto [It, New] = Seen.try_emplace(Text, NullString);
    if (New)
      It->second = Pool.intern(Text);
    return It->second;
  }

private:
  StringPool &Pool;
  llvm::StringMap<StringId> Seen;
};

} // namespace culprit

#endif // CULPRIT_TABLE_STRINGPOOL_H
