//===- IntervalsTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Intervals.h"
#include "Support/Error.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace culprit;

namespace {

using Columns = std::vector<std::pair<std::string, ColumnRef>>;
using Bounds = std::vector<std::pair<int64_t, int64_t>>;
using Values = std::vector<int64_t>;

Table intervals(const Bounds &Rows, std::string Name = "work") {
  auto Start = std::make_shared<Column>(ColumnType::Int);
  auto Stop = std::make_shared<Column>(ColumnType::Int);
  for (auto [From, To] : Rows) {
    Start->addInt(From);
    Stop->addInt(To);
  }
  return Table(std::move(Name), nullptr,
               Columns{{"start", Start}, {"stop", Stop}}, Rows.size(), true);
}

Bounds bounds(llvm::Expected<Table> T) {
  Bounds Out;
  if (!T) {
    ADD_FAILURE() << llvm::toString(T.takeError());
    return Out;
  }
  Values Starts = *T->integers("start"), Stops = *T->integers("stop"),
         Durs = *T->integers("dur");
  for (size_t I = 0; I != T->rows(); ++I) {
    EXPECT_EQ(Durs[I], Stops[I] - Starts[I]);
    Out.emplace_back(Starts[I], Stops[I]);
  }
  return Out;
}

Values values(llvm::Expected<ColumnRef> C) {
  if (C)
    return (*C)->ints().vec();
  ADD_FAILURE() << llvm::toString(C.takeError());
  return {};
}

TEST(IntervalsTest, UnionJoinsWhatOverlapsOrTouches) {
  // [0,10) holds [2,5); [10,12) touches it; [20,25) stands apart.
  EXPECT_EQ(bounds(unionOf(intervals({{0, 10}, {2, 5}, {10, 12}, {20, 25}}))),
            (Bounds{{0, 12}, {20, 25}}));
  // The order of rows does not matter.
  EXPECT_EQ(bounds(unionOf(intervals({{20, 25}, {10, 12}, {2, 5}, {0, 10}}))),
            (Bounds{{0, 12}, {20, 25}}));
  EXPECT_EQ(bounds(unionOf(intervals({}))), (Bounds{}));
  EXPECT_EQ(unionOf(intervals({}))->name(), "union of work");
}

TEST(IntervalsTest, IgnoresWhatIsNoInterval) {
  Table T = intervals({{NullInt, 50}, // no start
                       {60, NullInt}, // no stop
                       {80, 70},      // reversed
                       {90, 90},      // empty
                       {1, 3},
                       {5, 6}});
  EXPECT_EQ(bounds(unionOf(T)), (Bounds{{1, 3}, {5, 6}}));
  EXPECT_EQ(*coveredLength(T), 3); // 2 + 1
  EXPECT_EQ(*spanOf(T), 5);        // 6 - 1; 90 does not count
  EXPECT_EQ(bounds(gapsOf(T)), (Bounds{{3, 5}}));
}

TEST(IntervalsTest, GapsNameTheirNeighbours) {
  // Row 3 [0,4) and row 1 [2,9) run up to 9. Row 0 starts the next at 12,
  // row 4 [12,15) too; row 2 starts the last at 20.
  Table T = intervals({{12, 13}, {2, 9}, {20, 21}, {0, 4}, {12, 15}});
  llvm::Expected<Table> Gaps = gapsOf(T);
  ASSERT_TRUE(bool(Gaps));
  EXPECT_EQ(*Gaps->integers("before"), (Values{1, 4})); // ends at 9, at 15
  EXPECT_EQ(*Gaps->integers("after"), (Values{0, 2}));  // 0 before 4 of a tie
  EXPECT_EQ(bounds(std::move(Gaps)), (Bounds{{9, 12}, {15, 20}}));
  // 8 idle (3 + 5) and 13 covered (9 + 3 + 1) are the span of 21.
  EXPECT_EQ(*coveredLength(T), 13);
  EXPECT_EQ(*spanOf(T), 21);
}

TEST(IntervalsTest, GapsRememberTheLatestStop) {
  // Row 1 ends inside row 0, so row 0 ends the stretch.
  llvm::Expected<Table> Gaps = gapsOf(intervals({{0, 10}, {1, 2}, {11, 12}}));
  EXPECT_EQ(*Gaps->integers("before"), (Values{0}));
  EXPECT_EQ(bounds(std::move(Gaps)), (Bounds{{10, 11}}));
}

TEST(IntervalsTest, IntersectAndSubtract) {
  Table A = intervals({{0, 10}, {20, 30}, {40, 50}}, "compute");
  Table B = intervals({{25, 45}, {5, 8}, {9, 12}}, "copies");
  EXPECT_EQ(bounds(intersect(A, B)),
            (Bounds{{5, 8}, {9, 10}, {25, 30}, {40, 45}}));
  EXPECT_EQ(bounds(intersect(B, A)), bounds(intersect(A, B)));
  EXPECT_EQ(bounds(subtract(A, B)),
            (Bounds{{0, 5}, {8, 9}, {20, 25}, {45, 50}}));
  EXPECT_EQ(bounds(subtract(B, A)), (Bounds{{10, 12}, {30, 40}}));
  EXPECT_EQ(bounds(subtract(A, A)), (Bounds{}));
  EXPECT_EQ(bounds(subtract(A, intervals({}))),
            (Bounds{{0, 10}, {20, 30}, {40, 50}}));
  // One hole that spans several of A, and one that starts before all.
  EXPECT_EQ(bounds(subtract(A, intervals({{-5, 1}, {9, 41}}))),
            (Bounds{{1, 9}, {41, 50}}));
  EXPECT_EQ(subtract(A, B)->name(), "compute without copies");
}

TEST(IntervalsTest, OverlapIsPerRow) {
  Table B = intervals({{30, 40}, {0, 10}, {5, 12}}); // [0,12) and [30,40)
  Table A = intervals({{35, 100},                    // 40 - 35
                       {10, 31},                     // 12 - 10 and 31 - 30
                       {12, 30},                     // between
                       {-5, 50},                     // 12 + 10
                       {3, 3},                       // empty
                       {9, 4},                       // reversed
                       {NullInt, 4}});
  EXPECT_EQ(values(overlapWith(A, B)),
            (Values{5, 3, 0, 22, 0, NullInt, NullInt}));
  EXPECT_EQ(values(overlapWith(B, intervals({}))), (Values{0, 0, 0}));
}

TEST(IntervalsTest, ContainingFindsTheInnermost) {
  // Rows of B:       0         1        2        3        4
  Table B = intervals({{0, 100}, {10, 50}, {20, 30}, {10, 40}, {60, 60}});
  Table A = intervals({{5, 6},   // only row 0
                       {25, 99}, // row 2 starts latest
                       {35, 36}, // 2 is over; of 1 and 3 the shorter, 3
                       {45, 46}, // 3 is over too: 1
                       {50, 51}, // 1 ends where this starts: 0
                       {60, 61}, // an empty interval holds nothing: 0
                       {100, 101},
                       {NullInt, 3},
                       {10, 11}, // starts with 1 and 3: 3 is the inner
                       {-1, 0}});
  EXPECT_EQ(values(containing(A, B)),
            (Values{0, 2, 3, 1, 0, 0, NullInt, NullInt, 3, NullInt}));
  // Of equals the first.
  EXPECT_EQ(values(containing(intervals({{5, 6}}),
                              intervals({{0, 9}, {0, 9}, {0, 9}}))),
            (Values{0}));
}

TEST(IntervalsTest, ReadsThroughARowIndex) {
  Table T = intervals({{50, 60}, {0, 10}, {5, 20}, {90, 99}});
  Table Some = T.take({3, 2, 1}); // [90,99) [5,20) [0,10)
  EXPECT_EQ(bounds(unionOf(Some)), (Bounds{{0, 20}, {90, 99}}));
  llvm::Expected<Table> Gaps = gapsOf(Some);
  EXPECT_EQ(*Gaps->integers("before"), (Values{1})); // rows of Some
  EXPECT_EQ(*Gaps->integers("after"), (Values{0}));
}

TEST(IntervalsTest, SurvivesExtremeTimes) {
  Table T = intervals({{INT64_MIN + 1, 0}, {INT64_MAX - 1, INT64_MAX}});
  // 2^63 - 1 and 1: the sum, 2^63, wraps to -2^63 and is not undefined.
  EXPECT_EQ(*coveredLength(T), INT64_MIN);
  EXPECT_EQ(gapsOf(T)->rows(), 1u);
}

TEST(IntervalsTest, SaysWhatIsMissing) {
  auto Data = std::make_shared<Column>(ColumnType::Double);
  Table T("scalars", nullptr, Columns{{"start", Data}}, 0);
  std::vector<Diagnostic> D = toDiagnostics(unionOf(T).takeError());
  EXPECT_EQ(D[0].Message, "column 'start' in 'scalars' is double, not int");
  D = toDiagnostics(spanOf(Table("config", nullptr, Columns{}, 0)).takeError());
  EXPECT_EQ(D[0].Message, "unknown column 'start' in 'config'");
}

/// What each of 400 ns is covered by, counted one at a time.
struct Slow {
  std::vector<bool> Covered = std::vector<bool>(400);

