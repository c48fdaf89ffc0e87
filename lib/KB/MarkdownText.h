//===- MarkdownText.h - Readable text of markdown nodes ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Renders nodes of markdown as the text that entries hold: emphasis
/// marks gone, code in backquotes or fences, items behind `- ` or `1. `.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNTEXT_H
#define CULPRIT_KB_MARKDOWNTEXT_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

struct MarkdownNode;

/// Appends the text of inline nodes to a string.
class InlineRenderer {
public:
  explicit InlineRenderer(std::string &Out) : Out(Out) {}

  /// Appends the text of the inline node \p N itself.
  void add(const MarkdownNode &N);
  /// The string was changed other than by appending.
  void restart() { Any = false; }

private:
  void leaf(const MarkdownNode &N);
  void address(llvm::StringRef Url);
  bool inTableRow();

  std::string &Out;
  size_t LineBegin = 0; ///< Of the last line, up to Seen.
  size_t Seen = 0;
  bool Any = false; ///< LineBegin is known.
};

/// The text of all inline children of \p Block.
std::string inlineText(const MarkdownNode *Block);

/// The text of a code block with its fences.
std::string codeBlockText(const MarkdownNode *N);

/// The text of everything below \p N without any structure.
std::string flatText(const MarkdownNode *N);

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNTEXT_H
