//===- SideBySideTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/SideBySide.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

std::string printed(std::vector<SideRow> Rows, unsigned Width,
                    unsigned Indent = 0, bool Color = false) {
  std::string Out;
  llvm::raw_string_ostream OS(Out);
  printSideBySide(OS, Rows, {Width, Indent, Color});
  return Out;
}

TEST(BrokenLines, BreaksBetweenWords) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(brokenLines("one two three", 20), Lines{"one two three"});
  EXPECT_EQ(brokenLines("one two three", 9), (Lines{"one two", "  three"}));
  EXPECT_EQ(brokenLines("  one two", 6), (Lines{"  one", "   two"}));
  EXPECT_EQ(brokenLines("", 10), Lines{""});
  // A word that fits nowhere is cut.
  EXPECT_EQ(brokenLines("abcdefghijkl", 8), (Lines{"abcdefgh", "  ijkl"}));
  // Two columns a character, of three bytes each.
  EXPECT_EQ(brokenLines("日本語", 4), (Lines{"日本", "  語"}));
}

TEST(SideBySide, AsNarrowAsWhatIsInIt) {
  EXPECT_EQ(printed({{"a: 1", "a: 1", false}, {"b: 12345678", "b: 2", true}},
                    80, 2),
            "    expected     actual\n"
            "    a: 1         a: 1\n"
            "  ! b: 12345678  b: 2\n");
}

TEST(SideBySide, NothingIsWiderThanTheTerminal) {
  std::string Long =
      "GPU 0 runs nothing in 1.56 ms of 3.96 ms: it waits for the host";
  for (unsigned Width : {30u, 44u, 60u, 100u, 141u})
    for (const auto &[Left, Right] :
         {std::pair<std::string, std::string>(Long, Long),
          {"short", Long},
          {Long, "short"},
          {Long, std::string(300, 'x')}}) {
      std::string Text = printed({{Left, Right, true}}, Width, 2);
      for (llvm::StringRef Line : llvm::split(Text, '\n'))
        EXPECT_LE(Line.size(), Width) << Line.str();
    }
  EXPECT_EQ(printed({{"short", "four words on two lines", true}}, 28),
            "  expected  actual\n"
            "! short     four words on\n"
            "              two lines\n");
}

TEST(SideBySide, OneSideMayBeEmpty) {
  EXPECT_EQ(printed({{"", "b: 2", true}, {"c: 3", "", true}}, 60),
            "  expected  actual\n"
            "!           b: 2\n"
            "! c: 3\n");
}

TEST(SideBySide, NothingMovesTheCursor) {
  std::string Text = printed({{"a\nb", "\x1b[2J\xff", true}}, 60);
  EXPECT_EQ(Text.find('\x1b'), std::string::npos);
  EXPECT_NE(Text.find("a\\nb"), std::string::npos);
  EXPECT_NE(Text.find("\\x1b[2J"), std::string::npos);
}

TEST(SideBySide, ColoursWhatDiffers) {
  EXPECT_EQ(printed({{"a", "a", false}}, 60, 0, true).find('\x1b'),
            std::string::npos);
  EXPECT_NE(printed({{"a", "b", true}}, 60, 0, true).find("\x1b["),
            std::string::npos);
}

} // namespace
