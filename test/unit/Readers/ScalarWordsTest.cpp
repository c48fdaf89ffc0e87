//===- ScalarWordsTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ScalarWords.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace llvm;

static std::string named(StringRef Name) {
  std::optional<WordedName> Found = namedByWords(Name);
  return Found ? Found->Canonical.str() : "";
}

TEST(ScalarWords, TellsTimesByTheirWords) {
  EXPECT_EQ(named("dt_data"), "data_time");
  EXPECT_EQ(named("data_stall_ms"), "data_time");
  EXPECT_EQ(named("batch_wait_s"), "data_time");
  EXPECT_EQ(named("t_load"), "data_time");
  EXPECT_EQ(named("seconds_per_step"), "step_time");
  EXPECT_EQ(named("t_step"), "step_time");
  EXPECT_EQ(namedByWords("data_stall_ms")->Factor, 1e-3);
  EXPECT_EQ(namedByWords("step_us")->Factor, 1e-6);
  EXPECT_EQ(namedByWords("t_step")->Factor, 1);
}

TEST(ScalarWords, LeavesTheTimesOfOtherThings) {
  for (StringRef Other :
       {"forward_step_time", "eval_step_time", "max_step_time", "step_wait_ms",
        "total_step_time", "samples_per_second", "steps_per_second",
        "time/batch", "time", "step", "batch_size"})
    EXPECT_EQ(named(Other), "") << Other.str();
}

TEST(ScalarWords, TellsTheNormOfAllGradients) {
  EXPECT_EQ(named("gradient_l2_norm"), "grad_norm");
  EXPECT_EQ(named("grad_norm_before_clip"), "grad_norm");
  EXPECT_EQ(named("clipped_grad_norm"), "") << "behind the clipping";
  EXPECT_EQ(named("grad_norm_encoder"), "") << "of a part";
  EXPECT_EQ(named("max_grad_norm"), "") << "a setting, or a maximum";
}
