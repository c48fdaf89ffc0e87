//===- ClockAlignmentTest.cpp -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "CollectivesTest.h"
#include <cmath>

using namespace culprit;

namespace {

/// Times at which rank \p Rank entered and left, row by row.
std::vector<std::pair<int64_t, int64_t>> timesOf(const Case &C, int64_t Rank) {
  std::vector<std::pair<int64_t, int64_t>> Out;
  const Table &T = C.table(TableId::collectives);
  for (size_t I = 0; I != T.rows(); ++I)
    if (number(T, I, "rank") == Rank)
      Out.push_back({number(T, I, "start"), number(T, I, "stop")});
  return Out;
}

/// A job of \p Ranks ranks that leave 30 collectives together. Rank r enters
/// r * 100 us later than rank 0, which enters 1 ms before the end, and its
/// clock is \p Offset(r) ahead.
template <typename F>
Case job(int64_t Ranks, F Offset, bool Epochs, int64_t Count = 30) {
  CaseBuilder Builder;
  for (int64_t R = 0; R != Ranks; ++R) {
    RankProfile P(Builder, R);
    if (Epochs)
      P.S->EpochNs = 0;
    for (int64_t I = 0; I != Count; ++I) {
      int64_t Stop = leaves(I) + Offset(R, leaves(I));
      P.collective("all_reduce", I, Stop - 1'000'000 + 100'000 * R, Stop);
    }
    Builder.add(std::move(P.S));
  }
  return Builder.build();
}

// Without epochs every file begins at 0, which hides that rank 2 entered its
// first collective 200 us after rank 0: the ends bring it back.
TEST(ClockAlignmentTest, FilesWithoutAnEpochKeepTheirSkew) {
  Case C = job(3, [](int64_t R, int64_t) { return 1'000'000'000 * R; }, false);
  auto R0 = timesOf(C, 0), R1 = timesOf(C, 1), R2 = timesOf(C, 2);
  for (size_t I = 0; I != 30; ++I) {
    EXPECT_EQ(R0[I].second, R1[I].second);
    EXPECT_EQ(R0[I].second, R2[I].second);
    EXPECT_EQ(R2[I].first - R0[I].first, 200'000);
  }
  EXPECT_EQ(clockResidual(C, 2), 0);
  EXPECT_EQ(clockResidual(C, 7), std::nullopt);
}

// Clocks 5 ms and -40 ms off, far beyond the 1 ms that collectives last: moved
// although the files know the time of day, and said so. The earliest event
// was at 9 ms less 40 ms of rank 2's wrong clock; after alignment rank 0's
// first entry is the earliest of all.
TEST(ClockAlignmentTest, WrongEpochsAreOverruled) {
  Case C = job(
      3,
      [](int64_t R, int64_t) {
        return R == 1 ? 5'000'000 : R == 2 ? -40'000'000 : 0;
      },
      true);
  auto R0 = timesOf(C, 0), R1 = timesOf(C, 1), R2 = timesOf(C, 2);
  for (size_t I = 0; I != 30; ++I) {
    EXPECT_EQ(R0[I].second, R1[I].second);
    EXPECT_EQ(R0[I].second, R2[I].second);
    EXPECT_EQ(R1[I].first - R0[I].first, 100'000);
  }
  EXPECT_TRUE(C.inputs()[0].Remarks.empty());
  ASSERT_EQ(C.inputs()[1].Remarks.size(), 1u);
  EXPECT_EQ(C.inputs()[1].Remarks[0].Message,
            "run/rank1.json: its clock is 5.00 ms ahead of that of "
            "run/rank0.json by 30 collectives that both end; moved to it");
  ASSERT_EQ(C.inputs()[2].Remarks.size(), 1u);
  EXPECT_NE(C.inputs()[2].Remarks[0].Message.find("40.0 ms behind"),
            std::string::npos);
}

// A clock 30 us off is within what collectives last: the epoch stays, and the
// residual says by how much it is off.
TEST(ClockAlignmentTest, GoodEpochsStay) {
  Case C = job(2, [](int64_t R, int64_t) { return 30'000 * R; }, true);
  auto R0 = timesOf(C, 0), R1 = timesOf(C, 1);
  EXPECT_EQ(R1[0].second - R0[0].second, 30'000);
  EXPECT_TRUE(C.inputs()[1].Remarks.empty());
  EXPECT_EQ(clockResidual(C, 0), 30'000);
  EXPECT_EQ(clockResidual(C, 1), 30'000);
}

// Rank 1's clock is 3 ms ahead and gains 100 us a second. 300 collectives
// take 3 s, over which a constant shift would leave 300 us, half before and
// half after.
TEST(ClockAlignmentTest, DriftIsStraightened) {
  Case C = job(
      2,
      [](int64_t R, int64_t At) {
        return R ? 3'000'000 + At / 10'000 : int64_t(0);
      },
      true, 300);
  auto R0 = timesOf(C, 0), R1 = timesOf(C, 1);
  for (size_t I = 0; I != R0.size(); ++I) {
    EXPECT_LE(std::abs(R0[I].second - R1[I].second), 1000);
    EXPECT_NEAR(double(R1[I].first - R0[I].first), 100'000, 1000);
  }
  ASSERT_EQ(C.inputs()[1].Remarks.size(), 1u);
  EXPECT_NE(C.inputs()[1].Remarks[0].Message.find("and drifts"),
            std::string::npos);
}

// Ranks 0 and 1 share group a, ranks 1 and 2 share group b: rank 2's clock is
// found by way of rank 1.
TEST(ClockAlignmentTest, ClocksAreFoundThroughOtherGroups) {
  CaseBuilder Builder;
  for (int64_t R = 0; R != 3; ++R) {
    RankProfile P(Builder, R);
    for (int64_t I = 0; I != 20; ++I) {
      int64_t At = leaves(I) + 7'000'000 * R;
      if (R != 2)
        P.collective("all_reduce", I, At - 500'000, At, 64, NullInt, "a");
      if (R != 0)
        P.collective("all_gather", I, At + 1'500'000, At + 2'000'000, 64,
                     NullInt, "b");
    }
    Builder.add(std::move(P.S));
  }
  Case C = Builder.build();
  auto R0 = timesOf(C, 0), R1 = timesOf(C, 1), R2 = timesOf(C, 2);
  EXPECT_EQ(R1[0].second, R0[0].second);
  EXPECT_EQ(R2[0].second, R1[1].second); // rank 1: a, b, a, b, ...
  EXPECT_EQ(R2[0].second - R0[0].second, 2'000'000);
}

// Two runs of one program: the same operations and numbers, but each took its
// own time. Nothing is moved or matched, and the report says so.
TEST(ClockAlignmentTest, ProfilesOfDifferentRunsAreToldApart) {
  CaseBuilder Builder;
  for (int64_t R = 0; R != 3; ++R) {
    RankProfile P(Builder, R);
    P.S->EpochNs = 0;
    P.model(R == 2 ? "Tesla V100-SXM2-32GB" : "NVIDIA A100-SXM4-80GB");
    for (int64_t I = 0; I != 40; ++I) {
      int64_t At = leaves(I) + (R == 2 ? (I * I * 104729) % 6'000'011 : 0);
      P.collective("all_reduce", I, At - 500'000, At);
    }
    Builder.add(std::move(P.S));
  }
  Case C = Builder.build();
  EXPECT_TRUE(C.inputs()[0].Remarks.empty());
  ASSERT_EQ(C.inputs()[2].Remarks.size(), 1u);
  EXPECT_EQ(C.inputs()[2].Remarks[0].Message,
            "run/rank2.json: none of its 40 collectives matches one of the "
            "other profiles, which ran on NVIDIA A100-SXM4-80GB and this on "
            "Tesla V100-SXM2-32GB; not compared with them");
  const Table &T = C.table(TableId::matched_collectives);
  EXPECT_EQ(T.rows(), 40u);
  for (size_t I = 0; I != T.rows(); ++I)
    EXPECT_EQ(number(T, I, "ranks"), 2);
}

} // namespace
