//===- Zip.h - Members of a zip archive in memory ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// As much of the zip format as NumPy and PyTorch write: stored and deflated
/// members, zip64, data descriptors. Nothing in the archive is trusted; a
/// member is given out only if its checksum holds.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_ZIP_H
#define CULPRIT_READERS_ZIP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace culprit {

struct ZipMember {
  std::string Name; ///< Valid UTF-8.
  uint16_t Flags = 0;
  uint16_t Method = 0;
  uint32_t Checksum = 0;
  uint64_t Packed = 0; ///< Bytes in the archive.
  uint64_t Size = 0;   ///< Bytes when unpacked, as the archive claims.
  uint64_t Offset = 0; ///< Of the local header.

  bool compressed() const { return Method != 0; }
};

struct ZipDirectory {
  std::vector<ZipMember> Members; ///< In the order of the directory.
  /// Why some or all of the directory could not be read; empty if it could.
  std::string Damage;
};

/// Lists the archive \p Bytes. One that was cut off has lost its directory,
/// which lies at the end; what the members themselves tell is taken then.
ZipDirectory listZip(llvm::StringRef Bytes);

/// Whether the checksum of a member is looked at, which reads it once.
enum class ZipCheck { Sum, None };

/// The content of \p Member of the archive \p Bytes: a view of \p Bytes if it
/// is stored, else of a new buffer that \p Owner is set to.
llvm::Expected<llvm::StringRef>
unpack(llvm::StringRef Bytes, const ZipMember &Member, llvm::StringRef Where,
       std::shared_ptr<void> &Owner, ZipCheck Check = ZipCheck::Sum);

/// Whether the checksum of \p Member holds for its unpacked \p Content.
bool checksumHolds(const ZipMember &Member, llvm::StringRef Content);

/// Which of \p Members begin inside an earlier one. That is how small archives
/// claim to be large.
std::vector<bool> overlappingMembers(llvm::ArrayRef<ZipMember> Members);

} // namespace culprit

#endif // CULPRIT_READERS_ZIP_H
