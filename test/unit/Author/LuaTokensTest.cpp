//===- LuaTokensTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/LuaTokens.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

/// The tokens of \p Source in one line: names bare, texts in <>, numbers #.
std::string scanned(llvm::StringRef Source) {
  std::string Out;
  for (const LuaToken &T : scanLua(Source)) {
    if (T.Kind == LuaToken::End)
      break;
    Out += (Out.empty() ? "" : " ");
    Out += T.Kind == LuaToken::Text     ? "<" + T.Value + ">"
           : T.Kind == LuaToken::Number ? "#" + T.Source.str()
                                        : T.Source.str();
  }
  return Out;
}

TEST(LuaTokens, WordsNumbersAndSymbols) {
  EXPECT_EQ(scanned("local x<const> = a.b:c(1)"),
            "local x < const > = a . b : c ( #1 )");
  EXPECT_EQ(scanned("a..b ... x//y ~=z"), "a .. b ... x // y ~= z");
  EXPECT_EQ(scanned("0x1F 1e-3 .5 3.0 1e6-x"), "#0x1F #1e-3 #.5 #3.0 #1e6 - x");
  EXPECT_EQ(scanned("::top:: goto top"), ":: top :: goto top");
}

TEST(LuaTokens, Texts) {
  EXPECT_EQ(scanned("'a\\'b' \"c\""), "<a'b> <c>");
  EXPECT_EQ(scanned("'\\n\\65\\x42\\u{43}\\\\'"), "<\nABC\\>");
  EXPECT_EQ(scanned("[[a]b]] [==[ ]] ]=] ]==]"), "<a]b> < ]] ]=] >");
  EXPECT_EQ(scanned("[[\nfirst]]"), "<first>"); // Lua drops the line break
  EXPECT_EQ(scanned("f{[[x]]} t[1] t[ [[k]] ]"),
            "f { <x> } t [ #1 ] t [ <k> ]");
}

TEST(LuaTokens, CommentsAreNoTokens) {
  EXPECT_EQ(scanned("a -- b 'c\nd"), "a d");
  EXPECT_EQ(scanned("a --[[ b\nc ]] d --[==[ ]] ]==] e"), "a d e");
  EXPECT_EQ(scanned("--- ## Heading\nx"), "x");
  EXPECT_EQ(scanned("#!/usr/bin/lua\nx"), "x");
}

TEST(LuaTokens, LinesAreCountedThroughLongTexts) {
  auto Tokens = scanLua("a\n[[1\n2\n3]] b --[[\n\n]] c\n'x\\\ny' d");
  std::vector<unsigned> Lines;
  for (const LuaToken &T : Tokens)
    if (T.Kind == LuaToken::Name)
      Lines.push_back(T.Line);
  EXPECT_EQ(Lines, (std::vector<unsigned>{1, 4, 6, 8}));
}

TEST(LuaTokens, EndsAreThereForLookingAhead) {
  for (const char *Source : {"", "x", "'never closed", "[[never closed", "--[[",
                             "\\", "'\\", "a.", "[==", "\xff\xfe"}) {
    auto Tokens = scanLua(Source);
    ASSERT_GE(Tokens.size(), LookAhead) << Source;
    for (size_t I = 0; I != LookAhead; ++I)
      EXPECT_EQ(Tokens[Tokens.size() - 1 - I].Kind, LuaToken::End) << Source;
  }
}

TEST(LuaTokens, ClosingBrackets) {
  auto Tokens = scanLua("f(a, {b, [c] = (d)}, e) g");
  EXPECT_TRUE(Tokens[closingBracket(Tokens, 1) + 1].isName("g"));
  EXPECT_TRUE(Tokens[closingBracket(Tokens, 4) + 2].isName("e"));
  auto Open = scanLua("f(a, (b)");
  EXPECT_EQ(closingBracket(Open, 1), Open.size() - 1);
}

} // namespace
