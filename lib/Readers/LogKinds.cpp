//===- LogKinds.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogKinds.h"
#include "Support/PhraseFinder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"
#include <bit>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

using namespace llvm;

namespace culprit {

namespace {
/// One bit a byte of a block of 64.
struct BlockMasks {
  uint64_t Digits = 0, Words = 0; ///< Words: letters and digits.
};
} // namespace

static BlockMasks masksOf(const char *Block) {
  BlockMasks Out;
#ifdef __SSE2__
  // Signed comparison: bytes beyond ASCII are negative and in no range.
  auto Between = [](__m128i Bytes, char Low, char High) {
    return _mm_and_si128(_mm_cmpgt_epi8(Bytes, _mm_set1_epi8(Low - 1)),
                         _mm_cmplt_epi8(Bytes, _mm_set1_epi8(High + 1)));
  };
  for (unsigned I = 0; I != 64; I += 16) {
    __m128i Bytes =
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(Block + I));
    __m128i Digits = Between(Bytes, '0', '9');
    __m128i Letters =
        Between(_mm_or_si128(Bytes, _mm_set1_epi8(0x20)), 'a', 'z');
    Out.Digits |= uint64_t(uint32_t(_mm_movemask_epi8(Digits))) << I;
    Out.Words |= uint64_t(uint32_t(
                     _mm_movemask_epi8(_mm_or_si128(Digits, Letters))))
                 << I;
  }
#else
  for (unsigned I = 0; I != 64; ++I) {
    Out.Digits |= uint64_t(isDigit(Block[I])) << I;
    Out.Words |= uint64_t(isAlnum(Block[I])) << I;
  }
#endif
  return Out;
}

static constexpr size_t KeyBytes = 4096;

/// Calls \p Plain with each stretch of \p Line between words that hold a
/// digit, and \p Volatile once for each of these.
template <typename PlainFn, typename VolatileFn>
static void splitLine(StringRef Line, PlainFn Plain, VolatileFn Volatile) {
  Line = Line.take_front(KeyBytes);
  uint64_t Digits[KeyBytes / 64 + 1], Words[KeyBytes / 64 + 1];
  size_t Blocks = 0;
  for (size_t At = 0; At < Line.size(); At += 64, ++Blocks) {
    const char *Block = Line.data() + At;
    char Last[64];
    if (Line.size() - At < 64) {
      std::memset(Last, 0, sizeof(Last));
      std::memcpy(Last, Block, Line.size() - At);
      Block = Last;
    }
    BlockMasks Masks = masksOf(Block);
    Digits[Blocks] = Masks.Digits;
    Words[Blocks] = Masks.Words;
  }
  Digits[Blocks] = Words[Blocks] = 0;
  // The first position at or after At whose bit is set; the end without any.
  auto Next = [&](const uint64_t *Bits, size_t At, uint64_t Flip) {
    for (size_t B = At / 64; B < Blocks; ++B, At = B * 64)
      if (uint64_t Rest = (Bits[B] ^ Flip) >> (At % 64))
        return std::min<size_t>(At + std::countr_zero(Rest), Line.size());
    return Line.size();
  };
  size_t Begin = 0;
  while (Begin < Line.size()) {
    size_t Digit = Next(Digits, Begin, 0);
    size_t Word = Digit;
    while (Digit != Line.size() && Word > Begin &&
           (Words[(Word - 1) / 64] >> ((Word - 1) % 64) & 1))
      --Word;
    if (Word > Begin)
      Plain(Line.slice(Begin, Word));
    if (Digit == Line.size())
      return;
    Volatile();
    Begin = Next(Words, Digit, ~uint64_t(0));
  }
}

/// A hash of a short text, which most stretches between numbers are.
static uint64_t hashOf(StringRef Text) {
  size_t Size = Text.size();
  if (Size > 16)
    return xxh3_64bits(Text);
  const char *P = Text.data();
  uint64_t First = 0, Last = 0;
  if (Size >= 8) {
    std::memcpy(&First, P, 8);
    std::memcpy(&Last, P + Size - 8, 8);
  } else if (Size >= 4) {
    std::memcpy(&First, P, 4);
    std::memcpy(&Last, P + Size - 4, 4);
  } else if (Size) {
    First = uint64_t(uint8_t(P[0])) << 16 | uint64_t(uint8_t(P[Size / 2])) << 8 |
            uint8_t(P[Size - 1]);
  }
  uint64_t Mixed = (First ^ Size) * 0x9fb21c651e98df25;
  return (Mixed ^ (Mixed >> 32) ^ Last) * 0xc2b2ae3d27d4eb4f;
}

