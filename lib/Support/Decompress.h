//===- Decompress.h - gzip and zstd as a stream of bytes --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The decoders behind InputFile. A decoder pulls from an open file and gives
/// decompressed bytes on demand; what came before a break is never lost.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_DECOMPRESS_H
#define CULPRIT_SUPPORT_DECOMPRESS_H

#include "Support/InputFile.h"
#include <memory>
#include <string>

namespace culprit {

/// Decompressed bytes in order. One thread at a time.
class Decoder {
public:
  virtual ~Decoder() = default;

  /// Writes the next \p Size bytes to \p Out, fewer only at the end of the
  /// stream or at a break in it.
  virtual size_t read(char *Out, size_t Size) = 0;

  /// Empty, or a sentence that says how the stream broke off.
  std::string Broken;
};

/// Compression told from the first bytes of a file.
Compression detectCompression(llvm::StringRef Start);

/// A decoder of the open file \p Fd, read from its first byte with pread; the
/// file must stay open while the decoder lives.
std::unique_ptr<Decoder> makeDecoder(Compression Kind, int Fd);

/// The decompressed size that the file claims, 0 when it claims none. Not to
/// be trusted: a gzip file only knows it modulo 4 GiB and of its last member.
uint64_t claimedSize(Compression Kind, int Fd, uint64_t DiskSize);

} // namespace culprit

#endif // CULPRIT_SUPPORT_DECOMPRESS_H
