//===- ScalarWords.h - Names told by their words ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// dt_data, data_stall_ms, batch_wait_s and t_load are the same time, in words
/// of few kinds in any order. A list of names would never end; a name of these
/// words alone is told by them, and one further word (eval, forward, net, max)
/// makes it the name of something else.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_SCALARWORDS_H
#define CULPRIT_READERS_SCALARWORDS_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace culprit {

struct WordedName {
  llvm::StringLiteral Canonical; ///< step_time, data_time or grad_norm.
  double Factor; ///< What takes the value to seconds; 1 for a norm.
};

/// What \p Normal, in lower case with _ for blanks, is by its words.
std::optional<WordedName> namedByWords(llvm::StringRef Normal);

/// The same of a rate or of the sum of all losses, where nothing else is known
/// of a name: lr, loss, val_loss, or empty. Weaker than any name that is known:
/// a part of a model may have a rate of its own.
llvm::StringLiteral namedByWordsAlone(llvm::StringRef Normal);

} // namespace culprit

#endif // CULPRIT_READERS_SCALARWORDS_H
