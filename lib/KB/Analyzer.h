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
  /// The terms of \p Text joined by blanks, as the index holds them.
  std::string indexText(llvm::StringRef Text) const;

private:
  struct Part;
  void addConcepts(llvm::ArrayRef<Part> Parts, std::vector<Term> &Out) const;
  std::vector<Part> parts(llvm::ArrayRef<Word> Words,
                          Corrector Correct = nullptr) const;
  void addPhrase(llvm::StringRef Phrase, unsigned Concept);
  static bool besides(llvm::ArrayRef<Part> Parts, unsigned Index,
                      llvm::StringRef Latin);

  std::vector<std::string> Concepts;
  /// Phrases of the aliases by their parts joined by blanks, and the starts
  /// of such phrases with no concepts.
  llvm::StringMap<std::vector<unsigned>> Phrases;
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
