//===- BisectTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Bisect/Oracle.h"
#include "Bisect/Search.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

FirstBadSearch search(const std::vector<bool> &Bad, bool Every = false) {
  return llvm::cantFail(findFirstBad(
      Bad.size(), [&](size_t I) -> llvm::Expected<bool> { return Bad[I]; },
      Every));
}

TEST(SearchTest, TestsFor) {
  EXPECT_EQ(testsFor(1), 0u);
  EXPECT_EQ(testsFor(2), 1u);
  EXPECT_EQ(testsFor(5), 3u);
  EXPECT_EQ(testsFor(1024), 10u);
  EXPECT_EQ(testsFor(1025), 11u);
}

// Every place of every length; besides the last, log2 N and five samples.
TEST(SearchTest, FindsEveryPlace) {
  for (size_t Count = 1; Count != 40; ++Count)
    for (size_t First = 0; First <= Count; ++First) {
      std::vector<bool> Bad(Count);
      for (size_t I = First; I < Count; ++I)
        Bad[I] = true;
      FirstBadSearch R = search(Bad);
      if (First == Count)
        EXPECT_FALSE(R.First);
      else
        EXPECT_EQ(R.First, First);
      EXPECT_FALSE(R.GoodAfter);
      EXPECT_LE(R.Tests, 1 + testsFor(Count) + 5);
    }
}

TEST(SearchTest, LongRowsTakeFewTests) {
  std::vector<bool> Bad(100'000);
  for (size_t I = 77'777; I < Bad.size(); ++I)
    Bad[I] = true;
  FirstBadSearch R = search(Bad);
  EXPECT_EQ(R.First, 77'777u);
  EXPECT_LE(R.Tests, 1u + 17 + 5);
}

// Bad from 5 on but for the middle behind it: seen, and told.
TEST(SearchTest, NotMonotone) {
  std::vector<bool> Bad(16);
  for (size_t I = 5; I < 16; ++I)
    Bad[I] = true;
  Bad[6] = false; // the one after the first bad one is always asked
  FirstBadSearch R = search(Bad);
  EXPECT_EQ(R.First, 5u);
  EXPECT_EQ(R.GoodAfter, 6u);
}

// The last is good again, the middle is not.
TEST(SearchTest, GoodAtTheEnd) {
  std::vector<bool> Bad(16);
  for (size_t I = 6; I < 12; ++I)
    Bad[I] = true;
  FirstBadSearch R = search(Bad);
  EXPECT_EQ(R.First, 6u);
  EXPECT_TRUE(R.GoodAfter);
}

// A lone one in the front is only found when all are asked.
TEST(SearchTest, Every) {
  std::vector<bool> Bad(64);
  Bad[3] = true;
  EXPECT_EQ(search(Bad, true).First, 3u);
  EXPECT_EQ(search(Bad, true).Tests, 64u);
  EXPECT_TRUE(search({}).Tests == 0);
}

TEST(SearchTest, ErrorsArePassedOn) {
  llvm::Expected<FirstBadSearch> R =
      findFirstBad(4, [](size_t) -> llvm::Expected<bool> {
        return llvm::createStringError(llvm::inconvertibleErrorCode(), "no");
      });
  EXPECT_FALSE(static_cast<bool>(R));
  llvm::consumeError(R.takeError());
}

// Two of three settle it; 1 - I_1/2(3, 1) = 1 - 1/8.
TEST(OracleTest, Majority) {
  RepeatPlan Plan;
  Plan.Most = 3;
  RepeatedTest T(Plan);
  T.add(true);
  EXPECT_FALSE(T.isDone());
  T.add(true);
  EXPECT_TRUE(T.isDone());
  EXPECT_EQ(T.answer(), Answer::Bad);
  EXPECT_NEAR(*T.confidence(), 0.875, 1e-12);

  // One of each, then the third: 1 - I_1/2(3, 2) = 1 - 5/16.
  RepeatedTest U(Plan);
  U.add(true);
  U.add(false);
  EXPECT_FALSE(U.isDone());
  U.add(true);
  EXPECT_EQ(U.answer(), Answer::Bad);
  EXPECT_NEAR(*U.confidence(), 0.6875, 1e-12);
}

TEST(OracleTest, TieIsNoAnswer) {
  RepeatPlan Plan;
  Plan.Most = 2;
  RepeatedTest T(Plan);
  T.add(true);
  T.add(false);
  EXPECT_TRUE(T.isDone());
  EXPECT_EQ(T.answer(), Answer::Skip);
}

TEST(OracleTest, SingleRunHasNoConfidence) {
  RepeatedTest T(RepeatPlan{});
  T.add(false);
  EXPECT_TRUE(T.isDone());
  EXPECT_EQ(T.answer(), Answer::Good);
  EXPECT_FALSE(T.confidence());
  EXPECT_EQ(T.text(), "0 of 1 run failed");
}

// A good commit never fails and a bad one half of the time: one failure is
// enough, and 1/2^n <= 0.05/0.95 wants five successes: 2^4 = 16 < 19 < 2^5.
TEST(OracleTest, SequentialFlaky) {
  RepeatPlan Plan;
  Plan.Most = 100;
  Plan.BadFails = 0.5;
  RepeatedTest Bad(Plan);
  Bad.add(false);
  Bad.add(true);
  EXPECT_EQ(Bad.answer(), Answer::Bad);
  EXPECT_EQ(*Bad.confidence(), 1);
  RepeatedTest Good(Plan);
  for (int I = 0; I != 4; ++I)
    Good.add(false);
  EXPECT_FALSE(Good.isDone());
  Good.add(false);
  EXPECT_EQ(Good.answer(), Answer::Good);
  EXPECT_NEAR(*Good.confidence(), 32.0 / 33, 1e-12);
}

// Good ones fail in 10 %, bad ones in 90 %: a failure is worth log 9, and
// log 19 / log 9 = 1.34, so two agree.
TEST(OracleTest, SequentialNoisy) {
  RepeatPlan Plan;
  Plan.Most = 100;
  Plan.GoodFails = 0.1;
  Plan.BadFails = 0.9;
  RepeatedTest T(Plan);
  T.add(true);
  EXPECT_FALSE(T.isDone());
  T.add(false); // back to nothing known
  EXPECT_NEAR(*T.confidence(), 0.5, 1e-12);
  T.add(true);
  T.add(true);
  EXPECT_EQ(T.answer(), Answer::Bad);
  EXPECT_NEAR(*T.confidence(), 81.0 / 82, 1e-12);
}

} // namespace
