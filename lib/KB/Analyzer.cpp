//===- Analyzer.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Analyzer.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// A part of an identifier, or a whole word.
struct Analyzer::Part {
  std::string Key;     ///< What phrases are matched by.
  std::string Spelled; ///< In lower case.
  unsigned Word;
  bool Stop;
  bool Number;
};

std::vector<Analyzer::Part> Analyzer::parts(ArrayRef<Word> Words,
                                            Corrector Correct) const {
  std::vector<Part> Out;
  for (unsigned I = 0; I < Words.size(); ++I) {
    const Word &W = Words[I];
    switch (W.K) {
    case Word::Kind::Han:
      break; // No phrase of several words.
    case Word::Kind::Number:
    case Word::Kind::Repeated:
      Out.push_back({W.Text, W.Text, I, false, W.K == Word::Kind::Number});
      break;
    case Word::Kind::Name:
      for (std::string &P : splitIdentifier(W.Text)) {
        bool Stop = isStopWord(P);
        std::string Key = stem(P);
        if (Correct && !Stop)
          Correct(P, Key);
        Out.push_back({std::move(Key), std::move(P), I, Stop, false});
      }
      break;
    }
  }
  return Out;
}

Analyzer::Analyzer(const Vocabulary &V) {
  for (const AliasGroup &G : V.aliases()) {
    unsigned Concept = Concepts.size();
    Concepts.push_back("#" + G.Concept);
    for (const std::string &Phrase : G.Phrases)
      addPhrase(Phrase, Concept);
  }
}

/// Whether \p Words hold every letter and digit of \p Phrase. What is left out
/// as volatile is left out of queries too: of `step 0` stays `step`.
static bool holdsAll(ArrayRef<Word> Words, StringRef Phrase) {
  size_t Held = 0;
  for (const Word &W : Words)
    Held += count_if(W.Text, isAlnum);
  return Held >= static_cast<size_t>(count_if(Phrase, isAlnum));
}

void Analyzer::addPhrase(StringRef Phrase, unsigned Concept) {
  std::vector<Word> Words = lex(Phrase);
  bool Repeated =
      any_of(Words, [](const Word &W) { return W.K == Word::Kind::Repeated; });
  if (!Repeated && !holdsAll(Words, Phrase))
    return;
  std::vector<Part> Parts = parts(Words);
  std::string Key;
  auto Han = find_if(
      Words, [](const Word &W) { return W.K == Word::Kind::Han; });
  if (Han != Words.end()) {
    for (const Part &P : Parts)
      Key += (Key.empty() ? "" : " ") + P.Key;
    HanPhrases.push_back({Han->Text, std::move(Key), Concept});
    return;
  }
  if (all_of(Parts, [](const Part &P) {
        return P.Stop || (!P.Number && P.Spelled.size() < 2);
      }))
    return; // `<s>` would be found in every `it's`.
  for (const Part &P : Parts) {
    if (!Key.empty()) {
      Phrases[Key]; // A start of a phrase.
      Key += ' ';
    }
    Key += P.Key;
  }
  if (Key.empty())
    return;
  std::vector<unsigned> &Found = Phrases[Key];
  if (!is_contained(Found, Concept))
    Found.push_back(Concept);
}

void Analyzer::addConcepts(ArrayRef<Part> Parts, std::vector<Term> &Out) const {
  // The longest phrase from each part on; `out of memory` inside `cuda out of
  // memory` is found again from its own start.
  for (size_t Begin = 0; Begin < Parts.size(); ++Begin) {
    std::string Key;
    const std::vector<unsigned> *Longest = nullptr;
    size_t Last = Begin;
    for (size_t End = Begin; End < Parts.size(); ++End) {
      if (!Key.empty())
        Key += ' ';
      Key += Parts[End].Key;
      auto It = Phrases.find(Key);
      if (It == Phrases.end())
        break;
      if (!It->second.empty()) {
        Longest = &It->second;
        Last = End;
      }
    }
    if (!Longest)
      continue;
    std::string Said;
    for (const Part &P : Parts.slice(Begin, Last + 1 - Begin))
      Said += (Said.empty() ? "" : " ") + P.Spelled;
    for (unsigned Concept : *Longest)
      Out.push_back(
          {Term::Kind::Concept, Concepts[Concept], Said, Parts[Begin].Word});
  }
}