LineKeys lineKeys(StringRef Line) {
  LineKeys Out;
  uint64_t Key = 0x9e3779b97f4a7c15;
  auto Mix = [&](uint64_t Part) {
    Key = std::rotl(Key * 0xff51afd7ed558ccd, 29) ^ Part;
  };
  // A DenseMap has the two highest keys for itself.
  auto Usable = [&] { return Key >= ~uint64_t(1) ? 0 : Key; };
  size_t Plain = 0;
  unsigned Level = 0;
  splitLine(
      Line,
      [&](StringRef Text) {
        // Cut where so much text has passed, whatever the length of numbers.
        while (Level != LineKeys::Beginnings &&
               Plain + Text.size() >= LineKeys::BeginningText[Level]) {
          size_t Left = LineKeys::BeginningText[Level] - Plain;
          Mix(hashOf(Text.take_front(Left)));
          Out.Beginning[Level] = Usable();
          Out.BeginningBytes[Level] = Text.begin() - Line.begin() + Left;
          Plain += Left;
          Text = Text.drop_front(Left);
          ++Level;
        }
        Plain += Text.size();
        Mix(hashOf(Text));
      },
      [&] { Mix(1); });
  Out.Whole = Usable();
  for (; Level != LineKeys::Beginnings; ++Level) {
    Out.Beginning[Level] = Out.Whole;
    Out.BeginningBytes[Level] = Line.size();
  }
  return Out;
}

/// \p Text with each word that holds a digit as one #.
static std::string skeleton(StringRef Text) {
  std::string Out;
  splitLine(
      Text, [&](StringRef Plain) { Out += Plain; }, [&] { Out += '#'; });
  return Out;
}

bool numbersMatter(StringRef Line) {
  static const PhraseFinder Numbered = [] {
    static constexpr StringLiteral Phrases[] = {
#define ERROR(NAME, TYPE, CODE, PHRASE) PHRASE,
#define ERROR_IF(NAME, TYPE, CODE, PHRASE, GLOB) PHRASE,
#define ERROR_COUNT(NAME, TYPE, CODE, PHRASE) PHRASE,
#include "Readers/ErrorSignatures.def"
    };
    std::vector<std::string> Skeletons;
    for (StringRef Phrase : Phrases)
      if (any_of(Phrase, isDigit))
        Skeletons.push_back(skeleton(Phrase));
    llvm::sort(Skeletons);
    Skeletons.erase(llvm::unique(Skeletons), Skeletons.end());
    return PhraseFinder(
        std::vector<StringRef>(Skeletons.begin(), Skeletons.end()));
  }();
  std::vector<PhraseFinder::Hit> Hits;
  Numbered.find(skeleton(Line), Hits);
  return !Hits.empty();
}

LogKind &LogKinds::of(StringRef Line, size_t &BeginningBytes) {
  LineKeys Keys = lineKeys(Line);
  Beginning *Shorter = nullptr;
  for (unsigned Level = 0; Level != LineKeys::Beginnings; ++Level) {
    auto &Known = ByBeginning[Level];
    auto It = Known.find(Keys.Beginning[Level]);
    if (It == Known.end()) {
      if (Known.size() == MaxKinds) {
        Rest.FreeText = true;
        BeginningBytes = 0;
        return Rest;
      }
      It = Known
               .try_emplace(Keys.Beginning[Level],
                            std::make_unique<Beginning>())
               .first;
      It->second->Others.FreeText = true;
      if (Shorter)
        ++Shorter->Kinds;
    }
    Shorter = It->second.get();
    BeginningBytes = Keys.BeginningBytes[Level];
    if (Shorter->Kinds == MaxAlike)
      return Shorter->Others;
  }
  std::unique_ptr<LogKind> &Known = ByKey[Keys.Whole];
  if (Known)
    return *Known;
  if (ByKey.size() > MaxKinds) {
    ByKey.erase(Keys.Whole);
    return Shorter->Others;
  }
  ++Shorter->Kinds;
  Known = std::make_unique<LogKind>();
  Known->Eventful = numbersMatter(Line);
  return *Known;
}

std::vector<LogKind *> LogKinds::takeCounted() {
  std::vector<LogKind *> Out;
  Out.swap(Counted);
  return Out;
}

} // namespace culprit
