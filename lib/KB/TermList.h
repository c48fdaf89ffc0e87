//===- TermList.h - The terms of a text as numbers --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the index is made from: the terms of Analyzer.h, each distinct one as
/// a small number, with the places that tell which of them are neighbours.
/// Pairs are not among them: `a+b` stands where `a` has the position p and `b`
/// the position p + 1.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_TERMLIST_H
#define CULPRIT_KB_TERMLIST_H

#include "KB/Analyzer.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include <cstdint>
#include <vector>

namespace culprit {

/// An occurrence of a term.
struct TermUse {
  /// The position of a term that is in no pair: an identifier as a whole, a
  /// concept, characters of Chinese, `finetune` of `fine-tune`.
  static constexpr uint32_t NoPosition = ~uint32_t(0);

  uint32_t Term = 0; ///< TermLister::term() has its text.
  uint32_t Position = NoPosition;
};

/// Makes term lists and remembers the terms it met. Used by one thread at a
/// time; each thread has its own, and their numbers are their own.
class TermLister {
public:
  /// \p A must outlive this.
  explicit TermLister(const Analyzer &A);
  ~TermLister();

  /// Sets \p Out to the terms of \p Text, in any order. For every text, the
  /// terms with a position are those that Analyzer::terms() makes pairs of, in
  /// their order with ascending positions from 0: the next one stands at + 1 on
  /// the same line and at + 2 on another. The uses and the pairs of neighbours
  /// together are exactly the terms of Analyzer::terms().
  void list(llvm::StringRef Text, std::vector<TermUse> &Out);

  /// The distinct terms met so far, numbered from 0 in the order first met.
  uint32_t size() const { return static_cast<uint32_t>(Terms.size()); }
  /// The text of \p Term; valid as long as this object.
  llvm::StringRef term(uint32_t Term) const { return Terms[Term]; }

private:
  static constexpr uint32_t None = ~uint32_t(0);

  /// A part of an identifier, or a whole word; the same wherever it stands.
  struct Part {
    llvm::StringRef Key;
    llvm::StringRef Spelled;
    uint32_t Term;   ///< Of the key; None until it is used.
    unsigned Phrase; ///< Analyzer::phraseKey().
    bool Counts;     ///< Is a term.
  };
  /// What is made of a word each time it is met.
  struct Known {
    uint32_t First, Size; ///< Of Parts.
    bool IsIdentifier;    ///< And a term as a whole.
    uint32_t Whole;       ///< None until it is used.
  };
  uint32_t number(llvm::StringRef Term);
  Known &known(const WordView &W);
  Known learn(const WordView &W);
  void addPart(llvm::StringRef Key, llvm::StringRef Spelled, bool Counts);
  void han(size_t Word, std::vector<TermUse> &Out);
  std::string keysOf(size_t Word);

  const Analyzer &A;
  llvm::BumpPtrAllocator Memory; ///< Of the parts.
  std::vector<Part> Parts;
  /// By kind, as `GGGG` can be a word or what broken decoding prints.
  llvm::StringMap<Known, llvm::BumpPtrAllocator> Words[4];

  // Of the text at hand.
  std::vector<WordView> Views;
  llvm::BumpPtrAllocator ViewMemory;
  std::vector<unsigned> Phrases; ///< Of all parts.

  llvm::StringMap<uint32_t, llvm::BumpPtrAllocator> Numbers;
  std::vector<llvm::StringRef> Terms; ///< Keys of Numbers.
};

} // namespace culprit

#endif // CULPRIT_KB_TERMLIST_H
