//===- StrategyTest.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Strategy.h"
#include "KB/AddEntry.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

Vocabulary practices() {
  return cantFail(Vocabulary::parse(
      "- `loss-spike`: a jump\n",
      "layer\tclass\tdefinition\nnumerics\tfp16-overflow\ttoo large\n"
      "tooling\tcheckpoint-key-mismatch-nonstrict\tkeys\n"));
}

TEST(StrategyTest, AClassCountsBeforeItsLayerAndBeforeWords) {
  Entry E;
  E.Title = "The seed is random";
  EXPECT_EQ(practiceFor(E, practices())->Id, "determinism");
  E.Class = "fp16-overflow";
  EXPECT_EQ(practiceFor(E, practices())->Id, "stability");
  E.Class = "checkpoint-key-mismatch-nonstrict"; // its layer is environment's
  EXPECT_EQ(practiceFor(E, practices())->Id, "weights");
  Entry Odd;
  Odd.Title = "Doors jam";
  EXPECT_EQ(practiceFor(Odd, practices()), nullptr);
}

TEST(StrategyTest, StatedCostsCountBeforeGuesses) {
  Entry E;
  E.Symptom = "answers are wrong";
  EXPECT_EQ(costOf(E).From, "silent");
  E.Symptom = "throughput halves";
  EXPECT_EQ(costOf(E).From, "slow");
  E.Symptom = "it crashes with a traceback";
  EXPECT_EQ(costOf(E).From, "loud");
  E.Other.push_back({"Impact", "about 1 week, then 2 days and 4h"});
  EXPECT_EQ(costOf(E).From, "stated");
  EXPECT_DOUBLE_EQ(costOf(E).Hours, 40 + 2 * 8 + 4);
}

TEST(StrategyTest, NamesOfTests) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(testNames("Test: `expected_weights()` after loading"),
            Names{"expected_weights"});
  EXPECT_EQ(testNames("Add test_cache_grows to CI"), Names{"test_cache_grows"});
  EXPECT_EQ(testNames("Keep `fused=True`, and test it"), Names{});
}

TEST(AddEntryTest, EveryByteThatWasThereStays) {
  StringRef Old = "# L\r\n\r\n### [FIXED] A\r\n**Symptom**: a\xff\r\n";
  Entry E;
  E.Title = "B";
  E.Status = "OPEN";
  E.Date = "2026-01-02";
  E.Symptom = E.RootCause = E.Fix = E.Files = "x";
  E.Prevention = {"y"};
  AddedEntry Added;
  Expected<std::string> New = withEntry(Old, "l.md", E, Added);
  ASSERT_TRUE(bool(New)) << toString(New.takeError());
  EXPECT_TRUE(StringRef(*New).starts_with(Old));
  EXPECT_EQ(StringRef(*New).count('\n'), StringRef(*New).count("\r\n"));
  EXPECT_EQ(Added.Added.Title, "B");
  EXPECT_EQ(Added.Others.size(), 1u);
}

} // namespace
