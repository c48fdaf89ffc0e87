//===- AnalyzerTest.cpp -------------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Analyzer.h"
#include "KB/WordForms.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

std::string lexed(StringRef Text) {
  std::string Out;
  for (const Word &W : lex(Text))
    Out += (Out.empty() ? "" : " ") + W.Text;
  return Out;
}

TEST(LexerTest, WhatChangesFromRunToRunIsLeftOut) {
  EXPECT_EQ(lexed("[rank3]: [2026-11-20 10:04:11,231] at 0x7f3a12bc0000"),
            "rank at");
  EXPECT_EQ(lexed("NVRM: Xid (PCI:0000:3b:00): 79, pid=12345"),
            "NVRM Xid 79 pid");
  EXPECT_EQ(lexed("File \"/home/me/run/train.py\", line 214"),
            "File train.py line");
  EXPECT_EQ(lexed("shape (16, 1024) and 16x768 on cuda:0"),
            "shape and on cuda");
  EXPECT_EQ(lexed("see https://a.b/c/d?e=1 end"), "see end");
  EXPECT_EQ(lexed("commit 3f2a9bc1 of node07"), "commit of node");
}

TEST(LexerTest, WhatTellsStays) {
  EXPECT_EQ(lexed("/dev/shm is full"), "dev shm is full");
  EXPECT_EQ(lexed("labels=-100, Timeout(ms)=1,800,000"),
            "labels -100 Timeout ms 1800000");
  EXPECT_EQ(lexed("http://127.0.0.1:29500/x"), "127.0.0.1 29500");
  EXPECT_EQ(lexed("10.2.3.4:29500"), "29500");
  EXPECT_EQ(lexed("loss 0.6931 at 1e-5 and 2^31"),
            "loss 0.6931 at 1e-5 and 2^31");
  EXPECT_EQ(lexed("text!!!!!!!! GGGGGGGG -----"), "text !!!! GGGG");
  EXPECT_EQ(lexed("3B fp16"), "3B fp16");
}

TEST(LexerTest, AnyBytesAreAccepted) {
  std::string Bytes;
  for (int Round = 0; Round < 3; ++Round)
    for (int C = 255; C >= 0; --C)
      Bytes += static_cast<char>(C);
  lex(Bytes);
  lex("\xE4");
  lex("\xE4\xBD");
  lex("-");
  lex("0x");
  lex("https://");
}

TEST(LexerTest, Identifiers) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(splitIdentifier("cudaErrorIllegalAddress"),
            (Parts{"cuda", "error", "illegal", "address"}));
  EXPECT_EQ(splitIdentifier("NCCLError"), (Parts{"nccl", "error"}));
  EXPECT_EQ(splitIdentifier("torch.cuda.FloatTensor"),
            (Parts{"torch", "cuda", "float", "tensor"}));
  EXPECT_EQ(splitIdentifier("NaNs"), (Parts{"nans"}));
  EXPECT_EQ(splitIdentifier("__"), (Parts{"__"}));
}

TEST(LexerTest, FormsOfAWordHaveOneStem) {
  for (auto &[A, B] : std::vector<std::pair<const char *, const char *>>{
           {"freezes", "freezing"},
           {"quantized", "quantization"},
           {"quantised", "quantize"},
           {"overflowed", "overflows"},
           {"diverges", "divergence"},
           {"allocator", "allocation"},
           {"memories", "memory"},
           {"stopped", "stopping"}})
    EXPECT_EQ(stem(A), stem(B)) << A << ' ' << B;
  EXPECT_EQ(stem("loss"), "loss");
  EXPECT_EQ(stem("fp16"), "fp16");
}

class AnalyzerTest : public testing::Test {
protected:
  std::vector<std::string> termsOf(StringRef Text) {
    Expected<Vocabulary> V =
        Vocabulary::parse("", "",
                          "cuda-700\tCUDA error 700 | illegal memory access | "
                          "cudaErrorIllegalAddress | 非法内存访问\n"
                          "hang\thangs | stuck | 卡住\n"
                          "garbage\tgibberish | !!!!\n");
    EXPECT_TRUE(static_cast<bool>(V));
    std::vector<std::string> Out;
    for (const Term &T : Analyzer(*V).terms(lex(Text)))
      Out.push_back(T.Text);
    return Out;
  }
};

TEST_F(AnalyzerTest, CodesNamesAndProseAreOne) {
  for (StringRef Text :
       {"CUDA error: 700", "cudaErrorIllegalAddress",
        "an Illegal Memory Access was encountered", "出现非法内存访问错误"})
    EXPECT_TRUE(is_contained(termsOf(Text), "#cuda-700")) << Text.str();
  EXPECT_FALSE(is_contained(termsOf("CUDA error: 719"), "#cuda-700"));
  EXPECT_TRUE(is_contained(termsOf("it hung, hanging"), "#hang"));
  EXPECT_TRUE(is_contained(termsOf("answer !!!!!!!!"), "#garbage"));
}

TEST_F(AnalyzerTest, WholeAndParts) {
  std::vector<std::string> T = termsOf("posix_fallocate");
  EXPECT_TRUE(is_contained(T, "posix_fallocate"));
  EXPECT_TRUE(is_contained(T, "posix"));
  EXPECT_TRUE(is_contained(T, "posix+fallocat") ||
              is_contained(T, "posix+falloc"));
  EXPECT_TRUE(is_contained(termsOf("fine-tune"), stem("finetune")));
  EXPECT_TRUE(is_contained(termsOf("loss 65504"), "65504"));
  EXPECT_FALSE(is_contained(termsOf("loss 12"), "12"));
}

std::vector<std::string> withAliases(StringRef Aliases, StringRef Text) {
  Vocabulary V = cantFail(Vocabulary::parse("", "", Aliases));
  std::vector<std::string> Out;
  for (const Term &T : Analyzer(V).terms(lex(Text)))
    Out.push_back(T.Text);
  return Out;
}

TEST(AliasTest, PhrasesThatTheLexerCutsAreNoPhrases) {
  // The number of a step is left out everywhere: `step` alone names no first
  // step, and `s` of an apostrophe no token.
  constexpr const char *Aliases =
      "first-step\tstep 0 | first step\nbos\t<s> | BOS token\n";
  EXPECT_FALSE(is_contained(withAliases(Aliases, "each step"), "#first-step"));
  EXPECT_TRUE(is_contained(withAliases(Aliases, "first step"), "#first-step"));
  EXPECT_FALSE(is_contained(withAliases(Aliases, "it's slow"), "#bos"));
  EXPECT_TRUE(is_contained(withAliases(Aliases, "BOS tokens"), "#bos"));
}

TEST(AliasTest, HanBesideLatinNeedsBoth) {
  constexpr const char *Aliases = "idle\tGPU利用率低 | 空闲\nzero\t梯度为0\n";
  EXPECT_FALSE(is_contained(withAliases(Aliases, "the gpu is busy"), "#idle"));
  EXPECT_FALSE(is_contained(withAliases(Aliases, "CPU利用率低"), "#idle"));
  EXPECT_TRUE(is_contained(withAliases(Aliases, "GPU利用率低怎么办"), "#idle"));
  EXPECT_TRUE(is_contained(withAliases(Aliases, "显卡空闲"), "#idle"));
  EXPECT_FALSE(is_contained(withAliases(Aliases, "at 0 percent"), "#zero"));
  EXPECT_TRUE(is_contained(withAliases(Aliases, "梯度为0"), "#zero"));
}

} // namespace
