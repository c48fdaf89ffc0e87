//===- WeightsTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Weights.h"
#include "Support/Error.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

std::string problemOf(llvm::Expected<Weights> W) {
  if (W)
    return "";
  return toDiagnostics(W.takeError()).front().Message;
}

TEST(WeightsTest, ReadsOverridesAndKeepsDefaults) {
  auto W = Weights::parse("words: {always: 0.9}\n"
                          "prior: 0.05\n"
                          "leaks: {gpu-idle: 0.1}\n"
                          "generic: [gpu-idle, tiny-kernels]\n",
                          "w.yaml");
  ASSERT_TRUE(bool(W));
  EXPECT_EQ(W->Always, 0.9);
  EXPECT_EQ(W->Often, 0.7);
  EXPECT_EQ(W->prior("anything"), 0.05);
  EXPECT_EQ(W->leak("gpu-idle"), 0.1);
  EXPECT_EQ(W->leak("other"), 0.02);
  EXPECT_TRUE(W->isGeneric("tiny-kernels"));
  EXPECT_FALSE(W->isGeneric("other"));
}

TEST(WeightsTest, RefusesWhatIsNoProbability) {
  EXPECT_EQ(problemOf(Weights::parse("prior: 1.5\n", "w.yaml")),
            "w.yaml: 'prior' is 1.5, not a probability");
  EXPECT_EQ(problemOf(Weights::parse("leaks: {x: 0}\n", "w.yaml")),
            "w.yaml: 'x' is 0, not a probability");
}

TEST(WeightsTest, NamesTheLineOfAnUnknownKey) {
  EXPECT_EQ(problemOf(Weights::parse("prior: 0.1\nprio: 0.2\n", "w.yaml")),
            "w.yaml:2: unknown key 'prio'");
}

TEST(WeightsTest, ShippedFileLoads) {
  auto W = Weights::load(CULPRIT_SOURCE_DIR "/kb/ranking.yaml");
  EXPECT_TRUE(bool(W)) << problemOf(std::move(W));
}

} // namespace
