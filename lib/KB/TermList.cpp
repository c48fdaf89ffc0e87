//===- TermList.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/TermList.h"
#include "KB/WordForms.h"
#include <optional>

using namespace llvm;

namespace culprit {

TermLister::TermLister(const Analyzer &A) : A(A) {}
TermLister::~TermLister() = default;

uint32_t TermLister::number(StringRef Term) {
  auto [It, New] = Numbers.try_emplace(Term, size());
  if (New)
    Terms.push_back(It->first());
  return It->second;
}

void TermLister::addPart(StringRef Key, StringRef Spelled, bool Counts) {
  StringRef Kept = Key.copy(Memory);
  Parts.push_back({Kept, Spelled == Key ? Kept : Spelled.copy(Memory), None,
                   A.phraseKey(Key), Counts});
}

TermLister::Known TermLister::learn(const WordView &W) {
  Known K = {static_cast<uint32_t>(Parts.size()), 1, false, None};
  if (W.K != Word::Kind::Name) {
    bool Counts = W.K == Word::Kind::Number ? isTellingNumber(W.Text)
                                            : W.Text.size() >= 2;
    addPart(W.Text, W.Text, Counts);
    return K;
  }
  std::vector<std::string> Split = splitIdentifier(W.Text);
  for (const std::string &P : Split)
    addPart(stem(P), P, P.size() >= 2 && !isStopWord(P));
  K.Size = static_cast<uint32_t>(Split.size());
  K.IsIdentifier = Split.size() > 1;
  return K;
}

TermLister::Known &TermLister::known(const WordView &W) {
  auto [It, New] = Words[static_cast<size_t>(W.K)].try_emplace(W.Text);
  if (New)
    It->second = learn(W);
  return It->second;
}

/// The keys of the word \p Word, joined by blanks.
std::string TermLister::keysOf(size_t Word) {
  std::string Out;
  if (Word >= Views.size() || Views[Word].K == Word::Kind::Han)
    return Out;
  Known K = known(Views[Word]);
  for (const Part &P : ArrayRef(Parts).slice(K.First, K.Size)) {
    Out += Out.empty() ? "" : " ";
    Out += P.Key;
  }
  return Out;
}

void TermLister::han(size_t Word, std::vector<TermUse> &Out) {
  StringRef Run = Views[Word].Text;
  forEachHanPair(Run, [&](StringRef Pair) {
    Out.push_back({number(Pair), TermUse::NoPosition});
  });
  std::string Before = Word ? keysOf(Word - 1) : std::string();
  A.forEachHanConcept(Run, Before, keysOf(Word + 1),
                      [&](StringRef, unsigned Concept) {
                        Out.push_back({number(A.conceptTerm(Concept)),
                                       TermUse::NoPosition});
                      });
}

void TermLister::list(StringRef Text, std::vector<TermUse> &Out) {
  Out.clear();
  Views.clear();
  Phrases.clear();
  ViewMemory.Reset();
  lex(Text, Views, ViewMemory);
  std::optional<uint32_t> Previous; // A part.
  size_t PreviousWord = 0;
  uint32_t Position = 0;
  for (size_t I = 0; I < Views.size(); ++I) {
    const WordView &W = Views[I];
    if (W.K == Word::Kind::Han) {
      han(I, Out);
      continue;
    }
    Known &K = known(W);
    if (K.IsIdentifier) {
      if (K.Whole == None)
        K.Whole = number(W.Text.lower());
      Out.push_back({K.Whole, TermUse::NoPosition});
    }
    for (uint32_t At = K.First; At < K.First + K.Size; ++At) {
      Part &P = Parts[At];
      Phrases.push_back(P.Phrase);
      if (!P.Counts)
        continue;
      if (P.Term == None)
        P.Term = number(P.Key);
      if (Previous)
        Position += Views[PreviousWord].Line == W.Line ? 1 : 2;
      Out.push_back({P.Term, Position});
      if (Previous && W.Joined && PreviousWord + 1 == I) // fine-tune
        Out.push_back(
            {number(stem((Parts[*Previous].Spelled + P.Spelled).str())),
             TermUse::NoPosition});
      Previous = At;
      PreviousWord = I;
    }
  }
  A.forEachConcept(Phrases, [&](size_t, size_t, unsigned Concept) {
    Out.push_back({number(A.conceptTerm(Concept)), TermUse::NoPosition});
  });
}

} // namespace culprit
