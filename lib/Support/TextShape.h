//===- TextShape.h - Loops and scripts of a text ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What can be told of a written answer without knowing its language: whether
/// it ends in a loop, and whether its letters belong together.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_TEXTSHAPE_H
#define CULPRIT_SUPPORT_TEXTSHAPE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace culprit {

/// The end of a sequence that repeats itself.
struct TailLoop {
  size_t Period; ///< Elements of one turn.
  size_t Onset;  ///< First element of the loop, from 0.
  size_t Length; ///< Elements from the onset to the end.
};

/// The longest tail of \p Values that is \p MinRepeats turns of one piece or
/// more, the last perhaps unfinished; with its smallest period. Linear: the
/// smallest period of each prefix of the reversed sequence is its length less
/// its longest border (Knuth, Morris and Pratt, 1977).
std::optional<TailLoop> tailLoop(llvm::ArrayRef<int64_t> Values,
                                 size_t MinRepeats);
std::optional<TailLoop> tailLoop(llvm::StringRef Text, size_t MinRepeats);

/// Figures of a UTF-8 text. A word is a run of letters and marks.
struct Writing {
  int64_t Characters = 0;
  int64_t Letters = 0;
  /// U+FFFD and bytes that are no UTF-8, but for a piece of a character at the
  /// very end, which any limit on length may cut.
  int64_t Replaced = 0;
  int64_t FirstReplaced = 0; ///< Character, from 1; 0 without one.
  /// Control characters but white space, and code points without a meaning.
  int64_t Control = 0;
  int64_t Words = 0;
  /// Words of two alphabets, each with two letters or more. One Greek letter
  /// in a Latin word is mathematics, and Chinese, Japanese, Korean and Thai,
  /// which stand beside Latin words without a space, do not count.
  int64_t Mixed = 0;
  int64_t FirstMixed = 0; ///< Character at which it ends, from 1; 0 without.
  /// Neighbouring words of one line in two scripts, neither of them Latin.
  int64_t Jumps = 0;
  int64_t Scripts = 0; ///< Scripts with three letters or more.
};

Writing writingOf(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_SUPPORT_TEXTSHAPE_H
