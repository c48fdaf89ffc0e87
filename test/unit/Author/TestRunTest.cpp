//===- TestRunTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/TestRun.h"
#include "gtest/gtest.h"
#include <atomic>
#include <thread>

using namespace culprit;

namespace {

class NativeDetector : public Detector {
public:
  using Body = std::function<void(Outcome &)>;

  explicit NativeDetector(Body Do)
      : Detector([] {
          DetectorInfo Info;
          Info.Id = "gpu/native";
          Info.File = "gpu/native.lua";
          return Info;
        }()),
        Do(std::move(Do)) {}

  void run(const Case &, llvm::ArrayRef<Scalar>, const Limits &,
           Outcome &Result) const override {
    Do(Result);
  }

private:
  Body Do;
};

TestResult runOn(const Detector &D, const Limits &Bounds) {
  TestFile F = parseTestFile("gpu/native.test", R"(
name: one piece
case:
  gpu_work: {columns: [start, stop], rows: [[0, 1]]}
expect: {clear: true}
)");
  EXPECT_TRUE(F.Mistakes.empty());
  return runTestCase(D, F, F.Cases.at(0), Bounds);
}

TEST(RunTestCase, WhatIsClearPasses) {
  NativeDetector D([](Outcome &) {});
  EXPECT_EQ(TestResult::Verdict::Passed, runOn(D, {}).What);
}

TEST(RunTestCase, ADetectorThatHangsIsLeftBehind) {
  // What a thread left behind uses has to outlive this test.
  static std::atomic<bool> LetGo = false;
  static NativeDetector D([](Outcome &) {
    while (!LetGo)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  Limits Bounds;
  Bounds.Time = std::chrono::milliseconds(10);
  TestResult R = runOn(D, Bounds);
  LetGo = true;
  EXPECT_EQ(TestResult::Verdict::Failed, R.What);
  EXPECT_TRUE(R.Got.Abandoned);
  ASSERT_TRUE(R.Got.Error);
  EXPECT_EQ("gpu/native.lua", R.Got.Error->File);
  // The time it may take and a second.
  EXPECT_EQ("hangs in native code: still running after 1.01 s, without a look "
            "at the clock",
            R.Got.Error->Message);
}

} // namespace
