//===- TokenizerWalk.h - What a tokenizer.json holds ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One pass over a tokenizer.json, in the order of the file and in constant
/// memory: a vocabulary of 256,000 pieces and as many merges is 30 MB of text.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TOKENIZERWALK_H
#define CULPRIT_READERS_TOKENIZERWALK_H

#include "Support/LooseJson.h"

namespace culprit {

/// What the walk calls. Texts are valid during the call; offsets ascend, but
/// for those of settings of the model, which may come before.
class TokenizerVisitor {
public:
  virtual ~TokenizerVisitor() = default;
  /// A piece of the model's vocabulary. A unigram's id is its position.
  virtual void piece(llvm::StringRef Piece, int64_t Id) = 0;
  /// An added token, which may be a piece of the vocabulary as well.
  virtual void added(llvm::StringRef Content, int64_t Id, bool Special,
                     size_t Offset) = 0;
  /// A plain setting of the model: type, unk_token, byte_fallback, merges.
  virtual void setting(llvm::StringRef Key, llvm::StringRef Value,
                       size_t Offset) = 0;
  /// The text of normalizer, pre_tokenizer, post_processor, decoder,
  /// truncation or padding, where it is an object.
  virtual void part(llvm::StringRef Name, llvm::StringRef Value,
                    size_t Offset) = 0;
};

/// Walks through all of \p In, which reads \p Text. False when the text breaks
/// off or is no such file.
bool walkTokenizer(LooseJson &In, llvm::StringRef Text,
                   TokenizerVisitor &Visitor);

} // namespace culprit

#endif // CULPRIT_READERS_TOKENIZERWALK_H
