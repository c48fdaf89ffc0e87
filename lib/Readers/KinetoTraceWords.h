//===- KinetoTraceWords.h - A fixed set of words ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds a word of a padded text in a set known at compile time: one hash of
/// its first eight bytes and its length, one compare of integers. Every key of
/// every event goes through it, so that calls of memcmp would show.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACEWORDS_H
#define CULPRIT_READERS_KINETOTRACEWORDS_H

#include "llvm/ADT/StringRef.h"
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace culprit::kineto {

template <typename T> struct Word {
  llvm::StringLiteral Text;
  T Value;
};

/// \p N words, each with a value. Words are at most 63 bytes.
template <typename T, size_t N> class WordTable {
public:
  /// \p None is what a look-up of any other word gives.
  constexpr WordTable(const Word<T> (&Words)[N], T None) : None(None) {
    for (const Word<T> &W : Words) {
      size_t Length = W.Text.size();
      uint64_t First = 0;
      for (size_t I = 0; I != Length && I != 8; ++I)
        First |= uint64_t(static_cast<unsigned char>(W.Text.data()[I]))
                 << (8 * I);
      size_t At = slot(First, Length);
      while (Slots[At].Length != 0)
        At = (At + 1) % NumSlots;
      Slots[At] = {First, W.Text.data(), Length, W.Value};
    }
  }

  /// The value of \p Text, behind which 8 bytes must be readable.
  T find(llvm::StringRef Text) const {
    size_t Length = Text.size();
    if (Length == 0)
      return None;
    uint64_t First = firstBytes(Text.data(), Length);
    for (size_t At = slot(First, Length); Slots[At].Length != 0;
         At = (At + 1) % NumSlots)
      if (Slots[At].First == First && Slots[At].Length == Length &&
          (Length <= 8 ||
           std::memcmp(Slots[At].Text + 8, Text.data() + 8, Length - 8) == 0))
        return Slots[At].Value;
    return None;
  }

private:
  struct Slot {
    uint64_t First = 0;
    const char *Text = nullptr;
    size_t Length = 0;
    T Value = {};
  };
  static constexpr size_t NumSlots = std::bit_ceil(4 * N);

  static constexpr size_t slot(uint64_t First, size_t Length) {
    return (((First ^ Length) * 0x9E3779B97F4A7C15u) >> 40) % NumSlots;
  }

  static uint64_t firstBytes(const char *At, size_t Length) {
    if constexpr (std::endian::native == std::endian::little) {
      uint64_t Bytes;
      std::memcpy(&Bytes, At, 8);
      return Length >= 8 ? Bytes : Bytes & ((uint64_t(1) << (8 * Length)) - 1);
    }
    uint64_t Bytes = 0;
    for (size_t I = 0; I != Length && I != 8; ++I)
      Bytes |= uint64_t(static_cast<unsigned char>(At[I])) << (8 * I);
    return Bytes;
  }

  std::array<Slot, NumSlots> Slots = {};
  T None;
};

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACEWORDS_H