/// Numbers of fewer digits are counts and sizes and tell nothing alone.
static bool isTellingNumber(StringRef S) {
  return count_if(S, isDigit) >= 3 || S.starts_with("-");
}

/// Appends the characters of \p Run in overlapping pairs.
static void addHanPairs(StringRef Run, unsigned Index, std::vector<Term> &Out) {
  SmallVector<size_t, 32> Starts;
  for (size_t I = 0; I < Run.size(); ++I)
    if ((static_cast<unsigned char>(Run[I]) & 0xC0) != 0x80)
      Starts.push_back(I);
  Starts.push_back(Run.size());
  for (size_t I = 0; I + 2 < Starts.size(); ++I)
    Out.push_back({Term::Kind::Plain, Run.slice(Starts[I], Starts[I + 2]).str(),
                   "", Index});
}

/// Whether the words next to \p Index are \p Latin, as in `KV缓存`.
bool Analyzer::besides(ArrayRef<Part> Parts, unsigned Index, StringRef Latin) {
  if (Latin.empty())
    return true;
  std::string Before, After;
  for (const Part &P : Parts) {
    std::string *Side = P.Word + 1 == Index   ? &Before
                        : P.Word == Index + 1 ? &After
                                              : nullptr;
    if (Side)
      *Side += (Side->empty() ? "" : " ") + P.Key;
  }
  return Before == Latin || After == Latin;
}

std::vector<Term> Analyzer::terms(ArrayRef<Word> Words,
                                  Corrector Correct) const {
  std::vector<Term> Out;
  std::vector<Part> Parts = parts(Words, Correct);

  const Part *Previous = nullptr;
  for (const Part &P : Parts) {
    const Word &W = Words[P.Word];
    if (P.Number && !isTellingNumber(P.Key))
      continue;
    if (P.Stop || (!P.Number && P.Spelled.size() < 2))
      continue;
    Out.push_back({P.Number ? Term::Kind::Number : Term::Kind::Plain, P.Key,
                   P.Number ? "" : P.Spelled, P.Word});
    if (Previous && Words[Previous->Word].Line == W.Line)
      Out.push_back(
          {Term::Kind::Pair, Previous->Key + "+" + P.Key, "", Previous->Word});
    if (Previous && W.Joined && Previous->Word + 1 == P.Word) // fine-tune
      Out.push_back(
          {Term::Kind::Plain, stem(Previous->Spelled + P.Spelled), "", P.Word});
    Previous = &P;
  }
  for (unsigned I = 0; I < Words.size(); ++I) {
    const Word &W = Words[I];
    if (W.K == Word::Kind::Han) {
      addHanPairs(W.Text, I, Out);
      for (const HanPhrase &P : HanPhrases)
        if (StringRef(W.Text).contains(P.Han) && besides(Parts, I, P.Latin))
          Out.push_back({Term::Kind::Concept, Concepts[P.Concept], P.Han, I});
    } else if (W.K == Word::Kind::Name && splitIdentifier(W.Text).size() > 1) {
      Out.push_back({Term::Kind::Identifier, StringRef(W.Text).lower(), "", I});
    }
  }
  addConcepts(Parts, Out);
  // By place, so that a long query can be cut anywhere.
  stable_sort(Out,
              [](const Term &A, const Term &B) { return A.Word < B.Word; });
  return Out;
}

std::string Analyzer::indexText(StringRef Text) const {
  std::string Out;
  for (const Term &T : terms(lex(Text))) {
    if (!Out.empty())
      Out += ' ';
    Out += T.Text;
  }
  return Out;
}

} // namespace culprit
