//===- NearDuplicatesTest.cpp - Copies among texts ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/NearDuplicates.h"
#include "Support/TextWords.h"
#include "gtest/gtest.h"
#include <random>
#include <set>
#include <string>

using namespace culprit;
using llvm::StringRef;

namespace {

/// Texts of made-up words.
class Writer {
public:
  explicit Writer(uint64_t Seed) : Random(Seed) {
    for (std::string &Word : Words)
      for (size_t I = 0, Length = 3 + Random() % 7; I != Length; ++I)
        Word += static_cast<char>('a' + Random() % 26);
  }
  const std::string &word() { return Words[Random() % std::size(Words)]; }
  std::vector<std::string> text(size_t Count) {
    std::vector<std::string> Out;
    for (size_t I = 0; I != Count; ++I)
      Out.push_back(word());
    return Out;
  }
  uint64_t below(uint64_t N) { return Random() % N; }

private:
  std::mt19937_64 Random;
  std::string Words[2000];
};

std::string joined(const std::vector<std::string> &Words) {
  std::string Out;
  for (const std::string &Word : Words)
    Out += (Out.empty() ? "" : " ") + Word;
  return Out;
}

/// Jaccard over runs of five words, the slow and evident way.
double jaccard(const std::vector<std::string> &A,
               const std::vector<std::string> &B) {
  auto RunsOf = [](const std::vector<std::string> &Words) {
    std::set<std::vector<std::string>> Out;
    for (size_t I = 0; I + 5 <= Words.size(); ++I)
      Out.insert(std::vector<std::string>(
          Words.begin() + static_cast<ptrdiff_t>(I),
          Words.begin() + static_cast<ptrdiff_t>(I + 5)));
    return Out;
  };
  auto X = RunsOf(A), Y = RunsOf(B);
  size_t Both = 0;
  for (const auto &Run : X)
    Both += Y.count(Run);
  return static_cast<double>(Both) /
         static_cast<double>(X.size() + Y.size() - Both);
}

std::vector<ComparedText> compared(const std::vector<std::string> &Texts) {
  return findNearDuplicates(Texts.size(),
                            [&](size_t I) { return StringRef(Texts[I]); });
}

size_t copies(const std::vector<ComparedText> &Texts) {
  size_t Out = 0;
  for (const ComparedText &Text : Texts)
    Out += Text.isCopy();
  return Out;
}

TEST(TextWords, CasePunctuationAndLayoutDoNotCount) {
  std::vector<uint64_t> A, B;
  wordHashes("The quick, brown fox!", A);
  wordHashes("  the QUICK\n\tbrown -- fox", B);
  EXPECT_EQ(A.size(), 4u);
  EXPECT_EQ(A, B);
  EXPECT_EQ(hashOfWords(A), hashOfWords(B));
  wordHashes("thequick brown fox", B);
  EXPECT_NE(hashOfWords(A), hashOfWords(B));
  // A no-break space, an en dash, typographic quotes.
  wordHashes("the\xC2\xA0quick \xE2\x80\x9C" "brown\xE2\x80\x9D\xE2\x80\x93"
             "fox", B);
  EXPECT_EQ(A, B);
}

TEST(TextWords, OtherScripts) {
  std::vector<uint64_t> A;
  wordHashes("\xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C" "abc", A); // ni hao, abc
  EXPECT_EQ(A.size(), 3u);
  wordHashes("na\xC3\xAFve caf\xC3\xA9", A);
  EXPECT_EQ(A.size(), 2u);
  // Broken UTF-8 is a word like any other; no byte behind the end is read.
  wordHashes(StringRef("ab \xE4\xBD", 5), A);
  EXPECT_EQ(A.size(), 2u);
}

TEST(TextWords, WindowsRollAsHashedAlone) {
  Writer W(3);
  std::vector<uint64_t> Words, Rolled, Alone;
  wordHashes(joined(W.text(40)), Words);
  windowHashes(Words, 13, Rolled);
  ASSERT_EQ(Rolled.size(), 28u);
  for (size_t I = 0; I != Rolled.size(); ++I) {
    windowHashes(llvm::ArrayRef(Words).slice(I, 13), 13, Alone);
    ASSERT_EQ(Alone.size(), 1u);
    EXPECT_EQ(Alone[0], Rolled[I]);
  }
  windowHashes(llvm::ArrayRef(Words).take_front(12), 13, Rolled);
  EXPECT_TRUE(Rolled.empty());
}

/// Every pair with edits is found or not by what the slow way says.
TEST(NearDuplicates, AgreesWithSlowWay) {
  Writer W(1);
  std::vector<std::vector<std::string>> Own;
  std::vector<std::string> Texts;
  for (int I = 0; I != 300; ++I) {
    Own.push_back(W.text(60 + W.below(300)));
    Own.push_back(Own.back());
    // From none to a dozen words are replaced.
    for (uint64_t Edit = 0, Edits = W.below(13); Edit != Edits; ++Edit)
      Own.back()[W.below(Own.back().size())] = W.word();
  }
  for (const auto &Words : Own)
    Texts.push_back(joined(Words));
  std::vector<ComparedText> Found = compared(Texts);
  ASSERT_EQ(Found.size(), 600u);
  size_t Near = 0, Missed = 0;
  for (size_t I = 0; I != 600; I += 2) {
    double True = jaccard(Own[I], Own[I + 1]);
    EXPECT_FALSE(Found[I].isCopy());
    Near += True >= 0.8;
    Missed += True >= 0.8 && !Found[I + 1].isCopy();
    EXPECT_TRUE(True >= 0.8 || !Found[I + 1].isCopy()) << True;
    EXPECT_EQ(Found[I + 1].Exact, Own[I] == Own[I + 1]);
    if (Found[I + 1].isCopy()) {
      EXPECT_EQ(Found[I + 1].First, I);
      EXPECT_NEAR(Found[I + 1].Similarity, True, 1e-9);
    }
  }
  EXPECT_GT(Near, 50u);
  // A pair of 0.8 is missed twice in a thousand.
  EXPECT_LE(Missed, 1u);
}

TEST(NearDuplicates, ShortTextsAreNotCompared) {
  std::vector<std::string> Texts(50, "Yes, that is right.");
  EXPECT_TRUE(compared(Texts).empty());
  // Eight words are enough to be the same, not to be alike.
  Texts = {"what is the capital of france in 1950",
           "what is the capital of france in 1950?",
           "what is the capital of france in 1960"};
  std::vector<ComparedText> Found = compared(Texts);
  ASSERT_EQ(Found.size(), 3u);
  EXPECT_TRUE(Found[1].isCopy() && Found[1].Exact);
  EXPECT_FALSE(Found[2].isCopy());
}

TEST(NearDuplicates, TemplateOfMostTextsDoesNotCount) {
  Writer W(5);
  std::string System = joined(W.text(200));
  std::vector<std::string> Texts;
  // 25 of 225 words differ: the whole texts have a Jaccard of about 0.8.
  for (int I = 0; I != 60; ++I)
    Texts.push_back(System + " " + joined(W.text(25)));
  // Instances of an exercise differ in two numbers.
  for (int I = 0; I != 200; ++I)
    Texts.push_back(System + " " + std::to_string(I * 7919) + " and " +
                    std::to_string(I * 104729));
  EXPECT_EQ(copies(compared(Texts)), 0u);
  // A copy is one beneath the template too.
  Texts.push_back(Texts[10]);
  EXPECT_EQ(copies(compared(Texts)), 1u);
}

TEST(NearDuplicates, HeaderOfSomeTextsDoesNotCount) {
  Writer W(6);
  std::string Licence = joined(W.text(150));
  std::vector<std::string> Texts;
  for (int I = 0; I != 30; ++I) // 35 words of code under 150 of licence
    Texts.push_back(Licence + "\n" + joined(W.text(35)));
  for (int I = 0; I != 200; ++I)
    Texts.push_back(joined(W.text(150)));
  EXPECT_EQ(copies(compared(Texts)), 0u);
}

TEST(NearDuplicates, LargeClusterOfEditedCopies) {
  Writer W(7);
  std::vector<std::string> Page = W.text(200), Texts;
  for (int I = 0; I != 40; ++I) {
    Page[100] = W.word(); // a date on the page
    Texts.push_back(joined(Page));
  }
  for (int I = 0; I != 300; ++I)
    Texts.push_back(joined(W.text(150)));
  std::vector<ComparedText> Found = compared(Texts);
  EXPECT_EQ(copies(Found), 39u);
  for (int I = 0; I != 40; ++I)
    EXPECT_EQ(Found[static_cast<size_t>(I)].First, 0u);
}

} // namespace
