//===- FragmentIndex.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/FragmentIndex.h"
#include "KB/LogMatcher.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <tuple>

using namespace llvm;

namespace culprit {

namespace {

/// Where a gram stands: in the line itself or with its numbers folded.
enum class GramForm : unsigned { Folded, Exact };

struct Anchor {
  uint32_t Hash, Entry, Fragment;
  bool operator<(const Anchor &B) const {
    return std::tie(Hash, Entry, Fragment) <
           std::tie(B.Hash, B.Entry, B.Fragment);
  }
};

} // namespace

/// The anchor of fragments whose pieces are all shorter than four bytes: they
/// may stand in any text.
static constexpr uint32_t Anywhere = 0;

static uint32_t mix(uint64_t Gram, GramForm F) {
  uint64_t X = (Gram ^ (static_cast<uint64_t>(F) << 63)) * 0x9E3779B97F4A7C15;
  X ^= X >> 29;
  X *= 0xBF58476D1CE4E5B9;
  return static_cast<uint32_t>(X >> 32) | 1; // Never Anywhere.
}

/// Calls \p Each with the hash of every \p Size bytes of \p Text.
template <typename Function>
static void forEachGram(StringRef Text, size_t Size, GramForm F,
                        Function Each) {
  for (size_t I = 0; I + Size <= Text.size(); ++I)
    Each(mix(Size == 8 ? support::endian::read64le(Text.data() + I)
                       : support::endian::read32le(Text.data() + I),
             F));
}

/// Calls \p Each with the hashes of which one becomes the anchor of \p P.
template <typename Function>
static void forEachChoice(const LogPieces &P, Function Each) {
  GramForm F = P.Exact ? GramForm::Exact : GramForm::Folded;
  size_t Longest = 0;
  for (const std::string &Piece : P.Pieces)
    Longest = std::max(Longest, Piece.size());
  for (const std::string &Piece : P.Pieces)
    forEachGram(Piece, Longest >= 8 ? 8 : 4, F, Each);
}

std::string fragmentAnchors(ArrayRef<const Entry *> Entries) {
  // How many fragments have a gram, roughly: those of equal low bits together.
  static constexpr uint32_t Mask = (1 << 20) - 1;
  std::vector<uint32_t> Having(Mask + 1);
  auto ForEach = [&](auto Each) {
    for (uint32_t E = 0; E < Entries.size(); ++E)
      for (uint32_t F = 0; F < Entries[E]->LogFragments.size(); ++F) {
        LogPieces P = logPieces(Entries[E]->LogFragments[F]);
        if (!P.Pieces.empty())
          Each(E, F, P);
      }
  };
  ForEach([&](uint32_t, uint32_t, const LogPieces &P) {
    forEachChoice(P, [&](uint32_t Hash) { ++Having[Hash >> 1 & Mask]; });
  });
  std::vector<Anchor> Anchors;
  ForEach([&](uint32_t E, uint32_t F, const LogPieces &P) {
    uint32_t Best = Anywhere, Fewest = ~0u;
    forEachChoice(P, [&](uint32_t Hash) {
      uint32_t N = Having[Hash >> 1 & Mask];
      if (N < Fewest) {
        Fewest = N;
        Best = Hash;
      }
    });
    Anchors.push_back({Best, E, F});
  });
  llvm::sort(Anchors);
  std::string Out(12 * Anchors.size(), '\0');
  for (size_t I = 0; I < Anchors.size(); ++I) {
    char *At = Out.data() + 12 * I;
    support::endian::write32le(At, Anchors[I].Hash);
    support::endian::write32le(At + 4, Anchors[I].Entry);
    support::endian::write32le(At + 8, Anchors[I].Fragment);
  }
  return Out;
}

std::vector<FragmentPlace> possibleFragments(StringRef Anchors,
                                             StringRef Text) {
  std::vector<FragmentPlace> Out;
  size_t Number = Anchors.size() / 12;
  if (!Number)
    return Out;
  auto Hash = [&](size_t I) {
    return support::endian::read32le(Anchors.data() + 12 * I);
  };
  // Which hashes there may be, so that a long log is read fast.
  size_t Slots = PowerOf2Ceil(std::max<size_t>(8 * Number, 4096));
  std::vector<uint64_t> Filter(Slots / 64);
  auto Slot = [&](uint32_t H) { return H / 2 & (Slots - 1); };
  for (size_t I = 0; I < Number; ++I)
    Filter[Slot(Hash(I)) / 64] |= uint64_t(1) << Slot(Hash(I)) % 64;
  std::vector<char> Seen(Number);
  auto See = [&](uint32_t H) {
    if (!(Filter[Slot(H) / 64] >> Slot(H) % 64 & 1))
      return;
    size_t Low = 0, High = Number;
    while (Low < High) {
      size_t Middle = (Low + High) / 2;
      if (Hash(Middle) < H)
        Low = Middle + 1;
      else
        High = Middle;
    }
    for (; Low < Number && Hash(Low) == H && !Seen[Low]; ++Low)
      Seen[Low] = 1;
  };
  See(Anywhere);
  while (!Text.empty()) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    std::string Lower = Line.lower();
    bool Numbers = any_of(Lower, isDigit);
    std::string Folded = Numbers ? foldNumbers(Lower) : std::string();
    for (size_t Size : {8, 4}) {
      forEachGram(Numbers ? Folded : Lower, Size, GramForm::Folded, See);
      // A fragment whose numbers matter has some.
      if (Numbers)
        forEachGram(Lower, Size, GramForm::Exact, See);
    }
  }
  for (size_t I = 0; I < Number; ++I)
    if (Seen[I])
      Out.push_back({support::endian::read32le(Anchors.data() + 12 * I + 4),
                     support::endian::read32le(Anchors.data() + 12 * I + 8)});
  llvm::sort(Out);
  return Out;
}

} // namespace culprit
