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

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
byInstruction(uint32_t Crc, const uint8_t *At, size_t Size) {
  uint64_t Wide = Crc;
  for (; Size >= 8; Size -= 8, At += 8) {
    uint64_t Word;
    memcpy(&Word, At, 8);
    Wide = __builtin_ia32_crc32di(Wide, Word);
  }
  Crc = static_cast<uint32_t>(Wide);
  for (; Size; --Size, ++At)
    Crc = __builtin_ia32_crc32qi(Crc, *At);
  return Crc;
}

static bool hasInstruction() { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t
byInstruction(uint32_t Crc, const uint8_t *At, size_t Size) {
  for (; Size >= 8; Size -= 8, At += 8) {
    uint64_t Word;
    memcpy(&Word, At, 8);
    Crc = __builtin_aarch64_crc32cx(Crc, Word);
  }
  for (; Size; --Size, ++At)
    Crc = __builtin_aarch64_crc32cb(Crc, *At);
  return Crc;
}

static bool hasInstruction() { return getauxval(AT_HWCAP) & HWCAP_CRC32; }
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
