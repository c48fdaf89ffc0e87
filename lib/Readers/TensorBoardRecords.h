//===- TensorBoardRecords.h - Records of a TFRecord file --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Splits a TFRecord file into its records:
///
///   uint64 length, uint32 masked crc32c of length,
///   data,          uint32 masked crc32c of data        all little-endian
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TENSORBOARDRECORDS_H
#define CULPRIT_READERS_TENSORBOARDRECORDS_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace culprit {

/// A cursor over the records of \p Text, damaged places passed over.
class TfRecords {
public:
  static constexpr size_t HeaderBytes = 12, FooterBytes = 4;

  explicit TfRecords(llvm::StringRef Text) : Text(Text) {}

  /// Goes on to the next record whose checksums are right.
  bool next();
  llvm::StringRef data() const { return Data; }
  int64_t number() const { return Number; } ///< From 1; broken ones count.

  int64_t broken() const { return Broken; }
  size_t firstBroken() const { return FirstBroken; } ///< Offset in the file.
  /// Bytes at the end that are the beginning of a record.
  size_t unfinished() const { return Unfinished; }

  /// Whether \p Text begins with a length and its checksum.
  static bool isHeader(llvm::StringRef Text);

private:
  void noteBroken();
  bool resync();

  llvm::StringRef Text, Data;
  size_t At = 0, FirstBroken = 0, Unfinished = 0;
  int64_t Number = 0, Broken = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_TENSORBOARDRECORDS_H
