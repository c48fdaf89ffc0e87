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

/// Of longer lines the rest is not looked at.
static constexpr size_t KeyBytes = 4096;

namespace {
/// Divides a line into text and words that hold a digit, as far as it is asked
/// to: of free text, which most bytes of some logs are, only the beginning is
/// needed.
class LineSplitter {
public:
  explicit LineSplitter(StringRef Line) : Line(Line.take_front(KeyBytes)) {}

  /// Goes on until \p Text bytes of text have passed in all, or the line ends,
  /// and calls \p Plain for each stretch of text, which is cut at that byte,
  /// and \p Volatile for each word with a digit. Returns whether the line goes
  /// on.
  template <typename PlainFn, typename VolatileFn>
  bool upTo(size_t Text, PlainFn Plain, VolatileFn Volatile);

  /// Bytes of the line that have passed.
  size_t position() const { return At; }

private:
  void readBlock();
  /// The first place from \p From on whose bit, turned by \p Flip, is set; the
  /// end without any.
  size_t next(const uint64_t *Bits, size_t From, uint64_t Flip);
  bool inWord(size_t Place) const {
    return Words[Place / 64] >> (Place % 64) & 1;
  }

  StringRef Line;
  size_t At = 0, Passed = 0;
  size_t Blocks = 0; ///< Whose bits are known.
  uint64_t Digits[KeyBytes / 64], Words[KeyBytes / 64];
};
} // namespace

void LineSplitter::readBlock() {
  const char *Block = Line.data() + Blocks * 64;
  size_t Left = Line.size() - Blocks * 64;
  char Last[64];
  if (Left < 64) {
    std::memset(Last, 0, sizeof(Last));
    std::memcpy(Last, Block, Left);
    Block = Last;
  }
  BlockMasks Masks = masksOf(Block);
  Digits[Blocks] = Masks.Digits;
  Words[Blocks] = Masks.Words;
  ++Blocks;
}

size_t LineSplitter::next(const uint64_t *Bits, size_t From, uint64_t Flip) {
  for (size_t B = From / 64; B * 64 < Line.size(); From = ++B * 64) {
    if (B == Blocks)
      readBlock();
    if (uint64_t Rest = (Bits[B] ^ Flip) >> (From % 64))
      return std::min<size_t>(From + std::countr_zero(Rest), Line.size());
  }
  return Line.size();
}

template <typename PlainFn, typename VolatileFn>
bool LineSplitter::upTo(size_t Text, PlainFn Plain, VolatileFn Volatile) {
  while (At < Line.size()) {
    size_t Digit = next(Digits, At, 0);
    size_t Word = Digit;
    while (Digit != Line.size() && Word > At && inWord(Word - 1))
      --Word;
    size_t Length = std::min(Word - At, Text - Passed);
    if (Length)
      Plain(Line.substr(At, Length));
    Passed += Length;
    At += Length;
    if (Passed == Text)
      return At < Line.size();
    if (Digit == Line.size())
      return false;
    Volatile();
    At = next(Words, Digit, ~uint64_t(0));
  }
  return false;
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
    for (size_t I : {size_t(0), Size / 2, Size - 1})
      First = First << 8 | uint8_t(P[I]);
  }
  uint64_t Mixed = (First ^ Size) * 0x9fb21c651e98df25;
  return (Mixed ^ (Mixed >> 32) ^ Last) * 0xc2b2ae3d27d4eb4f;
}

namespace {
/// The key of a line as far as it was read.
class KeyReader {
public:
  explicit KeyReader(StringRef Line) : Split(Line) {}

  bool upTo(size_t Text) {
    return Split.upTo(
        Text, [&](StringRef Plain) { mix(hashOf(Plain)); }, [&] { mix(1); });
  }
  /// As a key of a DenseMap, which has the two highest for itself.
  uint64_t key() const { return Key >= ~uint64_t(1) ? 0 : Key; }
  size_t position() const { return Split.position(); }

private:
  void mix(uint64_t Part) {
    Key = std::rotl(Key * 0xff51afd7ed558ccd, 29) ^ Part;
  }
  LineSplitter Split;
  uint64_t Key = 0x9e3779b97f4a7c15;
};
} // namespace

LineKeys lineKeys(StringRef Line) {
  LineKeys Out;
  KeyReader Reader(Line);
  for (unsigned Level = 0; Level != LineKeys::Beginnings; ++Level) {
    Reader.upTo(LineKeys::BeginningText[Level]);
    Out.Beginning[Level] = Reader.key();
    Out.BeginningBytes[Level] = Reader.position();
  }
  Reader.upTo(SIZE_MAX);
  Out.Whole = Reader.key();
  return Out;
}

/// \p Text with each word that holds a digit as one #.
static std::string skeleton(StringRef Text) {
  std::string Out;
  LineSplitter(Text).upTo(
      SIZE_MAX, [&](StringRef Plain) { Out += Plain; }, [&] { Out += '#'; });
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
  KeyReader Reader(Line);
  Beginning *Shorter = nullptr;
  for (unsigned Level = 0; Level != LineKeys::Beginnings; ++Level) {
    Reader.upTo(LineKeys::BeginningText[Level]);
    BeginningBytes = Reader.position();
    auto &Known = ByBeginning[Level];
    auto It = Known.find(Reader.key());
    if (It == Known.end()) {
      if (Known.size() == MaxKinds) {
        Rest.FreeText = true;
        BeginningBytes = 0;
        return Rest;
      }
      It = Known.try_emplace(Reader.key(), std::make_unique<Beginning>()).first;
      It->second->Others.FreeText = true;
      if (Shorter)
        ++Shorter->Kinds;
    }
    Shorter = It->second.get();
    if (Shorter->Kinds == MaxAlike)
      return Shorter->Others;
  }
  Reader.upTo(SIZE_MAX);
  std::unique_ptr<LogKind> &Known = ByKey[Reader.key()];
  if (Known)
    return *Known;
  if (ByKey.size() > MaxKinds) {
    ByKey.erase(Reader.key());
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
