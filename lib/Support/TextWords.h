//===- TextWords.h - The words of a text as hashes --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What searches for copies compare: the words of a text without case,
/// punctuation and layout, as 64-bit hashes, and windows of n of them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_TEXTWORDS_H
#define CULPRIT_SUPPORT_TEXTWORDS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <vector>

namespace culprit {

/// The words of \p Text, in order, in place of what \p Out held. A word is a
/// run of ASCII letters and digits, their case ignored, and of other letters
/// as they are; of scripts without spaces (Chinese, Japanese, Thai, Khmer) and
/// of Hangul each character is one. Hashes are the same on every machine.
void wordHashes(llvm::StringRef Text, std::vector<uint64_t> &Out);

/// The hash of each window of \p Length words, rolled along in constant time
/// a word; in place of what \p Out held. Empty for fewer words.
void windowHashes(llvm::ArrayRef<uint64_t> Words, size_t Length,
                  std::vector<uint64_t> &Out);

/// One hash of all words: equal for texts that differ in case, punctuation and
/// layout alone.
uint64_t hashOfWords(llvm::ArrayRef<uint64_t> Words);

/// Spreads the bits of \p Value over all of the result.
inline uint64_t mixBits(uint64_t Value) {
  Value = (Value ^ (Value >> 32)) * 0xd6e8feb86659fd93ULL;
  Value = (Value ^ (Value >> 32)) * 0xd6e8feb86659fd93ULL;
  return Value ^ (Value >> 32);
}

} // namespace culprit

#endif // CULPRIT_SUPPORT_TEXTWORDS_H
