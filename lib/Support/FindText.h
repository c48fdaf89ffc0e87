//===- FindText.h - A fast search for a short text --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// StringRef::find makes a table of 256 bytes for each search, which costs more
/// than the search where the text is a line of a log. Here 16 places are looked
/// at at once for the first and the last byte of the needle (W. Mula, "SIMD-
/// friendly algorithms for substring searching").
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_FINDTEXT_H
#define CULPRIT_SUPPORT_FINDTEXT_H

#include "llvm/ADT/StringRef.h"

namespace culprit {

/// Where \p Needle, which is not empty, begins in \p Text at or after \p From;
/// npos where it does not.
size_t findText(llvm::StringRef Text, llvm::StringRef Needle, size_t From = 0);

/// \p Text without the white space at its front; StringRef::ltrim makes a set
/// of characters first.
inline llvm::StringRef skipBlanks(llvm::StringRef Text) {
  while (!Text.empty() && (Text[0] == ' ' || (Text[0] >= '\t' && Text[0] <= '\r')))
    Text = Text.drop_front();
  return Text;
}

inline bool containsText(llvm::StringRef Text, llvm::StringRef Needle) {
  return findText(Text, Needle) != llvm::StringRef::npos;
}

} // namespace culprit

#endif // CULPRIT_SUPPORT_FINDTEXT_H
