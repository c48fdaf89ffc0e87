//===- SeriesTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Series.h"
#include "Support/Deadline.h"
#include "Table/Statistics.h"
#include "gtest/gtest.h"
#include <cmath>
#include <ctime>

using namespace culprit;

namespace {

const double Nothing = nullDouble();

/// As text: no value is `-`.
std::string seriesText(llvm::ArrayRef<double> Values) {
  std::string Out;
  StringPool Pool;
  for (double Value : Values) {
    Column C(ColumnType::Double);
    C.addDouble(Value);
    Out += (Out.empty() ? "" : " ") + C.cell(0, Pool).text();
  }
  return Out;
}

TEST(SeriesTest, Shifted) {
  auto Data = std::make_shared<Column>(ColumnType::Double);
  for (double Value : {1.0, 2.0, 3.0})
    Data->addDouble(Value);
  ColumnView View = {"x", Data, nullptr};
  auto text = [&](int64_t By) {
    return seriesText(shifted(View, 3, By)->doubles());
  };
  EXPECT_EQ("- 1 2", text(1));
  EXPECT_EQ("3 - -", text(-2));
  EXPECT_EQ("1 2 3", text(0));
  EXPECT_EQ("- - -", text(3));
  EXPECT_EQ("- - -", text(INT64_MAX));
  EXPECT_EQ("- - -", text(INT64_MIN));
}

TEST(SeriesTest, RunningSums) {
  EXPECT_EQ("1 - 3.5 - 4", seriesText(runningSums(std::vector<double>{
                               1, Nothing, 2.5, std::nan(""), 0.5})));
  EXPECT_EQ((std::vector<int64_t>{5, NullInt, 3}),
            runningSums(std::vector<int64_t>{5, NullInt, -2}));
}

TEST(SeriesTest, Ranks) {
  // 10 is first, the two 20 are places 2 and 3, 30 is fourth.
  EXPECT_EQ("2.5 1 - 4 2.5",
            seriesText(ranksOf({20.0, 10.0, Nothing, 30.0, 20.0})));
}

TEST(SeriesTest, Correlation) {
  // Deviations -1 0 1 and -2 0 2; then -1 0 1 and 1 1 -2: -3 / sqrt(2 * 6).
  EXPECT_DOUBLE_EQ(1, *correlation({1.0, 2.0, 3.0}, {2.0, 4.0, 6.0}));
  EXPECT_NEAR(-3 / std::sqrt(12.0),
              *correlation({1.0, 2.0, 3.0}, {4.0, 4.0, 1.0}), 1e-15);
  EXPECT_DOUBLE_EQ(-1, *correlation({1.0, Nothing, 3.0}, {6.0, 9.0, 2.0}));
  EXPECT_EQ(std::nullopt, correlation({1.0, 1.0}, {1.0, 2.0}));
  EXPECT_EQ(std::nullopt, correlation({1.0}, {1.0}));
  // Of ranks any rise is a straight one.
  EXPECT_DOUBLE_EQ(
      1, *rankCorrelation({1.0, 2.0, 3.0, Nothing}, {1.0, 8.0, 900.0, 0.0}));
}

TEST(SeriesTest, Histogram) {
  std::vector<double> Values = {0, 1, 1.5, 2, 4, Nothing, std::nan("")};
  EXPECT_EQ("0 2 4", seriesText(evenEdges(Values, 2)));
  EXPECT_EQ((std::vector<int64_t>{3, 2}),
            histogram(Values, evenEdges(Values, 2)));
  // 0 and 4 lie outside; 2 ends the last bin.
  EXPECT_EQ((std::vector<int64_t>{1, 2}), histogram(Values, {1.0, 1.25, 2.0}));
  EXPECT_EQ("3 3", seriesText(evenEdges({3.0, 3.0}, 5)));
  EXPECT_EQ((std::vector<int64_t>{2}), histogram({3.0, 3.0}, {3.0, 3.0}));
  EXPECT_TRUE(evenEdges({Nothing}, 3).empty());
}

/// What takes long ends when the time is up.
TEST(SeriesTest, LongStatisticsEndInTime) {
  std::vector<double> Values(4'000'000);
  uint64_t State = 1;
  for (double &Value : Values) {
    State = State * 6364136223846793005 + 1442695040888963407;
    Value = static_cast<double>(State >> 40);
  }
  auto ends = [&](auto Verb) {
    // Time of the processor, which others do not lengthen.
    std::clock_t Begin = std::clock();
    Deadline Limit(Deadline::Clock::now() + std::chrono::milliseconds(50));
    Verb();
    EXPECT_TRUE(timeIsUp());
    return std::clock() - Begin < 5 * CLOCKS_PER_SEC;
  };
  EXPECT_TRUE(ends([&] { robustZ(Values, 1'000'000); }));
  EXPECT_TRUE(ends([&] { rolling(Values, 1'000'000, RollingKind::Median); }));
  // A staircase: a change every ten values.
  for (size_t I = 0; I != Values.size(); ++I)
    Values[I] = static_cast<double>(I / 10);
  EXPECT_TRUE(ends([&] { changePoints(Values, 2); }));
}

} // namespace
