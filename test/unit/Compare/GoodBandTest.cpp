//===- GoodBandTest.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/GoodBand.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace culprit;

namespace {

template <typename F> ScalarSeries curveOf(int Count, F ValueAt) {
  ScalarSeries S;
  for (int I = 0; I != Count; ++I) {
    S.Steps.push_back(I);
    S.Values.push_back(ValueAt(I));
  }
  return S;
}

// 1.0 and 1.2 by turns: neighbours are 0.2 apart, so the noise is
// 1.4826 * 0.2 / sqrt(2) = 0.209671 and the margin three times that, 0.629013;
// 1 % of the value and a twentieth of the range are less.
TEST(GoodBandTest, NoiseMakesTheMargin) {
  const ScalarSeries S = curveOf(100, [](int I) { return I % 2 ? 1.2 : 1.0; });
  const auto B = bandAt({&S}, 50, 0.01);
  ASSERT_TRUE(B);
  EXPECT_NEAR(B->Low, 0.370987, 1e-6);
  EXPECT_NEAR(B->High, 1.829013, 1e-6);
  EXPECT_TRUE(B->holds(1.8));
  EXPECT_FALSE(B->holds(1.9));
  // Half of it is 0.729013, and 3.0 is 1.9 from the middle.
  EXPECT_NEAR(B->standing(3.0), 1 - 0.729013 / 1.9, 1e-6);
  EXPECT_EQ(B->standing(1.0), 0);
  EXPECT_EQ(B->standing(std::nan("")), 1);
  EXPECT_FALSE(bandAt({&S}, 100, 0.01)); // the run ends at 99
}

// 100, 99, ... 1: at step 50 the window goes from 40 to 63 (62.5), values 60 to
// 37; the noise of neighbours 1 apart is 1.0484, three of it 3.145; a twentieth
// of the range of 99 is 4.95, which is more.
TEST(GoodBandTest, SoonerAndLaterCounts) {
  const ScalarSeries S = curveOf(100, [](int I) { return 100.0 - I; });
  const auto B = bandAt({&S}, 50, 0.01);
  ASSERT_TRUE(B);
  EXPECT_NEAR(B->Low, 37 - 4.95, 1e-9);
  EXPECT_NEAR(B->High, 60 + 4.95, 1e-9);
  // At step 98: from 78 on, values 22 to 1; nothing here is negative.
  EXPECT_EQ(bandAt({&S}, 98, 0.01)->Low, 0);
}

// The band of two runs holds both: 10 and 20, and 5 % of a range of 0 is 0, so
// the margin is 1 % of the larger value.
TEST(GoodBandTest, SeveralRuns) {
  const ScalarSeries A = curveOf(50, [](int) { return 10.0; });
  const ScalarSeries B = curveOf(50, [](int) { return 20.0; });
  const auto Both = bandAt({&A, &B}, 20, 0.01);
  EXPECT_NEAR(Both->Low, 9.8, 1e-9);
  EXPECT_NEAR(Both->High, 20.2, 1e-9);
}

TEST(GoodBandTest, LeavesForGood) {
  const ScalarSeries Good = curveOf(100, [](int I) { return 100.0 - I; });
  const ScalarSeries Bad =
      curveOf(100, [](int I) { return I < 70 ? 100.0 - I : 80.0; });
  size_t Points = 0;
  const auto E = leavesBand({&Good}, Bad, 0.01, Points);
  ASSERT_TRUE(E);
  EXPECT_EQ(Points, 100u);
  EXPECT_TRUE(E->Stays);
  EXPECT_EQ(E->From, 70);
  EXPECT_EQ(E->Outside, 30u);
  EXPECT_EQ(E->Step, 99);
  EXPECT_EQ(E->Value, 80);
}

// NaN from step 40 on is outside, and steps that the good run does not have are
// not looked at.
TEST(GoodBandTest, NotFiniteAndLonger) {
  const ScalarSeries Good = curveOf(60, [](int I) { return 100.0 - I; });
  const ScalarSeries Bad = curveOf(200, [](int I) {
    return I < 40 ? 100.0 - I : std::numeric_limits<double>::quiet_NaN();
  });
  size_t Points = 0;
  const auto E = leavesBand({&Good}, Bad, 0.01, Points);
  ASSERT_TRUE(E);
  EXPECT_EQ(Points, 60u);
  EXPECT_TRUE(E->Stays);
  EXPECT_EQ(E->From, 40);
  EXPECT_EQ(E->Outside, 20u);
}

// One point far away is told where it is; two at the end that are a little out
// (30 at step 98 is less than the band's width beyond it) are nothing.
TEST(GoodBandTest, SinglePoints) {
  const ScalarSeries Good = curveOf(100, [](int I) { return 100.0 - I; });
  size_t Points = 0;
  const ScalarSeries Spike =
      curveOf(100, [](int I) { return I == 30 ? 1000.0 : 100.0 - I; });
  const auto E = leavesBand({&Good}, Spike, 0.01, Points);
  ASSERT_TRUE(E);
  EXPECT_FALSE(E->Stays);
  EXPECT_EQ(E->From, 30);
  EXPECT_EQ(E->Outside, 1u);
  EXPECT_EQ(E->Value, 1000);
  const ScalarSeries Late =
      curveOf(100, [](int I) { return I >= 98 ? 30.0 : 100.0 - I; });
  EXPECT_FALSE(leavesBand({&Good}, Late, 0.01, Points));
  EXPECT_FALSE(leavesBand({&Good}, Good, 0.01, Points));
  EXPECT_EQ(Points, 100u);
}

} // namespace
