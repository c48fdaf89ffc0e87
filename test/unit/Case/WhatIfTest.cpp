//===- WhatIfTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/WhatIf.h"
#include "Case/LaunchedBy.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

using Columns = std::vector<std::pair<std::string, ColumnRef>>;

ColumnRef ints(const std::vector<int64_t> &Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  for (int64_t Value : Values)
    Out->addInt(Value);
  return Out;
}

struct Work {
  int64_t Start, Stop, Correlation, Saving;
};
struct Call {
  const char *Role;
  int64_t Start, Stop, Correlation, Tid = 7;
};

struct Profile {
  std::shared_ptr<StringPool> Pool = std::make_shared<StringPool>();

  Table work(const std::vector<Work> &Rows) {
    std::vector<int64_t> Start, Stop, Rank, Correlation, Saving;
    for (const Work &W : Rows) {
      Start.push_back(W.Start);
      Stop.push_back(W.Stop);
      Rank.push_back(0);
      Correlation.push_back(W.Correlation);
      Saving.push_back(W.Saving);
    }
    return Table("gpu_work", Pool,
                 Columns{{"start", ints(Start)},
                         {"stop", ints(Stop)},
                         {"rank", ints(Rank)},
                         {"correlation", ints(Correlation)},
                         {"saving", ints(Saving)}},
                 Rows.size(), /*IsOrigin=*/true);
  }

  Table calls(const std::vector<Call> &Rows) {
    std::vector<int64_t> Start, Stop, Dur, Rank, Correlation, Tid;
    auto Role = std::make_shared<Column>(ColumnType::String);
    for (const Call &C : Rows) {
      Start.push_back(C.Start);
      Stop.push_back(C.Stop);
      Dur.push_back(C.Stop - C.Start);
      Rank.push_back(0);
      Correlation.push_back(C.Correlation);
      Tid.push_back(C.Tid);
      Role->addString(Pool->intern(C.Role));
    }
    return Table("host_calls", Pool,
                 Columns{{"role", Role},
                         {"start", ints(Start)},
                         {"stop", ints(Stop)},
                         {"dur", ints(Dur)},
                         {"rank", ints(Rank)},
                         {"correlation", ints(Correlation)},
                         {"tid", ints(Tid)}},
                 Rows.size(), /*IsOrigin=*/true);
  }

  int64_t sooner(const std::vector<Work> &Of, const std::vector<Call> &By) {
    llvm::Expected<int64_t> Out = endsSooner(work(Of), "saving", calls(By));
    if (!Out) {
      ADD_FAILURE() << llvm::toString(Out.takeError());
      return -1;
    }
    return *Out;
  }
};

TEST(WhatIfTest, WithoutLaunchesEverySavingCounts) {
  Profile P;
  EXPECT_EQ(P.sooner({{0, 50, 1, 20}, {50, 90, 2, 10}}, {}), 30);
  EXPECT_EQ(P.sooner({}, {}), 0);
  // No piece of work can save more than it takes, nor less than nothing.
  EXPECT_EQ(P.sooner({{0, 50, 1, 80}, {50, 90, 2, -10}}, {}), 50);
  EXPECT_EQ(P.sooner({{0, 50, 1, NullInt}}, {}), 0);
}

TEST(WhatIfTest, ALateLaunchUsesUpWhatWasWon) {
  Profile P;
  // The second launch is done at 40, ten before its work began.
  std::vector<Call> Calls = {{"launch", 0, 5, 1}, {"launch", 35, 40, 2}};
  EXPECT_EQ(P.sooner({{10, 50, 1, 20}, {50, 90, 2, 0}}, Calls), 10);
  EXPECT_EQ(P.sooner({{10, 50, 1, 20}, {50, 90, 2, 15}}, Calls), 25);
  EXPECT_EQ(P.sooner({{10, 50, 1, 8}, {50, 90, 2, 15}}, Calls), 23);
  // Rows in any order: they are taken by their starts.
  EXPECT_EQ(P.sooner({{50, 90, 2, 15}, {10, 50, 1, 20}}, Calls), 25);
}

TEST(WhatIfTest, AHostThatWaitsGoesOnSooner) {
  Profile P;
  // Launched at 70, work at 75: a lead of 5. The host had waited until 60 for
  // what ended at 50, and returns 20 sooner when that does.
  std::vector<Work> Of = {{10, 50, 1, 20}, {75, 90, 2, 0}};
  EXPECT_EQ(P.sooner(Of, {{"launch", 0, 5, 1}, {"launch", 65, 70, 2}}), 5);
  EXPECT_EQ(P.sooner(Of, {{"launch", 0, 5, 1},
                          {"sync", 6, 60, 9},
                          {"launch", 65, 70, 2}}),
            20);
  // A wait of 3 cannot get shorter by more; with the lead that makes 8.
  EXPECT_EQ(P.sooner(Of, {{"launch", 0, 5, 1},
                          {"sync", 57, 60, 9},
                          {"launch", 65, 70, 2}}),
            8);
  // It waited before that work had ended, so for something else.
  EXPECT_EQ(P.sooner(Of, {{"launch", 0, 5, 1},
                          {"sync", 6, 49, 9},
                          {"launch", 65, 70, 2}}),
            5);
}

TEST(LaunchedByTest, FindsTheInnermostSpanOfTheLaunchingThread) {
  Profile P;
  Table Of = P.work({{100, 110, 1, 0}, {110, 120, 2, 0}, {120, 130, 3, 0}});
  Table By = P.calls({{"launch", 10, 12, 1}, {"launch", 30, 32, 2, 8}});
  Table Spans("host_ops", P.Pool,
              Columns{{"start", ints({0, 5, 25, 40})},
                      {"stop", ints({50, 20, 35, 45})},
                      {"rank", ints({0, 0, 0, 0})},
                      {"tid", ints({7, 7, 8, 7})}},
              4, /*IsOrigin=*/true);
  llvm::Expected<ColumnRef> Found = launchedBy(Of, By, Spans);
  ASSERT_TRUE(static_cast<bool>(Found));
  ASSERT_EQ((*Found)->size(), 3u);
  EXPECT_EQ((*Found)->ints()[0], 1); // the inner one of two
  EXPECT_EQ((*Found)->ints()[1], 2); // the other thread's
  EXPECT_TRUE((*Found)->isNull(2));  // no launch known
}

} // namespace
