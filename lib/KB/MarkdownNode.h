//===- MarkdownNode.h - The tree of a markdown document ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What CommonMark makes of a text, as far as a log is read from it. Nodes are
/// made by MarkdownParser.h and live in its memory.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNNODE_H
#define CULPRIT_KB_MARKDOWNNODE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace culprit {

struct MarkdownNode {
  enum class Kind : uint8_t {
    // Blocks.
    Paragraph,
    Heading,
    List,
    Item,
    CodeBlock, ///< Text has its lines, Info what stands behind the fence.
    HtmlBlock,
    Quote,
    Rule,
    // Inlines.
    Text,
    Html,
    Code,
    SoftBreak,
    LineBreak,
    Emphasis,
    Strong,
    Link, ///< Or an image; Text has the address.
  };
  Kind K = Kind::Paragraph;
  bool Ordered = false;  ///< Of a list.
  int Number = 0;        ///< Of a heading its level, of a list its start.
  unsigned Line = 0;     ///< Of a block, from 1.
  unsigned LastLine = 0; ///< Of a block of the document.
  llvm::StringRef Text;
  llvm::StringRef Info;
  MarkdownNode *First = nullptr; ///< Children.
  MarkdownNode *Last = nullptr;
  MarkdownNode *Previous = nullptr; ///< Siblings.
  MarkdownNode *Next = nullptr;

  void append(MarkdownNode *Child) {
    Child->Previous = Last;
    Child->Next = nullptr;
    (Last ? Last->Next : First) = Child;
    Last = Child;
  }
  /// Takes \p Child out of the children.
  void remove(MarkdownNode *Child) {
    (Child->Previous ? Child->Previous->Next : First) = Child->Next;
    (Child->Next ? Child->Next->Previous : Last) = Child->Previous;
    Child->Previous = Child->Next = nullptr;
  }
};

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNNODE_H
