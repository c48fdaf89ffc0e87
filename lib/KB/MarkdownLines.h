//===- MarkdownLines.h - What lines of markdown begin -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tells by a line alone what it may begin, for MarkdownParser.cpp.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNLINES_H
#define CULPRIT_KB_MARKDOWNLINES_H

#include "llvm/ADT/StringRef.h"

namespace culprit {

enum class LineStart {
  Text, ///< Goes on with a paragraph or begins one, nothing else.
  Heading,
  Bullet, ///< With text behind it, as Number.
  Number,
  Fence,
  Rule,  ///< Three or more of `-`, `*` or `_`; under text maybe a heading.
  Other, ///< Anything that needs a second look.
};

/// What \p Line begins, which is not empty and begins with no blank.
LineStart lineStart(llvm::StringRef Line);

/// The marker of an item and its text.
struct ItemStart {
  char Sign = 0;       ///< `-`, `*`, `+`, or `.` and `)` behind a number.
  int Number = 0;      ///< Of a numbered item.
  llvm::StringRef Text; ///< Empty when it is not one plain paragraph.
};

/// \p Line is a Bullet or a Number.
ItemStart itemStart(llvm::StringRef Line);

/// Whether \p Text may hold `[label]: address`, which gives a meaning to
/// brackets anywhere in it. True where one would have to look closer.
bool mayDefineLinks(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNLINES_H
