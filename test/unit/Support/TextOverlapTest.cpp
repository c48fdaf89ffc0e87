//===- TextOverlapTest.cpp - Texts that stand within others ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/TextOverlap.h"
#include "gtest/gtest.h"
#include <string>

using namespace culprit;
using llvm::StringRef;

namespace {

/// Words First, First + 1, ... of a vocabulary without repeats.
std::string words(int First, int Count) {
  std::string Out;
  for (int I = First; I != First + Count; ++I)
    Out += (Out.empty() ? "w" : " w") + std::to_string(I);
  return Out;
}

TextOverlaps overlaps(const std::vector<std::string> &Own,
                      const std::vector<std::string> &Other,
                      OverlapOptions Options = {}) {
  return findOverlaps(
      Own.size(), [&](size_t I) { return StringRef(Own[I]); }, Other.size(),
      [&](size_t I) { return StringRef(Other[I]); }, Options);
}

TEST(TextOverlap, QuestionWithinLongDocument) {
  TextOverlaps Found =
      overlaps({words(5000, 30), words(9000, 30)},
               {words(0, 400), words(1000, 200) + ". " + words(5000, 30) +
                                   "! " + words(2000, 200)});
  EXPECT_EQ(Found.Run, 13u);
  ASSERT_EQ(Found.Texts.size(), 2u);
  EXPECT_EQ(Found.Texts[0].Match, 1u);
  EXPECT_EQ(Found.Texts[0].Share, 1);
  EXPECT_EQ(Found.Texts[0].Longest, 30u);
  EXPECT_FALSE(Found.Texts[0].Exact);
  EXPECT_EQ(Found.Texts[1].Match, TextOverlap::None);
  EXPECT_EQ(Found.Texts[1].Share, 0);
}

TEST(TextOverlap, ShareAndLongestPieceOfAnEditedCopy) {
  // 20 words, one that differs, 40 words, 39 of its own: 60 of 100.
  std::string Own = words(0, 20) + " x " + words(20, 40) + " " + words(700, 39);
  TextOverlaps Found = overlaps({Own}, {words(0, 60)});
  ASSERT_EQ(Found.Texts.size(), 1u);
  EXPECT_DOUBLE_EQ(Found.Texts[0].Share, 0.6);
  EXPECT_EQ(Found.Texts[0].Longest, 40u);
}

// Parts of two books in turn, and one of neither: each is measured against its
// own, whatever the order.
TEST(TextOverlap, PartsOfTwoBooksInTurn) {
  std::vector<std::string> Own;
  for (int I = 0; I != 6; ++I)
    Own.push_back(words(I % 2 * 10000 + I * 100, 30 + 5 * I) + " " +
                  words(50000 + I * 1000, 70 - 5 * I)); // 100 words
  Own.push_back(words(90000, 100));
  TextOverlaps Found = overlaps(Own, {words(0, 1000), words(10000, 1000)});
  ASSERT_EQ(Found.Texts.size(), 7u);
  for (int I = 0; I != 6; ++I) {
    EXPECT_EQ(Found.Texts[I].Row, uint32_t(I));
    EXPECT_EQ(Found.Texts[I].Match, uint32_t(I % 2));
    EXPECT_DOUBLE_EQ(Found.Texts[I].Share, 0.3 + 0.05 * I);
    EXPECT_EQ(Found.Texts[I].Longest, uint32_t(30 + 5 * I));
  }
  EXPECT_EQ(Found.Texts[6].Match, TextOverlap::None);
}

TEST(TextOverlap, SameWordsAreExact) {
  TextOverlaps Found = overlaps({"The " + words(0, 20) + "."},
                                {words(50, 90), "the " + words(0, 20)});
  ASSERT_EQ(Found.Texts.size(), 1u);
  EXPECT_TRUE(Found.Texts[0].Exact);
  EXPECT_EQ(Found.Texts[0].Match, 1u);
  EXPECT_EQ(Found.Texts[0].Longest, 21u);
}

TEST(TextOverlap, CommonplacesDoNotCount) {
  // A header that eleven different documents have.
  std::vector<std::string> Other;
  for (int I = 0; I != 11; ++I)
    Other.push_back(words(0, 50) + " " + words(1000 + 100 * I, 50));
  TextOverlaps Found =
      overlaps({words(0, 50) + " " + words(9000, 30)}, Other);
  ASSERT_EQ(Found.Texts.size(), 1u);
  EXPECT_EQ(Found.Texts[0].Share, 0);
  // Ten have it: it may be what was copied. 50 of 80 words.
  Other.pop_back();
  Found = overlaps({words(0, 50) + " " + words(9000, 30)}, Other);
  EXPECT_DOUBLE_EQ(Found.Texts[0].Share, 50.0 / 80);
  // Ten copies of one document are one.
  Other.assign(30, Other[0]);
  Found = overlaps({words(0, 50) + " " + words(9000, 30)}, Other);
  EXPECT_DOUBLE_EQ(Found.Texts[0].Share, 50.0 / 80);
  // Few-shot examples before each question, and in one document.
  std::vector<std::string> Own;
  for (int I = 0; I != 5; ++I)
    Own.push_back(words(0, 60) + " " + words(2000 + 100 * I, 20));
  Found = overlaps(Own, {words(0, 60)});
  for (const TextOverlap &Text : Found.Texts)
    EXPECT_EQ(Text.Share, 0);
}

TEST(TextOverlap, RunFitsShortTexts) {
  // All but a twentieth have 9 words or more.
  std::vector<std::string> Own = {"yes", "no"};
  for (int I = 0; I != 40; ++I)
    Own.push_back(words(100 * I, I == 0 ? 8 : 9));
  TextOverlaps Found = overlaps(Own, {words(300, 60)});
  EXPECT_EQ(Found.Run, 9u);
  EXPECT_EQ(Found.TooShort, 3u);
  ASSERT_EQ(Found.Texts.size(), 39u);
  EXPECT_EQ(Found.Texts[2].Row, 5u);
  EXPECT_EQ(Found.Texts[2].Share, 1);
  EXPECT_EQ(overlaps({}, {"a"}).Texts.size(), 0u);
  EXPECT_EQ(overlaps({words(0, 20)}, {}).Texts.size(), 1u);
}

} // namespace
