//===- MarkdownParser.h - From text to the tree of a document ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Parses a document block by block. What logs mostly are, headings,
/// paragraphs, flat lists and fences, is read here; all else goes to cmark in
/// pieces as small as is sure to make no difference. The blocks are those that
/// cmark makes of the whole document.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNPARSER_H
#define CULPRIT_KB_MARKDOWNPARSER_H

#include "KB/MarkdownNode.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Allocator.h"

namespace culprit {

using MarkdownVisitor = llvm::function_ref<void(MarkdownNode &)>;

/// Calls \p Each with the blocks of the document \p Text in order. A block and
/// what is below it live until \p Each returns. \p Valid says that \p Text is
/// UTF-8 and holds no NUL; without it, those bytes become U+FFFD.
void forEachBlock(llvm::StringRef Text, bool Valid, MarkdownVisitor Each);

/// The same, by cmark alone. \p LinesBefore is added to the lines, and the
/// blocks are made in \p Memory, to live as long.
void forEachBlockOfCmark(llvm::StringRef Text, unsigned LinesBefore,
                         llvm::BumpPtrAllocator &Memory, MarkdownVisitor Each);

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNPARSER_H
