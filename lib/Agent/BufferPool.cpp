//===- BufferPool.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/BufferPool.h"
#include <sys/mman.h>

namespace culprit::agent {

/// What CUPTI writes to when there is nothing else.
alignas(4096) static uint8_t LastBuffer[SpareBuffers::Bytes];

static uint8_t *mapped(size_t Bytes) {
  void *At = mmap(nullptr, Bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return At == MAP_FAILED ? nullptr : static_cast<uint8_t *>(At);
}

bool BufferPool::reserve(size_t Bytes, size_t BufferBytes) {
  constexpr size_t Page = 4096;
  size_t Size = (BufferBytes + Page - 1) / Page * Page;
  if (!Size)
    return false;
  size_t Wanted = Bytes / Size;
  unsigned N = static_cast<unsigned>(Wanted < 2      ? 2
                                     : Wanted > Most ? Most
                                                     : Wanted);
  if (Count && (inUse() || (Size == Each && N == Count)))
    return true;
  uint8_t *At = mapped(N * Size);
  if (!At)
    return false;
  // Addresses of another pool are left alone, see above.
  trim();
  *this = BufferPool();
  Memory = At;
  Each = Size;
  Count = N;
  for (unsigned I = 0; I < Count; ++I)
    Free[I / 64] |= uint64_t(1) << I % 64;
  return true;
}

void BufferPool::trim() {
  for (unsigned I = 0; I < Count; ++I)
    if (__atomic_load_n(&Free[I / 64], __ATOMIC_RELAXED) >> I % 64 & 1)
      madvise(Memory + I * Each, Each, MADV_DONTNEED);
}

uint8_t *BufferPool::take() {
  for (unsigned Word = 0; Word * 64 < Count; ++Word) {
    uint64_t Bits = __atomic_load_n(&Free[Word], __ATOMIC_RELAXED);
    while (Bits) {
      unsigned Bit = static_cast<unsigned>(__builtin_ctzll(Bits));
      if (__atomic_compare_exchange_n(&Free[Word], &Bits,
                                      Bits & ~(uint64_t(1) << Bit), false,
                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&Used, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&TakenIn[Word * 64 + Bit],
                         __atomic_add_fetch(&Turn, 1, __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
        return Memory + (Word * 64 + Bit) * Each;
      }
    }
  }
  return nullptr;
}

void BufferPool::give(uint8_t *Buffer) {
  size_t Index = static_cast<size_t>(Buffer - Memory) / Each;
  __atomic_sub_fetch(&Used, 1, __ATOMIC_RELAXED);
  __atomic_or_fetch(&Free[Index / 64], uint64_t(1) << Index % 64,
                    __ATOMIC_RELEASE);
}

unsigned BufferPool::filled(uint32_t Until) const {
  unsigned N = 0;
  for (unsigned I = 0; I < Count; ++I)
    // Turns may wrap around.
    if (const uint8_t *Buffer = used(I);
        Buffer && static_cast<int32_t>(
                      __atomic_load_n(&TakenIn[I], __ATOMIC_RELAXED) - Until) <=
                      0)
      N += __atomic_load_n(reinterpret_cast<const uint32_t *>(Buffer),
                           __ATOMIC_RELAXED) != 0;
  return N;
}

uint8_t *SpareBuffers::take() {
  if (__atomic_add_fetch(&Used, 1, __ATOMIC_RELAXED) <= Most)
    if (uint8_t *Buffer = mapped(Bytes))
      return Buffer;
  __atomic_sub_fetch(&Used, 1, __ATOMIC_RELAXED);
  return LastBuffer;
}

bool SpareBuffers::isLast(const uint8_t *Buffer) {
  return Buffer == LastBuffer;
}

void SpareBuffers::give(uint8_t *Buffer) {
  if (isLast(Buffer))
    return;
  munmap(Buffer, Bytes);
  __atomic_sub_fetch(&Used, 1, __ATOMIC_RELAXED);
}

} // namespace culprit::agent
