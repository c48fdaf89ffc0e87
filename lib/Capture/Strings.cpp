//===- Strings.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Strings.h"
#include <string.h>
#include <sys/mman.h>

namespace culprit::capture {

static constexpr uint32_t SlotCount = 2 * Strings::MaxStrings;

static void *reserved(size_t Size) {
  void *At = mmap(nullptr, Size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return At == MAP_FAILED ? nullptr : At;
}

bool Strings::reserve() {
  Bytes = static_cast<char *>(reserved(MaxBytes));
  Slots = static_cast<Slot *>(reserved(SlotCount * sizeof(Slot)));
  Places = static_cast<Place *>(reserved((MaxStrings + 1) * sizeof(Place)));
  if (Bytes && Slots && Places)
    return true;
  release();
  return false;
}

void Strings::release() {
  if (Bytes)
    munmap(Bytes, MaxBytes);
  if (Slots)
    munmap(Slots, SlotCount * sizeof(Slot));
  if (Places)
    munmap(Places, (MaxStrings + 1) * sizeof(Place));
  *this = Strings();
}

void Strings::clear() {
  if (!Bytes)
    return;
  // Gives the pages back instead of writing zeros to all of them.
  madvise(Slots, SlotCount * sizeof(Slot), MADV_DONTNEED);
  Used = 0;
  Count = 0;
  FullId = 0;
}

/// Mixes eight bytes at a time; the numbers are odd and otherwise of no
/// meaning.
static uint64_t hashOf(const char *Text, size_t Size) {
  uint64_t Hash = 0x9e3779b97f4a7c15u ^ Size;
  auto Mix = [&](uint64_t Word) {
    unsigned __int128 Product =
        static_cast<unsigned __int128>(Hash ^ Word) * 0xd6e8feb86659fd93u;
    Hash = static_cast<uint64_t>(Product) ^
           static_cast<uint64_t>(Product >> 64);
  };
  for (; Size >= 8; Size -= 8, Text += 8) {
    uint64_t Word;
    memcpy(&Word, Text, 8);
    Mix(Word);
  }
  uint64_t Last = 0;
  memcpy(&Last, Text, Size);
  Mix(Last);
  Mix(0xa0761d6478bd642fu);
  return Hash;
}

Strings::Named Strings::intern(const char *Text) {
  return intern(Text, strlen(Text));
}

Strings::Named Strings::intern(const char *Text, size_t Size) {
  uint64_t Hash = hashOf(Text, Size);
  for (uint32_t I = Hash & (SlotCount - 1);; I = (I + 1) & (SlotCount - 1)) {
    Slot &S = Slots[I];
    if (!S.Id)
      return add(Text, Size, Hash, S);
    const Place &P = Places[S.Id];
    if (S.Hash == Hash && P.Size == Size &&
        !memcmp(Bytes + P.Begin, Text, Size))
      return {S.Id, false};
  }
}

Strings::Named Strings::add(const char *Text, size_t Size, uint64_t Hash,
                            Slot &S) {
  // One place and a few bytes are kept for FullText itself.
  bool Full = Count + 1 >= MaxStrings ||
              Used + Size + sizeof(FullText) > MaxBytes;
  bool IsFullText = Size == sizeof(FullText) - 1 && !memcmp(Text, FullText, Size);
  if (Full && !IsFullText) {
    ++Refused;
    if (FullId)
      return {FullId, false};
    Named N = intern(FullText, sizeof(FullText) - 1);
    FullId = N.Id;
    return N;
  }
  S.Hash = Hash;
  S.Id = ++Count;
  Places[S.Id] = {static_cast<uint32_t>(Used), static_cast<uint32_t>(Size)};
  memcpy(Bytes + Used, Text, Size);
  Used += Size;
  return {S.Id, true};
}

void Strings::forgetFrom(uint32_t First) {
  // The newest first: no other was put behind its slot.
  for (; Count && Count >= First; --Count) {
    const Place &P = Places[Count];
    uint32_t I = hashOf(Bytes + P.Begin, P.Size) & (SlotCount - 1);
    while (Slots[I].Id != Count)
      I = (I + 1) & (SlotCount - 1);
    Slots[I] = {};
    Used = P.Begin;
    if (FullId == Count)
      FullId = 0;
  }
}

const char *Strings::text(uint32_t Id, size_t &Size) const {
  Size = Places[Id].Size;
  return Bytes + Places[Id].Begin;
}

} // namespace culprit::capture
