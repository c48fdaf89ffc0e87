//===- TokenVocabulary.h - Token ids and their texts ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The pieces of a tokenizer by id, and how pieces become text again. Ten
/// megabytes for a large model, so that it is read when examples are to be
/// shown, and kept in no case.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_TOKENVOCABULARY_H
#define CULPRIT_CASE_TOKENVOCABULARY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include <cstdint>
#include <string>
#include <vector>

namespace culprit {

/// How a piece spells its text.
enum class PieceSpelling {
  Plain,     ///< As it is.
  ByteLevel, ///< A character stands for a byte, as of GPT-2: U+0120 is a space.
  Metaspace, ///< U+2581 is a space, <0x0A> a byte, as of SentencePiece.
  WordPiece  ///< A piece begins a word unless it begins with ##.
};

/// Filled by one thread, then read by any number.
class TokenVocabulary {
public:
  /// Ids from here on are not kept; no tokenizer comes near it.
  static constexpr int64_t MaxIds = int64_t(1) << 24;

  TokenVocabulary() = default;
  TokenVocabulary(TokenVocabulary &&) = default;
  TokenVocabulary &operator=(TokenVocabulary &&) = default;

  void setSpelling(PieceSpelling S) { Spelling = S; }
  /// Sets the piece of \p Id; a later one replaces it. Added tokens are text
  /// as it is, whatever the spelling; \p Special ones are marks.
  void add(int64_t Id, llvm::StringRef Piece, bool Added = false,
           bool Special = false);

  /// Largest id, plus one.
  size_t size() const { return Entries.size(); }
  bool has(int64_t Id) const {
    return Id >= 0 && static_cast<size_t>(Id) < Entries.size() &&
           Entries[static_cast<size_t>(Id)].Known;
  }
  bool isSpecial(int64_t Id) const { return has(Id) && entry(Id).Special; }
  /// The piece as the tokenizer has it; empty for an id that it lacks.
  llvm::StringRef piece(int64_t Id) const {
    return has(Id) ? entry(Id).Piece : llvm::StringRef();
  }
  /// The bytes of the text that \p Id stands for within a sentence. A
  /// character may be spread over several ids, so a single text need not be
  /// UTF-8.
  std::string text(int64_t Id) const;

private:
  struct Entry {
    llvm::StringRef Piece;
    bool Known = false, Added = false, Special = false;
  };
  const Entry &entry(int64_t Id) const {
    return Entries[static_cast<size_t>(Id)];
  }

  PieceSpelling Spelling = PieceSpelling::Plain;
  std::vector<Entry> Entries;
  llvm::BumpPtrAllocator Texts;
};

} // namespace culprit

#endif // CULPRIT_CASE_TOKENVOCABULARY_H
