//===- StringPool.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/StringPool.h"
#include "llvm/Support/ErrorHandling.h"

using namespace llvm;

namespace culprit {

StringPool::StringPool()
    : Chunks(new std::atomic<StringRef *>[MaxChunks]) {
  for (size_t I = 0; I != MaxChunks; ++I)
    Chunks[I].store(nullptr, std::memory_order_relaxed);
  Chunks[0].store(new StringRef[ChunkSize], std::memory_order_release);
  Next.store(1, std::memory_order_release); // 0 is NullString
}

StringPool::~StringPool() {
  for (size_t I = 0; I != MaxChunks; ++I) {
    StringRef *Chunk = Chunks[I].load(std::memory_order_relaxed);
    if (!Chunk)
      break;
    delete[] Chunk;
  }
}

StringId StringPool::intern(StringRef Text) {
  std::lock_guard<std::mutex> Guard(Lock);
  size_t Id = Next.load(std::memory_order_relaxed);
  auto [It, New] = Ids.try_emplace(Text, static_cast<StringId>(Id));
  if (!New)
    return It->second;
  size_t At = Id >> ChunkBits;
  if (At >= MaxChunks)
    report_fatal_error("more than 268 million distinct strings");
  StringRef *Chunk = Chunks[At].load(std::memory_order_relaxed);
  if (!Chunk) {
    Chunk = new StringRef[ChunkSize];
    Chunks[At].store(Chunk, std::memory_order_release);
  }
  Chunk[Id & (ChunkSize - 1)] = It->first(); // the map owns the text
  Next.store(Id + 1, std::memory_order_release);
  return static_cast<StringId>(Id);
}

StringId StringPool::lookup(StringRef Text) const {
  std::lock_guard<std::mutex> Guard(Lock);
  auto It = Ids.find(Text);
  return It == Ids.end() ? NullString : It->second;
}

} // namespace culprit
