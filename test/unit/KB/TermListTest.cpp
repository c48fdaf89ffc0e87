//===- TermListTest.cpp ---------------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/TermList.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace llvm;
using namespace culprit;

namespace {

/// All terms of \p Text, sorted, as the analyzer gives them.
std::vector<std::string> analyzed(const Analyzer &A, StringRef Text) {
  std::vector<std::string> Out;
  for (const Term &T : A.terms(lex(Text)))
    Out.push_back(T.Text);
  llvm::sort(Out);
  return Out;
}

/// The same by a term list and the pairs that it implies.
std::vector<std::string> listed(TermLister &L, StringRef Text) {
  std::vector<TermUse> Uses;
  L.list(Text, Uses);
  std::vector<std::string> Out;
  const TermUse *Last = nullptr;
  for (const TermUse &U : Uses) {
    Out.push_back(L.term(U.Term).str());
    if (U.Position == TermUse::NoPosition)
      continue;
    EXPECT_EQ(!Last, U.Position == 0);
    EXPECT_TRUE(!Last || U.Position > Last->Position);
    if (Last && Last->Position + 1 == U.Position)
      Out.push_back((L.term(Last->Term) + "+" + L.term(U.Term)).str());
    Last = &U;
  }
  llvm::sort(Out);
  return Out;
}

class TermListTest : public ::testing::Test {
protected:
  void SetUp() override {
    Expected<Vocabulary> Loaded = Vocabulary::load(CULPRIT_SOURCE_DIR "/kb");
    ASSERT_TRUE(static_cast<bool>(Loaded)) << toString(Loaded.takeError());
    V = std::make_unique<Vocabulary>(std::move(*Loaded));
    A = std::make_unique<Analyzer>(*V);
    L = std::make_unique<TermLister>(*A);
  }

  void check(StringRef Text) {
    ASSERT_EQ(listed(*L, Text), analyzed(*A, Text)) << Text.str();
  }

  std::unique_ptr<Vocabulary> V;
  std::unique_ptr<Analyzer> A;
  std::unique_ptr<TermLister> L;
};

TEST_F(TermListTest, WordsPartsPairsAndConcepts) {
  for (StringRef Text :
       {"", "CUDA error: 700 at step 1200", "cudaErrorIllegalAddress 700",
        "fine-tune fine-tuning a-b x-1000", "GGGGGG GGGG !!!!!",
        "out of memory: cuda out of memory", "loss is nan\nnan loss",
        "GPU利用率低 训练很慢", "KV缓存 缓存", "-100 2^31 65,504 1E-5 1e+5",
        "http://127.0.0.1:29500/x at 0.0.0.0",
        "[rank3]: W1120 Timeout(ms)=1800000",
        "naïve _ __init__ a.b.c snake_case_NameHTTPServer"})
    check(Text);
}

TEST_F(TermListTest, OrderOfFirstMeeting) {
  std::vector<TermUse> Uses;
  L->list("lamp kettle lamp", Uses);
  ASSERT_EQ(L->size(), 2u);
  uint32_t First = Uses.front().Term;
  L->list("kettle, again the lamp", Uses);
  EXPECT_EQ(L->size(), 2u);
  EXPECT_EQ(Uses.back().Term, First);
}

TEST_F(TermListTest, TextOfTheKnowledgeBase) {
  for (StringRef Name :
       {"numerics.md", "memory.md", "curves.md", "aliases.tsv"}) {
    auto File = MemoryBuffer::getFile(CULPRIT_SOURCE_DIR "/kb/" + Name);
    ASSERT_TRUE(static_cast<bool>(File));
    check((*File)->getBuffer());
  }
}

TEST_F(TermListTest, AnyText) {
  std::vector<std::string> Pieces = {
      " ", " ", " ", " ", "\n", "-", ",", ".", ": ", "_", "/", "[", "]", "(",
      ")", "!!!!", "GGGGGG", "0x7f001234", "65504", "-1", "1,000", "3.5e-4",
      "16x768", "10:04:11", "2026-11-20", "cuda:0", "train.py:12", "rank",
      "step", "deadbeef01", "https://localhost:80/a", "/a/b/c/d.py", "的",
      "显存", "\xC3\xA9", "\xFF", "@", "^", "e", "x"};
  for (const AliasGroup &G : V->aliases())
    for (const std::string &Phrase : G.Phrases) {
      SmallVector<StringRef, 8> Words;
      StringRef(Phrase).split(Words, ' ');
      for (StringRef W : Words)
        Pieces.push_back(W.str());
      Pieces.push_back(Phrase);
    }
  std::mt19937_64 Random(5);
  for (unsigned Round = 0; Round < 3000; ++Round) {
    std::string Text;
    for (size_t Left = Random() % 40; Left; --Left) {
      Text += Pieces[Random() % (Round % 2 ? Pieces.size() : 40)];
      if (Random() % 2)
        Text += ' ';
    }
    check(Text);
  }
}

} // namespace
