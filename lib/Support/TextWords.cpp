//===- TextWords.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/TextWords.h"

using namespace llvm;

namespace culprit {

static constexpr uint64_t Factor = 0x9e3779b97f4a7c15ULL;

/// For an ASCII byte what it counts as in a word; 0 where it ends one.
static constexpr unsigned char foldedByte(unsigned C) {
  if (C >= 'A' && C <= 'Z')
    return static_cast<unsigned char>(C + 32);
  return (C >= 'a' && C <= 'z') || (C >= '0' && C <= '9')
             ? static_cast<unsigned char>(C)
             : 0;
}

namespace {
struct FoldTable {
  unsigned char Of[128] = {};
  constexpr FoldTable() {
    for (unsigned C = 0; C != 128; ++C)
      Of[C] = foldedByte(C);
  }
};

/// What a character beyond ASCII is to words.
enum class Wide { Letter, Gap, Own };
} // namespace

static constexpr FoldTable Fold;

/// Told by its first two bytes.
static Wide kindOf(unsigned char First, unsigned char Second) {
  if (First == 0xC2) // Latin-1 signs; its letters begin with C3
    return Wide::Gap;
  if (First == 0xE2 && Second <= 0x81) // general punctuation
    return Wide::Gap;
  if (First == 0xE3 && Second == 0x80) // CJK punctuation
    return Wide::Gap;
  if (First == 0xEF && (Second == 0xBC || Second == 0xBD || Second == 0xBB))
    return Wide::Gap; // full-width signs, the byte-order mark
  if (First == 0xE0 && Second >= 0xB8 && Second <= 0xBB) // Thai, Lao
    return Wide::Own;
  if (First == 0xE1 &&
      ((Second >= 0x80 && Second <= 0x82) || Second == 0x9E || Second == 0x9F))
    return Wide::Own; // Burmese, Khmer
  // Kana, ideographs and Hangul.
  return First >= 0xE3 && First <= 0xED ? Wide::Own : Wide::Letter;
}

/// Bytes of the character that begins with \p First; 1 for a broken one.
static size_t lengthOf(unsigned char First) {
  return First >= 0xF0 ? 4 : First >= 0xE0 ? 3 : First >= 0xC0 ? 2 : 1;
}

void wordHashes(StringRef Text, std::vector<uint64_t> &Out) {
  Out.clear();
  const unsigned char *At = Text.bytes_begin(), *End = Text.bytes_end();
  uint64_t Word = 0;
  auto Finish = [&] {
    if (Word)
      Out.push_back(mixBits(Word));
    Word = 0;
  };
  while (At != End) {
    const unsigned char C = *At;
    if (C < 0x80) {
      ++At;
      if (const unsigned char F = Fold.Of[C])
        Word = (Word + F) * Factor;
      else
        Finish();
      continue;
    }
    const size_t Length =
        std::min(lengthOf(C), static_cast<size_t>(End - At));
    const Wide Kind = kindOf(C, Length > 1 ? At[1] : 0);
    if (Kind != Wide::Letter)
      Finish();
    if (Kind != Wide::Gap)
      for (size_t I = 0; I != Length; ++I)
        Word = (Word + At[I]) * Factor;
    if (Kind == Wide::Own)
      Finish();
    At += Length;
  }
  Finish();
}

void windowHashes(ArrayRef<uint64_t> Words, size_t Length,
                  std::vector<uint64_t> &Out) {
  Out.clear();
  if (Length == 0 || Words.size() < Length)
    return;
  uint64_t Oldest = 1; // the power of the word that leaves the window
  for (size_t I = 1; I != Length; ++I)
    Oldest *= Factor;
  uint64_t Sum = 0;
  for (size_t I = 0; I != Words.size(); ++I) {
    if (I >= Length)
      Sum -= Words[I - Length] * Oldest;
    Sum = Sum * Factor + Words[I];
    if (I + 1 >= Length)
      Out.push_back(mixBits(Sum));
  }
}

uint64_t hashOfWords(ArrayRef<uint64_t> Words) {
  uint64_t Sum = Words.size();
  for (uint64_t Word : Words)
    Sum = Sum * Factor + Word;
  return mixBits(Sum);
}

} // namespace culprit
