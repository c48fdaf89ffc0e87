//===- Crc32c.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Format.h"
#include <string.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace culprit::capture {

/// One byte at a time with a table made by the compiler.
namespace {
struct Table {
  uint32_t Of[256];
  constexpr Table() : Of() {
    for (uint32_t I = 0; I < 256; ++I) {
      uint32_t C = I;
      for (int Bit = 0; Bit < 8; ++Bit)
        C = C & 1 ? (C >> 1) ^ 0x82f63b78u : C >> 1;
      Of[I] = C;
    }
  }
};
constexpr Table Bytes;
} // namespace

static uint32_t byTable(uint32_t Crc, const uint8_t *At, size_t Size) {
  for (; Size; --Size, ++At)
    Crc = Bytes.Of[(Crc ^ *At) & 0xff] ^ (Crc >> 8);
  return Crc;
}

/// Bytes of a lane. An instruction takes three cycles and one can begin in
/// each: three lanes side by side take the time of one.
static constexpr size_t Lane = 1024;

namespace {
/// What a checksum becomes by Lane zeros behind it, by each of its bytes. The
/// step is linear: bits are done one by one and put together.
struct Shift {
  uint32_t Of[4][256];
  constexpr Shift() : Of() {
    uint32_t Bits[32] = {};
    for (int Bit = 0; Bit < 32; ++Bit) {
      uint32_t C = uint32_t(1) << Bit;
      for (size_t I = 0; I < Lane; ++I)
        C = Bytes.Of[C & 0xff] ^ (C >> 8);
      Bits[Bit] = C;
    }
    for (int Byte = 0; Byte < 4; ++Byte)
      for (uint32_t I = 0; I < 256; ++I)
        for (int Bit = 0; Bit < 8; ++Bit)
          if (I >> Bit & 1)
            Of[Byte][I] ^= Bits[8 * Byte + Bit];
  }
  uint32_t operator()(uint32_t C) const {
    return Of[0][C & 0xff] ^ Of[1][C >> 8 & 0xff] ^ Of[2][C >> 16 & 0xff] ^
           Of[3][C >> 24];
  }
};
constexpr Shift ByLane;
} // namespace

#if defined(__x86_64__)
#define CRC_TARGET __attribute__((target("sse4.2")))
/// What a checksum is kept in while it is made: to narrow it after each step
/// costs as much as the step.
using Wide = unsigned long long;
CRC_TARGET static inline Wide step8(Wide Crc, uint64_t Word) {
  return __builtin_ia32_crc32di(Crc, Word);
}
CRC_TARGET static inline uint32_t step1(uint32_t Crc, uint8_t Byte) {
  return __builtin_ia32_crc32qi(Crc, Byte);
}
static bool hasInstruction() { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__)
#define CRC_TARGET __attribute__((target("+crc")))
using Wide = uint32_t;
CRC_TARGET static inline Wide step8(Wide Crc, uint64_t Word) {
  return __builtin_aarch64_crc32cx(Crc, Word);
}
CRC_TARGET static inline uint32_t step1(uint32_t Crc, uint8_t Byte) {
  return __builtin_aarch64_crc32cb(Crc, Byte);
}
static bool hasInstruction() { return getauxval(AT_HWCAP) & HWCAP_CRC32; }
#endif

#ifdef CRC_TARGET
static inline uint64_t wordAt(const uint8_t *At) {
  uint64_t Word;
  memcpy(&Word, At, sizeof(Word));
  return Word;
}

CRC_TARGET static uint32_t byInstruction(uint32_t Begin, const uint8_t *At,
                                         size_t Size) {
  Wide First = Begin;
  for (; Size >= 3 * Lane; Size -= 3 * Lane, At += 3 * Lane) {
    Wide Second = 0, Third = 0;
    for (size_t I = 0; I < Lane; I += 8) {
      First = step8(First, wordAt(At + I));
      Second = step8(Second, wordAt(At + Lane + I));
      Third = step8(Third, wordAt(At + 2 * Lane + I));
    }
    First = ByLane(ByLane(uint32_t(First)) ^ uint32_t(Second)) ^
            uint32_t(Third);
  }
  for (; Size >= 8; Size -= 8, At += 8)
    First = step8(First, wordAt(At));
  uint32_t Crc = static_cast<uint32_t>(First);
  for (; Size; --Size, ++At)
    Crc = step1(Crc, *At);
  return Crc;
}
#else
static uint32_t byInstruction(uint32_t Crc, const uint8_t *At, size_t Size) {
  return byTable(Crc, At, Size);
}
static bool hasInstruction() { return false; }
#endif

uint32_t crc32c(uint32_t Crc, const void *Data, size_t Size) {
  const uint8_t *At = static_cast<const uint8_t *>(Data);
  Crc = ~Crc;
  Crc = hasInstruction() ? byInstruction(Crc, At, Size)
                         : byTable(Crc, At, Size);
  return ~Crc;
}

} // namespace culprit::capture
