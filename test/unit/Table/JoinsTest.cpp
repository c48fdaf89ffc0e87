//===- JoinsTest.cpp - Joins by time, windows, depth ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Joins.h"
#include "Support/Deadline.h"
#include "Support/Error.h"
#include "Table/Aggregate.h"
#include "Table/Intervals.h"
#include "gtest/gtest.h"
#include <random>

using namespace culprit;

namespace {

struct JoinsTest : testing::Test {
  using Span = std::array<int64_t, 3>; ///< start, stop, rank

  static Table spans(std::vector<Span> Rows, std::string Name = "work") {
    auto Start = std::make_shared<Column>(ColumnType::Int);
    auto Stop = std::make_shared<Column>(ColumnType::Int);
    auto Rank = std::make_shared<Column>(ColumnType::Int);
    for (const Span &Row : Rows) {
      Start->addInt(Row[0]);
      Stop->addInt(Row[1]);
      Rank->addInt(Row[2]);
    }
    return Table(std::move(Name), nullptr,
                 std::vector<std::pair<std::string, ColumnRef>>{
                     {"start", Start}, {"stop", Stop}, {"rank", Rank}},
                 Rows.size(), /*IsOrigin=*/true);
  }
  /// The column \p Name with blanks between.
  static std::string column(llvm::Expected<Table> T, llvm::StringRef Name) {
    if (!T)
      return toDiagnostics(T.takeError()).front().Message;
    std::string Out;
    for (size_t I = 0; I != T->rows(); ++I)
      Out += (I ? " " : "") + T->cell(I, *T->find(Name)).text();
    return Out;
  }
  static std::string ints(llvm::Expected<ColumnRef> C) {
    std::string Out;
    StringPool Pool;
    for (size_t I = 0; I != (*C)->size(); ++I)
      Out += (I ? " " : "") + (*C)->cell(I, Pool).text();
    return Out;
  }
};

TEST_F(JoinsTest, AsofTakesTheLastRowBefore) {
  Table A = spans({{5, 0, 0}, {10, 0, 0}, {12, 0, 1}, {NullInt, 0, 0}});
  Table B = spans({{10, 1, 0}, {4, 2, 0}, {10, 3, 0}, {11, 4, 1}}, "b");
  auto joined = [&](AsofDirection D, std::optional<double> Tolerance = {}) {
    return joinAsof(A, B, "start", {"rank"}, D, Tolerance);
  };
  // 5: after 4. 10: the last of the two at 10. 12 of rank 1: after 11.
  EXPECT_EQ("2 3 4 -", column(joined(AsofDirection::Backward), "stop_right"));
  EXPECT_EQ("4 10 11 -",
            column(joined(AsofDirection::Backward), "start_right"));
  // 5: the first of the two at 10. Nothing of rank 1 from 12 on.
  EXPECT_EQ("1 1 - -", column(joined(AsofDirection::Forward), "stop_right"));
  EXPECT_EQ("2 3 4 -", column(joined(AsofDirection::Nearest), "stop_right"));
  EXPECT_EQ("- 3 - -",
            column(joined(AsofDirection::Backward, 0.5), "stop_right"));
  EXPECT_EQ("5 10 12 -", column(joined(AsofDirection::Backward), "start"));
  // Without keys row 12 sees rank 0 too; the keys stand there once each.
  EXPECT_EQ("2 3 4 -", column(joinAsof(A, B, "start", {},
                                       AsofDirection::Backward, {}),
                              "stop_right"));
  EXPECT_EQ("0 0 1 -", column(joinAsof(A, B, "start", {},
                                       AsofDirection::Backward, {}),
                              "rank_right"));
  EXPECT_EQ("- - - -",
            column(joinAsof(A, B.slice(0, 0), "start", {"rank"},
                            AsofDirection::Nearest, {}),
                   "stop_right"));
}

TEST_F(JoinsTest, AsofNearestPrefersTheEarlierOfTwo) {
  Table A = spans({{10, 0, 0}, {11, 0, 0}});
  Table B = spans({{8, 1, 0}, {12, 2, 0}});
  EXPECT_EQ("1 2", column(joinAsof(A, B, "start", {}, AsofDirection::Nearest,
                                   {}),
                          "stop_right"));
  EXPECT_EQ("unknown column 'at' in 'work'",
            column(joinAsof(A, B, "at", {}, AsofDirection::Nearest, {}), ""));
}

TEST_F(JoinsTest, OverlappingPairs) {
  Table A = spans({{20, 30, 0}, {0, 10, 0}, {5, 5, 0}, {0, 10, 1}});
  Table B = spans({{8, 22, 0}, {9, 10, 0}, {10, 20, 0}, {30, 40, 0}}, "b");
  // [20, 30) and [8, 22) share 2; [0, 10) shares 2 with [8, 22), 1 with
  // [9, 10) and nothing with [10, 20). An empty interval shares nothing.
  llvm::Expected<Table> Out = joinOverlapping(A, B, {"rank"});
  ASSERT_TRUE(bool(Out));
  EXPECT_EQ("20 0 0", column(*Out, "start"));
  EXPECT_EQ("8 8 9", column(*Out, "start_right"));
  EXPECT_EQ("2 2 1", column(*Out, "overlap"));
  EXPECT_EQ(0u, Out->originRow(0));
  EXPECT_EQ(1u, Out->originRow(2));
  // Without keys rank 1 meets them too.
  EXPECT_EQ("2 2 1 2 1", column(joinOverlapping(A, B, {}), "overlap"));
  EXPECT_EQ("more than 2 pairs of 'work' and 'b' overlap",
            column(joinOverlapping(A, B, {}, 2), "overlap"));
}

TEST_F(JoinsTest, OverlappingAsAPlainLoopFinds) {
  std::mt19937 Random(7);
  std::vector<Span> Left, Right;
  for (int I = 0; I != 200; ++I)
    for (std::vector<Span> *Side : {&Left, &Right}) {
      int64_t Start = Random() % 500;
      Side->push_back({Start, Start + int64_t(Random() % 40),
                       int64_t(Random() % 3)});
    }
  std::vector<std::array<int64_t, 3>> Wanted; // row, start on the right, ns
  for (size_t I = 0; I != Left.size(); ++I)
    for (const Span &B : Right) {
      int64_t Common = std::min(Left[I][1], B[1]) - std::max(Left[I][0], B[0]);
      if (Left[I][2] == B[2] && Common > 0)
        Wanted.push_back({int64_t(I), B[0], Common});
    }
  llvm::Expected<Table> Out =
      joinOverlapping(spans(Left), spans(Right), {"rank"});
  ASSERT_TRUE(bool(Out));
  std::vector<int64_t> Starts = *Out->integers("start_right"),
                       Common = *Out->integers("overlap");
  std::vector<std::array<int64_t, 3>> Found;
  for (size_t I = 0; I != Out->rows(); ++I)
    Found.push_back({int64_t(Out->originRow(I)), Starts[I], Common[I]});
  std::sort(Wanted.begin(), Wanted.end());
  EXPECT_TRUE(std::is_sorted(Found.begin(), Found.end(), [](auto &X, auto &Y) {
    return std::pair(X[0], X[1]) < std::pair(Y[0], Y[1]);
  }));
  std::sort(Found.begin(), Found.end());
  EXPECT_EQ(Wanted, Found);
}

TEST_F(JoinsTest, Exposed) {
  Table A = spans({{0, 10, 0}, {20, 30, 0}, {40, 40, 0}, {50, NullInt, 0}});
  Table B = spans({{5, 22, 0}, {6, 8, 0}, {24, 26, 0}});
  // 10 - 5; 10 - 2 - 2; empty; no interval.
  EXPECT_EQ("5 6 0 -", ints(exposedTo(A, B)));
  EXPECT_EQ("10 10 0 -", ints(exposedTo(A, B.slice(0, 0))));
}

TEST_F(JoinsTest, Depth) {
  llvm::Expected<Table> Out = depthOf(
      spans({{0, 10, 0}, {4, 6, 0}, {10, 12, 0}, {20, 25, 0}, {22, 22, 0}}));
  // [0, 4) 1, [4, 6) 2, [6, 12) 1 since one ends at 10 where another begins,
  // [12, 20) 0, [20, 25) 1.
  EXPECT_EQ("0 4 6 12 20", column(*Out, "start"));
  EXPECT_EQ("4 6 12 20 25", column(*Out, "stop"));
  EXPECT_EQ("1 2 1 0 1", column(*Out, "depth"));
  EXPECT_EQ("4 2 6 8 5", column(*Out, "dur"));
  EXPECT_EQ(0u, depthOf(spans({}))->rows());
}

TEST_F(JoinsTest, Windows) {
  Table T = spans({{100, 130, 0}, {105, 106, 1}, {145, 150, 2}});
  llvm::Expected<Table> Out =
      windowsOf(T, 20,
                {{"n", "count"}, {"ranks", "sum rank"}, {"busy", "covered"},
                 {"last", "last rank"}, {"least", "min rank"}});
  ASSERT_TRUE(bool(Out));
  // [100, 120), [120, 140), [140, 160): the first covers 20 and 10 of them.
  EXPECT_EQ("100 120 140", column(*Out, "start"));
  EXPECT_EQ("120 140 160", column(*Out, "stop"));
  EXPECT_EQ("2 0 1", column(*Out, "n"));
  EXPECT_EQ("1 0 2", column(*Out, "ranks"));
  EXPECT_EQ("20 10 5", column(*Out, "busy"));
  EXPECT_EQ("1 - 2", column(*Out, "last"));
  EXPECT_EQ("0 - 2", column(*Out, "least"));
  // From a time of one's own: what begins before it is in no window.
  EXPECT_EQ("1 0 1", column(windowsOf(T, 20, {{"n", "count"}}, 101), "n"));
  EXPECT_EQ(0u, windowsOf(T.slice(0, 0), 20, {})->rows());
  EXPECT_EQ("a window wants a width above 0, not 0",
            column(windowsOf(T, 0, {}), "n"));
  EXPECT_EQ("there would be 2,000,001 windows of 'work'; the limit is "
            "1,000,000",
            column(windowsOf(spans({{0, 1, 0}, {4'000'000, 4'000'001, 0}}), 2,
                             {}),
                   "n"));
}

TEST_F(JoinsTest, Aggregate) {
  Table T = spans({{1, 10, 0}, {2, 20, 1}, {4, 30, 0}, {4, NullInt, 0}});
  auto figure = [&](const char *Figure) {
    return column(aggregate(T, {"rank"}, {{"x", Figure}}), "x");
  };
  EXPECT_EQ("3 1", figure("count"));
  EXPECT_EQ("2 1", figure("count stop"));
  EXPECT_EQ("40 20", figure("sum stop"));
  EXPECT_EQ("20 20", figure("mean stop"));
  EXPECT_EQ("20 20", figure("median stop"));
  EXPECT_EQ("28 20", figure("p90 stop")); // 10 + 0.9 * 20
  EXPECT_EQ("14.1421 -", figure("std stop")); // 10 * sqrt(2)
  EXPECT_EQ("2 1", figure("distinct start"));
  EXPECT_EQ("2 1", figure("distinct stop"));
  EXPECT_EQ("1 2", figure("first start"));
  EXPECT_EQ("- 20", figure("last stop"));
  EXPECT_EQ("'p101 stop' is no figure of a group", figure("p101 stop"));
  EXPECT_EQ("'sum' is no figure of a group", figure("sum"));
  EXPECT_EQ("unknown column 'stp' in 'work'", figure("sum stp"));
}

/// 200,000 intervals of each side that all overlap are 4 * 10^10 pairs.
TEST_F(JoinsTest, EndsInTime) {
  std::vector<Span> Rows(200'000, Span{0, 1000, 0});
  Table T = spans(Rows);
  auto Begin = Deadline::Clock::now();
  Deadline Limit(Begin + std::chrono::milliseconds(50));
  llvm::Expected<Table> Out = joinOverlapping(T, T, {}, size_t(1) << 40);
  EXPECT_LT(Deadline::Clock::now() - Begin, std::chrono::seconds(5));
  EXPECT_TRUE(timeIsUp());
  if (!Out)
    llvm::consumeError(Out.takeError());
}

} // namespace
