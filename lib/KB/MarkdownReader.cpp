//===- MarkdownReader.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownReader.h"
#include "KB/LogReader.h"
#include "KB/LogText.h"
#include "KB/MarkdownParser.h"

using namespace llvm;

namespace culprit {

/// Of a piece that is parsed at once; its tree takes some ten times as much.
static constexpr size_t PieceSize = 4 << 20;

MarkdownLog readMarkdown(StringRef Text, StringRef File) {
  MarkdownLog Out;
  std::string Storage;
  bool Valid = false;
  Text = decodeLog(Text, File, Storage, Out.Remarks, Valid);
  FrontMatter F = takeFrontMatter(Text);
  LogReader Reader(File, Out);
  Reader.frontMatter(F);
  forEachPiece(Text, PieceSize, File, Out.Remarks,
               [&](StringRef Piece, unsigned Lines) {
                 forEachBlock(Piece, Valid, [&](const MarkdownNode &N) {
                   Reader.block(N, F.Lines + Lines);
                 });
               });
  Reader.finish();
  return Out;
}
} // namespace culprit
