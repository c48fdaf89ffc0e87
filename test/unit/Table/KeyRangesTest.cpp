//===- KeyRangesTest.cpp - Keys whose ranges show late ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Keys.h"
#include "gtest/gtest.h"
#include <map>
#include <random>

using namespace culprit;

namespace {

using RangedKey = std::pair<std::optional<int64_t>, std::string>;

/// \p Rows of `a`, values below 8 but from row \p Late on below \p Most, and
/// `b`, texts; some of each null.
Table rangedTable(size_t Rows, size_t Late, int64_t Most,
                  const std::shared_ptr<StringPool> &Pool,
                  std::vector<RangedKey> &Keys) {
  std::mt19937_64 Random(Rows + Late);
  auto A = std::make_shared<Column>(ColumnType::Int);
  auto B = std::make_shared<Column>(ColumnType::String);
  for (size_t I = 0; I != Rows; ++I) {
    auto Range = static_cast<uint64_t>(I < Late ? 8 : Most);
    RangedKey K;
    if (Random() % 16) {
      K.first = int64_t(Random() % Range) - (I < Late ? 0 : Most / 2);
      A->addInt(*K.first);
    } else {
      A->addNull();
    }
    if (Random() % 16) {
      K.second = "t" + std::to_string(Random() % (I < Late ? 3 : 40));
      B->addString(Pool->intern(K.second));
    } else {
      B->addNull();
    }
    Keys.push_back(std::move(K));
  }
  return Table(
      "t", Pool,
      std::vector<std::pair<std::string, ColumnRef>>{{"a", A}, {"b", B}}, Rows);
}

void checkKeys(size_t Rows, size_t Late, int64_t Most) {
  auto Pool = std::make_shared<StringPool>();
  std::vector<RangedKey> Keys, OtherKeys;
  Table T = rangedTable(Rows, Late, Most, Pool, Keys);
  Table Other = rangedTable(Rows / 2 + 3, 100, 2 * Most, Pool, OtherKeys);
  KeyIndex Index = llvm::cantFail(KeyIndex::make(T, {"a", "b"}));

  std::map<RangedKey, uint32_t> First; // the row in which a key appears first
  std::vector<uint32_t> Order;
  auto isWhole = [](const RangedKey &K) {
    return K.first && !K.second.empty();
  };
  for (uint32_t I = 0; I != Rows; ++I)
    if (isWhole(Keys[I]) && First.try_emplace(Keys[I], I).second)
      Order.push_back(I);
  EXPECT_EQ(Index.firstRows().vec(), Order);
  for (size_t I = 0; I != Rows; ++I) {
    ASSERT_EQ(Index.numbers()[I] != KeyIndex::None, isWhole(Keys[I])) << I;
    if (isWhole(Keys[I])) {
      ASSERT_EQ(Index.firstRow(Index.numbers()[I]), First[Keys[I]]) << I;
    }
  }
  std::vector<RowIndex> Members = Index.members();
  for (size_t K = 0; K != Members.size(); ++K)
    EXPECT_EQ(Members[K].front(), Index.firstRow(uint32_t(K)));
  RowIndex Found = llvm::cantFail(Index.firstRowsFor(Other));
  for (size_t I = 0; I != OtherKeys.size(); ++I) {
    auto It = First.find(OtherKeys[I]);
    bool Is = isWhole(OtherKeys[I]) && It != First.end();
    ASSERT_EQ(Found[I], Is ? It->second : KeyIndex::None) << I;
  }
}

TEST(KeyRangesTest, GrowBehindTheFirstRows) {
  checkKeys(10, 5, 8);
  checkKeys(20000, 20000, 8);             // never
  checkKeys(20000, 9000, 1000);           // in the middle of a block
  checkKeys(20000, 19999, 1000000);       // a hash instead of an array
  checkKeys(20000, 15000, INT64_MAX / 2); // too wide for a word
}

} // namespace
