//===- PhraseFinderTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/PhraseFinder.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace llvm;

TEST(PhraseFinder, FindsOverlappingPhrasesInAnyCase) {
  // The example of the paper: "ushers" holds she, he and hers.
  PhraseFinder F({"he", "she", "his", "hers"});
  std::vector<PhraseFinder::Hit> Hits;
  F.find("uSHers", Hits);
  ASSERT_EQ(Hits.size(), 3u);
  EXPECT_EQ(Hits[0].Phrase, 1u);
  EXPECT_EQ(Hits[0].Begin, 1u);
  EXPECT_EQ(Hits[0].End, 4u);
  EXPECT_EQ(Hits[1].Phrase, 0u);
  EXPECT_EQ(Hits[2].Phrase, 3u);
  EXPECT_EQ(Hits[2].End, 6u);
}

TEST(PhraseFinder, FindsEveryOccurrenceAndNothingElse) {
  PhraseFinder F({"aa", "\xC3\xA4"});
  std::vector<PhraseFinder::Hit> Hits;
  F.find("aaa \xC3\xA4 \xC3", Hits);
  EXPECT_EQ(Hits.size(), 3u);
  Hits.clear();
  F.find("", Hits);
  F.find("a b a", Hits);
  EXPECT_TRUE(Hits.empty());
}
