//===- NsightSystemsPayload.h - What NCCL says of a call --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Decodes the binary payloads that NCCL attaches to its NVTX ranges (exported
/// with --include-blobs=true). A blob is a header of four 64-bit numbers
/// (domain, schema, size of the payload, its offset or the whole size) and a C
/// struct, which NVTX_PAYLOAD_SCHEMA_ENTRIES describes. Fields are found by
/// their names: NCCL 2.18 to 2.22 has the message size alone, 2.23 and later
/// the communicator as well.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NSIGHTSYSTEMSPAYLOAD_H
#define CULPRIT_READERS_NSIGHTSYSTEMSPAYLOAD_H

#include "Readers/NsightSystemsDatabase.h"
#include "Table/Column.h"

namespace culprit::nsys {

/// NullInt, or 0 for the communicator, where the payload does not say.
struct NcclPayload {
  uint64_t Communicator = 0; ///< The same number on all its ranks.
  int64_t Message = NullInt, Peer = NullInt, Ranks = NullInt, Rank = NullInt;
};

class PayloadSchemas {
public:
  explicit PayloadSchemas(Database &DB);

  /// Whether any schema has a field of NCCL's.
  bool empty() const { return Schemas.empty(); }

  /// The payload \p Blob; nothing when it is none of NCCL's or is cut. In some
  /// exports it is text: the bytes in hexadecimal digits.
  std::optional<NcclPayload> decode(llvm::StringRef Blob, bool IsText) const;

private:
  enum class Field { Communicator, Message, Peer, Ranks, Rank };
  struct Entry {
    Field What;
    uint64_t Offset;
    unsigned Bytes;
    bool Signed;
  };
  using Key = std::pair<uint64_t, uint64_t>; // domain, schema
  std::map<Key, std::vector<Entry>> Schemas;
};

} // namespace culprit::nsys

#endif // CULPRIT_READERS_NSIGHTSYSTEMSPAYLOAD_H
