//===- StatisticsTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Statistics.h"
#include "Table/Column.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace culprit;

namespace {

const double NaN = std::numeric_limits<double>::quiet_NaN();
const double Inf = std::numeric_limits<double>::infinity();
const double Null = nullDouble();

using Doubles = std::vector<double>;

TEST(StatisticsTest, QuantilesInterpolate) {
  Doubles V = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(*quantile(V, 0), 10);
  EXPECT_DOUBLE_EQ(*quantile(V, 1), 40);
  EXPECT_DOUBLE_EQ(*quantile(V, 0.5), 25); // place 1.5: 20 + 0.5 * 10
  EXPECT_DOUBLE_EQ(*quantile(V, 0.9), 37); // place 2.7: 30 + 0.7 * 10
  EXPECT_DOUBLE_EQ(*quantile({7}, 0.3), 7);
  EXPECT_DOUBLE_EQ(*quantile(V, 2), 40); // clamped
  EXPECT_FALSE(quantile({}, 0.5));
}

TEST(StatisticsTest, LeavesOutWhatIsNotFinite) {
  Doubles V = {1, NaN, 3, Inf, -Inf, Null, 8};
  EXPECT_DOUBLE_EQ(*quantile(V, 0.5), 3);
  EXPECT_DOUBLE_EQ(*mean(V), 4); // (1 + 3 + 8) / 3
  // ((1-4)^2 + (3-4)^2 + (8-4)^2) / 2 = (9 + 1 + 16) / 2 = 13
  EXPECT_DOUBLE_EQ(*standardDeviation(V), std::sqrt(13));
  // Distances from 3: 2, 0, 5. Their median is 2.
  EXPECT_DOUBLE_EQ(*robustDeviation(V), 2 * 1.4826);
  EXPECT_FALSE(quantile({NaN, Null}, 0.5));
  EXPECT_FALSE(mean({NaN}));
  EXPECT_FALSE(standardDeviation({NaN, 1}));
  EXPECT_FALSE(robustDeviation({}));
}

TEST(StatisticsTest, RobustZ) {
  // Before index 8: 1..8, median 4.5, distances 3.5 2.5 1.5 .5 .5 1.5 2.5 3.5
  // with median 2: (20.5 - 4.5) / (1.4826 * 2).
  Doubles Z = robustZ({1, 2, 3, 4, 5, 6, 7, 8, 20.5}, 8);
  for (size_t I = 0; I != 8; ++I)
    EXPECT_TRUE(isNullDouble(Z[I]));
  EXPECT_DOUBLE_EQ(Z[8], 16 / (1.4826 * 2));
  // A window of 3 is enough of itself. Index 3: 1 2 3, median 2, distances
  // 1 0 1. Index 4: 2 3 4, median 3, distances 1 0 1.
  Z = robustZ({1, 2, 3, 4, 0}, 3);
  EXPECT_TRUE(isNullDouble(Z[2]));
  EXPECT_DOUBLE_EQ(Z[3], 2 / 1.4826);
  EXPECT_DOUBLE_EQ(Z[4], -3 / 1.4826);
}

TEST(StatisticsTest, RobustZOfFlatStretches) {
  // Median 2 without spread: the floor is 2e-3, and (2.1 - 2) / 2e-3 = 50.
  Doubles Z = robustZ({2, 2, 2, 2.1, 2}, 3);
  EXPECT_NEAR(Z[3], 50, 1e-9);
  EXPECT_DOUBLE_EQ(Z[4], 0);
  Z = robustZ({0, 0, 0, 0, 1, -1}, 3);
  EXPECT_DOUBLE_EQ(Z[3], 0);
  EXPECT_EQ(Z[4], Inf);
  EXPECT_EQ(Z[5], -Inf); // 0 0 1 has median 0 and distances 0 0 1
}

TEST(StatisticsTest, RobustZPassesOverWhatIsNotFinite) {
  // The window at the last place is 1 2 3: median 2, deviation 1.4826.
  Doubles Z = robustZ({9, 1, NaN, 2, Inf, Null, 3, NaN, Inf, -Inf, Null, 4}, 3);
  EXPECT_TRUE(isNullDouble(Z[2])); // only 9 and 1 seen
  EXPECT_EQ(Z[4], Inf);            // 9 1 2 seen
  EXPECT_TRUE(isNullDouble(Z[5]));
  EXPECT_TRUE(std::isnan(Z[7]));
  EXPECT_FALSE(isNullDouble(Z[7]));
  EXPECT_EQ(Z[8], Inf);
  EXPECT_EQ(Z[9], -Inf);
  EXPECT_TRUE(isNullDouble(Z[10]));
  EXPECT_DOUBLE_EQ(Z[11], 2 / 1.4826); // (4 - 2) / 1.4826
}

TEST(StatisticsTest, RobustZAgreesWithItsDefinition) {
  std::mt19937 Random(3);
  for (size_t Window : {1, 2, 5, 8, 33}) {
    Doubles V(300);
    for (double &Value : V) // few distinct values: many ties
      Value = Random() % 5 == 0 ? Random() % 4 : (Random() % 1000) / 7.0;
    Doubles Z = robustZ(V, Window);
    for (size_t I = std::min<size_t>(Window, 8); I != V.size(); ++I) {
      size_t First = I < Window ? 0 : I - Window;
      Doubles Seen(V.begin() + First, V.begin() + I);
      double Median = *quantile(Seen, 0.5);
      double Deviation =
          std::max(*robustDeviation(Seen), 1e-3 * std::fabs(Median));
      double Expected = V[I] == Median ? 0 : (V[I] - Median) / Deviation;
      if (std::isinf(Expected)) {
        ASSERT_EQ(Z[I], Expected);
        continue;
      }
      ASSERT_NEAR(Z[I], Expected, 1e-9 * (1 + std::fabs(Expected)))
          << "window " << Window << " at " << I;
    }
  }
}

TEST(StatisticsTest, Difference) {
  Doubles D = difference({5, 7, Null, 1, NaN});
  EXPECT_TRUE(isNullDouble(D[0]));
  EXPECT_DOUBLE_EQ(D[1], 2); // 7 - 5
  EXPECT_TRUE(isNullDouble(D[2]));
  EXPECT_TRUE(isNullDouble(D[3]));
  EXPECT_TRUE(std::isnan(D[4]) && !isNullDouble(D[4]));
  EXPECT_TRUE(difference({}).empty());
}

TEST(StatisticsTest, Rolling) {
  Doubles V = {4, 2, 6, NaN, 1};
  // Windows of 3: 4 | 4 2 | 4 2 6 | 2 6 . | 6 . 1
  EXPECT_EQ(rolling(V, 3, RollingKind::Mean), (Doubles{4, 3, 4, 4, 3.5}));
  EXPECT_EQ(rolling(V, 3, RollingKind::Min), (Doubles{4, 2, 2, 2, 1}));
  EXPECT_EQ(rolling(V, 3, RollingKind::Max), (Doubles{4, 4, 6, 6, 6}));
  EXPECT_EQ(rolling(V, 3, RollingKind::Median), (Doubles{4, 3, 4, 4, 3.5}));
  for (RollingKind Kind : {RollingKind::Mean, RollingKind::Median,
                           RollingKind::Min, RollingKind::Max}) {
    EXPECT_TRUE(isNullDouble(rolling({Null, 1}, 1, Kind)[0]));
    EXPECT_EQ(rolling({3, 3}, 1000, Kind), (Doubles{3, 3}));
    EXPECT_TRUE(rolling({}, 4, Kind).empty());
  }
  // What has left the window leaves no rounding behind.
  EXPECT_EQ(rolling({1e300, 1, 2, 3}, 2, RollingKind::Mean)[2], 1.5);
}

TEST(StatisticsTest, RollingAgreesWithItsDefinition) {
  std::mt19937 Random(5);
  Doubles V(100);
  for (double &Value : V)
    Value = Random() % 6 == 0 ? NaN : Random() % 50; // sums are exact
  for (size_t Window : {1, 2, 7, 10, 99, 100, 101}) {
    Doubles Mean = rolling(V, Window, RollingKind::Mean);
    Doubles Median = rolling(V, Window, RollingKind::Median);
    Doubles Max = rolling(V, Window, RollingKind::Max);
    for (size_t I = 0; I != V.size(); ++I) {
      size_t First = I + 1 < Window ? 0 : I + 1 - Window;
      Doubles Seen(V.begin() + First, V.begin() + I + 1);
      ASSERT_EQ(isNullDouble(Mean[I]), !mean(Seen));
      if (!mean(Seen))
        continue;
      ASSERT_DOUBLE_EQ(Mean[I], *mean(Seen));
      ASSERT_DOUBLE_EQ(Median[I], *quantile(Seen, 0.5));
      ASSERT_DOUBLE_EQ(Max[I], *quantile(Seen, 1));
    }
  }
}

TEST(StatisticsTest, RobustSlope) {
  // Slopes of (0,0) (1,2) (2,4) (3,60): 2 2 20 2 29 56, the median
  // (2 + 20) / 2 = 11.
  EXPECT_DOUBLE_EQ(*robustSlope({0, 1, 2, 3}, {0, 2, 4, 60}), 11);
  // NaN and null pairs are left out: (0,1) and (4,9) give 8 / 4.
  EXPECT_DOUBLE_EQ(*robustSlope({0, 1, Null, 4}, {1, NaN, 5, 9}), 2);
  EXPECT_FALSE(robustSlope({1, 1, 1}, {1, 2, 3}));
  EXPECT_FALSE(robustSlope({1}, {1}));
  // More points than are used: y = 3 x + 1 with one outlier in 10.
  Doubles X, Y;
  for (int I = 0; I != 5000; ++I) {
    X.push_back(I);
    Y.push_back(I % 10 == 0 ? -1e6 : 3.0 * I + 1);
  }
  EXPECT_DOUBLE_EQ(*robustSlope(X, Y), 3);
}

TEST(StatisticsTest, ChangePointOfAStep) {
  // 8 values of 1 and 8 of 3: K = |2 * (8 * 4.5) - 8 * 17| = 64, n = 16,
  // p = 2 exp(-6 * 4096 / 4352) = 0.007.
  Doubles V(16, 1.0);
  std::fill(V.begin() + 8, V.end(), 3.0);
  std::vector<ChangePoint> C = changePoints(V);
  ASSERT_EQ(C.size(), 1u);
  EXPECT_EQ(C[0].At, 8u);
  EXPECT_DOUBLE_EQ(C[0].Before, 1);
  EXPECT_DOUBLE_EQ(C[0].After, 3);
  // No noise: the floor is 1e-3 * 3, and 2 / 3e-3 = 666.67.
  EXPECT_NEAR(C[0].Score, 2 / 3e-3, 1e-6);
  // One value less is too short for two sides of 8.
  V.pop_back();
  EXPECT_TRUE(changePoints(V).empty());
}

TEST(StatisticsTest, ChangePointsMeasureNoise) {
  // Levels 10 and 20, each with values at -1, 0 and +1 in turn. The residuals
  // are thirds of -1, 0 and 1: median 0, median distance 1.
  Doubles V;
  for (int I = 0; I != 60; ++I)
    V.push_back((I < 30 ? 10 : 20) + I % 3 - 1);
  std::vector<ChangePoint> C = changePoints(V);
  ASSERT_EQ(C.size(), 1u);
  EXPECT_EQ(C[0].At, 30u);
  EXPECT_DOUBLE_EQ(C[0].Score, 10 / 1.4826);
}

TEST(StatisticsTest, ChangePointsFindAnEpisode) {
  // 20 slow steps among 220 are found at both ends, see ChangePoints.cpp.
  Doubles V(220, 1.0);
  std::fill(V.begin() + 100, V.begin() + 120, 2.0);
  std::vector<ChangePoint> C = changePoints(V);
  ASSERT_EQ(C.size(), 2u);
  EXPECT_EQ(C[0].At, 100u);
  EXPECT_EQ(C[1].At, 120u);
  EXPECT_DOUBLE_EQ(C[1].Before, 2);
  EXPECT_DOUBLE_EQ(C[1].After, 1);
}

TEST(StatisticsTest, ChangePointsOfSeveralLevels) {
  Doubles V;
  for (double Level : {1.0, 4.0, 9.0, 2.0})
    V.insert(V.end(), 50, Level);
  std::vector<ChangePoint> C = changePoints(V);
  ASSERT_EQ(C.size(), 3u);
  EXPECT_EQ(C[0].At, 50u);
  EXPECT_EQ(C[1].At, 100u);
  EXPECT_EQ(C[2].At, 150u);
}

TEST(StatisticsTest, ChangePointsCountOnlyFiniteValues) {
  // A NaN before each of 10 ones and 10 threes: index 2 * 10 + 1 is a three.
  Doubles V;
  for (int I = 0; I != 20; ++I) {
    V.push_back(NaN);
    V.push_back(I < 10 ? 1 : 3);
  }
  std::vector<ChangePoint> C = changePoints(V);
  ASSERT_EQ(C.size(), 1u);
  EXPECT_EQ(C[0].At, 21u);
  EXPECT_TRUE(changePoints({}).empty());
  EXPECT_TRUE(changePoints({NaN, NaN}).empty());
  EXPECT_TRUE(changePoints(Doubles(1000, 5.0)).empty());
}

TEST(StatisticsTest, ChangePointsOfNoiseAreRare) {
  std::mt19937_64 Random(11);
  size_t Found = 0;
  for (int Round = 0; Round != 200; ++Round) {
    Doubles V(200);
    for (double &Value : V)
      Value = static_cast<double>(Random() >> 11);
    Found += !changePoints(V).empty();
  }
  // Two tests at 0.01 each: at most 4 of 200 on average, 12 is 4 sigma.
  EXPECT_LE(Found, 12u);
}

} // namespace
