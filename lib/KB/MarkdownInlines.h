//===- MarkdownInlines.h - Inline nodes of plain markdown -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Emphasis, code spans, escapes and line breaks, which is nearly all that
/// logs have within a paragraph.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_MARKDOWNINLINES_H
#define CULPRIT_KB_MARKDOWNINLINES_H

#include "KB/MarkdownNode.h"
#include "llvm/Support/Allocator.h"

namespace culprit {

/// Appends the inlines of \p Text, the content of a block, to \p Block. False
/// when it may hold links, HTML or entities, code spans that never end, or
/// emphasis beside letters beyond ASCII: then \p Block is without children and
/// a full parser is to be asked. \p Text must live as long as the nodes, which
/// are made in \p Memory.
bool parsePlainInlines(llvm::StringRef Text, MarkdownNode &Block,
                       llvm::BumpPtrAllocator &Memory);

} // namespace culprit

#endif // CULPRIT_KB_MARKDOWNINLINES_H
