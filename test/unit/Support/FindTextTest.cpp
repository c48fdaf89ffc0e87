//===- FindTextTest.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/FindText.h"
#include "gtest/gtest.h"
#include <random>
#include <string>

using namespace culprit;
using namespace llvm;

TEST(FindText, AgreesWithStringRef) {
  // Two letters make near misses of every length; the seed makes it the same
  // text each time.
  std::mt19937 Random(7);
  for (unsigned Round = 0; Round != 20000; ++Round) {
    std::string Text(Random() % 70, 'a'), Needle(1 + Random() % 6, 'a');
    for (std::string *S : {&Text, &Needle})
      for (char &C : *S)
        C = "ab"[Random() % 2];
    size_t From = Random() % 75;
    size_t Wanted = From > Text.size() ? StringRef::npos
                                       : StringRef(Text).find(Needle, From);
    ASSERT_EQ(findText(Text, Needle, From), Wanted)
        << Text << " / " << Needle << " from " << From;
  }
}

TEST(FindText, LooksAtNothingBehindTheEnd) {
  // A needle that goes on where the text ends is not there.
  std::string Text = "0123456789abcdefNCCL";
  EXPECT_EQ(findText(StringRef(Text).drop_back(), "NCCL"), StringRef::npos);
  EXPECT_EQ(findText(Text, "NCCL"), 16u);
  EXPECT_FALSE(containsText("", "x"));
}

TEST(FindText, SkipsBlanks) {
  EXPECT_EQ(skipBlanks(" \t\r\n x "), "x ");
  EXPECT_EQ(skipBlanks("  "), "");
}
