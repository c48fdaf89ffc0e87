//===- StatisticsTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Statistics.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace culprit;

namespace {

// Of two samples of n that do not overlap D is 1; 2 of the C(2n, n) orders do
// that. n = 3: 2 / 20; n = 5: 2 / 252. Of 2 and 3: 2 / C(5, 2) = 0.2.
TEST(GoldenStatisticsTest, ExactKolmogorov) {
  EXPECT_NEAR(kolmogorovExact(1, 3, 3), 0.1, 1e-12);
  EXPECT_NEAR(kolmogorovExact(1, 5, 5), 2.0 / 252, 1e-12);
  EXPECT_NEAR(kolmogorovExact(1, 2, 3), 0.2, 1e-12);
  EXPECT_EQ(kolmogorovExact(0, 4, 4), 1);
  // n = m = 2: six orders. aabb, bbaa reach 1; abba, baab, abab, baba 1/2.
  EXPECT_NEAR(kolmogorovExact(1, 2, 2), 2.0 / 6, 1e-12);
  EXPECT_NEAR(kolmogorovExact(0.5, 2, 2), 1, 1e-12);
  // Gnedenko and Korolyuk: P(D >= k/n) = 2 sum (-1)^(j+1) C(2n, n-jk)/C(2n,n).
  // n = 10, k = 6: 2 (C(20, 4)) / C(20, 10) = 2 * 4845 / 184756.
  EXPECT_NEAR(kolmogorovExact(0.6, 10, 10), 9690.0 / 184756, 1e-12);
}

// Tables of Kolmogorov's distribution: 1.3581 at 5 %, 1.6276 at 1 %.
TEST(GoldenStatisticsTest, KolmogorovTail) {
  EXPECT_NEAR(kolmogorovTail(1.3581), 0.05, 1e-4);
  EXPECT_NEAR(kolmogorovTail(1.6276), 0.01, 1e-4);
  EXPECT_EQ(kolmogorovTail(0), 1);
  EXPECT_NEAR(kolmogorovTail(4), 2 * std::exp(-32), 1e-16);
}

// 1, 2, 3, 4 and 3, 4, 5, 6: behind 2 the functions are at 1/2 and 0, behind 4
// at 1 and 1/2. Equal values are one step, not two.
TEST(GoldenStatisticsTest, Distance) {
  KolmogorovSmirnov K = kolmogorovSmirnov({1, 2, 3, 4}, 4, {6, 5, 4, 3});
  EXPECT_NEAR(K.D, 0.5, 1e-12);
  EXPECT_EQ(K.At, 2);
  K = kolmogorovSmirnov({1, 1, 2}, 3, {2, 1, 1});
  EXPECT_EQ(K.D, 0);
  EXPECT_EQ(K.P, 1);
  // All of one value, and of one 0.01 more: two distributions, unless 0.02
  // does not matter. A move of 1 still shows.
  const std::vector<double> Same(20, 5), Near(20, 5.01);
  EXPECT_EQ(kolmogorovSmirnov(Same, 20, Near).D, 1);
  EXPECT_EQ(kolmogorovSmirnov(Same, 20, Near, 0.02).D, 0);
  EXPECT_EQ(kolmogorovSmirnov(Near, 20, Same, 0.02).D, 0);
  EXPECT_EQ(kolmogorovSmirnov(Same, 20, {6, 6, 6}, 0.02).D, 1);
}

// Sums of 0.1 are not multiples of it, and still a constant has no spread.
TEST(GoldenStatisticsTest, Constants) {
  const Moments M = momentsOf(std::vector<double>(40, 0.1));
  EXPECT_EQ(M.Mean, 0.1);
  EXPECT_EQ(M.Deviation, 0);
}

// A ramp of 1,000 is kept as 101 points, 9.99 apart, and is no other
// distribution than itself; moved by 300 of 1,000 it is.
TEST(GoldenStatisticsTest, Sketch) {
  std::vector<double> Ramp, Moved;
  for (int I = 0; I != 1000; ++I) {
    Ramp.push_back(I);
    Moved.push_back(I + 300);
  }
  const std::vector<double> Kept = sampleSketch(Ramp);
  ASSERT_EQ(Kept.size(), SketchPoints);
  EXPECT_EQ(Kept.front(), 0);
  EXPECT_EQ(Kept.back(), 999);
  EXPECT_NEAR(Kept[50], 499.5, 1e-9);
  EXPECT_GT(kolmogorovSmirnov(Kept, 1000, Ramp).P, 0.99);
  const KolmogorovSmirnov K = kolmogorovSmirnov(Kept, 1000, Moved);
  EXPECT_NEAR(K.D, 0.3, 0.02);
  EXPECT_LT(K.P, 1e-30);
  EXPECT_EQ(sampleSketch({3, 1, 2}), (std::vector<double>{1, 2, 3}));
}

// Of 1, 2, 3 and 2, 3, 4: variances 1, means 2 and 3, a standard error of
// sqrt(2/3), 1 / 0.8165 = 1.2247 of it; Welch has 4 degrees of freedom. Two
// sigma is 4.55 %, which t with 4 degrees reaches at 2.8693.
TEST(GoldenStatisticsTest, Means) {
  const Moments A = momentsOf({1, 2, 3}), B = momentsOf({2, 3, 4});
  EXPECT_NEAR(A.Deviation, 1, 1e-12);
  EXPECT_NEAR(A.Kurtosis, 1.5, 1e-12); // 2/3 over (2/3)^2
  const Apart M = meansApart(A, B, 2);
  EXPECT_NEAR(M.Errors, 1.224745, 1e-6);
  EXPECT_NEAR(M.Bound, 2.8693, 1e-3);
  EXPECT_EQ(meansApart(momentsOf({5, 5}), momentsOf({5, 5, 5}), 4).Errors, 0);
  EXPECT_TRUE(std::isinf(
      meansApart(momentsOf({5, 5}), momentsOf({6, 6}), 4).Errors));
}

// Normal tails: ln s has the variance (3 - 1) / 4 / (n - 1) = 1 / (2 (n - 1));
// two samples of 51 have 1/50 in sum. ln 2 over sqrt(0.02) is 4.901.
TEST(GoldenStatisticsTest, Deviations) {
  Moments A, B;
  A.Deviation = 1, A.Count = 51;
  B.Deviation = 2, B.Count = 51;
  EXPECT_NEAR(deviationsApart(A, B, 4).Errors, std::log(2.0) / std::sqrt(0.02),
              1e-9);
}

// Of 1, ..., 10 the bootstrap's median is at or below i with P(Bin(10, i/10)
// >= 5). i = 2: 0.0328, i = 1: 0.0016; i = 7: 0.9527, i = 8: 0.9936. So the
// interval is 2 to 8; the median by interpolation is 5.5.
TEST(GoldenStatisticsTest, QuantileInterval) {
  std::vector<double> Ten;
  for (int I = 10; I != 0; --I)
    Ten.push_back(I);
  const Interval I = quantileInterval(Ten, 0.5);
  EXPECT_EQ(I.Value, 5.5);
  EXPECT_EQ(I.Low, 2);
  EXPECT_EQ(I.High, 8);
  const Interval One = quantileInterval({3}, 0.95);
  EXPECT_EQ(One.Value, 3);
  EXPECT_EQ(One.Low, 3);
  EXPECT_EQ(One.High, 3);
}

// Wilson, 8 of 10, z = 1.96: 0.4902 to 0.9433. 0 of 20: 0 to
// z^2 / (20 + z^2) = 0.1611.
TEST(GoldenStatisticsTest, ShareInterval) {
  const Interval I = shareInterval(8, 10);
  EXPECT_NEAR(I.Low, 0.4902, 1e-4);
  EXPECT_NEAR(I.High, 0.9433, 1e-4);
  const Interval None = shareInterval(0, 20);
  EXPECT_EQ(None.Low, 0);
  EXPECT_NEAR(None.High, 3.841459 / 23.841459, 1e-6);
}

} // namespace
