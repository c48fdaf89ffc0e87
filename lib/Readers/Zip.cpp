//===- Zip.cpp --------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// After APPNOTE.TXT 6.3.10, https://pkware.cachefly.net/webdocs/casestudies/.
//
//===----------------------------------------------------------------------===//

#include "Readers/Zip.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cstdlib>
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <optional>

using namespace llvm;

namespace culprit {

static constexpr StringLiteral LocalMagic("PK\3\4");
static constexpr StringLiteral CentralMagic("PK\1\2");
static constexpr StringLiteral EndMagic("PK\5\6");
static constexpr StringLiteral End64Magic("PK\6\6");
static constexpr StringLiteral Locator64Magic("PK\6\7");

static constexpr size_t LocalSize = 30, CentralSize = 46, EndSize = 22,
                        End64Size = 56, Locator64Size = 20;

static constexpr unsigned Encrypted = 1, SizesFollow = 8; // flags
static constexpr unsigned Stored = 0, Deflated = 8;       // methods
static constexpr uint32_t In64 = 0xffffffff; // "see the zip64 field"

/// Deflate cannot do better: two bits stand for 258 bytes at most.
static constexpr uint64_t MaxRatio = 1032;
/// igzip counts in 32 bits.
static constexpr uint64_t MaxUnpackedOfMember = (uint64_t(1) << 32) - 4096;

static uint16_t read16(StringRef Bytes, size_t At) {
  return support::endian::read16le(Bytes.data() + At);
}
static uint32_t read32(StringRef Bytes, size_t At) {
  return support::endian::read32le(Bytes.data() + At);
}
static uint64_t read64(StringRef Bytes, size_t At) {
  return support::endian::read64le(Bytes.data() + At);
}

/// Replaces values of \p M that do not fit 32 bits by those of the zip64
/// field among \p Extra. False when it is missing.
static bool apply64(StringRef Extra, ZipMember &M, bool HasOffset) {
  if (M.Size != In64 && M.Packed != In64 && !(HasOffset && M.Offset == In64))
    return true;
  while (Extra.size() >= 4) {
    uint16_t Id = read16(Extra, 0), Length = read16(Extra, 2);
    Extra = Extra.drop_front(4);
    if (Length > Extra.size())
      return false;
    StringRef Field = Extra.take_front(Length);
    Extra = Extra.drop_front(Length);
    if (Id != 1)
      continue;
    const auto Take = [&](uint64_t &Value) {
      if (Value != In64)
        return true;
      if (Field.size() < 8)
        return false;
      Value = read64(Field, 0);
      Field = Field.drop_front(8);
      return true;
    };
    return Take(M.Size) && Take(M.Packed) && (!HasOffset || Take(M.Offset));
  }
  return false;
}

/// Length of the local header at \p Offset with its variable parts, 0 if none
/// lies there.
static size_t localHeader(StringRef Bytes, uint64_t Offset) {
  if (Offset > Bytes.size() || Bytes.size() - Offset < LocalSize ||
      !Bytes.substr(Offset).starts_with(LocalMagic))
    return 0;
  size_t Length =
      LocalSize + read16(Bytes, Offset + 26) + read16(Bytes, Offset + 28);
  return Bytes.size() - Offset < Length ? 0 : Length;
}

/// Walks from member to member. Ends at the first that does not tell its size
/// in front or is not all there.
static void listLocal(StringRef Bytes, ZipDirectory &Out) {
  uint64_t At = 0;
  while (size_t Length = localHeader(Bytes, At)) {
    ZipMember M;
    M.Flags = read16(Bytes, At + 6);
    M.Method = read16(Bytes, At + 8);
    M.Checksum = read32(Bytes, At + 14);
    M.Packed = read32(Bytes, At + 18);
    M.Size = read32(Bytes, At + 22);
    M.Offset = At;
    size_t NameLength = read16(Bytes, At + 26);
    M.Name = json::fixUTF8(Bytes.substr(At + LocalSize, NameLength));
    StringRef Extra = Bytes.slice(At + LocalSize + NameLength, At + Length);
    if (!apply64(Extra, M, /*HasOffset=*/false) || (M.Flags & SizesFollow) ||
        M.Packed > Bytes.size() - At - Length)
      return;
    At += Length + M.Packed;
    Out.Members.push_back(std::move(M));
  }
}

/// Where the central directory begins, and how many members it claims.
static std::optional<std::pair<uint64_t, uint64_t>>
findCentral(StringRef Bytes) {
  if (Bytes.size() < EndSize)
    return std::nullopt;
  // The end record closes the file but for a comment of up to 64 KiB.
  size_t First = Bytes.size() - EndSize;
  size_t Last = First > 0xffff ? First - 0xffff : 0;
  for (size_t At = First + 1; At-- != Last;) {
    if (!Bytes.substr(At).starts_with(EndMagic) ||
        read16(Bytes, At + 20) > Bytes.size() - At - EndSize)
      continue;
    uint64_t Count = read16(Bytes, At + 10), Start = read32(Bytes, At + 16);
    if (At >= Locator64Size &&
        Bytes.substr(At - Locator64Size).starts_with(Locator64Magic)) {
      uint64_t End64 = read64(Bytes, At - Locator64Size + 8);
      if (End64 < At && At - End64 >= End64Size &&
          Bytes.substr(End64).starts_with(End64Magic)) {
        Count = read64(Bytes, End64 + 32);
        Start = read64(Bytes, End64 + 48);
      }
    }
    if (Start > At)
      return std::nullopt;
    return std::pair(Start, Count);
  }
  return std::nullopt;
}

ZipDirectory listZip(StringRef Bytes) {
  ZipDirectory Out;
  std::optional<std::pair<uint64_t, uint64_t>> Central = findCentral(Bytes);
  if (!Central) {
    listLocal(Bytes, Out);
    Out.Damage = formatv("the archive's directory is missing at its end; {0} "
                         "members were found without it",
                         Out.Members.size());
    return Out;
  }
  auto [At, Count] = *Central;
  for (uint64_t I = 0; I != Count; ++I) {
    StringRef Rest = Bytes.substr(At);
    size_t Length = 0;
    if (Rest.size() >= CentralSize && Rest.starts_with(CentralMagic))
      Length =
          CentralSize + read16(Rest, 28) + read16(Rest, 30) + read16(Rest, 32);
    if (Length == 0 || Length > Rest.size()) {
      Out.Damage =
          formatv("the archive's directory is damaged at byte {0}; {1} "
                  "of {2} members can be found",
                  At, I, Count);
      return Out;
    }
    ZipMember M;
    M.Flags = read16(Rest, 8);
    M.Method = read16(Rest, 10);
    M.Checksum = read32(Rest, 16);
    M.Packed = read32(Rest, 20);
    M.Size = read32(Rest, 24);
    M.Offset = read32(Rest, 42);
    size_t NameLength = read16(Rest, 28);
    M.Name = json::fixUTF8(Rest.substr(CentralSize, NameLength));
    // Values that stay at the mark lie beyond the file, which unpack() says.
    apply64(Rest.substr(CentralSize + NameLength, read16(Rest, 30)), M,
            /*HasOffset=*/true);
    Out.Members.push_back(std::move(M));
    At += Length;
  }
  return Out;
}

/// Inflates \p Packed, which must give exactly \p Size bytes.
static Expected<StringRef> inflate(StringRef Packed, uint64_t Size,
                                   StringRef Where,
                                   std::shared_ptr<void> &Owner) {
  // Some room beyond the end shows a stream that would go on.
  constexpr uint64_t Room = 64;
  auto *Out = static_cast<uint8_t *>(std::malloc(Size + Room));
  if (!Out)
    return failure(Where + ": does not fit into memory");
  Owner = std::shared_ptr<void>(Out, std::free);

  auto State = std::make_unique<inflate_state>();
  isal_inflate_init(State.get());
  State->crc_flag = ISAL_DEFLATE;
  State->next_in =
      reinterpret_cast<uint8_t *>(const_cast<char *>(Packed.data()));
  State->avail_in = uint32_t(Packed.size());
  State->next_out = Out;
  State->avail_out = uint32_t(Size + Room);
  int Code = isal_inflate_stateless(State.get());
  if (Code == ISAL_DECOMP_OK && State->total_out == Size)
    return StringRef(reinterpret_cast<char *>(Out), Size);
  return failure(
      formatv("{0}: its compressed data are damaged: they give {1} of {2} "
              "bytes",
              Where, std::min<uint64_t>(State->total_out, Size), Size),
      "it was skipped; copy the file again");
}

bool checksumHolds(const ZipMember &Member, StringRef Content) {
  return crc32_gzip_refl(0, reinterpret_cast<const uint8_t *>(Content.data()),
                         Content.size()) == Member.Checksum;
}

std::vector<bool> overlappingMembers(ArrayRef<ZipMember> Members) {
  std::vector<size_t> Order(Members.size());
  for (size_t I = 0; I != Order.size(); ++I)
    Order[I] = I;
  stable_sort(Order, [&](size_t A, size_t B) {
    return Members[A].Offset < Members[B].Offset;
  });
  std::vector<bool> Out(Members.size());
  uint64_t End = 0;
  for (size_t I : Order) {
    const ZipMember &M = Members[I];
    Out[I] = M.Offset < End;
    if (!Out[I] && M.Packed <= UINT64_MAX - M.Offset)
      End = M.Offset + M.Packed;
  }
  return Out;
}

Expected<StringRef> unpack(StringRef Bytes, const ZipMember &Member,
                           StringRef Where, std::shared_ptr<void> &Owner,
                           ZipCheck Check) {
  constexpr StringLiteral Skipped("it was skipped; copy the file again");
  if (Member.Flags & Encrypted)
    return failure(Where + ": is encrypted", "unpack the archive first");
  if (Member.Method != Stored && Member.Method != Deflated)
    return failure(
        formatv("{0}: is compressed by method {1} of the zip format; "
                "stored and deflated members are read",
                Where, Member.Method),
        "write it again with members stored or deflated, as NumPy and PyTorch "
        "do");
  size_t Length = localHeader(Bytes, Member.Offset);
  if (Length == 0)
    return failure(formatv("{0}: the archive has no member at byte {1}", Where,
                           Member.Offset),
                   Skipped);
  StringRef Packed = Bytes.substr(Member.Offset + Length);
  if (Member.Packed > Packed.size())
    return failure(formatv("{0}: should be {1} bytes in the archive, but only "
                           "{2} follow",
                           Where, Member.Packed, Packed.size()),
                   Skipped);
  Packed = Packed.take_front(Member.Packed);

  StringRef Content = Packed;
  if (Member.Method == Deflated) {
    if (Member.Size > MaxUnpackedOfMember ||
        Member.Packed > MaxUnpackedOfMember)
      return failure(formatv("{0}: unpacks to {1} bytes; up to 4 GiB are read",
                             Where, Member.Size),
                     "write it again without compression");
    if (Member.Size > MaxRatio * (Member.Packed + 1))
      return failure(formatv("{0}: claims {1} bytes in {2}, more than can be "
                             "packed into them",
                             Where, Member.Size, Member.Packed),
                     Skipped);
    Expected<StringRef> Inflated = inflate(Packed, Member.Size, Where, Owner);
    if (!Inflated)
      return Inflated.takeError();
    Content = *Inflated;
  }
  if (Check == ZipCheck::Sum && !checksumHolds(Member, Content))
    return failure(Where + ": its checksum does not hold, so some of its bytes "
                           "are wrong",
                   Skipped);
  return Content;
}

} // namespace culprit
