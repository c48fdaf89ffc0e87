//===- VerbsTimeTest.cpp - Joins, windows and long verbs --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"

using namespace culprit;

namespace {

struct VerbsTimeTest : ScriptTest {
  /// That \p Body fails soon because its time is up, at the line it stands on.
  void expectLate(llvm::StringRef Body) {
    Bounds.Time = std::chrono::milliseconds(50);
    auto Begin = std::chrono::steady_clock::now();
    std::string Problem = failureOf(Body);
    EXPECT_LT(std::chrono::steady_clock::now() - Begin,
              std::chrono::seconds(5))
        << Body.str();
    EXPECT_TRUE(startsWith(Problem, "6: ran longer than 50.0 ms"))
        << Body.str();
  }
  /// Lua that makes `long`, a table of 2^N times four rows.
  static std::string doubled(int N) {
    return "local long = case.gpu_work:select('start', 'stop', 'dur') "
           "for i = 1, " +
           std::to_string(N) + " do long = long:concat(long) end ";
  }
};

TEST_F(VerbsTimeTest, JoinAsof) {
  // The call before each piece of work: none, 40, 40, 40.
  EXPECT_EQ("nil 40", eval("case.gpu_work:join_asof(case.host_calls, 'start', "
                           "'rank'):first().start_right, case.gpu_work:"
                           "join_asof(case.host_calls, 'start'):last()"
                           ".start_right"));
  EXPECT_EQ("40", eval("case.gpu_work:join_asof(case.host_calls, 'start', {}, "
                       "{ direction = 'forward' }):first().start_right"));
  EXPECT_EQ("nil", eval("case.gpu_work:join_asof(case.host_calls, 'start', {}, "
                        "{ tolerance = 89 }):last().start_right"));
  EXPECT_EQ("40", eval("case.gpu_work:join_asof(case.host_calls, 'start', {}, "
                       "{ tolerance = 90 }):last().start_right"));
  EXPECT_TRUE(startsWith(
      failureOf("case.gpu_work:join_asof(case.host_calls, 'start', {}, "
                "{ tolerence = 9 })"),
      "6: 'join_asof' has no setting 'tolerence' (did you mean 'tolerance'?"));
  EXPECT_TRUE(startsWith(
      failureOf("case.gpu_work:join_asof(case.host_calls, 'start', {}, "
                "{ direction = 'up' })"),
      "6: 'direction' must be 'backward', 'forward' or 'nearest', not the "
      "text 'up'"));
  EXPECT_TRUE(startsWith(
      failureOf("case.gpu_work:join_asof(case.host_calls, 'name')"), "6: "));
}

TEST_F(VerbsTimeTest, JoinOverlapping) {
  // Of [40, 55) nothing is work; of the gap [40, 60) it is all.
  EXPECT_EQ("0 15", eval("case.gpu_work:join_overlapping(case.host_calls)"
                         ":count(), case.gpu_work:gaps():join_overlapping("
                         "case.host_calls):first().overlap"));
  EXPECT_EQ("4 gpu_work#0", eval("case.gpu_work:join_overlapping(case.gpu_work,"
                                 " 'device'):count(), case.gpu_work:"
                                 "join_overlapping(case.gpu_work):first()"));
}

TEST_F(VerbsTimeTest, WindowsAndDepth) {
  // [0, 60), [60, 120), [120, 180): the second holds 60 to 100 and 100 to 120.
  std::string W = "case.gpu_work:windows(60, { n = 'count', b = 'covered' })";
  EXPECT_EQ("3 1 2 60", eval(W + ":count(), " + W + ":row(0).n, " + W +
                             ":row(1).n, " + W + ":row(1).b"));
  EXPECT_EQ("2", eval("case.gpu_work:windows(100):count()"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:windows(0)"),
                         "6: a window wants a width above 0"));
  EXPECT_TRUE(startsWith(
      failureOf("case.gpu_work:windows(9, { n = 5 })"),
      "6: 'n' of 'windows' must be a text such as 'sum dur', not 5"));
  // [0, 40) 1, [40, 60) 0, [60, 140) 1.
  EXPECT_EQ("3 20", eval("case.gpu_work:depth():count(), case.gpu_work:depth()"
                         ":where('depth == 0'):sum('dur')"));
}

TEST_F(VerbsTimeTest, TakeAndBottom) {
  EXPECT_EQ("softmax gemm_a", eval("case.gpu_work:take({ 3, 0 }):first().name, "
                                   "case.gpu_work:take({ 3, 0 }):last().name"));
  EXPECT_EQ("6: 'gpu_work' has 4 rows and no row 4 (rows are counted from 0)",
            failureOf("case.gpu_work:take({ 4 })"));
  EXPECT_TRUE(startsWith(failureOf("case.gpu_work:take('x')"),
                         "6: argument 1 of 'take' must be a list or a column"));
  // The loss that is NaN is no smallest one.
  EXPECT_EQ("2.0 0", eval("case.scalars:bottom(1, 'value'):first().value, "
                          "case.scalars:bottom(1, 'value'):first().step"));
}

TEST_F(VerbsTimeTest, ManyGroupsAskOneQuestion) {
  EXPECT_EQ("1", eval("(function() local n = 0 for _, g in case.scalars:group("
                      "'step') do n = n + g:where('value > ?', 40):count() end "
                      "return n end)()"));
}

TEST_F(VerbsTimeTest, LongVerbsEndInTime) {
  expectLate(doubled(20) + "long:join_overlapping(long)");
  // 16 million values, and a window of a million of them.
  expectLate(doubled(20) + "long:col('dur'):rolling(1000000, 'median')");
  expectLate(doubled(20) + "long:col('start'):robust_z(1000000)");
  expectLate("local a, b = ('ab'):rep(500000), ('ba'):rep(400000) "
             "a:distance(b, 1000000)");
}

} // namespace
