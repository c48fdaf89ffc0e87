//===- Crc.cpp --------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Crc.h"
#include <isa-l/crc.h>

using namespace llvm;

namespace culprit {

uint32_t crc32c(StringRef Bytes) {
  static constexpr size_t Piece = 1 << 30; // the length is an int
  uint32_t Crc = 0xffffffffu;
  do {
    StringRef Next = Bytes.take_front(Piece);
    // It takes the bytes as not const and does not change them.
    Crc = crc32_iscsi(
        reinterpret_cast<unsigned char *>(const_cast<char *>(Next.data())),
        static_cast<int>(Next.size()), Crc);
    Bytes = Bytes.drop_front(Next.size());
  } while (!Bytes.empty());
  return ~Crc;
}

uint32_t maskedCrc32c(StringRef Bytes) {
  uint32_t Crc = crc32c(Bytes);
  return ((Crc >> 15) | (Crc << 17)) + 0xa282ead8u;
}

uint32_t crc32Ieee(StringRef Bytes, uint32_t Before) {
  return crc32_gzip_refl(
      Before, reinterpret_cast<const unsigned char *>(Bytes.data()),
      Bytes.size());
}

} // namespace culprit
