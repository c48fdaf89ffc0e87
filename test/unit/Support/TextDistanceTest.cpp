//===- TextDistanceTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/TextDistance.h"
#include "Support/Deadline.h"
#include "gtest/gtest.h"
#include <random>

using namespace culprit;

namespace {

/// The whole table, as in a textbook.
size_t slowDistance(const std::string &A, const std::string &B) {
  std::vector<std::vector<size_t>> D(A.size() + 1,
                                     std::vector<size_t>(B.size() + 1));
  for (size_t I = 0; I <= A.size(); ++I)
    for (size_t J = 0; J <= B.size(); ++J)
      D[I][J] = I == 0   ? J
                : J == 0 ? I
                         : std::min({D[I - 1][J] + 1, D[I][J - 1] + 1,
                                     D[I - 1][J - 1] + (A[I - 1] != B[J - 1])});
  return D[A.size()][B.size()];
}

TEST(TextDistanceTest, CountsEdits) {
  EXPECT_EQ(3u, textDistance("kitten", "sitting", 10));
  EXPECT_EQ(3u, textDistance("kitten", "sitting", 3));
  EXPECT_EQ(std::nullopt, textDistance("kitten", "sitting", 2));
  EXPECT_EQ(0u, textDistance("", "", 0));
  EXPECT_EQ(0u, textDistance("same", "same", 0));
  EXPECT_EQ(4u, textDistance("", "abcd", 4));
  EXPECT_EQ(std::nullopt, textDistance("", "abcd", 3));
  EXPECT_EQ(1u, textDistance("a\xc3\xa4z", "a\xc3\xb6z", 5)); // one letter
  EXPECT_EQ(1u, textDistance("a\xc3", "a", 5));               // cut in it
}

TEST(TextDistanceTest, AsTheWholeTable) {
  std::mt19937 Random(3);
  for (int I = 0; I != 2000; ++I) {
    std::string A, B;
    for (size_t N = Random() % 12; N; --N)
      A += char('a' + Random() % 3);
    for (size_t N = Random() % 12; N; --N)
      B += char('a' + Random() % 3);
    size_t Wanted = slowDistance(A, B);
    for (size_t Limit = 0; Limit != 13; ++Limit)
      ASSERT_EQ(Wanted <= Limit ? std::optional(Wanted) : std::nullopt,
                textDistance(A, B, Limit))
          << A << ' ' << B << ' ' << Limit;
  }
}

TEST(TextDistanceTest, Similarity) {
  EXPECT_EQ(1, textSimilarity("", ""));
  EXPECT_EQ(0, textSimilarity("abc", "xyz"));
  EXPECT_DOUBLE_EQ(1 - 3.0 / 7, textSimilarity("kitten", "sitting"));
  EXPECT_EQ(0.5, textSimilarity("abxx", "abyy", 4));
  EXPECT_EQ(1, textSimilarity("abxx", "abyy", 2));
}

/// 10^6 x 2 * 10^6 cells would take half an hour.
TEST(TextDistanceTest, EndsInTime) {
  std::string A(1'000'000, 'a'), B(1'000'000, 'b');
  auto Begin = Deadline::Clock::now();
  Deadline Limit(Begin + std::chrono::milliseconds(50));
  EXPECT_EQ(std::nullopt, textDistance(A, B, 1'000'000));
  EXPECT_LT(Deadline::Clock::now() - Begin, std::chrono::seconds(5));
}

TEST(TextDistanceTest, ThereIsNoDeadlineUnlessOneIsSet) {
  EXPECT_FALSE(timeIsUp());
  auto Now = Deadline::Clock::now();
  {
    Deadline Past(Now - std::chrono::seconds(1));
    EXPECT_TRUE(timeIsUp());
    {
      Deadline Later(Now + std::chrono::hours(1));
      EXPECT_FALSE(timeIsUp());
    }
    EXPECT_TRUE(timeIsUp());
    TimeCheck Late;
    EXPECT_FALSE(Late());
    EXPECT_TRUE(Late(1 << 16));
    EXPECT_TRUE(Late());
  }
  EXPECT_FALSE(timeIsUp());
}

} // namespace
