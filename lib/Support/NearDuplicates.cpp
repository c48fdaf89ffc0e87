//===- NearDuplicates.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/NearDuplicates.h"
#include "Support/Deadline.h"
#include "Support/TextWords.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

namespace {
/// 21 bands of 6 bins find a pair of similarity 0.8 with a probability of
/// 1 - (1 - 0.8^6)^21 = 0.998, and one of 0.5 with 0.28.
constexpr unsigned Bins = 128, Bands = 21, BinsOfBand = 6;
/// Texts that are searched for what is common to many, and runs of them.
constexpr size_t SampleTexts = 1000, SampleRuns = size_t(1) << 22;
/// Runs left of a text below which chance or a template makes it similar.
constexpr size_t MinRuns = 20;
/// Members of a bucket that a text is compared with.
constexpr unsigned MaxTries = 16;

using Signature = std::array<uint32_t, Bins>;
using BandKeys = std::array<uint64_t, Bands>;

/// The search over one set of texts.
class Search {
public:
  Search(size_t Count, function_ref<StringRef(size_t)> TextAt,
         const NearDuplicateOptions &Options)
      : Count(Count), TextAt(TextAt), Options(Options) {}

  std::vector<ComparedText> run();

private:
  struct Unique {
    uint32_t Row;
    size_t Begin, End; ///< Of its runs.
    uint32_t Parent;   ///< Of the union; the smallest index leads.
  };

  void findExact();
  void findCommon();
  void addRuns(Unique &U);
  BandKeys bandKeys() const;
  void pairUp();
  void tryBucket(ArrayRef<std::pair<uint64_t, uint32_t>> Bucket);
  double similarity(const Unique &A, const Unique &B) const;
  uint32_t rootOf(uint32_t I);

  size_t Count;
  function_ref<StringRef(size_t)> TextAt;
  const NearDuplicateOptions &Options;

  std::vector<ComparedText> Out;
  std::vector<Unique> Texts;
  std::vector<std::pair<uint32_t, uint32_t>> Copies; ///< Row, index in Texts.
  DenseSet<uint64_t> Common, Template; ///< Runs of many texts, of most.
  std::vector<uint32_t> Runs;          ///< Of all texts, sorted within one.
  std::vector<std::pair<BandKeys, uint32_t>> Keys;
  // Of the text that is looked at.
  std::vector<uint64_t> Words, Windows, Kept;
  TimeCheck Late;
};
} // namespace

/// A key that DenseMap does not keep for itself.
static uint64_t keyOf(uint64_t Hash) { return Hash >> 1; }

void Search::findExact() {
  DenseMap<uint64_t, uint32_t> Seen;
  for (size_t Row = 0; Row != Count; ++Row) {
    StringRef Text = TextAt(Row);
    if (Late(1 + Text.size()))
      return;
    wordHashes(Text, Words);
    if (Words.size() < Options.MinWords)
      continue;
    auto [At, New] = Seen.try_emplace(keyOf(hashOfWords(Words)),
                                      static_cast<uint32_t>(Texts.size()));
    if (New)
      Texts.push_back({static_cast<uint32_t>(Row), 0, 0,
                       static_cast<uint32_t>(Texts.size())});
    else
      Copies.push_back({static_cast<uint32_t>(Row), At->second});
  }
}

void Search::findCommon() {
  DenseMap<uint64_t, uint32_t> Holders;
  size_t Sampled = 0, Taken = 0;
  const size_t Wanted = std::min(SampleTexts, Texts.size());
  for (; Sampled != Wanted && Taken < SampleRuns; ++Sampled) {
    // Blocks of one kind come one after another, so take them evenly.
    wordHashes(TextAt(Texts[Sampled * Texts.size() / Wanted].Row), Words);
    if (Late(1 + 16 * Words.size()))
      return;
    windowHashes(Words, Options.Run, Windows);
    llvm::sort(Windows);
    Windows.erase(std::unique(Windows.begin(), Windows.end()), Windows.end());
    for (uint64_t Window : Windows)
      ++Holders[keyOf(Window)];
    Taken += Windows.size();
  }
  const size_t Many = std::max<size_t>(10, Sampled / 50);
  for (auto [Window, Times] : Holders) {
    if (Times >= Many)
      Common.insert(Window);
    if (Times > 5 && Times * 2 > Sampled)
      Template.insert(Window);
  }
}

void Search::addRuns(Unique &U) {
  wordHashes(TextAt(U.Row), Words);
  windowHashes(Words, Options.Run, Windows);
  const auto Without = [&](const DenseSet<uint64_t> &Left) {
    Kept.clear();
    for (uint64_t Window : Windows)
      if (!Left.contains(keyOf(Window)))
        Kept.push_back(Window);
  };
  if (!Template.empty()) {
    Without(Template);
    Windows.swap(Kept);
  }
  // Two texts of similarity 0.8 differ in no more than a ninth of their runs:
  // a rest that is smaller is an edit, a larger one is the text itself.
  if (!Common.empty()) {
    Without(Common);
    if (Kept.size() >= MinRuns && Kept.size() * 9 > Windows.size())
      Windows.swap(Kept);
  }
  U.Begin = Runs.size();
  for (uint64_t Window : Windows)
    Runs.push_back(static_cast<uint32_t>(Window));
  const auto Begin = Runs.begin() + static_cast<ptrdiff_t>(U.Begin);
  std::sort(Begin, Runs.end());
  Runs.erase(std::unique(Begin, Runs.end()), Runs.end());
  U.End = Runs.size();
}

