//===- WandbRecords.h - Records of a W&B transaction log --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Splits a .wandb file into its records. Seven bytes of header, ":W&B", a
/// magic number and a version, then blocks of 32 KiB that count from the
/// beginning of the file, of chunks:
///
///   uint32 crc32 of type and data, uint16 length, uint8 type, data
///
/// The type is 1 for a whole record, 2, 3 and 4 for its first, its middle and
/// its last piece. Fewer than seven bytes at the end of a block are zeros.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_WANDBRECORDS_H
#define CULPRIT_READERS_WANDBRECORDS_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace culprit {

/// A cursor over the records of \p Text, damaged ones passed over.
class WandbRecords {
public:
  static constexpr size_t BlockBytes = 32768, HeaderBytes = 7;

  explicit WandbRecords(llvm::StringRef Text)
      : Text(Text), At(std::min(Text.size(), HeaderBytes)) {}

  /// Whether \p Text begins as a .wandb file does.
  static bool isHeader(llvm::StringRef Text);

  bool next();
  /// The record; valid until the next call of next().
  llvm::StringRef data() const { return Data; }
  int64_t number() const { return Number; } ///< From 1, of those given.

  int64_t broken() const { return Broken; }
  size_t firstBroken() const { return FirstBroken; } ///< Offset in the file.
  /// Whether the file ends inside a record.
  bool unfinished() const { return Unfinished; }

private:
  enum Type : uint8_t { Zero, Full, First, Middle, Last };
  struct Chunk {
    Type What;
    llvm::StringRef Data;
  };

  bool nextChunk(Chunk &Out);
  void noteBroken(size_t Offset);

  llvm::StringRef Text, Data;
  std::string Pieces;
  size_t At, FirstBroken = 0;
  int64_t Number = 0, Broken = 0;
  bool Unfinished = false, LastWasBroken = false;
};

} // namespace culprit

#endif // CULPRIT_READERS_WANDBRECORDS_H
