//===- SentencePiece.h - tokenizer.model ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads models of SentencePiece (tokenizer.model, spiece.model) into `config`
/// rows under "tokenizer.", with the keys of TokenizerFile.h: type,
/// base_vocab_size, vocab_size, largest_id, added_tokens.ID of control and
/// user-defined pieces; and unk_token, bos_token, eos_token, pad_token,
/// byte_fallback and normalizer.name, .add_dummy_prefix and
/// .remove_extra_whitespaces.
///
/// The message is ModelProto of sentencepiece_model.proto.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SENTENCEPIECE_H
#define CULPRIT_READERS_SENTENCEPIECE_H

#include "Readers/Reader.h"

namespace culprit {

class SentencePieceReader : public Reader {
public:
  llvm::StringRef name() const override { return "tokenizer"; }
  llvm::StringRef about() const override {
    return "tokenizer.model of SentencePiece";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

/// Kinds of pieces, as the file numbers them.
enum class PieceKind {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6
};

/// Whether \p Head may begin such a model.
bool isSentencePiece(llvm::StringRef Head);

/// Calls \p Each with every piece and its id, until it returns false. False
/// when the bytes break off.
bool forEachPiece(
    llvm::StringRef Bytes,
    llvm::function_ref<bool(llvm::StringRef, int64_t, PieceKind)> Each);

} // namespace culprit

#endif // CULPRIT_READERS_SENTENCEPIECE_H
