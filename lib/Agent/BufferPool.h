//===- BufferPool.h - Memory that CUPTI writes records to -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Buffers of one size, reserved once. CUPTI asks for them on the threads of
/// the application, inside its CUDA calls: taking one is a few atomic
/// operations, without a lock and without allocation.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_BUFFERPOOL_H
#define CULPRIT_AGENT_BUFFERPOOL_H

#include <stddef.h>
#include <stdint.h>

namespace culprit::agent {

/// Its addresses stay reserved for the life of the process: a thread may be
/// about to take a buffer while a session ends.
class BufferPool {
public:
  static constexpr size_t Most = 1024;

  /// Reserves \p Bytes for buffers of \p BufferBytes. False without memory. A
  /// pool that is in use stays as it is.
  bool reserve(size_t Bytes, size_t BufferBytes);
  /// Gives the memory of free buffers back to the system.
  void trim();

  /// A buffer of zeros, aligned to a page; null when all are in use.
  uint8_t *take();
  bool owns(const uint8_t *Buffer) const {
    return Buffer >= Memory && Buffer < Memory + Count * Each;
  }
  /// Makes \p Buffer, which is one of these, free again. The caller has put
  /// zeros in it.
  void give(uint8_t *Buffer);

  /// How often a buffer was taken.
  uint32_t turn() const { return __atomic_load_n(&Turn, __ATOMIC_RELAXED); }
  /// Buffers that were taken up to turn \p Until, are still in use and have a
  /// record, as their first word is not 0.
  unsigned filled(uint32_t Until) const;
  /// The \p Number th buffer when it is in use, else null.
  const uint8_t *used(unsigned Number) const {
    return __atomic_load_n(&Free[Number / 64], __ATOMIC_ACQUIRE) >>
                   Number % 64 & 1
               ? nullptr
               : Memory + Number * Each;
  }

  size_t bufferBytes() const { return Each; }
  unsigned size() const { return Count; }
  unsigned inUse() const { return __atomic_load_n(&Used, __ATOMIC_RELAXED); }

private:
  uint8_t *Memory = nullptr;
  size_t Each = 0;
  unsigned Count = 0;
  unsigned Used = 0;
  uint32_t Turn = 0;
  uint32_t TakenIn[Most] = {};   ///< The turn of each buffer.
  uint64_t Free[Most / 64] = {}; ///< A bit for each free buffer.
};

/// A buffer beyond the pool, whose records are counted and not kept: returning
/// none crashes libcupti before 12.9. Each is mapped for itself, as two in use
/// at once must not be one; only when there is no memory for that either are
/// they the same, and then nobody reads it.
class SpareBuffers {
public:
  static constexpr size_t Bytes = 32 << 10;
  static constexpr unsigned Most = 1024;

  /// Never null.
  uint8_t *take();
  static bool isLast(const uint8_t *Buffer);
  void give(uint8_t *Buffer);
  unsigned inUse() const { return __atomic_load_n(&Used, __ATOMIC_RELAXED); }

private:
  unsigned Used = 0;
};

} // namespace culprit::agent

#endif // CULPRIT_AGENT_BUFFERPOOL_H
