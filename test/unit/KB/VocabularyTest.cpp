//===- VocabularyTest.cpp -----------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Vocabulary.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

TEST(VocabularyTest, ReadsAllThree) {
  Expected<Vocabulary> V = Vocabulary::parse(
      "# Symptoms\n\n## gpu\n\n- `gpu-idle`: nothing runs\r\n\n## logs\n"
      "- `log-oom`: no memory\n",
      "layer\tclass\tdefinition\r\ndata\tlabel-noise\tlabels are wrong\n",
      "# aliases\noom\tout of memory | OOM |\n");
  ASSERT_TRUE(static_cast<bool>(V)) << toString(V.takeError());
  ASSERT_EQ(V->symptoms().size(), 2u);
  EXPECT_EQ(V->symptoms()[1].Group, "logs");
  EXPECT_EQ(V->symptom("gpu-idle")->Text, "nothing runs");
  EXPECT_EQ(V->symptom("gpu-idel"), nullptr);
  EXPECT_EQ(V->closestSymptom("gpu-idel"), "gpu-idle");
  EXPECT_EQ(V->rootCause("label-noise")->Layer, "data");
  EXPECT_EQ(V->aliases()[0].Phrases.size(), 2u);
}

TEST(VocabularyTest, NamesTheBrokenLine) {
  Expected<Vocabulary> V =
      Vocabulary::parse("", "layer\tclass\tdefinition\ndata\tx\n");
  EXPECT_EQ(toString(V.takeError()), "classes.tsv:2: 2 columns, expected 3");
  V = Vocabulary::parse("- `a`: b\n- `a`: c\n", "");
  EXPECT_EQ(toString(V.takeError()),
            "symptoms.md:2: symptom 'a' is defined twice");
  V = Vocabulary::parse("", "", "two words\tx\n");
  EXPECT_EQ(toString(V.takeError()), "aliases.tsv:1: not a group of aliases");
}

/// What is said against the symptoms \p Text; "" for nothing.
std::string against(StringRef Text) {
  Expected<Vocabulary> V = Vocabulary::parse(Text, "");
  return V ? "" : toString(V.takeError());
}

TEST(VocabularyTest, SymptomsAsTiredHandsWriteThem) {
  // A byte-order mark, another bullet, an indent, the end of lines of Windows.
  Expected<Vocabulary> V = Vocabulary::parse(
      "\xef\xbb\xbf- `a-1`: one\r\n* `b`: two\r\n  - `c`:three\n", "");
  ASSERT_TRUE(static_cast<bool>(V)) << toString(V.takeError());
  ASSERT_EQ(V->symptoms().size(), 3u);
  EXPECT_EQ(V->symptom("a-1")->Text, "one");
  EXPECT_EQ(V->symptom("c")->Text, "three");
  // Lists of prose are no symptoms.
  EXPECT_EQ(against("What they are:\n- an observation\n- Note: no cause\n"),
            "");
  EXPECT_EQ(against("- a-slow-step: it is slow\n"),
            "symptoms.md:1: the symptom 'a-slow-step' is not in backquotes");
  EXPECT_EQ(against("\n- `slow step`: it is slow\n"),
            "symptoms.md:2: the symptom 'slow step' has other characters than "
            "a-z, 0-9 and -");
  EXPECT_EQ(against("- `a`\n"),
            "symptoms.md:1: a symptom without a description");
  EXPECT_EQ(against("- `a`:\n"),
            "symptoms.md:1: a symptom without a description");
}

TEST(VocabularyTest, HashFollowsTheTexts) {
  Expected<Vocabulary> A = Vocabulary::parse("", "", "x\ty\n");
  Expected<Vocabulary> B = Vocabulary::parse("", "", "x\ty\n");
  Expected<Vocabulary> C = Vocabulary::parse("", "", "x\tz\n");
  ASSERT_TRUE(A && B && C);
  EXPECT_EQ(A->hash(), B->hash());
  EXPECT_NE(A->hash(), C->hash());
}

TEST(VocabularyTest, ShippedFilesAreGood) {
  Expected<Vocabulary> V = Vocabulary::load(CULPRIT_SOURCE_DIR "/kb");
  ASSERT_TRUE(static_cast<bool>(V)) << toString(V.takeError());
  EXPECT_GT(V->symptoms().size(), 50u);
  EXPECT_GT(V->classes().size(), 200u);
  EXPECT_GT(V->aliases().size(), 100u);
}

} // namespace
