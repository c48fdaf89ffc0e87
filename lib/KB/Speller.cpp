//===- Speller.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Speller.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

unsigned slips(StringRef A, StringRef B, unsigned Limit) {
  size_t Longer = std::max(A.size(), B.size());
  if (Longer - std::min(A.size(), B.size()) > Limit)
    return Limit + 1;
  // Three rows of the usual table; the third is for swaps.
  SmallVector<unsigned, 32> Before(B.size() + 1), Last(B.size() + 1),
      Row(B.size() + 1);
  for (unsigned K = 0; K <= B.size(); ++K)
    Last[K] = K;
  for (unsigned I = 1; I <= A.size(); ++I) {
    Row[0] = I;
    unsigned Least = I;
    for (unsigned K = 1; K <= B.size(); ++K) {
      unsigned Replace = Last[K - 1] + (A[I - 1] != B[K - 1]);
      Row[K] = std::min({Replace, Last[K] + 1, Row[K - 1] + 1});
      if (I > 1 && K > 1 && A[I - 1] == B[K - 2] && A[I - 2] == B[K - 1])
        Row[K] = std::min(Row[K], Before[K - 2] + 1);
      Least = std::min(Least, Row[K]);
    }
    if (Least > Limit)
      return Limit + 1;
    std::swap(Before, Last);
    std::swap(Last, Row);
  }
  return std::min(Last[B.size()], Limit + 1);
}

static void countWord(StringRef Word, WordCounts &Counts) {
  SmallString<32> Lower;
  for (char C : Word)
    Lower += toLower(C);
  ++Counts[Lower];
}

void countWords(StringRef Text, WordCounts &Counts) {
  // Runs of letters are enough here and much faster than the lexer: this is
  // done for every text of the knowledge base.
  for (size_t I = 0; I < Text.size(); ++I) {
    size_t Begin = I;
    bool Mixed = false;
    for (; I < Text.size() && isAlpha(Text[I]); ++I)
      Mixed |= I > Begin && isUpper(Text[I]);
    StringRef Run = Text.slice(Begin, I);
    if (Run.size() < 2)
      continue;
    if (!Mixed) {
      countWord(Run, Counts);
      continue;
    }
    for (const std::string &Part : splitIdentifier(Run))
      countWord(Part, Counts);
  }
}

void countWords(const Entry &E, WordCounts &Counts) {
  for (StringRef Text :
       {StringRef(E.Title), StringRef(E.Symptom), StringRef(E.RootCause),
        StringRef(E.Fix), StringRef(E.Workarounds), StringRef(E.Files),
        StringRef(E.Class)})
    countWords(Text, Counts);
  for (const auto *List :
       {&E.AlsoSeenAs, &E.LogFragments, &E.FailsWhen, &E.WorksWhen})
    for (const std::string &Item : *List)
      countWords(Item, Counts);
}

Speller::Speller(WordCounts Words) : Counts(std::move(Words)) {
  for (const auto &Item : Counts)
    Stems[stem(Item.first())] = 1;
}

bool Speller::knows(StringRef Lower) const {
  return Stems.contains(stem(Lower));
}

std::string Speller::meant(StringRef Lower) const {
  // Short words are one letter away from too many others, and people miss
  // the first letter least. Five letters allow a swap only: `erorr`.
  if (Lower.size() < 5 || any_of(Lower, isDigit))
    return {};
  unsigned Limit = Lower.size() >= 9 ? 2 : 1;
  std::string Best;
  unsigned BestSlips = Limit + 1, BestCount = 0;
  for (const auto &Item : Counts) {
    StringRef Known = Item.first();
    unsigned Count = Item.second;
    if (Known.size() < 4 || Known[0] != Lower[0])
      continue;
    if (Lower.size() == 5 && Known.size() != 5)
      continue;
    unsigned N = slips(Lower, Known, Limit);
    // `supervisor` is another word than `supervised`, not a slip of it.
    bool OtherEnding =
        N == 2 && Known.starts_with(Lower.drop_back(2));
    if (OtherEnding || N > Limit || N > BestSlips ||
        (N == BestSlips &&
         (Count < BestCount || (Count == BestCount && Known >= Best))))
      continue;
    if (Lower.size() == 5) {
      std::string A = Lower.str(), B = Known.str();
      llvm::sort(A);
      llvm::sort(B);
      if (A != B)
        continue;
    }
    Best = Known.str();
    BestSlips = N;
    BestCount = Count;
  }
  return Best;
}

} // namespace culprit
