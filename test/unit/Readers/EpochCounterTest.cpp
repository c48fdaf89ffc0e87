//===- EpochCounterTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/EpochCounter.h"
#include "gtest/gtest.h"

using namespace culprit;

TEST(EpochCounter, CountsOnFromTheLastNumberOfAnEpoch) {
  EpochCounter C;
  EXPECT_EQ(C.step(50, 0, 1), 50);
  EXPECT_EQ(C.step(100, 0, 1), 100);
  EXPECT_EQ(C.step(50, 0, 2), 150);
  EXPECT_EQ(C.step(100, 0, 2), 200);
}

TEST(EpochCounter, TakesTheLengthWhereItIsTold) {
  EpochCounter C;
  EXPECT_EQ(C.step(100, 120, 1), 100);
  EXPECT_EQ(C.step(20, 120, 2), 140);
  EXPECT_EQ(C.step(40, 120, 3), 280) << "it has fallen before";
}

TEST(EpochCounter, ACounterFromZeroHasOneIntervalMore) {
  EpochCounter C;
  EXPECT_EQ(C.step(0, 0, 0), 0);
  EXPECT_EQ(C.step(10, 0, 0), 10);
  EXPECT_EQ(C.step(0, 0, 1), 20);
  EXPECT_EQ(C.step(10, 0, 1), 30);
}

TEST(EpochCounter, LeavesACounterOfTheRun) {
  EpochCounter C;
  EXPECT_EQ(C.step(10, 0, 1), 10);
  EXPECT_EQ(C.step(20, 0, 2), 20);
  EXPECT_EQ(C.step(30, 0, 3), 30);
  EXPECT_EQ(C.step(15, 0, 2), 15) << "resumed from a checkpoint of epoch 2";
  EXPECT_EQ(C.step(25, 0, 2), 25);
}
