//===- VerbsSeriesTest.cpp - Series, elements of tensors, texts -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"

using namespace culprit;

namespace {

struct VerbsSeriesTest : ScriptTest {
  /// The same, with `t(name)` for tensors and `f()` for short figures.
  std::string seen(llvm::StringRef Expression) {
    Outcome Out = run(("local t = function(n) return case.tensors:where { "
                       "name = n }:first() end local f = units.number "
                       "local work, loss = case.gpu_work, case.scalars "
                       "log(" + Expression + ")").str());
    return Out.Error ? error(Out) : Out.Log.front();
  }
};

TEST_F(VerbsSeriesTest, ShiftAndSums) {
  EXPECT_EQ("nil gemm_a", seen("work:col('name'):shift(1):at(0), "
                               "work:col('name'):shift(1):at(1)"));
  EXPECT_EQ("softmax nil", seen("work:col('name'):shift(-3):at(0), "
                                "work:col('name'):shift(-3):at(1)"));
  EXPECT_EQ("40 120", seen("work:col('dur'):cumsum():at(0), "
                           "work:col('dur'):cumsum():max()"));
  // The NaN of step 30 adds nothing: 29 values of about 2, and 50.
  EXPECT_EQ("108.3 nil", seen("f(loss:col('value'):cumsum():max()), "
                              "loss:col('value'):cumsum():at(30)"));
}

TEST_F(VerbsSeriesTest, RanksAndExtremes) {
  EXPECT_EQ("2.0 1.0", seen("work:col('dur'):rank():at(2), "
                            "work:col('dur'):rank():at(3)"));
  EXPECT_EQ("0 3 20", seen("work:col('dur'):argmax(), work:col('dur'):argmin(),"
                           " loss:col('value'):argmax()"));
  EXPECT_EQ("nil", seen("work:slice(0, 0):col('dur'):argmax()"));
  EXPECT_EQ("1.0", seen("work:col('start'):correlation(work:col('stop'), "
                        "'spearman')"));
  EXPECT_EQ("nil", seen("work:col('rank'):correlation(work:col('stop'))"));
  EXPECT_EQ("6: correlation() knows pearson and spearman, not 'kendall'",
            seen("work:col('dur'):correlation(work:col('dur'), 'kendall')"));
}

TEST_F(VerbsSeriesTest, Clip) {
  EXPECT_EQ("20 30 40", seen("work:col('dur'):clip(20):min(), "
                             "work:col('dur'):clip(nil, 30):max(), "
                             "work:col('dur'):clip():max()"));
  EXPECT_EQ("12.5", seen("work:col('dur'):clip(12.5, 30):min()"));
  EXPECT_EQ("6: argument 1 of 'clip' must be a number, not the text 'x'",
            seen("work:col('dur'):clip('x')"));
}

TEST_F(VerbsSeriesTest, Histogram) {
  // 10 and 30, 40, 40 in bins of 15.
  EXPECT_EQ("2 10.0 25.0 1 3",
            seen("work:col('dur'):histogram(2):count(), "
                 "work:col('dur'):histogram(2):first().from, "
                 "work:col('dur'):histogram(2):first().to, "
                 "work:col('dur'):histogram(2):first().count, "
                 "work:col('dur'):histogram(2):last().count"));
  EXPECT_EQ("6: the edges of a histogram must be numbers that rise",
            seen("work:col('dur'):histogram({ 5, 5 })"));
  EXPECT_EQ("0", seen("work:slice(0, 0):col('dur'):histogram(3):count()"));
}

TEST_F(VerbsSeriesTest, Elements) {
  EXPECT_EQ("6 -100",
            seen("t('x'):element({ 1, 2 }), t('y'):element({ 0, 2 })"));
  EXPECT_EQ("6: element() was given 1 places of a tensor of shape [2, 3]",
            seen("t('x'):element({ 1 })"));
  EXPECT_EQ("6: axis 1 has 3 places and no place 3 (places are counted from 0)",
            seen("t('x'):element({ 1, 3 })"));
  EXPECT_EQ("1.0 6.0 3.5", seen("t('x'):quantile(0), t('x'):quantile(1), "
                                "t('x'):quantile(0.5)"));
  EXPECT_EQ("nil", seen("t('none'):quantile(0.5)"));
}

TEST_F(VerbsSeriesTest, Along) {
  auto along = [&](const char *What) {
    return seen((llvm::Twine("table.concat(t('x'):along(1, '") + What +
                 "'), ' ')")
                    .str());
  };
  // 1 2 3 over 4 5 6.
  EXPECT_EQ("4.0 5.0 6.0", along("max"));
  EXPECT_EQ("1.0 2.0 3.0", along("min"));
  EXPECT_EQ("2.5 3.5 4.5", along("mean"));
  EXPECT_EQ("5.0 7.0 9.0", along("sum"));
  EXPECT_EQ("0.0 0.0 0.0", along("nonfinite"));
  EXPECT_EQ("100.0", seen("t('y'):along(1, 'abs_max')[3]"));
  // sqrt((1 + 4 + 9) / 3)
  EXPECT_EQ("2.16", seen("f(t('x'):along(0, 'rms')[1], 3)"));
  EXPECT_EQ("6: along() knows max, min, abs_max, mean, rms, sum and nonfinite, "
            "not 'median'",
            along("median"));
  EXPECT_EQ("6: the tensor has 2 axes and no axis 2 (axes are counted from 0)",
            seen("t('x'):along(2, 'max')"));
  EXPECT_EQ("0", seen("#t('none'):along(1, 'max')"));
}

TEST_F(VerbsSeriesTest, Allclose) {
  EXPECT_EQ("true 0 nil", seen("t('x'):allclose(t('x'))"));
  // x is 1 .. 6, y is 2 3 -100 5 6 -100: within 1 but for the third and last.
  EXPECT_EQ("false 2 2", seen("t('x'):allclose(t('y'), 0, 1)"));
  EXPECT_EQ("true 0 nil", seen("t('x'):allclose(t('y'), 0, 106)"));
  EXPECT_EQ("nil", seen("t('x'):allclose(t('labels'))"));
  EXPECT_EQ("6: argument 2 of 'allclose' must be 0 or more, not -1",
            seen("t('x'):allclose(t('y'), -1)"));
}

TEST_F(VerbsSeriesTest, Texts) {
  EXPECT_EQ("1 nil", seen("('gemm_a'):distance('gemm_b'), "
                          "('abc'):distance('xyz', 2)"));
  // gemm_b is one away, HtoD six, softmax seven at most: s o f t m a x.
  EXPECT_EQ("0 1", seen("work:col('name'):distance('gemm_a'):at(0), "
                        "work:col('name'):distance('gemm_a'):at(1)"));
  EXPECT_EQ("nil", seen("work:col('name'):distance('gemm_a', 3):at(2)"));
  EXPECT_EQ("1.0 0.0", seen("(''):similarity(''), ('abc'):similarity('xyz')"));
  EXPECT_TRUE(startsWith(seen("work:col('dur'):distance('x')"),
                         "6: column 'dur' in 'gpu_work' is int, not string"));
}

} // namespace
