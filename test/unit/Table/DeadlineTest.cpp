//===- DeadlineTest.cpp - Verbs whose time is up ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Deadline.h"
#include "Support/Error.h"
#include "Table/Aggregate.h"
#include "Table/Expression.h"
#include "Table/Joins.h"
#include "Table/RunSort.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace culprit;

namespace {

constexpr size_t Many = 200'000; // three looks at the clock

struct DeadlineTest : testing::Test {
  /// Rows with a `number` each, in no order, the same as a `real`, and `wide`,
  /// so far apart that two columns of it do not fit into one word.
  static Table rows(size_t Count) {
    auto Number = std::make_shared<Column>(ColumnType::Int);
    auto Real = std::make_shared<Column>(ColumnType::Double);
    auto Wide = std::make_shared<Column>(ColumnType::Int);
    for (size_t I = 0; I != Count; ++I) {
      int64_t Value = static_cast<int64_t>(I * 7919 % 1'000'003);
      Number->addInt(Value);
      Real->addDouble(static_cast<double>(Value));
      Wide->addInt(Value << 40);
    }
    return Table("t", nullptr,
                 std::vector<std::pair<std::string, ColumnRef>>{
                     {"number", Number}, {"real", Real}, {"wide", Wide}},
                 Count, /*IsOrigin=*/true);
  }
  template <typename T> static std::string problem(llvm::Expected<T> Result) {
    if (!Result)
      return toDiagnostics(Result.takeError()).front().Message;
    return "none";
  }

  const Table Large = rows(Many), Small = rows(10);
};

TEST_F(DeadlineTest, KeysEndEarly) {
  using Names = std::vector<std::string>;
  auto joined = [](const Table &A, const Table &B, const Names &Keys) {
    return problem(A.join(B, Keys, Table::JoinKind::Left));
  };
  for (const Names &Keys :
       {Names{"number"}, Names{"real"}, Names{"number", "wide"}}) {
    EXPECT_EQ("none", joined(Large, Large, Keys));
    Deadline Past(Deadline::Clock::now() - std::chrono::seconds(1));
    EXPECT_EQ("the time is up", problem(Large.distinct(Keys)));
    EXPECT_EQ("the time is up", problem(Large.group(Keys)));
    EXPECT_EQ("the time is up", problem(aggregate(Large, Keys, {})));
    EXPECT_EQ("the time is up", joined(Small, Large, Keys));
    EXPECT_EQ("the time is up", joined(Large, Small, Keys));
    EXPECT_EQ("none", joined(Small, Small, Keys)) << "too short to look";
  }
}

TEST_F(DeadlineTest, ExpressionsEndEarly) {
  EXPECT_EQ("none", problem(where(Large, "number > 5")));
  Deadline Past(Deadline::Clock::now() - std::chrono::seconds(1));
  EXPECT_EQ("the time is up", problem(where(Large, "number > 5")));
  EXPECT_EQ("the time is up", problem(compute(Large, "number * 2")));
  EXPECT_EQ("none", problem(where(Small, "number > 5")));
}

TEST_F(DeadlineTest, SortsInPiecesAreStable) {
  std::vector<std::pair<int, size_t>> Values;
  for (size_t I = 0; I != Many; ++I)
    Values.push_back({static_cast<int>(I * 7919 % 1009), I});
  auto Less = [](const auto &A, const auto &B) { return A.first < B.first; };
  auto Sorted = Values, Early = Values;
  sortInPieces(Sorted, Less);
  // The second number rises among equal ones: the order of pairs.
  EXPECT_TRUE(std::is_sorted(Sorted.begin(), Sorted.end()));

  Deadline Past(Deadline::Clock::now() - std::chrono::seconds(1));
  sortInPieces(Early, Less);
  EXPECT_FALSE(std::is_sorted(Early.begin(), Early.end()));
  std::sort(Early.begin(), Early.end());
  EXPECT_EQ(Sorted, Early) << "none lost";
}

TEST_F(DeadlineTest, ATableSortedEarlyHasAllItsRows) {
  Deadline Past(Deadline::Clock::now() - std::chrono::seconds(1));
  llvm::Expected<Table> Out = Large.sort({{"number", true}, {"real", false}});
  ASSERT_TRUE(static_cast<bool>(Out));
  auto numbers = [](const Table &T) {
    std::vector<int64_t> Values = llvm::cantFail(T.integers("number"));
    return std::accumulate(Values.begin(), Values.end(), int64_t(0));
  };
  EXPECT_EQ(Many, Out->rows());
  EXPECT_EQ(numbers(Large), numbers(*Out));
}

} // namespace
