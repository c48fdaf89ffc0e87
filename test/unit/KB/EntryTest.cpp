//===- EntryTest.cpp ----------------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Entry.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

TEST(EntryTest, SlugKeepsWordsAndLetters) {
  EXPECT_EQ(slug("`.item()` in the step"), "item-in-the-step");
  EXPECT_EQ(slug("The head's range"), "the-heads-range");
  EXPECT_EQ(slug("显存 overflow"), "显存-overflow");
  EXPECT_EQ(slug("--- !!"), "");
}

TEST(EntryTest, SlugIsCutAtAWordEnd) {
  EXPECT_EQ(slug("one two three", 9), "one-two");
  EXPECT_EQ(slug("one two three", 7), "one-two");
  EXPECT_EQ(slug("abcdefghij", 4), "abcd");
  EXPECT_EQ(slug("显存显存", 4), "显");
}

TEST(EntryTest, SentencesEndWhereProseEnds) {
  EXPECT_EQ(firstSentence("Uses nn.Linear at 2.5 GHz. Then more."),
            "Uses nn.Linear at 2.5 GHz.");
  EXPECT_EQ(firstSentence("A mask, e.g. None. Next."), "A mask, e.g. None.");
  EXPECT_EQ(firstSentence("Call `f. G` twice. End."), "Call `f. G` twice.");
  EXPECT_EQ(firstSentence("one\nline"), "one line");
  EXPECT_EQ(sentences("One.\n\nno stop\n\nThree").size(), 3u);
  EXPECT_EQ(firstSentence(""), "");
}

TEST(EntryTest, Frequencies) {
  EXPECT_EQ(parseFrequency(" Often "), Frequency::Often);
  EXPECT_EQ(parseFrequency("rarely"), std::nullopt);
  EXPECT_EQ(parseFrequency("required"), Frequency::Required);
  EXPECT_EQ(frequencyName(Frequency::Required), "required");
  EXPECT_EQ(frequencyName(Frequency::Never), "never");
}

} // namespace
