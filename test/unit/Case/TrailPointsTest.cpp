//===- TrailPointsTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/TrailPoints.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <random>
#include <vector>

using namespace culprit;

/// A point of few values, so that points meet in each of the ways.
static TrailPoint randomPoint(std::mt19937 &Random) {
  static const double Times[] = {std::numeric_limits<double>::quiet_NaN(),
                                 100, 200, 1.7e9, 1.8e9};
  TrailPoint P;
  P.Source = Random() % 3; // 0 is none
  P.Line = Random() % 4 ? int64_t(Random() % 5) : NullInt;
  P.Time = Times[Random() % std::size(Times)];
  P.Step = Random() % 3 ? int64_t(Random() % 5) : NullInt;
  return P;
}

TEST(TrailPoints, SaysWhatEachPointWouldSay) {
  std::mt19937 Random(7);
  unsigned Found = 0;
  for (unsigned Round = 0; Round != 2000; ++Round) {
    TrailPoints Points;
    std::vector<TrailPoint> All;
    for (unsigned I = 0, N = Random() % 6; I != N; ++I) {
      All.push_back(randomPoint(Random));
      Points.add(All.back());
    }
    for (unsigned I = 0; I != 20; ++I) {
      TrailPoint E = randomPoint(Random);
      bool Any = llvm::any_of(
          All, [&](const TrailPoint &P) { return liesBefore(E, P); });
      EXPECT_EQ(Points.anyAfter(E), Any);
      Found += Any;
    }
  }
  // Both answers occur often.
  EXPECT_GT(Found, 5000u);
  EXPECT_LT(Found, 35000u);
}

TEST(TrailPoints, StepsAtTheEndsOfTheirRange) {
  TrailPoint A, B;
  A.Time = B.Time = std::numeric_limits<double>::quiet_NaN();
  A.Step = std::numeric_limits<int64_t>::max();
  B.Step = NullInt + 1;
  EXPECT_FALSE(liesBefore(A, B));
  EXPECT_TRUE(liesBefore(B, A));
}
