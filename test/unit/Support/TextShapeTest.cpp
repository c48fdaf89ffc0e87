//===- TextShapeTest.cpp - Loops and scripts of a text ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/TextShape.h"
#include "gtest/gtest.h"
#include <random>

using namespace culprit;

namespace {

/// Period, onset and length, or zeros.
std::array<size_t, 3> loop(llvm::StringRef Text, size_t Repeats = 4) {
  std::optional<TailLoop> L = tailLoop(Text, Repeats);
  return L ? std::array<size_t, 3>{L->Period, L->Onset, L->Length}
           : std::array<size_t, 3>{0, 0, 0};
}

using Found = std::array<size_t, 3>;

TEST(TextShape, TailLoop) {
  EXPECT_EQ((Found{0, 0, 0}), loop(""));
  EXPECT_EQ((Found{0, 0, 0}), loop("a"));
  EXPECT_EQ((Found{1, 0, 4}), loop("aaaa"));
  EXPECT_EQ((Found{2, 0, 8}), loop("abababab"));
  // The last turn is unfinished and the first begins where it can: the x is
  // not followed by what precedes an a.
  EXPECT_EQ((Found{3, 3, 13}), loop("xyzabcabcabcabca"));
  // Three turns are none; a loop that does not reach the end is none.
  EXPECT_EQ((Found{0, 0, 0}), loop("xabcabcabc"));
  EXPECT_EQ((Found{3, 1, 9}), loop("xabcabcabc", 3));
  EXPECT_EQ((Found{0, 0, 0}), loop("abababababababab end"));
}

/// The definition, tried for each period.
TEST(TextShape, TailLoopAgreesWithTheDefinition) {
  std::mt19937 Random(7);
  for (int Case = 0; Case != 2000; ++Case) {
    std::vector<int64_t> Values(Random() % 24);
    for (int64_t &V : Values)
      V = Random() % 2;
    size_t Wanted = 0;
    for (size_t Period = 1; Period <= Values.size(); ++Period) {
      size_t Length = std::min(Period, Values.size());
      while (Length < Values.size() &&
             Values[Values.size() - 1 - Length] ==
                 Values[Values.size() - 1 - Length + Period])
        ++Length;
      if (Length / Period >= 3)
        Wanted = std::max(Wanted, Length);
    }
    std::optional<TailLoop> L = tailLoop(Values, 3);
    EXPECT_EQ(Wanted, L ? L->Length : 0);
  }
}

TEST(TextShape, Writing) {
  Writing Plain = writingOf("Hello world, na\xC3\xAFve");
  EXPECT_EQ(18, Plain.Characters);
  EXPECT_EQ(15, Plain.Letters);
  EXPECT_EQ(3, Plain.Words);
  EXPECT_EQ(0, Plain.Mixed + Plain.Jumps + Plain.Replaced + Plain.Control);
  EXPECT_EQ(1, Plain.Scripts);
}

TEST(TextShape, WordsOfTwoAlphabets) {
  // Two Latin letters among five Cyrillic ones.
  EXPECT_EQ(1, writingOf("при" "ve" "тик").Mixed);
  EXPECT_EQ(0, writingOf("Δx and μm").Mixed);       // one letter each
  EXPECT_EQ(0, writingOf("使用Python编写").Mixed); // no spaces there
  EXPECT_EQ(0, writingOf("Привет мир hello").Mixed);
}

TEST(TextShape, JumpsAreWithinALineAndNotBesideLatin) {
  EXPECT_EQ(2, writingOf("слово العربية 汉字").Jumps);
  EXPECT_EQ(0, writingOf("слово\nالعربية\n汉字").Jumps);
  EXPECT_EQ(0, writingOf("Russian: слово, Arabic: العربية").Jumps);
}

TEST(TextShape, BrokenCharacters) {
  EXPECT_EQ(1, writingOf("ab\xEF\xBF\xBD" "c").Replaced); // U+FFFD
  EXPECT_EQ(3, writingOf("ab\xEF\xBF\xBD" "c").FirstReplaced);
  EXPECT_EQ(1, writingOf("a\xFF" "b").Replaced);
  EXPECT_EQ(1, writingOf("a\xE4" "b").Replaced); // goes on with no tail byte
  EXPECT_EQ(0, writingOf("ab\xE4\xBD").Replaced); // cut off by a limit
  EXPECT_EQ(0, writingOf("ab\xEF\xBF\xBD").Replaced);
  EXPECT_EQ(2, writingOf("a\x01\x7F\t\n").Control);
}

} // namespace
