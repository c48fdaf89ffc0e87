//===- CheckTest.cpp ----------------------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Check.h"
#include "KB/MarkdownReader.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

class CheckTest : public testing::Test {
protected:
  /// The messages about \p Text, in order, with their hints.
  std::vector<std::string> check(StringRef Text, bool Curated = false) {
    Vocabulary V = cantFail(Vocabulary::parse(
        "- `loss-spike`: a jump\n- `lr-zero`: zero\n",
        "layer\tclass\tdefinition\nnumerics\tfp16-overflow\ttoo large\n"));
    std::vector<Diagnostic> Found;
    CheckOptions Options;
    Options.Curated = Curated;
    checkEntries(readMarkdown(Text, "l.md").Entries, V, Options, Found);
    std::vector<std::string> Out;
    for (const Diagnostic &D : Found)
      Out.push_back(D.Message + " | " + D.Hint);
    return Out;
  }
  std::string good(StringRef Title, StringRef More = "") {
    return ("### [FIXED] " + Title + "\n**Symptom**: " + Title +
            " shows red lights on page four\n\n**Root Cause**: a counter "
            "wraps\n\n**Fix**: widen it\n\n**Files**: a.py\n\n**Prevention**:\n"
            "- Test: run the counter past 2^31\n\n" +
            More + "\n")
        .str();
  }
  bool holds(const std::vector<std::string> &Messages, StringRef Part) {
    for (StringRef M : Messages)
      if (M.contains(Part))
        return true;
    return false;
  }
};

TEST_F(CheckTest, ATeamsLogNeedsFiveSections) {
  EXPECT_TRUE(check(good("Widgets jam")).empty());
  std::vector<std::string> M = check("### T\n**Symptom**: a\n");
  ASSERT_EQ(M.size(), 4u);
  EXPECT_EQ(M[0], "l.md:1: 'T' has no Root Cause | write why it happened");
}

TEST_F(CheckTest, CuratedEntriesNeedMore) {
  EXPECT_EQ(check(good("Widgets jam"), /*Curated=*/true).size(), 4u);
  // A class claims that the entry is curated.
  EXPECT_EQ(check(good("Widgets jam", "**Class**: fp16-overflow")).size(), 3u);
}

TEST_F(CheckTest, WishesAreRefused) {
  for (StringRef Bad :
       {"Be more careful", "Test better", "be careful with memory",
        "Review code carefully", "Pay attention next time", "Add more tests",
        "Improve code quality", "double check everything", "", "Tests"})
    EXPECT_NE(preventionObjection(Bad), "") << Bad.str();
}

TEST_F(CheckTest, ActionsArePassed) {
  for (StringRef Fine :
       {"Validate model structure against reference before hardcoding defaults",
        "Test: Load weights, check all layers have matching shapes",
        "Could catch with: `expected_weights()` function that validates "
        "required tensors",
        "When implementing from papers, document expected input/output "
        "formulation",
        "k-diffusion vs diffusers vs paper formulations differ - be explicit",
        "Pin the driver version", "Alert when grad norm passes 10",
        "检查每一层的输出是否为有限值"})
    EXPECT_EQ(preventionObjection(Fine), "") << Fine.str();
}

TEST_F(CheckTest, ASymptomIsNoCause) {
  std::vector<std::string> M = check(
      "### T\n**Symptom**: the counter wraps past the limit\n\n"
      "**Root Cause**: the counter wraps past the limit of 32 bits\n\n"
      "**Fix**: x\n\n**Files**: y\n\n**Prevention**:\n- Test: run 2^31\n");
  ASSERT_EQ(M.size(), 1u);
  EXPECT_TRUE(holds(M, "restates the root cause"));
  EXPECT_TRUE(holds(check("### T\n**Symptom**: red because of b\n"),
                    "explains ('because')"));
}

TEST_F(CheckTest, UnknownNamesGetASuggestion) {
  std::vector<std::string> M =
      check(good("Widgets jam", "**Class**: fp16-overflw\n\n**Signals**: "
                                "loss-spiek (often), lr-zero (often), "
                                "lr-zero (never)"));
  EXPECT_TRUE(holds(M, "unknown class 'fp16-overflw' | did you mean "
                       "'fp16-overflow'?"));
  EXPECT_TRUE(
      holds(M, "unknown signal 'loss-spiek' | did you mean 'loss-spike'?"));
  EXPECT_TRUE(holds(M, "signal 'lr-zero' is both often and never"));
}

TEST_F(CheckTest, References) {
  EXPECT_TRUE(holds(check(good("W j", "**References**: www.x.y/z")),
                    "not a complete address"));
  EXPECT_TRUE(holds(check(good("W j", "**References**: https://x")),
                    "not a complete address"));
  EXPECT_TRUE(
      check(good("W j", "**References**: https://x.yz/a, PR 12")).empty());
}

TEST_F(CheckTest, Duplicates) {
  EXPECT_TRUE(holds(check(good("Widgets jam") + good("widgets JAM")),
                    "'widgets JAM' is a duplicate | the first one is at "
                    "l.md:1"));
  EXPECT_TRUE(holds(check(good("Widgets jam") + good("The widgets jam again")),
                    "nearly the same symptom as at l.md:1"));
}

} // namespace
