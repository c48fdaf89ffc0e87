//===- InputFile.h - The bytes of one input, decompressed -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One input file as readers see it: its display path, a head for format
/// detection, and the whole content, with gzip and zstd undone. Files are
/// opened read-only and never written to.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_INPUTFILE_H
#define CULPRIT_SUPPORT_INPUTFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <memory>
#include <string>

namespace culprit {

enum class Compression { None, Gzip, Zstd };

/// An open input. Cheap to make: only the head is read. Not thread-safe;
/// one reader at a time owns a file.
class InputFile {
public:
  /// Bytes of the head that detection may look at, after decompression.
  static constexpr size_t HeadBytes = 64 * 1024;

  /// Opens \p Path and decompresses its first HeadBytes. Fails when the file
  /// cannot be read or is a broken archive from its first byte on.
  static llvm::Expected<std::unique_ptr<InputFile>> open(llvm::StringRef Path);

  ~InputFile();

  /// The path as the user gave it or as the directory walk built it.
  llvm::StringRef path() const { return Path; }
  Compression compression() const { return Kind; }
  /// Size on disk in bytes.
  uint64_t diskSize() const { return DiskSize; }
  /// Bytes of the decompressed content as far as the file tells; a guess for
  /// most compressed ones, and never more than contents() would hold.
  uint64_t expectedSize() const { return LikelySize; }
  /// The first bytes of the decompressed content, at most HeadBytes.
  llvm::StringRef head() const { return Head; }

  /// The whole decompressed content: a memory map for a plain file, a buffer
  /// for a compressed one. At least 64 readable bytes follow its end, as
  /// SIMD parsers want. The view lives as long as the InputFile. A compressed
  /// file that breaks off gives what came before the break; truncation() then
  /// says so.
  llvm::Expected<llvm::StringRef> contents();

  /// Streams the decompressed content in pieces of about a MiB to \p Sink,
  /// in order, holding none of it; stops early when \p Sink returns false.
  /// The piece is only valid during the call.
  llvm::Error stream(llvm::function_ref<bool(llvm::StringRef)> Sink);

  /// Likewise without a copy: the next bytes are written to what \p Room
  /// gives, then \p Filled takes their number. Every piece but the last fills
  /// its room.
  llvm::Error
  stream(llvm::function_ref<llvm::MutableArrayRef<char>()> Room,
         llvm::function_ref<bool(size_t)> Filled);

  /// Streams the decompressed content to \p Sink in pieces of whole lines,
  /// each of about \p PieceBytes; stops early when \p Sink returns false. A
  /// line has its end but for the last one of a file without it, and one that
  /// is longer than MaxLine comes in several pieces. The memory does not depend
  /// on the size of the file. The piece is only valid during the call.
  llvm::Error lines(llvm::function_ref<bool(llvm::StringRef)> Sink,
                    size_t PieceBytes = 512 << 10);
  static constexpr size_t MaxLine = 512 << 20;

  /// Bytes that one compressed file may become; what is beyond is left, and
  /// truncation() says so. A few KB of gzip can stand for any number of GB.
  struct Limits {
    uint64_t Held;     ///< By contents(): half of the memory.
    uint64_t Streamed; ///< By stream(), whose reader keeps less than it reads:
                       ///< all of the memory.
  };
  /// Of this machine, or of the control group where that has less memory.
  static Limits defaultLimits();
  void setLimits(Limits New) { Bounds = New; }

  /// Empty, or a sentence that says where a compressed stream broke off.
  const std::string &truncation() const { return Truncation; }

private:
  InputFile() = default;

  std::string Path;
  Compression Kind = Compression::None;
  uint64_t DiskSize = 0;
  uint64_t LikelySize = 0;
  std::string Head;
  std::string Truncation;
  Limits Bounds = defaultLimits();
  struct Storage;
  std::unique_ptr<Storage> Content;
};

} // namespace culprit

#endif // CULPRIT_SUPPORT_INPUTFILE_H
