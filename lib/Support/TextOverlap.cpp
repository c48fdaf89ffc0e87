//===- TextOverlap.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/TextOverlap.h"
#include "Support/Deadline.h"
#include "Support/TextWords.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

static constexpr size_t MaxRuns = size_t(1) << 22;
static constexpr uint32_t None = TextOverlap::None;

namespace {
/// Where a run of the own texts was seen; texts that repeat others word for
/// word do not count.
struct Seen {
  uint32_t Own = 0, LastOwn = None;
  uint32_t Others = 0, FirstOther = None, LastOther = None;
};

class Search {
public:
  Search(size_t OwnCount, function_ref<StringRef(size_t)> Own,
         size_t OtherCount, function_ref<StringRef(size_t)> Other,
         const OverlapOptions &Options)
      : OwnCount(OwnCount), Own(Own), OtherCount(OtherCount), Other(Other),
        Options(Options) {}

  TextOverlaps run();

private:
  void chooseRun();
  void collect();
  void lookUp();
  void findMatch(TextOverlap &Out);
  void measure(TextOverlap &Out);
  uint32_t likeliestMatch() const;
  bool commonplace(const Seen &S) const {
    return S.Others > Options.MaxOther || S.Own > Options.MaxOwn;
  }

  size_t OwnCount;
  function_ref<StringRef(size_t)> Own;
  size_t OtherCount;
  function_ref<StringRef(size_t)> Other;
  const OverlapOptions &Options;

  TextOverlaps Out;
  DenseMap<uint64_t, Seen> Runs;
  BitVector Maybe; ///< Bits of the runs' hashes: most of the others miss it.
  DenseMap<uint64_t, uint32_t> Whole; ///< Hash of all words, row of other.
  std::vector<uint64_t> Words, Windows;
  DenseSet<uint64_t> Theirs; ///< Runs of the other text at TheirRow.
  uint32_t TheirRow = None;
  TimeCheck Late;
};
} // namespace

/// A key that DenseMap does not keep for itself.
static uint64_t keyOf(uint64_t Hash) { return Hash >> 1; }

void Search::chooseRun() {
  Out.Run = Options.Run;
  if (Out.Run)
    return;
  std::vector<size_t> Lengths;
  for (size_t Row = 0; Row != OwnCount; ++Row) {
    if (Late(1 + Own(Row).size()))
      break;
    wordHashes(Own(Row), Words);
    if (Words.size() >= 8)
      Lengths.push_back(Words.size());
  }
  Out.Run = 13;
  if (Lengths.empty())
    return;
  const auto Low =
      Lengths.begin() + static_cast<ptrdiff_t>(Lengths.size() / 20);
  std::nth_element(Lengths.begin(), Low, Lengths.end());
  Out.Run = static_cast<unsigned>(std::min<size_t>(*Low, 13));
}

void Search::collect() {
  DenseSet<uint64_t> Texts;
  for (size_t Row = 0; Row != OwnCount; ++Row) {
    if (Late(1 + 4 * Own(Row).size()))
      break;
    wordHashes(Own(Row), Words);
    if (Words.size() < Out.Run) {
      ++Out.TooShort;
      continue;
    }
    if (Runs.size() > MaxRuns) {
      ++Out.Beyond;
      continue;
    }
    Out.Texts.push_back({static_cast<uint32_t>(Row)});
    if (!Texts.insert(keyOf(hashOfWords(Words))).second)
      continue;
    windowHashes(Words, Out.Run, Windows);
    for (uint64_t Window : Windows) {
      Seen &S = Runs[keyOf(Window)];
      S.Own += S.LastOwn != Row;
      S.LastOwn = static_cast<uint32_t>(Row);
    }
  }
  Maybe.resize(static_cast<unsigned>(
      PowerOf2Ceil(std::max<uint64_t>(Runs.size() * 16, 1024))));
  for (const auto &[Key, S] : Runs)
    Maybe.set(static_cast<unsigned>(Key & (Maybe.size() - 1)));
}

