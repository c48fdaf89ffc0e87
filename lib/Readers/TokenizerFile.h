//===- TokenizerFile.h - tokenizer.json -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the tokenizer.json of Hugging Face's tokenizers into `config` rows
/// under "tokenizer.":
///
///   type                     BPE, Unigram, WordPiece or WordLevel
///   base_vocab_size          pieces of the model itself
///   vocab_size               with the added tokens, as len(tokenizer) has it
///   largest_id               an embedding needs one row more
///   merges                   rules of a BPE
///   added_tokens.ID          text of an added token; ....special true or false
///   pre_tokenizer            its types in order: Split, ByteLevel
///   pre_tokenizer.pattern    regular expression of a split; .1, .2 ... for
///                            further ones
///   template.begin, .end     the token that the post-processor puts in front
///                            of a text and behind it
///
/// and the settings of normalizer, pre_tokenizer, post_processor, decoder,
/// truncation and padding as they stand. The pieces themselves are counted and
/// not kept; see TokenVocabulary.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TOKENIZERFILE_H
#define CULPRIT_READERS_TOKENIZERFILE_H

#include "Readers/Reader.h"

namespace culprit {

class TokenizerFileReader : public Reader {
public:
  llvm::StringRef name() const override { return "tokenizer"; }
  llvm::StringRef about() const override {
    return "tokenizer.json of Hugging Face's tokenizers";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// Whether \p Head may begin a tokenizer.json.
bool isTokenizerFile(llvm::StringRef Head);

} // namespace culprit

#endif // CULPRIT_READERS_TOKENIZERFILE_H
