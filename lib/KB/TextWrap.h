//===- TextWrap.h - Paragraphs in a given width -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Wraps the prose of entries; code and tables keep their lines.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_TEXTWRAP_H
#define CULPRIT_KB_TEXTWRAP_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

/// Columns of a text for people where nothing tells the terminal's.
inline constexpr unsigned TextWidth = 100;

/// Prints \p Text in lines of at most \p Columns characters, the first behind
/// \p First, the others behind \p Next. A line that is longer as a single
/// word, a fenced block or a row of a table is not broken.
void printWrapped(llvm::raw_ostream &OS, llvm::StringRef Text,
                  llvm::StringRef First, llvm::StringRef Next,
                  unsigned Columns);

/// \p Text, which was wrapped by hand, with the lines of a paragraph and of an
/// item of a list in one line each, so that printWrapped() may break it
/// elsewhere. Fenced blocks, tables and lines indented by 4 or more, which are
/// code, keep theirs.
std::string joinLines(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_KB_TEXTWRAP_H
