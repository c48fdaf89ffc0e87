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

Analyzer::Analyzer(const Vocabulary &V) : PhraseNodes(1) {
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
  auto Han = find_if(
      Words, [](const Word &W) { return W.K == Word::Kind::Han; });
  if (Han != Words.end()) {
    std::string Key;
    for (const Part &P : Parts)
      Key += (Key.empty() ? "" : " ") + P.Key;
    HanPhrases.push_back({Han->Text, std::move(Key), Concept});
    return;
  }
  if (all_of(Parts, [](const Part &P) {
        return P.Stop || (!P.Number && P.Spelled.size() < 2);
      }))
    return; // `<s>` would be found in every `it's`.
  unsigned At = 0;
  for (const Part &P : Parts) {
    unsigned Key =
        PhraseKeys.try_emplace(P.Key, PhraseKeys.size()).first->second;
    FirstNodes.resize(PhraseKeys.size());
    unsigned Next = At ? child(At, Key) : FirstNodes[Key];
    if (!Next) {
      Next = static_cast<unsigned>(PhraseNodes.size());
      PhraseNodes.emplace_back();
      if (At)
        PhraseNodes[At].Children.push_back({Key, Next});
      else
        FirstNodes[Key] = Next;
    }
    At = Next;
  }
  std::vector<unsigned> &Found = PhraseNodes[At].Concepts;
  if (!is_contained(Found, Concept))
    Found.push_back(Concept);
}

unsigned Analyzer::phraseKey(StringRef Key) const {
  auto It = PhraseKeys.find(Key);
  return It == PhraseKeys.end() ? NoKey : It->second;
}

unsigned Analyzer::child(unsigned Node, unsigned Key) const {
  for (auto [Next, To] : PhraseNodes[Node].Children)
    if (Next == Key)
      return To;
  return 0;
}

void Analyzer::forEachConcept(
    ArrayRef<unsigned> Keys,
    function_ref<void(size_t, size_t, unsigned)> Found) const {
  // `out of memory` inside `cuda out of memory` is found again from its own
  // start.
  for (size_t Begin = 0; Begin < Keys.size(); ++Begin) {
    if (Keys[Begin] == NoKey)
      continue;
    unsigned Longest = 0;
    size_t Last = Begin, End = Begin;
    for (unsigned At = FirstNodes[Keys[Begin]]; At;) {
      if (!PhraseNodes[At].Concepts.empty()) {
        Longest = At;
        Last = End;
      }
      ++End;
      At = End < Keys.size() && Keys[End] != NoKey ? child(At, Keys[End]) : 0;
    }
    for (unsigned Concept : PhraseNodes[Longest].Concepts)
      Found(Begin, Last, Concept);
  }
}

void Analyzer::addConcepts(ArrayRef<Part> Parts, std::vector<Term> &Out) const {
  std::vector<unsigned> Keys;
  for (const Part &P : Parts)
    Keys.push_back(phraseKey(P.Key));
  forEachConcept(Keys, [&](size_t First, size_t Last, unsigned Concept) {
    std::string Said;
    for (const Part &P : Parts.slice(First, Last + 1 - First))
      Said += (Said.empty() ? "" : " ") + P.Spelled;
    Out.push_back(
        {Term::Kind::Concept, Concepts[Concept], Said, Parts[First].Word});
  });
}

void Analyzer::forEachHanConcept(
    StringRef Run, StringRef Before, StringRef After,
    function_ref<void(StringRef, unsigned)> Found) const {
  for (const HanPhrase &P : HanPhrases)
    if (Run.contains(P.Han) &&
        (P.Latin.empty() || P.Latin == Before || P.Latin == After))
      Found(P.Han, P.Concept);
}

/// Appends the characters of \p Run in overlapping pairs.
static void addHanPairs(StringRef Run, unsigned Index, std::vector<Term> &Out) {
  forEachHanPair(Run, [&](StringRef Pair) {
    Out.push_back({Term::Kind::Plain, Pair.str(), "", Index});
  });
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
  // The keys of a word, joined by blanks; parts are in the order of words.
  auto keysOf = [&](unsigned Word) {
    std::string Keys;
    auto It = llvm::lower_bound(
        Parts, Word, [](const Part &P, unsigned At) { return P.Word < At; });
    for (; It != Parts.end() && It->Word == Word; ++It)
      Keys += (Keys.empty() ? "" : " ") + It->Key;
    return Keys;
  };
  for (unsigned I = 0; I < Words.size(); ++I) {
    const Word &W = Words[I];
    if (W.K == Word::Kind::Han) {
      addHanPairs(W.Text, I, Out);
      // The words next to it, as in `KV缓存`.
      forEachHanConcept(
          W.Text, I ? keysOf(I - 1) : std::string(), keysOf(I + 1),
          [&](StringRef Said, unsigned Concept) {
            Out.push_back(
                {Term::Kind::Concept, Concepts[Concept], Said.str(), I});
          });
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

} // namespace culprit
