//===- LogitVerbsTest.cpp - Verbs along an axis of a tensor -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"

using namespace culprit;

namespace {

struct LogitVerbsTest : ScriptTest {
  /// What log(\p Values) writes, or the error; `t` gives a tensor by name and,
  /// if there are several, its variant.
  std::string logged(const std::string &Values) {
    Outcome O = run("local function t(n, v) return case.tensors:where(v and { "
                    "name = n, variant = v } or { name = n }):first() end\n"
                    "local function f(x) return x and ('%.6f'):format(x) or "
                    "'nil' end\n"
                    "log(" +
                    Values + ")");
    return O.Log.empty() ? error(O) : O.Log.front();
  }
};

TEST_F(LogitVerbsTest, DifferenceAlong) {
  // The two differ by 2 at [1, 2] alone.
  std::string Along = "t('f', 'cached'):difference_along(t('f', 'full'), ";
  EXPECT_EQ("0.0 2.0", logged("table.unpack(" + Along + "0))"));
  EXPECT_EQ("0.0 0.0 2.0", logged("table.unpack(" + Along + "1))"));
  EXPECT_EQ("0.0 0.0 0.0", logged("table.unpack(" + Along + "1, 0))"));
  EXPECT_EQ("0.0 0.0 2.0", logged("table.unpack(" + Along + "1, 1))"));
  // 4 5 8 against 1 2 3.
  EXPECT_EQ("3.0 3.0 5.0", logged("table.unpack(" + Along + "1, 1, 0))"));
  EXPECT_EQ("nil", logged("t('f'):difference_along(t('logits'), 0)"));
  EXPECT_EQ("8: the tensor has 2 axes and no axis 2 (axes are counted from 0)",
            logged(Along + "2)"));
  EXPECT_EQ("8: axis 0 has 2 places and no place 2",
            logged(Along + "1, 2)"));
}

TEST_F(LogitVerbsTest, ArgmaxShare) {
  // The largest logits stand at 1, 0, 1; the labels are 0, 1, 1.
  EXPECT_EQ("0.333333", logged("f(t('logits'):argmax_share(t('labels')))"));
  EXPECT_EQ("0.500000", logged("f(t('logits'):argmax_share(t('labels'), 1))"));
  EXPECT_EQ("0.000000",
            logged("f(t('logits'):argmax_share(t('labels'), 0, 1))"));
  EXPECT_EQ("1.000000", logged("f(t('logits'):argmax_share(t('logits')))"));
  EXPECT_EQ("nil", logged("t('logits'):argmax_share(t('labels'), 3)"));
  EXPECT_EQ("nil", logged("t('logits'):argmax_share(t('labels'), 1 << 62)"));
  EXPECT_TRUE(llvm::StringRef(logged("t('attention'):argmax_share(t('f'))"))
                  .starts_with("nil"));
}

TEST_F(LogitVerbsTest, LensShare) {
  // As hidden states (0 L), (L 0), (0 L) with L = ln 3; times the head's rows
  // (1 0), (0 1), (.5 .4) the largest are tokens 1, 0, 1. Labels 0, 1, 1.
  std::string Lens = "t('logits'):lens_share(t('head'), t('labels')";
  EXPECT_EQ("0.333333", logged("f(" + Lens + "))"));
  EXPECT_EQ("0.500000", logged("f(" + Lens + ", 1))"));
  EXPECT_EQ("0.000000", logged("f(" + Lens + ", 0, 1))"));
  EXPECT_EQ("nil", logged("f(" + Lens + ", 3))"));
  EXPECT_EQ("nil", logged("f(t('logits'):lens_share(t('f'), t('labels')))"));
  EXPECT_EQ("nil",
            logged("f(t('logits'):lens_share(t('head'), t('bounds')))"));
}

TEST_F(LogitVerbsTest, CrossEntropy) {
  // (2 ln 4 + ln 4/3) / 3, (ln 4/3 + ln 4) / 2 and ln 4.
  EXPECT_EQ("1.020090", logged("f(t('logits'):cross_entropy(t('labels')))"));
  EXPECT_EQ("1.020090", logged("f(t('logits'):cross_entropy(t('column')))"))
      << "labels with an axis of one behind them";
  EXPECT_EQ("0.836988", logged("f(t('logits'):cross_entropy(t('labels'), 1))"));
  EXPECT_EQ("1.386294",
            logged("f(t('logits'):cross_entropy(t('labels'), 0, 1))"));
  // ln(e^0.25 + e^0.75) - 0.25
  EXPECT_EQ("0.974077",
            logged("f(t('logits'):cross_entropy(t('labels'), 0, 1, 'twice'))"));
  // 2 is no id of a vocabulary of 2.
  EXPECT_EQ("nil", logged("t('logits'):cross_entropy(t('x'))"));
  // Of the two rows of labels the logits have the first, 1 2 2.
  EXPECT_EQ("1.000000", logged("f(t('logits'):argmax_share(t('more'), 0, 2))"));
  EXPECT_EQ("0.287682",
            logged("f(t('logits'):cross_entropy(t('more'), 0, 2))"));
  EXPECT_EQ("8: cross_entropy() knows 'logits' and 'twice', not 'thrice'",
            logged("t('logits'):cross_entropy(t('labels'), 0, 1, 'thrice')"));
}

TEST_F(LogitVerbsTest, AttentionMass) {
  EXPECT_EQ("0.100000", logged("f(t('attention'):mass_above_diagonal())"));
  EXPECT_EQ("0.000000", logged("f(t('attention'):mass_above_diagonal(1))"));
  EXPECT_EQ("0.000000", logged("f(t('decoding'):mass_above_diagonal())"));
  EXPECT_EQ("nil", logged("t('bounds'):mass_above_diagonal()"));
  // Rows beyond any memory, of no queries.
  EXPECT_EQ("nil", logged("t('none'):mass_across(t('bounds'))"));
  EXPECT_EQ("0.500000", logged("f(t('attention'):mass_across(t('bounds')))"));
  // Bounds 0, 1, 3 count through two rows of two: 0 | 1 and 2 | 3.
  EXPECT_EQ("0.250000", logged("f(t('rows'):mass_across(t('through')))"));
  // The last query stands at position 1, in the second document.
  EXPECT_EQ("0.300000", logged("f(t('decoding'):mass_across(t('bounds')))"));
  EXPECT_EQ("8: argument 1 of 'mass_across' must be a tensor of integers",
            logged("t('attention'):mass_across(t('f'))"));
}

TEST_F(LogitVerbsTest, SumsAlong) {
  // Rows 1 2 3 and 4 5 6: sums 6 and 15; columns 5, 7, 9.
  std::string Along = "t('f', 'full'):sums_along(";
  EXPECT_EQ("6.0", logged(Along + "1).min"));
  EXPECT_EQ("15.0", logged(Along + "1).max"));
  EXPECT_EQ("7.0", logged(Along + "0).mean"));
  EXPECT_EQ("0", logged(Along + "0).nonfinite"));
  EXPECT_EQ("nil", logged("t('none'):sums_along(0)"));
  EXPECT_EQ("8: the tensor has 2 axes and no axis 2 (axes are counted from 0)",
            logged(Along + "2)"));
}

TEST_F(LogitVerbsTest, AttentionHeads) {
  // Lines (.9 .1) and (.5 .5) look ahead; (1 0) and (0 1) do not.
  std::string Heads = "t('attention'):attention_heads():first()";
  EXPECT_EQ("2", logged(Heads + ".queries"));
  EXPECT_EQ("0.000000", logged("f(" + Heads + ".off < 1e-6 and 0)"));
  EXPECT_EQ("0.500000", logged("f(" + Heads + ".sink)"));
  EXPECT_EQ("nil", logged(Heads + ".marked"));
  // (0.468996 + 1) / 2: the entropy of .9 and .1 is 0.325083 of ln 2.
  EXPECT_EQ("0.734498", logged("f(" + Heads + ".entropy)"));
  // The decoded query stands at place 1.
  EXPECT_EQ("0.300000",
            logged("f(t('decoding'):attention_heads():first().sink)"));
  // Bounds 0 1 as ids: place 0 is marked, and its own line left out.
  std::string Marked =
      "t('attention'):attention_heads(t('bounds'), 0):first()";
  EXPECT_EQ("1", logged(Marked + ".queries"));
  EXPECT_EQ("0.500000", logged("f(" + Marked + ".marked_max)"));
  EXPECT_EQ("1", logged(Marked + ".marked_query"));
  // Two rows of two places against ids of one row, and against three.
  EXPECT_EQ("2", logged("t('rows'):attention_heads(t('bounds'), 0):count()"));
  EXPECT_EQ("nil", logged("t('rows'):attention_heads(t('through'), 0)"));
  EXPECT_EQ("nil", logged("t('none'):attention_heads()"));
  EXPECT_EQ("8: argument 1 of 'attention_heads' must be a tensor of integers",
            logged("t('attention'):attention_heads(t('f'))"));
}

TEST_F(LogitVerbsTest, AttentionRollout) {
  // From place 1: half stays, half spreads as (.5 .5): .25 and .75.
  std::string Of = "case.tensors:where { name = 'attention' }";
  EXPECT_EQ("0.25 0.75", logged("table.unpack(" + Of +
                                ":attention_rollout(1))"));
  // Twice: .25 / 2 stay at place 0, .25 * .9 / 2 and .75 * .5 / 2 come to it.
  EXPECT_EQ("0.425000",
            logged("f(" + Of + ":concat(" + Of + "):attention_rollout(1)[1])"));
  EXPECT_EQ("nil", logged("case.tensors:where { name = 'decoding' }"
                          ":attention_rollout(1)"));
}

} // namespace