  explicit Slow(const Bounds &Rows) {
    for (auto [From, To] : Rows)
      for (int64_t At = From; At < To; ++At)
        Covered[At] = true;
  }
};

Bounds runsOf(const std::vector<bool> &Covered) {
  Bounds Out;
  for (size_t At = 0; At != Covered.size(); ++At) {
    if (!Covered[At])
      continue;
    if (At != 0 && Covered[At - 1])
      ++Out.back().second;
    else
      Out.emplace_back(At, At + 1);
  }
  return Out;
}

TEST(IntervalsTest, AgreesWithCountingEveryNanosecond) {
  std::mt19937 Random(7);
  for (int Round = 0; Round != 200; ++Round) {
    auto draw = [&] {
      Bounds Out(Random() % 40);
      for (auto &[From, To] : Out) {
        From = Random() % 380;
        To = From + Random() % 20;
      }
      if (Random() % 2)
        std::sort(Out.begin(), Out.end());
      return Out;
    };
    Bounds RowsA = draw(), RowsB = draw();
    Table A = intervals(RowsA), B = intervals(RowsB);
    Slow SlowA(RowsA), SlowB(RowsB);
    std::vector<bool> Both(400), Only(400);
    for (size_t At = 0; At != 400; ++At) {
      Both[At] = SlowA.Covered[At] && SlowB.Covered[At];
      Only[At] = SlowA.Covered[At] && !SlowB.Covered[At];
    }
    ASSERT_EQ(bounds(unionOf(A)), runsOf(SlowA.Covered));
    ASSERT_EQ(bounds(intersect(A, B)), runsOf(Both));
    ASSERT_EQ(bounds(subtract(A, B)), runsOf(Only));

    Values Overlap = values(overlapWith(A, B)),
           Inner = values(containing(A, B));
    for (size_t I = 0; I != RowsA.size(); ++I) {
      auto [From, To] = RowsA[I];
      int64_t Count = 0, Best = NullInt;
      for (int64_t At = From; At < To; ++At)
        Count += SlowB.Covered[At];
      ASSERT_EQ(Overlap[I], Count);
      for (size_t J = 0; J != RowsB.size(); ++J) {
        if (RowsB[J].first > From || RowsB[J].second <= From)
          continue;
        if (Best == NullInt || RowsB[J].first > RowsB[Best].first ||
            (RowsB[J].first == RowsB[Best].first &&
             RowsB[J].second < RowsB[Best].second))
          Best = static_cast<int64_t>(J);
      }
      ASSERT_EQ(Inner[I], Best);
    }
  }
}

TEST(IntervalsTest, SortsLargeTables) {
  // Above the size from which a radix sort is used, with negative times:
  // 10,000 intervals of 3 every 5 from -25,000, in a scrambled order (7,919
  // is prime and no factor of 10,000), so 9,999 gaps of 2.
  Bounds Rows;
  for (int64_t I = 0; I != 10000; ++I) {
    int64_t Start = (I * 7919 % 10000) * 5 - 25000;
    Rows.emplace_back(Start, Start + 3);
  }
  Table T = intervals(Rows);
  EXPECT_EQ(*coveredLength(T), 30000);
  Bounds Gaps = bounds(gapsOf(T));
  ASSERT_EQ(Gaps.size(), 9999u);
  EXPECT_EQ(Gaps.front(), std::pair(int64_t(-24997), int64_t(-24995)));
  EXPECT_EQ(Gaps.back(), std::pair(int64_t(24993), int64_t(24995)));
}

} // namespace
