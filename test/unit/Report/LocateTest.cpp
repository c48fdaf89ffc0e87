//===- LocateTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Locate.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

/// A file whose own clock shows 5,000,000 ns at time 0 of its rows.
std::unique_ptr<Source> makeSource(CaseBuilder &Builder, const char *Path,
                                   int64_t Rank, int64_t Start) {
  auto S = std::make_unique<Source>(Path, Builder.pool());
  S->FileTime = {5000000, "us"};
  TableBuilder &B = S->table(TableId::gpu_work);
  for (int64_t At : {Start, Start + 100250}) {
    B.addRow();
    B.set(gpu_work::rank, Rank);
    B.set(gpu_work::device, int64_t(0));
    B.set(gpu_work::start, At);
    B.set(gpu_work::stop, At + 1500);
  }
  return S;
}

// Rows begin at 700 and 100950 of the file, which the case calls 0 and 100250:
// 5000.7 us and 5100.95 us where the file is opened.
TEST(LocateTest, TimeOfTheFile) {
  CaseBuilder Builder;
  Builder.add(makeSource(Builder, "p.json", 0, 700));
  Case C = Builder.build();
  EXPECT_EQ(C.table(TableId::gpu_work).columns()[gpu_work::start].getInt(1),
            100250);
  std::optional<ViewerRange> Range = viewerRange(C, TableId::gpu_work, 1);
  ASSERT_TRUE(Range);
  EXPECT_EQ(Range->Path, "p.json");
  EXPECT_EQ(Range->text(), "5100.950 us to 5102.450 us");
  // A derived row is of the one file there is: its window begins with the work.
  std::optional<ViewerRange> Window = viewerRange(C, TableId::windows, 0);
  ASSERT_TRUE(Window);
  EXPECT_EQ(Window->StartNs, 5000700);
}

// Of two files a recorded row names its own, a derived row neither.
TEST(LocateTest, TwoFiles) {
  CaseBuilder Builder;
  Builder.add(makeSource(Builder, "a.json", 0, 700));
  Builder.add(makeSource(Builder, "b.json", 1, 40000));
  Case C = Builder.build();
  EXPECT_EQ(viewerRange(C, TableId::gpu_work, 2)->StartNs, 5040000);
  EXPECT_EQ(viewerRange(C, TableId::gpu_work, 2)->Path, "b.json");
  EXPECT_FALSE(viewerRange(C, TableId::windows, 0));
}

// A clock that ran 2 % slow was straightened: half way stays half way.
TEST(LocateTest, StretchedClock) {
  FileClock Clock{"ns", {1000, 1980}, {0, 1000}};
  EXPECT_EQ(Clock.toFileNs(500), 1490);
}

TEST(LocateTest, SqlOfEvidence) {
  EvidenceRef E;
  E.Table = "gpu_work";
  E.Rows = {3, 17, 20};
  EXPECT_EQ(evidenceSql(E, 2),
            "SELECT rowid, * FROM gpu_work WHERE rowid IN (3, 17)");
  E.Rows = {3, 3, 20}; // first and last of a short series
  EXPECT_EQ(evidenceSql(E, 2),
            "SELECT rowid, * FROM gpu_work WHERE rowid IN (3, 20)");
  E.Computed = true;
  EXPECT_FALSE(evidenceSql(E));
}

} // namespace
