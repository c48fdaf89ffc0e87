//===- KeysTest.cpp -------------------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Keys.h"
#include "Table/Expression.h"
#include "Table/RunSort.h"
#include "gtest/gtest.h"
#include <random>

using namespace culprit;

namespace {

using Columns = std::vector<std::pair<std::string, ColumnRef>>;

ColumnRef keyInts(std::vector<int64_t> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = std::move(Values);
  return Out;
}

ColumnRef keyDoubles(std::vector<double> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Double);
  Out->mutableDoubles() = std::move(Values);
  return Out;
}

Table table(Columns Of, size_t Rows) {
  return Table("t", nullptr, std::move(Of), Rows, /*IsOrigin=*/true);
}

TEST(KeysTest, NumbersInOrderOfAppearance) {
  Table T = table({{"a", keyInts({7, 7, NullInt, 3, 7})},
                   {"b", keyInts({1, 2, 1, 1, 1})}},
                  5);
  llvm::Expected<KeyIndex> Index = KeyIndex::make(T, {"a", "b"});
  ASSERT_TRUE(bool(Index));
  EXPECT_EQ(Index->numbers().vec(), (RowIndex{0, 1, NoRow, 2, 0}));
  EXPECT_EQ(Index->firstRows().vec(), (RowIndex{0, 1, 3}));
  // A value outside the range of the column, a null, and known keys.
  Table Other = table({{"a", keyInts({3, 9, NullInt, 7, INT64_MAX})},
                       {"b", keyInts({1, 1, 1, 2, 1})}},
                      5);
  llvm::Expected<RowIndex> Rows = Index->firstRowsFor(Other);
  ASSERT_TRUE(bool(Rows));
  EXPECT_EQ(*Rows, (RowIndex{3, NoRow, NoRow, 1, NoRow}));
}

TEST(KeysTest, KeysTooWideForOneWord) {
  // Three columns over the whole range of int64 each, and one of doubles.
  std::vector<int64_t> A, B, C;
  std::vector<double> D;
  std::mt19937_64 Random(1);
  for (unsigned I = 0; I != 6000; ++I) {
    A.push_back(int64_t(Random()) | 1); // never null
    B.push_back(int64_t(Random()) | 1);
    C.push_back(I % 2 ? INT64_MAX : -INT64_MAX);
    D.push_back(I % 3 ? -0.0 : 0.0);
  }
  A[5] = A[4], B[5] = B[4], C[5] = C[4], D[5] = -D[4]; // -0 is 0
  A[9] = A[8], B[9] = B[8]; // C differs
  Table T = table({{"a", keyInts(A)}, {"b", keyInts(B)}, {"c", keyInts(C)},
                   {"d", keyDoubles(D)}},
                  A.size());
  llvm::Expected<KeyIndex> Index = KeyIndex::make(T, {"a", "b", "c", "d"});
  ASSERT_TRUE(bool(Index));
  EXPECT_EQ(Index->size(), A.size() - 1);
  EXPECT_EQ(Index->numbers()[5], 4u);
  EXPECT_NE(Index->numbers()[9], Index->numbers()[8]);
  llvm::Expected<RowIndex> Rows = Index->firstRowsFor(T.take({11, 5, 9}));
  ASSERT_TRUE(bool(Rows));
  EXPECT_EQ(*Rows, (RowIndex{11, 4, 9}));
  // Pairs of values that no row has together.
  Table Mixed = table({{"a", keyInts({A[0]})}, {"b", keyInts({B[1]})},
                       {"c", keyInts({C[0]})}, {"d", keyDoubles({D[0]})}},
                      1);
  EXPECT_EQ(*Index->firstRowsFor(Mixed), (RowIndex{NoRow}));
}

TEST(KeysTest, RunsAnswerForWholeRanks) {
  // Ranks 0, 1, 0 and none, 100 rows each; the value is the row.
  std::vector<int64_t> Rank, Value;
  for (int64_t Of : {int64_t(0), int64_t(1), int64_t(0), NullInt})
    Rank.insert(Rank.end(), 100, Of);
  for (int64_t I = 0; I != 400; ++I)
    Value.push_back(I);
  Table T = table({{"rank", keyInts(Rank)}, {"value", keyInts(Value)}}, 400);
  ASSERT_EQ(T.columns()[0].Data->runs().size(), 4u);
  EXPECT_TRUE(T.columns()[1].Data->runs().empty());
  auto count = [&](const Table &Of, llvm::StringRef Text) {
    llvm::Expected<Table> Out = where(Of, Text);
    EXPECT_TRUE(bool(Out));
    return Out ? Out->rows() : SIZE_MAX;
  };
  EXPECT_EQ(count(T, "rank == 0"), 200u);
  EXPECT_EQ(count(T, "rank == 1"), 100u);
  EXPECT_EQ(count(T, "rank == 2"), 0u);
  EXPECT_EQ(count(T, "not rank == 0"), 100u); // null is never true
  EXPECT_EQ(count(T, "rank == 0 and value >= 50 and value < 250"), 100u);
  EXPECT_EQ(count(T, "rank == 0 or value < 150"), 250u);
  EXPECT_EQ(count(T, "rank == 1 and rank == 0"), 0u);
  Table Part = *where(T, "value >= 150 and value < 250");
  EXPECT_EQ(count(Part, "rank == 0"), 50u);
  EXPECT_EQ(where(T, "value < 300 and rank == 0")->originRow(150), 250u);
}

TEST(KeysTest, ConcatOfOneColumnCopiesNothing) {
  Table T = table({{"a", keyInts({5, 6, 7})}}, 3);
  Table Both = *T.take({2}).concat(T);
  EXPECT_EQ(Both.columns()[0].Data, T.columns()[0].Data);
  EXPECT_EQ(*Both.integers("a"), (std::vector<int64_t>{7, 5, 6, 7}));
  EXPECT_EQ(Both.originRow(0), 2u);
  EXPECT_EQ(Both.originRow(3), 2u);
}

TEST(RunSortTest, SortsAsAStableSortDoes) {
  std::mt19937 Random(7);
  using Item = std::pair<int, unsigned>;
  auto Less = [](const Item &A, const Item &B) { return A.first < B.first; };
  for (unsigned Runs : {0u, 1u, 2u, 3u, 7u, 63u, 64u, 65u, 400u})
    for (bool Falling : {false, true}) {
      std::vector<Item> Values;
      for (unsigned R = 0; R != Runs; ++R)
        for (int I = 0, Key = int(Random() % 50); I != 9; ++I) {
          Key += Falling ? -int(1 + Random() % 3) : int(Random() % 3);
          Values.push_back({Key, unsigned(Values.size())});
        }
      std::vector<Item> Wanted = Values;
      std::stable_sort(Wanted.begin(), Wanted.end(), Less);
      sortRuns(Values, Less);
      EXPECT_EQ(Values, Wanted) << Runs;
    }
}

} // namespace
