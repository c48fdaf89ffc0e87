//===- Postings.h - Where a term occurs, packed -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The places of one term in the entries of a store, as bytes. For each entry
/// that has the term, in order:
///
///   varint      how much its number is above the one before (the first: its
///               number)
///   varint      the size of what follows
///   counts      for each field a byte with the field in bits 0 to 3, in bit 4
///               whether it is the last one, in bits 5 to 7 the count, where 0
///               says that a varint of count - 8 follows
///   positions   for each of these fields the positions of TermUse: varints of
///               2 * step + (more follow); the first step is the position + 1,
///               0 says that it has none. Nothing when no field has any.
///
/// A varint has 7 bits a byte, the lowest first, and bit 7 set in all but its
/// last byte. The bytes of a store are not trusted: reading stays within them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_POSTINGS_H
#define CULPRIT_KB_POSTINGS_H

#include "KB/Fields.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace culprit {

/// How often a term stands in the fields of an entry.
struct Posting {
  unsigned Entry = 0;
  std::array<uint32_t, NumFields> Counts = {};
};

inline void appendVarint(std::string &Out, uint64_t Value) {
  for (; Value >= 0x80; Value >>= 7)
    Out += static_cast<char>(Value | 0x80);
  Out += static_cast<char>(Value);
}

/// Reads numbers from bytes; 0 behind their end.
class ByteReader {
public:
  explicit ByteReader(llvm::StringRef Bytes)
      : At(Bytes.bytes_begin()), End(Bytes.bytes_end()) {}

  bool atEnd() const { return At == End; }
  uint8_t byte() { return At == End ? 0 : *At++; }
  uint64_t varint() {
    uint64_t Value = byte();
    if (Value < 0x80)
      return Value;
    Value &= 0x7F;
    for (unsigned Shift = 7; Shift < 63; Shift += 7) {
      uint64_t Byte = byte();
      Value |= (Byte & 0x7F) << Shift;
      if (Byte < 0x80)
        break;
    }
    return Value;
  }
  llvm::StringRef take(size_t Size) {
    Size = std::min(Size, static_cast<size_t>(End - At));
    llvm::StringRef Taken(reinterpret_cast<const char *>(At), Size);
    At += Size;
    return Taken;
  }

private:
  const uint8_t *At, *End;
};

/// Calls \p Field(entry, field, count) for all of \p Places in order, and
/// \p Done(entry) behind the last field of each entry. Entries are below
/// \p Limit, fields below NumFields.
template <typename OnField, typename OnEntry>
void readCounts(llvm::StringRef Places, unsigned Limit, OnField Field,
                OnEntry Done) {
  ByteReader R(Places);
  uint64_t At = 0;
  while (!R.atEnd()) {
    At += R.varint();
    if (At >= Limit)
      return; // Damaged.
    unsigned Entry = static_cast<unsigned>(At);
    size_t Size = R.varint();
    ByteReader Own(R.take(Size));
    uint8_t Byte;
    do {
      Byte = Own.byte();
      uint32_t Count = Byte >> 5;
      if (!Count)
        Count = 8 + static_cast<uint32_t>(Own.varint());
      unsigned F = Byte & 15;
      if (F < NumFields)
        Field(Entry, F, Count);
    } while (!(Byte & 16) && !Own.atEnd());
    Done(Entry);
  }
}

/// Finds pairs of neighbours. Remembers the places of the last terms, since one
/// term's second pair is with the next.
class PairFinder {
public:
  /// Appends to \p Out the entries in which \p Second stands right behind
  /// \p First, with the number of times in each field. \p Base is added to the
  /// numbers of entries, which are below \p Limit. Two calls with the same
  /// bytes at the same address mean the same term.
  void find(llvm::StringRef First, llvm::StringRef Second, unsigned Limit,
            unsigned Base, std::vector<Posting> &Out);

private:
  /// Where the counts and positions of each entry are; 0 when it has none.
  struct Table {
    llvm::StringRef Places;
    std::vector<std::pair<uint32_t, uint32_t>> Own; ///< Begin and size.
  };
  Table Tables[2];
  std::vector<uint64_t> Before, Behind;
};

} // namespace culprit

#endif // CULPRIT_KB_POSTINGS_H