void Search::lookUp() {
  for (size_t Row = 0; Row != OtherCount; ++Row) {
    if (Late(1 + 2 * Other(Row).size()))
      return;
    wordHashes(Other(Row), Words);
    if (Words.size() < Out.Run ||
        !Whole.try_emplace(keyOf(hashOfWords(Words)),
                           static_cast<uint32_t>(Row))
             .second)
      continue;
    windowHashes(Words, Out.Run, Windows);
    for (uint64_t Window : Windows) {
      const uint64_t Key = keyOf(Window);
      if (!Maybe.test(static_cast<unsigned>(Key & (Maybe.size() - 1))))
        continue;
      auto At = Runs.find(Key);
      if (At == Runs.end() || At->second.LastOther == Row)
        continue;
      Seen &S = At->second;
      if (S.Others++ == 0)
        S.FirstOther = static_cast<uint32_t>(Row);
      S.LastOther = static_cast<uint32_t>(Row);
    }
  }
}

/// Of the texts that have the runs of Windows first or last, the one that has
/// most; the earliest of several.
uint32_t Search::likeliestMatch() const {
  DenseMap<uint32_t, uint32_t> Votes;
  for (uint64_t Window : Windows) {
    const Seen &S = Runs.find(keyOf(Window))->second;
    if (S.Others == 0 || commonplace(S))
      continue;
    ++Votes[S.FirstOther];
    if (S.LastOther != S.FirstOther)
      ++Votes[S.LastOther];
  }
  uint32_t Best = None, Most = 0;
  for (auto [Row, Times] : Votes)
    if (Times > Most || (Times == Most && Row < Best)) {
      Best = Row;
      Most = Times;
    }
  return Best;
}

void Search::findMatch(TextOverlap &O) {
  wordHashes(Own(O.Row), Words);
  windowHashes(Words, Out.Run, Windows);
  if (auto At = Whole.find(keyOf(hashOfWords(Words))); At != Whole.end()) {
    O.Match = At->second;
    O.Share = 1;
    O.Longest = static_cast<uint32_t>(Words.size());
    O.Exact = true;
    return;
  }
  O.Match = likeliestMatch();
}

/// How much of a text is in its match, which is no copy of it.
void Search::measure(TextOverlap &O) {
  if (TheirRow != O.Match) {
    TheirRow = O.Match;
    Theirs.clear();
    wordHashes(Other(O.Match), Words);
    windowHashes(Words, Out.Run, Windows);
    for (uint64_t Window : Windows)
      Theirs.insert(keyOf(Window));
  }
  wordHashes(Own(O.Row), Words);
  windowHashes(Words, Out.Run, Windows);
  const std::vector<uint64_t> &Mine = Windows;
  const size_t Length = Words.size();
  // Ends of what is covered so far: a word counts once.
  size_t Telling = 0, Found = 0, TellingEnd = 0, FoundEnd = 0, Streak = 0;
  for (size_t I = 0; I != Mine.size(); ++I) {
    const bool Common = commonplace(Runs.find(keyOf(Mine[I]))->second);
    const bool Both = Theirs.contains(keyOf(Mine[I]));
    const auto Cover = [&](size_t &Sum, size_t &End) {
      Sum += I + Out.Run - std::max(I, End);
      End = I + Out.Run;
    };
    if (!Common)
      Cover(Telling, TellingEnd);
    if (!Common && Both)
      Cover(Found, FoundEnd);
    Streak = Both ? Streak + 1 : 0;
    if (Both)
      O.Longest = std::max(O.Longest,
                           static_cast<uint32_t>(Streak + Out.Run - 1));
  }
  O.Longest = std::min(O.Longest, static_cast<uint32_t>(Length));
  O.Share = static_cast<double>(Found) / static_cast<double>(Telling);
}

TextOverlaps Search::run() {
  chooseRun();
  collect();
  lookUp();
  std::vector<TextOverlap *> InPart;
  for (TextOverlap &O : Out.Texts) {
    if (Late(1024))
      break;
    findMatch(O);
    if (O.Match != None && !O.Exact)
      InPart.push_back(&O);
  }
  // A book may hold ten thousand of the questions: it is taken apart once.
  llvm::stable_sort(InPart, [](const TextOverlap *A, const TextOverlap *B) {
    return A->Match < B->Match;
  });
  for (TextOverlap *O : InPart) {
    if (Late(1 + Own(O->Row).size() + Other(O->Match).size()))
      break;
    measure(*O);
  }
  return std::move(Out);
}

TextOverlaps findOverlaps(size_t OwnCount,
                          function_ref<StringRef(size_t)> Own,
                          size_t OtherCount,
                          function_ref<StringRef(size_t)> Other,
                          const OverlapOptions &Options) {
  return Search(OwnCount, Own, OtherCount, Other, Options).run();
}

} // namespace culprit
