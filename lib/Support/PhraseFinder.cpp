//===- PhraseFinder.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/PhraseFinder.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

PhraseFinder::PhraseFinder(ArrayRef<StringRef> Phrases) {
  ClassOf.fill(0); // class 0: in no phrase
  for (StringRef Phrase : Phrases)
    for (char C : Phrase) {
      unsigned char Lower = toLower(C);
      if (!ClassOf[Lower])
        ClassOf[Lower] = Classes++;
      ClassOf[static_cast<unsigned char>(toUpper(C))] = ClassOf[Lower];
    }

  // The trie. State 0 is its root, and no edge leads there, so 0 also means
  // that an edge is missing.
  auto newState = [&] {
    Next.resize(Next.size() + Classes, 0);
    Ends.push_back(-1);
    Shorter.push_back(0);
    return static_cast<uint16_t>(Ends.size() - 1);
  };
  newState();
  for (unsigned I = 0; I != Phrases.size(); ++I) {
    uint16_t State = 0;
    for (unsigned char C : Phrases[I]) {
      size_t Edge = State * Classes + ClassOf[C];
      if (!Next[Edge]) {
        uint16_t Made = newState();
        Next[Edge] = Made;
      }
      State = Next[Edge];
    }
    Ends[State] = I;
    Lengths.push_back(Phrases[I].size());
  }

  // Breadth first, so that the state of a shorter text is complete: the edges
  // that a state lacks are those of its longest proper suffix.
  std::vector<uint16_t> Suffix(Ends.size(), 0), Queue;
  for (unsigned C = 0; C != Classes; ++C)
    if (Next[C])
      Queue.push_back(Next[C]);
  for (size_t I = 0; I != Queue.size(); ++I) {
    uint16_t State = Queue[I], Fallback = Suffix[State];
    Shorter[State] = Ends[Fallback] >= 0 ? Fallback : Shorter[Fallback];
    for (unsigned C = 0; C != Classes; ++C) {
      uint16_t &Edge = Next[State * Classes + C];
      uint16_t Other = Next[Fallback * Classes + C];
      if (Edge) {
        Suffix[Edge] = Other;
        Queue.push_back(Edge);
      } else {
        Edge = Other;
      }
    }
  }
}

void PhraseFinder::find(StringRef Text, std::vector<Hit> &Hits) const {
  uint16_t State = 0;
  for (size_t I = 0; I != Text.size(); ++I) {
    State = step(State, Text[I]);
    for (int32_t At = Ends[State] >= 0 ? State : Shorter[State]; At;
         At = Shorter[At]) {
      unsigned Phrase = Ends[At];
      Hits.push_back({Phrase, I + 1 - Lengths[Phrase], I + 1});
    }
  }
}

} // namespace culprit
