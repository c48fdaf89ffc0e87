//===- MarkdownText.h - Readable text of markdown nodes ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Renders nodes of a cmark tree as the text that entries hold: emphasis
/// marks gone, code in backquotes or fences, items behind `- ` or `1. `.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNTEXT_H
#define CULPRIT_KB_MARKDOWNTEXT_H

#include "llvm/ADT/StringRef.h"
#include <string>

struct cmark_node;

namespace culprit {

/// Appends the text of the inline node \p N itself.
void renderInline(std::string &Out, cmark_node *N);

/// The text of all inline children of \p Block.
std::string inlineText(cmark_node *Block);

/// The text of a code block with its fences.
std::string codeBlockText(cmark_node *N);

/// The text of everything below \p N without any structure.
std::string flatText(cmark_node *N);

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNTEXT_H