BandKeys Search::bandKeys() const {
  constexpr uint32_t Empty = ~uint32_t(0);
  Signature Least;
  Least.fill(Empty);
  for (uint64_t Window : Windows) {
    uint32_t &Bin = Least[Window >> 57];
    Bin = std::min(Bin, static_cast<uint32_t>(Window >> 20) >> 1);
  }
  // An empty bin takes the value of one that is not, chosen at random but the
  // same for every text.
  Signature Full = Least;
  for (uint32_t I = 0; I != Bins; ++I)
    for (uint64_t Try = 1; Full[I] == Empty; ++Try)
      Full[I] = Least[mixBits(Try << 8 | I) % Bins];
  BandKeys Out;
  for (unsigned Band = 0; Band != Bands; ++Band) {
    uint64_t Key = Band;
    for (unsigned I = 0; I != BinsOfBand; ++I)
      Key = mixBits(Key * 31 + Full[Band * BinsOfBand + I]);
    Out[Band] = Key;
  }
  return Out;
}

double Search::similarity(const Unique &A, const Unique &B) const {
  size_t I = A.Begin, J = B.Begin, Both = 0;
  while (I != A.End && J != B.End) {
    const uint32_t X = Runs[I], Y = Runs[J];
    Both += X == Y;
    I += X <= Y;
    J += Y <= X;
  }
  const size_t Either = (A.End - A.Begin) + (B.End - B.Begin) - Both;
  return Either ? static_cast<double>(Both) / static_cast<double>(Either) : 0;
}

uint32_t Search::rootOf(uint32_t I) {
  while (Texts[I].Parent != I)
    I = Texts[I].Parent = Texts[Texts[I].Parent].Parent;
  return I;
}

void Search::tryBucket(ArrayRef<std::pair<uint64_t, uint32_t>> Bucket) {
  // A leader of each cluster is enough: what is similar to it joins it.
  SmallVector<uint32_t, MaxTries> Leaders;
  for (auto [Key, I] : Bucket) {
    bool Alone = true;
    if (Late(256))
      return;
    for (uint32_t Leader : Leaders) {
      const uint32_t A = rootOf(Leader), B = rootOf(I);
      Alone = A != B &&
              similarity(Texts[Leader], Texts[I]) < Options.Threshold;
      if (Alone)
        continue;
      Texts[std::max(A, B)].Parent = std::min(A, B);
      break;
    }
    if (Alone && Leaders.size() < MaxTries)
      Leaders.push_back(I);
  }
}

void Search::pairUp() {
  std::vector<std::pair<uint64_t, uint32_t>> Band(Keys.size());
  for (unsigned B = 0; B != Bands; ++B) {
    if (Late(1 + 16 * Keys.size()))
      return;
    for (size_t I = 0; I != Keys.size(); ++I)
      Band[I] = {Keys[I].first[B], Keys[I].second};
    llvm::sort(Band);
    for (size_t I = 0; I != Band.size();) {
      size_t End = I + 1;
      while (End != Band.size() && Band[End].first == Band[I].first)
        ++End;
      if (End - I > 1)
        tryBucket(ArrayRef(Band).slice(I, End - I));
      I = End;
    }
  }
}

std::vector<ComparedText> Search::run() {
  findExact();
  findCommon();
  for (size_t I = 0; I != Texts.size() && !Late(1 + 4 * Words.size()); ++I) {
    addRuns(Texts[I]);
    if (Windows.size() >= MinRuns)
      Keys.push_back({bandKeys(), static_cast<uint32_t>(I)});
  }
  pairUp();
  const auto Compared = [&](uint32_t Row, uint32_t Of, bool Exact) {
    const uint32_t Root = rootOf(Of);
    Out.push_back({Row, Texts[Root].Row,
                   Root == Of ? 1 : similarity(Texts[Of], Texts[Root]), Exact});
  };
  for (uint32_t I = 0; I != Texts.size(); ++I)
    Compared(Texts[I].Row, I, false);
  for (auto [Row, Of] : Copies)
    Compared(Row, Of, true);
  llvm::sort(Out, [](const ComparedText &A, const ComparedText &B) {
    return A.Row < B.Row;
  });
  return std::move(Out);
}

std::vector<ComparedText>
findNearDuplicates(size_t Count, function_ref<StringRef(size_t)> TextAt,
                   const NearDuplicateOptions &Options) {
  return Search(Count, TextAt, Options).run();
}

} // namespace culprit
