//===- MarkdownParserTest.cpp ---------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownParser.h"
#include "KB/MarkdownReader.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <random>

using namespace llvm;
using namespace culprit;

namespace {

/// Everything a node says, one node a line.
void writeNode(raw_ostream &OS, const MarkdownNode &N, unsigned Depth) {
  OS.indent(Depth) << static_cast<int>(N.K) << ' ' << N.Ordered << ' '
                   << N.Number;
  if (N.K <= MarkdownNode::Kind::Rule)
    OS << " line " << N.Line;
  if (!Depth)
    OS << '-' << N.LastLine;
  OS << " '" << N.Text << "' '" << N.Info << "'\n";
  for (const MarkdownNode *C = N.First; C; C = C->Next)
    writeNode(OS, *C, Depth + 1);
}

std::string ownBlocks(StringRef Text) {
  std::string Out;
  raw_string_ostream OS(Out);
  forEachBlock(Text, true, [&](MarkdownNode &N) { writeNode(OS, N, 0); });
  return Out;
}

std::string cmarkBlocks(StringRef Text) {
  std::string Out;
  raw_string_ostream OS(Out);
  BumpPtrAllocator Memory;
  forEachBlockOfCmark(Text, 0, Memory,
                      [&](MarkdownNode &N) { writeNode(OS, N, 0); });
  return Out;
}

TEST(MarkdownParser, ReadsWhatLogsHoldAsCmarkDoes) {
  for (StringRef Text : {
           "", "\n\n", "a", "# a\nb", "## a ##\n### ###\n#\n#### \n",
           "a\nb  \nc\\\nd", "a\n  b\n\tc", "a\n---\nb\n\n---\n- a\n\n***\n",
           "**Symptom**: `a_b` and _c_ of d_e_f, 3 * 4 * 5, ***x** y*",
           "**Prevention**:\n- Test: a\n  b\n- c\nlazy\n\n- d\n\nend",
           "- a\n b `c\n d`\n", "1. a\n2. b\n1) c\n* d\n+ e\n", "- a\n  - b\n",
           "- a\n\n  b\n# c", "- \n- a", "-\fa", "a\n2. b\n1. c",
           "```py\n# x\n\n- y\n```\na", "```\nnever closed\n# x",
           "~~~~ a b\n~~~\n~~~~~ \nx", "````a``b`c`",
           "<!-- x\n# y\n\n# z -->\n# w", "> # a\nb\n# c\n",
           "<div>\n# a\n\n# b",
           "[a]: http://b\n\n[a] [c]", "[rank0]:[W1] x\n[rank0]: y z",
           "a [b](c) & &amp; <d> <e@f.g> <1@2> 1 < 2 \\* \\a",
           "    code\n# a", "a\r\nb\rc\r\n\r\n- d\r\n", "\xEF\xBB\xBF# a",
           "a\n\n\xEF\xBB\xBF> b\n# c", "**x**\xEF\xBC\x9Ay **\xE4\xB8\xAD**z",
           "a `` ` `` b ` ` c ``d", "| a | b |\n|---|---|\n| 1 | 2 |\n"})
    EXPECT_EQ(ownBlocks(Text), cmarkBlocks(Text)) << Text.str();
}

TEST(MarkdownParser, ReadsAnyTextAsCmarkDoes) {
  static constexpr StringLiteral Parts[] = {
      "\n", "\n", "\n\n", "\n\n", " ", "  ", "   ", "    ", "\t", "- ", "* ",
      "+ ", "1. ", "2. ", "1) ", "12. ", "-", "*", "_", "**", "__", "***", "#",
      "# ", "## ", "### ", "`", "``", "```", "```c\n", "~~~", "> ", ">", "<",
      "<b>", "</b>", "<!--", "-->", "<div>", "<pre>", "</pre>", "<?", "[", "]",
      "](", "]:", "[a]", "[a]: b\n", "![", ")", "\\", "\\\n", "  \n", "&",
      "&lt;", ";", "---", "---\n", "===\n", "***\n", "|", "a", "b", "word",
      "two words", "x_y", "1", "10", ".", ",", ":", "!", "@", "http://a.b",
      "\xC3\xA9", "\xE4\xB8\xAD", "\xEF\xBC\x9A", "\xEF\xBB\xBF", "\f", "\v",
      "**Symptom**: ", "- **Fix**: "};
  std::mt19937_64 Random(7);
  for (unsigned Round = 0; Round < 20000; ++Round) {
    std::string Text;
    unsigned Plain = Random() % 4; // The more, the more words between.
    for (size_t Left = 1 + Random() % 30; Left; --Left) {
      Text += Parts[Random() % std::size(Parts)];
      for (unsigned I = 0; I < Plain && Random() % 2; ++I)
        Text += Random() % 3 ? "word" : " w ";
      if (Random() % 5 == 0)
        Text += "\n";
    }
    std::string Ours = ownBlocks(Text), Cmark = cmarkBlocks(Text);
    ASSERT_EQ(Ours, Cmark) << "round " << Round << ": <<" << Text << ">>";
  }
}

TEST(MarkdownParser, TakesAnyBytes) {
  std::mt19937_64 Random(11);
  for (unsigned Round = 0; Round < 2000; ++Round) {
    std::string Text = Round % 2 ? "### a\n**Symptom**: b\n" : "";
    for (size_t Left = Random() % 200; Left; --Left)
      Text += Random() % 4 ? "\n-*`#_ \t>|[]()<"[Random() % 15]
                           : static_cast<char>(Random());
    MarkdownLog Log = readMarkdown(Text, "log.md");
    EXPECT_EQ(Log.Entries.size(), Log.Lines.size());
  }
}

TEST(MarkdownParser, OneParagraphOfManyLines) {
  // Neither squares of its length nor deep recursion.
  std::string Text = "### a\n**Symptom**: ";
  for (unsigned I = 0; I < 100000; ++I)
    Text += "a line of output [rank0] *" + std::to_string(I) + "\n";
  MarkdownLog Log = readMarkdown(Text, "log.md");
  ASSERT_EQ(Log.Entries.size(), 1u);
  EXPECT_GT(Log.Entries[0].Symptom.size(), 2000000u);
}

} // namespace
