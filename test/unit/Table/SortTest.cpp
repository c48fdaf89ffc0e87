//===- SortTest.cpp - sort and top beside a plain comparison ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Table.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace culprit;

namespace {

/// Columns of each type, full of ties, nulls and the ends of their ranges.
Table mixedTable(size_t Rows, uint64_t Seed) {
  std::mt19937_64 Random(Seed);
  auto Pool = std::make_shared<StringPool>();
  const int64_t Ints[] = {NullInt, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1,
                          -1,      0,         1,             7};
  constexpr double Infinity = std::numeric_limits<double>::infinity();
  const double Doubles[] = {nullDouble(), std::nan(""), Infinity, -Infinity,
                            -0.0,         0.0,          1e-300,   2.5};
  const char *Texts[] = {"b", "a", "", "abc", "B"};
  auto I = std::make_shared<Column>(ColumnType::Int);
  auto Wide = std::make_shared<Column>(ColumnType::Int);
  auto D = std::make_shared<Column>(ColumnType::Double);
  auto Any = std::make_shared<Column>(ColumnType::Double);
  auto B = std::make_shared<Column>(ColumnType::Bool);
  auto S = std::make_shared<Column>(ColumnType::String);
  auto L = std::make_shared<Column>(ColumnType::IntList);
  for (size_t Row = 0; Row != Rows; ++Row) {
    I->addInt(Ints[Random() % std::size(Ints)]);
    Wide->addInt(int64_t(Random()));
    D->addDouble(Doubles[Random() % std::size(Doubles)]);
    // The upper bits of most agree.
    Any->addDouble(1 + double(Random() % 1000) * 0x1p-52);
    Random() % 3 ? B->addBool(Random() % 2) : B->addNull();
    Random() % 4 ? S->addString(Pool->intern(Texts[Random() % 5]))
                 : S->addNull();
    std::vector<int64_t> List(Random() % 3, int64_t(Random() % 3));
    L->addList(List);
  }
  return Table("t", Pool,
               std::vector<std::pair<std::string, ColumnRef>>{{"int", I},
                                                              {"wide", Wide},
                                                              {"double", D},
                                                              {"any", Any},
                                                              {"bool", B},
                                                              {"text", S},
                                                              {"list", L}},
               Rows, /*IsOrigin=*/true);
}

/// Negative, 0 or positive; nulls last and NaN before them, however sorted.
int compareCells(const Table &T, const Table::SortKey &Key, uint32_t A,
                 uint32_t B) {
  const ColumnView &View = *T.find(Key.Column);
  Cell X = T.cell(A, View), Y = T.cell(B, View);
  auto placeOf = [](const Cell &C) {
    return C.Null ? 2 : C.Type == ColumnType::Double && std::isnan(C.Double);
  };
  if (placeOf(X) != 0 || placeOf(Y) != 0)
    return placeOf(X) - placeOf(Y);
  int Sign = Key.Descending ? -1 : 1;
  switch (View.type()) {
  case ColumnType::Double:
    return Sign * (X.Double < Y.Double ? -1 : X.Double > Y.Double);
  case ColumnType::String:
    return Sign * X.String.compare(Y.String);
  case ColumnType::IntList:
    return Sign * (X.List == Y.List ? 0
                   : std::lexicographical_compare(X.List.begin(), X.List.end(),
                                                  Y.List.begin(), Y.List.end())
                       ? -1
                       : 1);
  default:
    return Sign * (X.Int < Y.Int ? -1 : X.Int > Y.Int);
  }
}

RowIndex sortedRows(const Table &T) {
  RowIndex Out;
  for (size_t I = 0; I != T.rows(); ++I)
    Out.push_back(static_cast<uint32_t>(T.originRow(I)));
  return Out;
}

TEST(SortTest, AgreesWithAComparisonOfCells) {
  const std::vector<std::vector<Table::SortKey>> Orders = {
      {{"int"}},
      {{"int", true}},
      {{"wide"}},
      {{"wide", true}},
      {{"double"}},
      {{"double", true}},
      {{"any", true}},
      {{"bool"}, {"text"}},
      {{"text", true}, {"list"}},
      {{"list", true}, {"bool", true}},
      // Words of 64 bits before and behind others.
      {{"bool"}, {"wide", true}, {"text"}},
      {{"int"}, {"double", true}, {"any"}, {"list"}}};
  for (size_t Rows : {0, 1, 2, 50, 3000}) {
    // As it is, and through an index that repeats rows.
    Table All = mixedTable(Rows, Rows), Chosen = All;
    RowIndex Picked;
    for (size_t I = 0; I != Rows; ++I)
      Picked.push_back(static_cast<uint32_t>(I * 7919 % Rows));
    Chosen = All.take(Picked);
    for (const Table &T : {All, Chosen})
      for (const auto &Keys : Orders) {
        RowIndex Expected(T.rows());
        std::iota(Expected.begin(), Expected.end(), 0);
        std::stable_sort(Expected.begin(), Expected.end(),
                         [&](uint32_t A, uint32_t B) {
                           for (const Table::SortKey &Key : Keys)
                             if (int Order = compareCells(T, Key, A, B))
                               return Order < 0;
                           return false;
                         });
        for (uint32_t &Row : Expected)
          Row = static_cast<uint32_t>(T.originRow(Row));
        EXPECT_EQ(sortedRows(llvm::cantFail(T.sort(Keys))), Expected)
            << Rows << " rows by " << Keys.front().Column;
      }
  }
}

TEST(SortTest, TopIsTheBeginningOfTheOrder) {
  for (size_t Rows : {0, 1, 100, 5000}) {
    Table T = mixedTable(Rows, 3);
    for (const char *Name : {"int", "wide", "double", "bool"})
      for (size_t N : {0, 1, 5, 90, 5000}) {
        Table Sorted = llvm::cantFail(T.sort({{Name, true}}));
        RowIndex Expected;
        for (size_t I = 0; I != Rows && Expected.size() != N; ++I)
          if (!std::isnan(Sorted.find(Name)->number(I)))
            Expected.push_back(static_cast<uint32_t>(Sorted.originRow(I)));
        EXPECT_EQ(sortedRows(llvm::cantFail(T.top(N, Name))), Expected)
            << N << " of " << Rows << " rows by " << Name;
      }
  }
}

} // namespace
