//===- MatchedCollectivesTest.cpp -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CollectivesTest.h"

using namespace culprit;

namespace {

// nccl-tests, doc/PERFORMANCE.md, for 8 ranks.
TEST(MatchedCollectivesTest, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(*busFactor("all_reduce", 8), 1.75);
  EXPECT_DOUBLE_EQ(*busFactor("all_gather", 8), 0.875);
  EXPECT_DOUBLE_EQ(*busFactor("reduce_scatter", 8), 0.875);
  EXPECT_DOUBLE_EQ(*busFactor("all_to_all", 8), 0.875);
  EXPECT_DOUBLE_EQ(*busFactor("broadcast", 8), 1);
  EXPECT_DOUBLE_EQ(*busFactor("reduce", 8), 1);
  EXPECT_DOUBLE_EQ(*busFactor("send", 2), 1);
  EXPECT_FALSE(busFactor("barrier", 8));
  EXPECT_FALSE(busFactor("all_reduce", 1));
}

// Three ranks enter at 0, 1 and 4 ms and leave at 5, 5 and 5.01 ms. Rank 2 is
// last, 3.5 ms after the median of 0 and 1; the others wait 4 and 3 ms; the
// shortest stay is 5.01 - 4 = 1.01 ms. 101 MB in it are 100 GB/s, and an
// all-reduce of 3 ranks counts 4/3 of that.
TEST(MatchedCollectivesTest, FiguresOfOneCollective) {
  CaseBuilder Builder;
  const int64_t Start[] = {0, 1'000'000, 4'000'000};
  for (int64_t Rank = 0; Rank != 3; ++Rank) {
    RankProfile P(Builder, Rank);
    P.S->EpochNs = 0;
    P.world(3);
    P.collective("all_reduce", 7, Start[Rank],
                 Rank == 2 ? 5'010'000 : 5'000'000, 101'000'000);
    Builder.add(std::move(P.S));
  }
  Case C = Builder.build();
  const Table &T = C.table(TableId::matched_collectives);
  ASSERT_EQ(T.rows(), 1u);
  EXPECT_EQ(number(T, 0, "ranks"), 3);
  EXPECT_EQ(number(T, 0, "seq"), 7);
  EXPECT_EQ(number(T, 0, "first_rank"), 0);
  EXPECT_EQ(number(T, 0, "last_rank"), 2);
  EXPECT_EQ(number(T, 0, "last_row"), 2);
  EXPECT_EQ(number(T, 0, "skew"), 4'000'000);
  EXPECT_EQ(number(T, 0, "dur"), 5'010'000);
  EXPECT_EQ(number(T, 0, "transfer"), 1'010'000);
  EXPECT_EQ(number(T, 0, "waited"), 3'500'000);
  EXPECT_EQ(number(T, 0, "lateness"), 3'500'000);
  EXPECT_NEAR(T.cell(0, *T.find("bus_bandwidth")).Double, 100 * 4 / 3.0, 1e-9);
}

// Numbers that a reader counted: rank 1's record lacks the first three and
// its 20th, so its counts are off by 3 and later by 4. By number 37 - 4 pairs
// would be wrong. Clocks differ by 2.5 ms.
TEST(MatchedCollectivesTest, CountedNumbersAreAlignedByWhenRanksLeave) {
  CaseBuilder Builder;
  RankProfile A(Builder, 0), B(Builder, 1);
  A.S->EpochNs = B.S->EpochNs = 0;
  int64_t Counted = 0;
  for (int64_t I = 0; I != 40; ++I) {
    A.collective("all_reduce", I, leaves(I) - 1'000'000, leaves(I));
    if (I >= 3 && I != 20)
      B.collective("all_reduce", Counted++, leaves(I) - 300'000 + 2'500'000,
                   leaves(I) + 2'500'000);
  }
  Builder.add(std::move(A.S));
  Builder.add(std::move(B.S));
  Case C = Builder.build();
  const Table &T = C.table(TableId::matched_collectives);
  ASSERT_EQ(T.rows(), 36u); // 40 - 3 - 1
  // The clocks are on one again, so rank 1 is 0.7 ms late in every one.
  for (size_t I = 0; I != T.rows(); ++I) {
    EXPECT_EQ(number(T, I, "last_rank"), 1);
    EXPECT_EQ(number(T, I, "skew"), 700'000);
  }
}

// The same over 2,000 collectives of which each list lacks others. Neighbours
// end within half a collective's length of where the right ones would.
TEST(MatchedCollectivesTest, ManyLossesDoNotShiftThePairing) {
  CaseBuilder Builder;
  size_t Expected = 0;
  for (int64_t Rank = 0; Rank != 2; ++Rank) {
    RankProfile P(Builder, Rank);
    int64_t Counted = 0;
    for (int64_t I = 0; I != 2000; ++I) {
      bool InA = I % 167 != 5, InB = I >= 280 && I % 211 != 7;
      Expected += Rank == 0 && InA && InB;
      if (Rank == 0 ? InA : InB)
        P.collective("all_reduce", Counted++, leaves(I) - 4'000'000 + Rank,
                     leaves(I));
    }
    Builder.add(std::move(P.S));
  }
  Case C = Builder.build();
  const Table &T = C.table(TableId::matched_collectives);
  EXPECT_EQ(T.rows(), Expected);
  for (size_t I = 0; I != T.rows(); ++I)
    EXPECT_EQ(number(T, I, "skew"), 1);
}

// A number that agrees while the operation or the size does not is no match.
TEST(MatchedCollectivesTest, OperationAndBytesMustAgree) {
  CaseBuilder Builder;
  RankProfile A(Builder, 0), B(Builder, 1);
  A.S->EpochNs = B.S->EpochNs = 0;
  for (int64_t I = 0; I != 20; ++I) {
    A.collective("all_reduce", I, leaves(I) - 1000, leaves(I), 1024);
    B.collective(I == 5 ? "broadcast" : "all_reduce", I, leaves(I) - 1000,
                 leaves(I), I == 9 ? 2048 : 1024);
  }
  Builder.add(std::move(A.S));
  Builder.add(std::move(B.S));
  Case C = Builder.build();
  const Table &T = C.table(TableId::matched_collectives);
  ASSERT_EQ(T.rows(), 18u);
  for (size_t I = 0; I != T.rows(); ++I) {
    EXPECT_NE(number(T, I, "seq"), 5);
    EXPECT_NE(number(T, I, "seq"), 9);
  }
}

// All-to-all splits differ by rank; that is no disagreement.
TEST(MatchedCollectivesTest, SplitsOfAnAllToAllMayDiffer) {
  CaseBuilder Builder;
  for (int64_t Rank = 0; Rank != 2; ++Rank) {
    RankProfile P(Builder, Rank);
    P.S->EpochNs = 0;
    P.collective("all_to_all", 0, 0, 1000, 100 + Rank);
    Builder.add(std::move(P.S));
  }
  Case C = Builder.build();
  ASSERT_EQ(C.table(TableId::matched_collectives).rows(), 1u);
  EXPECT_EQ(number(C.table(TableId::matched_collectives), 0, "bytes"), 101);
}

// Rank 1 receives from 0 and sends on to 2: two pairs, although all four
// records have one group and number.
TEST(MatchedCollectivesTest, ASendMatchesThePeersReceive) {
  CaseBuilder Builder;
  RankProfile A(Builder, 0), B(Builder, 1), D(Builder, 2);
  A.S->EpochNs = B.S->EpochNs = D.S->EpochNs = 0;
  A.collective("send", 0, 0, 100, 64, 1);
  B.collective("recv", 0, 10, 110, 64, 0);
  B.collective("send", 0, 200, 300, 64, 2);
  D.collective("recv", 0, 150, 310, 64, 1);
  D.collective("recv", 1, 400, 410, 64); // from whom is not recorded
  Builder.add(std::move(A.S));
  Builder.add(std::move(B.S));
  Builder.add(std::move(D.S));
  Case C = Builder.build();
  const Table &T = C.table(TableId::matched_collectives);
  ASSERT_EQ(T.rows(), 2u);
  EXPECT_EQ(number(T, 0, "first_rank"), 0);
  EXPECT_EQ(number(T, 0, "last_rank"), 1);
  EXPECT_EQ(number(T, 1, "first_rank"), 2);
  EXPECT_EQ(number(T, 1, "last_rank"), 1);
  EXPECT_EQ(number(T, 1, "group_size"), 2);
}

// The ring buffer of a flight recorder has no times: such records match by
// number and tell nothing of time.
TEST(MatchedCollectivesTest, RecordsWithoutTimesHaveNoTimeFigures) {
  CaseBuilder Builder;
  for (int64_t Rank = 0; Rank != 2; ++Rank) {
    RankProfile P(Builder, Rank);
    P.S->EpochNs = 0;
    for (int64_t I = 0; I != 5; ++I)
      P.collective("all_reduce", I + Rank, NullInt, NullInt);
    P.collective("all_gather", 100, 1000, 2000);
    Builder.add(std::move(P.S));
  }
  Case C = Builder.build();
  const Table &T = C.table(TableId::matched_collectives);
  ASSERT_EQ(T.rows(), 5u); // one with times, 1 to 4 without
  EXPECT_EQ(number(T, 0, "seq"), 100);
  EXPECT_EQ(number(T, 0, "transfer"), 1000);
  for (size_t I = 1; I != T.rows(); ++I) {
    EXPECT_EQ(number(T, I, "seq"), int64_t(I));
    EXPECT_TRUE(T.cell(I, *T.find("start")).Null);
    EXPECT_TRUE(T.cell(I, *T.find("skew")).Null);
    EXPECT_TRUE(T.cell(I, *T.find("last_rank")).Null);
  }
}

// Two jobs of different size never match, whatever their numbers say.
TEST(MatchedCollectivesTest, JobsOfDifferentSizeDoNotMatch) {
  CaseBuilder Builder;
  for (int64_t Rank = 0; Rank != 2; ++Rank) {
    RankProfile P(Builder, Rank);
    P.S->EpochNs = 0;
    P.world(4 + Rank);
    for (int64_t I = 0; I != 10; ++I)
      P.collective("all_reduce", I, leaves(I) - 1000, leaves(I));
    Builder.add(std::move(P.S));
  }
  Case C = Builder.build();
  EXPECT_EQ(C.table(TableId::matched_collectives).rows(), 0u);
  ASSERT_EQ(C.inputs()[1].Remarks.size(), 1u);
  EXPECT_EQ(C.inputs()[1].Remarks[0].Message,
            "run/rank1.json: is of a job of 5 ranks and the others of one of "
            "4; not compared with them");
}

} // namespace
