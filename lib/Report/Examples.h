//===- Examples.h - Dumped examples as text ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Prints rows of a dumped batch as the model read them, with what the loss
/// counts marked: underlined on a terminal, in ⟦ ⟧ elsewhere.
///
///   batch.input_ids, step 3, row 1 of 8: 14 tokens, 4 in the loss
///     <s><|im_start|>user
///     Hi<|im_end|>
///     <|im_start|>assistant
///     ⟦Hello!<|im_end|>⟧<pad> x 9
///
/// Below a row stands what is odd about it: no token counts, padding or the
/// question count, the end does not, there is none, the first token stands
/// twice, ids that the tokenizer lacks.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_EXAMPLES_H
#define CULPRIT_REPORT_EXAMPLES_H

#include "Case/Case.h"
#include "Case/TokenVocabulary.h"
#include "llvm/Support/raw_ostream.h"

namespace culprit {

struct ExampleStyle {
  size_t Most = 3; ///< Rows to print.
  bool Color = false;
};

/// Prints up to Most rows of the batches that \p C holds values of, spread
/// over them. Returns how many were printed.
size_t printExamples(llvm::raw_ostream &OS, const Case &C,
                     const TokenVocabulary &Words, const ExampleStyle &Style);

} // namespace culprit

#endif // CULPRIT_REPORT_EXAMPLES_H
