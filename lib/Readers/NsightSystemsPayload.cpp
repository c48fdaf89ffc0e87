//===- NsightSystemsPayload.cpp ---------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystemsPayload.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace culprit::nsys {

namespace {
struct Type {
  unsigned Bytes = 0;
  bool Signed = false;
};
} // namespace

/// The size of nvToolsExtPayload's entry types on 64-bit Linux. Ids of other
/// schemas, such as NCCL's own enumeration of reductions, are 4 bytes wide.
static Type typeOf(int64_t Id) {
  switch (Id) {
  case 1:
  case 11:
    return {1, true};
  case 2:
  case 12:
    return {1, false};
  case 3:
  case 13:
    return {2, true};
  case 4:
  case 14:
    return {2, false};
  case 5:
  case 15:
    return {4, true};
  case 6:
  case 16:
    return {4, false};
  case 7:
  case 9:
  case 17:
    return {8, true};
  case 8:
  case 10:
  case 18:
  case 20: // double
  case 22: // size_t
  case 23: // address
    return {8, false};
  case 19: // float
    return {4, false};
  default:
    return {Id > 0xffff ? 4u : 0u, true};
  }
}

PayloadSchemas::PayloadSchemas(Database &DB) {
  enum : unsigned { Domain, Schema, Index, Kind, Name, Offset };
  struct Raw {
    int64_t Kind;
    std::string Name;
    std::optional<int64_t> Offset;
  };
  // Every process of a job registers the same schemas again.
  std::map<Key, std::map<int64_t, Raw>> All;
  DB.forEach("NVTX_PAYLOAD_SCHEMA_ENTRIES",
             {"domainId", "schemaId", "idx", "type", "name", "offset"},
             [&](const Row &R) {
               Key Id = {R.integer(Domain, 0), R.integer(Schema, 0)};
               All[Id].try_emplace(
                   R.integer(Index, 0),
                   Raw{R.integer(Kind, 0), R.text(Name).lower(),
                       R.integer(Offset)});
             });
  for (const auto &[Id, Entries] : All) {
    uint64_t Next = 0;
    std::vector<Entry> Known;
    for (const auto &[At, E] : Entries) {
      Type T = typeOf(E.Kind);
      if (T.Bytes == 0)
        break; // what follows cannot be placed
      // Without an offset the entry lies where C puts it.
      uint64_t Place = E.Offset && *E.Offset >= 0
                           ? static_cast<uint64_t>(*E.Offset)
                           : alignTo(Next, T.Bytes);
      Next = Place + T.Bytes;
      StringRef Text = E.Name;
      std::optional<Field> What;
      if (Text == "nccl communicator id")
        What = Field::Communicator;
      else if (Text.starts_with("message size"))
        What = Field::Message;
      else if (Text == "peer rank" || Text == "peer")
        What = Field::Peer;
      else if (Text == "no. of ranks")
        What = Field::Ranks;
      else if (Text == "rank")
        What = Field::Rank;
      if (What)
        Known.push_back({*What, Place, T.Bytes, T.Signed});
    }
    if (!Known.empty())
      Schemas[Id] = std::move(Known);
  }
}

static uint64_t readNumber(const char *At, unsigned Bytes, bool Signed) {
  switch (Bytes) {
  case 1:
    return Signed ? int64_t(int8_t(*At)) : uint64_t(uint8_t(*At));
  case 2: {
    uint16_t Value = support::endian::read16le(At);
    return Signed ? int64_t(int16_t(Value)) : uint64_t(Value);
  }
  case 4: {
    uint32_t Value = support::endian::read32le(At);
    return Signed ? int64_t(int32_t(Value)) : uint64_t(Value);
  }
  default:
    return support::endian::read64le(At);
  }
}

std::optional<NcclPayload> PayloadSchemas::decode(StringRef Blob,
                                                  bool IsText) const {
  std::string Raw;
  if (IsText && Blob.size() % 2 == 0 && Blob.size() < 4096 &&
      all_of(Blob, isHexDigit)) {
    Raw = fromHex(Blob);
    Blob = Raw;
  }
  constexpr size_t Header = 32;
  if (Blob.size() < Header)
    return std::nullopt;
  auto Word = [&](unsigned I) {
    return support::endian::read64le(Blob.data() + 8 * I);
  };
  auto It = Schemas.find({Word(0), Word(1)});
  uint64_t Size = Word(2);
  if (It == Schemas.end() || Size > Blob.size() - Header)
    return std::nullopt;
  StringRef Payload = Blob.drop_front(Header).take_front(Size);
  NcclPayload Out;
  for (const Entry &E : It->second) {
    if (E.Offset > Payload.size() || E.Bytes > Payload.size() - E.Offset)
      return std::nullopt;
    uint64_t Value = readNumber(Payload.data() + E.Offset, E.Bytes, E.Signed);
    int64_t Number = static_cast<int64_t>(Value);
    if (E.What == Field::Communicator)
      Out.Communicator = Value;
    else if (Number < 0)
      continue;
    else if (E.What == Field::Message)
      Out.Message = Number;
    else if (E.What == Field::Peer)
      Out.Peer = Number;
    else if (E.What == Field::Ranks)
      Out.Ranks = Number;
    else
      Out.Rank = Number;
  }
  return Out;
}

} // namespace culprit::nsys
