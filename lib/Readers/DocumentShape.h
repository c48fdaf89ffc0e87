//===- DocumentShape.h - Whether JSON is of a data set ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells examples of data sets from other JSON by their keys and by the name
/// of the file, and says of which part of the set they are.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_DOCUMENTSHAPE_H
#define CULPRIT_READERS_DOCUMENTSHAPE_H

#include "Support/LooseTree.h"
#include "llvm/ADT/ArrayRef.h"

namespace culprit {

/// What a record says of itself.
enum class DocumentShape {
  None,
  /// A question with its answer: in a file that is named like a data set it is
  /// an example, anywhere else it may be what a model answered.
  Pair,
  /// Turns that end with the assistant's, and little else. Likewise, but no
  /// model's answers are kept so.
  Turns,
  Text ///< A text of its own.
};

DocumentShape documentShape(LooseValue Record);
/// Of a record that breaks off; \p Text begins with it. Only a long text can
/// be told.
DocumentShape documentShapeOfStart(llvm::StringRef Text);

/// Keys of the whole text of a record, and of a question and its answer, in
/// the order in which they are asked for.
llvm::ArrayRef<llvm::StringLiteral> textKeys();
llvm::ArrayRef<llvm::StringLiteral> questionKeys();
llvm::ArrayRef<llvm::StringLiteral> answerKeys();
llvm::ArrayRef<llvm::StringLiteral> turnsKeys();

/// "train", "validation" or "test" for a word that means it; else empty.
llvm::StringRef splitOfWord(llvm::StringRef Word);
/// The same of a path: of the words of the file's name, else of its folder or
/// the one above.
llvm::StringRef splitOfPath(llvm::StringRef Path);
/// Whether the file's own name is that of a data set, or it lies in a folder
/// of such.
bool isNamedLikeData(llvm::StringRef Path);

} // namespace culprit

#endif // CULPRIT_READERS_DOCUMENTSHAPE_H
