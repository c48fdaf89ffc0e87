//===- PhraseFinder.h - Many phrases in one pass ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds which of some hundred phrases occur in a text, in any case, in one
/// pass (Aho and Corasick, 1975, as a complete automaton): about 1 ns a byte
/// however many phrases there are. Logs of 100 MB are searched so.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_PHRASEFINDER_H
#define CULPRIT_SUPPORT_PHRASEFINDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>
#include <vector>

namespace culprit {

/// Compiled phrases. Immutable; safe to use from several threads.
class PhraseFinder {
public:
  struct Hit {
    unsigned Phrase; ///< Index into the phrases given.
    size_t Begin, End;
  };

  /// \p Phrases are not empty and hold fewer than 60,000 characters together.
  explicit PhraseFinder(llvm::ArrayRef<llvm::StringRef> Phrases);

  /// Appends every occurrence of every phrase to \p Hits, by end.
  void find(llvm::StringRef Text, std::vector<Hit> &Hits) const;

private:
  uint16_t step(uint16_t State, unsigned char C) const {
    return Next[State * Classes + ClassOf[C]];
  }

  /// Bytes that no phrase distinguishes share a class; keeps the table small.
  std::array<uint8_t, 256> ClassOf;
  unsigned Classes = 1;
  std::vector<uint16_t> Next;
  /// The phrase that ends at a state or, by way of Shorter, those that end
  /// there as well; -1 for none.
  std::vector<int32_t> Ends, Shorter;
  std::vector<uint32_t> Lengths;
};

} // namespace culprit

#endif // CULPRIT_SUPPORT_PHRASEFINDER_H
