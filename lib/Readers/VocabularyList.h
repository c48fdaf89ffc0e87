//===- VocabularyList.h - vocab.json ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the vocab.json of GPT-2's kind of tokenizers, an object of pieces and
/// their ids, into `config`: tokenizer.base_vocab_size, .vocab_size and
/// .largest_id, as TokenizerFile.h has them. The pieces are not kept.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_VOCABULARYLIST_H
#define CULPRIT_READERS_VOCABULARYLIST_H

#include "Readers/Reader.h"

namespace culprit {

class VocabularyListReader : public Reader {
public:
  llvm::StringRef name() const override { return "tokenizer"; }
  llvm::StringRef about() const override {
    return "vocab.json, the pieces of a tokenizer and their ids";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// Whether \p Head begins an object of pieces and ids.
bool isVocabularyList(llvm::StringRef Head);

/// Calls \p Each with every piece and its id. Where the text breaks off, the
/// offset of that place; else none.
std::optional<size_t> forEachEntry(
    llvm::StringRef Text,
    llvm::function_ref<void(llvm::StringRef, int64_t)> Each);

} // namespace culprit

#endif // CULPRIT_READERS_VOCABULARYLIST_H
