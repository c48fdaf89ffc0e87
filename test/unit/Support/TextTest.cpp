//===- TextTest.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Text.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace culprit;

namespace {

TEST(TextTest, Shortened) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  // The third byte is the second half of a character.
  EXPECT_EQ(shortened("ab\xc3\xa9" "defg", 6), "ab...");
  // Bytes that begin no character at all.
  EXPECT_EQ(shortened("\x80\x80\x80\x80\x80\x80\x80", 6), "...");
}

TEST(TextTest, Json) {
  EXPECT_EQ(jsonText("a\xff"), llvm::json::Value("a\xef\xbf\xbd"));
  EXPECT_EQ(jsonNumber(0.5), llvm::json::Value(0.5));
  EXPECT_EQ(jsonNumber(std::nan("")), llvm::json::Value("nan"));
  const double Infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(jsonNumber(Infinity), llvm::json::Value("inf"));
  EXPECT_EQ(jsonNumber(-Infinity), llvm::json::Value("-inf"));
}

TEST(TextTest, KeepsCharactersWhole) {
  // "ä" and the euro sign have 2 and 3 bytes.
  EXPECT_EQ(wholeCharacters("ab", 2), "ab");
  EXPECT_EQ(wholeCharacters("abc", 2), "ab");
  EXPECT_EQ(wholeCharacters("a\xc3\xa4", 2), "a");
  EXPECT_EQ(wholeCharacters("a\xc3\xa4", 3), "a\xc3\xa4");
  EXPECT_EQ(wholeCharacters("\xe2\x82\xac!", 2), "");
  EXPECT_EQ(wholeCharacters("\xe2\x82\xac!", 3), "\xe2\x82\xac");
}

} // namespace
