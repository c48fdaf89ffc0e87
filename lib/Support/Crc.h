//===- Crc.h - Checksums of record formats ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The two 32-bit checksums that logs of records use. Both run at several GB
/// a second, so that a reader may try them at every offset of a damaged file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_CRC_H
#define CULPRIT_SUPPORT_CRC_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace culprit {

/// CRC-32C (Castagnoli) of \p Bytes.
uint32_t crc32c(llvm::StringRef Bytes);

/// CRC-32C as TFRecord and LevelDB store it: rotated, plus a constant, so that
/// a checksum of bytes that hold checksums is none of the trivial ones.
uint32_t maskedCrc32c(llvm::StringRef Bytes);

/// CRC-32 (IEEE 802.3, zlib) of \p Bytes, which follow bytes whose checksum is
/// \p Before.
uint32_t crc32Ieee(llvm::StringRef Bytes, uint32_t Before = 0);

} // namespace culprit

#endif // CULPRIT_SUPPORT_CRC_H
