//===- VocabularyFile.h - The vocabulary of a tokenizer ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the pieces of a tokenizer.json, of a model of SentencePiece, of a
/// vocab.json or of a GGUF file, which their readers count and do not keep.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_VOCABULARYFILE_H
#define CULPRIT_READERS_VOCABULARYFILE_H

#include "Case/TokenVocabulary.h"
#include "llvm/Support/Error.h"

namespace culprit {

/// The vocabulary in the file at \p Path, as far as it is whole. An error when
/// there is none in it.
llvm::Expected<TokenVocabulary> readTokenVocabulary(llvm::StringRef Path);

} // namespace culprit

#endif // CULPRIT_READERS_VOCABULARYFILE_H
