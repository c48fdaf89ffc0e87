//===- MarkdownReader.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownReader.h"
#include "KB/LogReader.h"
#include "KB/LogText.h"
#include <cmark.h>

using namespace llvm;

namespace culprit {

/// Of a piece that is parsed at once; its tree takes some ten times as much.
static constexpr size_t PieceSize = 4 << 20;

MarkdownLog readMarkdown(StringRef Text, StringRef File) {
  MarkdownLog Out;
  std::string Storage;
  Text = decodeLog(Text, File, Storage, Out.Remarks);
  FrontMatter F = takeFrontMatter(Text);
  LogReader Reader(File, Out);
  Reader.frontMatter(F);
  forEachPiece(Text, PieceSize, File, Out.Remarks,
               [&](StringRef Piece, unsigned Lines) {
                 cmark_node *Document = cmark_parse_document(
                     Piece.data(), Piece.size(), CMARK_OPT_VALIDATE_UTF8);
                 Reader.piece(Document, F.Lines + Lines);
                 cmark_node_free(Document);
               });
  Reader.finish();
  return Out;
}
} // namespace culprit
