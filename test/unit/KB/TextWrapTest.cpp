//===- TextWrapTest.cpp - Paragraphs of other widths ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

TEST(JoinLines, ParagraphsAndItemsAreOneLineEach) {
  EXPECT_EQ(joinLines("a\nb\n\nc  \n  d"), "a b\n\nc d");
  EXPECT_EQ(joinLines("such as:\n- one\n  and more\n- two\n3. three\nmore"),
            "such as:\n- one and more\n- two\n3. three more");
  // Neither a date nor a dash begins an item.
  EXPECT_EQ(joinLines("of\n2.5 times\n-3 and\n-- so"), "of 2.5 times -3 and -- so");
  EXPECT_EQ(joinLines(""), "");
  EXPECT_EQ(joinLines("a\r\nb\r\n"), "a b");
}

TEST(JoinLines, CodeAndTablesKeepTheirLines) {
  for (const char *Text :
       {"run:\n\n    export A=1\n    run it\n\nand see", "```\na\nb\n```\nc",
        "| a | b |\n|---|---|\n| 1 | 2 |", "## a\nb"})
    EXPECT_EQ(joinLines(Text), Text);
  // A line under an item belongs to it, however far it is indented.
  EXPECT_EQ(joinLines("- a\n    b"), "- a b");
}

} // namespace
