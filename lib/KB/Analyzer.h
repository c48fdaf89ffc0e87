//===- Analyzer.h - Terms of entries and queries ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Turns words into the terms that are indexed and searched. Both sides go
/// through here, so that what people ask meets what entries say:
///
///   CUDA error: 700 at step 1200    cudaErrorIllegalAddress
///   -> cuda 700 #cuda-700           -> cudaerrorillegaladdress cuda illegal
///                                      address #cuda-700
///
/// A term that begins with `#` is a concept of the aliases; `a+b` is a pair of
/// neighbours; everything else is a word.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ANALYZER_H
#define CULPRIT_KB_ANALYZER_H

#include "KB/Lexer.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <utility>
#include <vector>

namespace culprit {

struct Term {
  enum class Kind { Plain, Identifier, Number, Concept, Pair };
  Kind K = Kind::Plain;
  std::string Text;
  /// Lower case, before stemming: of a plain term its word, of a concept the
  /// words that name it here.
  std::string Spelled;
  unsigned Word = 0;   ///< Index of the (first) word it comes from.
};

/// Immutable after construction; safe to use from several threads.
class Analyzer {
public:
  /// Changes whenever equal text may give other terms, so that stores know
  /// that their index is of an older analyzer.
  static constexpr unsigned Version = 2;

  explicit Analyzer(const Vocabulary &V);

  /// Replaces the key of a word spelled so, when it is a slip of another.
  using Corrector =
      llvm::function_ref<void(llvm::StringRef Spelled, std::string &Key)>;

  /// The terms of \p Words in order, each plain word put right by \p Correct.
  std::vector<Term> terms(llvm::ArrayRef<Word> Words,
                          Corrector Correct = nullptr) const;

  // What terms() is made of, for TermList.h.

  /// The key of a part that is in no phrase.
  static constexpr unsigned NoKey = ~0u;
  /// The number of the key \p Key, a stem or a number, among those of phrases.
  unsigned phraseKey(llvm::StringRef Key) const;
  /// Calls \p Found for each concept that the parts with \p Keys name, with the
  /// first and the last of its parts. From each part on the longest phrase
  /// counts.
  void forEachConcept(
      llvm::ArrayRef<unsigned> Keys,
      llvm::function_ref<void(size_t First, size_t Last, unsigned Concept)>
          Found) const;
  /// The same for a run of Han characters between two words, whose keys joined
  /// by blanks are \p Before and \p After; \p Said is the phrase.
  void forEachHanConcept(
      llvm::StringRef Run, llvm::StringRef Before, llvm::StringRef After,
      llvm::function_ref<void(llvm::StringRef Said, unsigned Concept)> Found)
      const;
  /// The term of a concept.
  llvm::StringRef conceptTerm(unsigned Concept) const {
    return Concepts[Concept];
  }

private:
  struct Part;
  void addConcepts(llvm::ArrayRef<Part> Parts, std::vector<Term> &Out) const;
  std::vector<Part> parts(llvm::ArrayRef<Word> Words,
                          Corrector Correct = nullptr) const;
  void addPhrase(llvm::StringRef Phrase, unsigned Concept);
  unsigned child(unsigned Node, unsigned Key) const;

  std::vector<std::string> Concepts;
  /// Phrases of the aliases as a tree over the keys of their parts.
  struct PhraseNode {
    std::vector<unsigned> Concepts; ///< Of the phrase that ends here.
    std::vector<std::pair<unsigned, unsigned>> Children; ///< Key and node.
  };
  llvm::StringMap<unsigned> PhraseKeys;
  std::vector<PhraseNode> PhraseNodes; ///< From 1; 0 stands for none.
  std::vector<unsigned> FirstNodes;    ///< By the key they begin with.
  /// A phrase in Han characters, which no blanks separate; beside them may
  /// stand parts of Latin letters, joined by blanks.
  struct HanPhrase {
    std::string Han, Latin;
    unsigned Concept;
  };
  std::vector<HanPhrase> HanPhrases;
};

} // namespace culprit

#endif // CULPRIT_KB_ANALYZER_H
