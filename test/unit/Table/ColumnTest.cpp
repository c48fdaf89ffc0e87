//===- ColumnTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Column.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <thread>

using namespace culprit;

namespace {

TEST(ColumnTest, NullDoubleIsOneNaNOnly) {
  EXPECT_TRUE(std::isnan(nullDouble()));
  EXPECT_TRUE(isNullDouble(nullDouble()));
  EXPECT_FALSE(isNullDouble(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(isNullDouble(-nullDouble())); // the sign bit is another NaN
  EXPECT_FALSE(isNullDouble(0.0));
}

TEST(ColumnTest, NullsOfEveryType) {
  StringPool Pool;
  for (ColumnType Type : {ColumnType::Int, ColumnType::Double, ColumnType::Bool,
                          ColumnType::String, ColumnType::IntList}) {
    Column C(Type);
    C.addNull();
    ASSERT_EQ(C.size(), 1u) << toString(Type).str();
    EXPECT_TRUE(C.isNull(0));
    Cell Null = C.cell(0, Pool);
    EXPECT_TRUE(Null.Null);
    EXPECT_EQ(Null.Type, Type);
    EXPECT_EQ(Null.text(), "-");
    EXPECT_TRUE(isNullDouble(Null.number()));
  }
}

TEST(ColumnTest, Cells) {
  StringPool Pool;
  Column Int(ColumnType::Int);
  Int.addInt(1234);
  EXPECT_EQ(Int.cell(0, Pool).text(), "1234");
  EXPECT_EQ(Int.cell(0, Pool).number(), 1234);
  Column Double(ColumnType::Double);
  Double.addDouble(0.25);
  Double.addDouble(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(Double.cell(0, Pool).text(), "0.25");
  EXPECT_EQ(Double.cell(1, Pool).text(), "nan");
  EXPECT_FALSE(Double.isNull(1)); // a NaN that was logged is a value
  Column Bool(ColumnType::Bool);
  Bool.addBool(true);
  EXPECT_EQ(Bool.cell(0, Pool).text(), "true");
  EXPECT_EQ(Bool.cell(0, Pool).number(), 1);
  Column String(ColumnType::String);
  String.addString(Pool.intern("abc"));
  String.addString(Pool.intern(""));
  EXPECT_EQ(String.cell(0, Pool).text(), "abc");
  EXPECT_TRUE(isNullDouble(String.cell(0, Pool).number()));
  EXPECT_FALSE(String.isNull(1)); // empty text is a value
  Column List(ColumnType::IntList);
  List.addList({8, 64});
  List.addList({});
  List.addList({1});
  EXPECT_EQ(List.cell(0, Pool).text(), "[8, 64]");
  EXPECT_TRUE(List.isNull(1));
  EXPECT_EQ(List.list(2), llvm::ArrayRef<int64_t>({1}));
}

TEST(ColumnTest, AppendMovesListEnds) {
  Column A(ColumnType::IntList), B(ColumnType::IntList);
  A.addList({1, 2});
  B.addList({3});
  B.addList({4, 5, 6});
  A.append(B);
  ASSERT_EQ(A.size(), 3u);
  EXPECT_EQ(A.list(0), llvm::ArrayRef<int64_t>({1, 2}));
  EXPECT_EQ(A.list(1), llvm::ArrayRef<int64_t>({3}));
  EXPECT_EQ(A.list(2), llvm::ArrayRef<int64_t>({4, 5, 6}));
}

TEST(ColumnTest, TypeNames) {
  EXPECT_EQ(toString(ColumnType::Int), "int");
  EXPECT_EQ(toString(ColumnType::IntList), "int list");
}

TEST(StringPoolTest, InternsOnce) {
  StringPool Pool;
  StringId A = Pool.intern("a");
  EXPECT_NE(A, NullString);
  EXPECT_EQ(Pool.intern("a"), A);
  EXPECT_NE(Pool.intern(""), NullString);
  EXPECT_EQ(Pool.text(A), "a");
  EXPECT_EQ(Pool.text(NullString), "");
  EXPECT_EQ(Pool.lookup("a"), A);
  EXPECT_EQ(Pool.lookup("b"), NullString);
  EXPECT_EQ(Pool.size(), 3u); // null, "a" and ""
}

TEST(StringPoolTest, HoldsMoreThanOneChunk) {
  StringPool Pool;
  std::vector<StringId> Ids;
  for (int I = 0; I != 10000; ++I) // chunks hold 4,096
    Ids.push_back(Pool.intern(std::to_string(I)));
  for (int I = 0; I != 10000; ++I)
    ASSERT_EQ(Pool.text(Ids[I]), std::to_string(I));
  EXPECT_EQ(Pool.size(), 10001u); // and null
}

TEST(StringPoolTest, InternsFromSeveralThreads) {
  StringPool Pool;
  std::vector<std::vector<StringId>> Ids(4, std::vector<StringId>(5000));
  std::vector<std::thread> Threads;
  for (int T = 0; T != 4; ++T)
    Threads.emplace_back([&, T] {
      Interner Intern(Pool);
      for (int I = 0; I != 5000; ++I) {
        int Number = T % 2 ? I : 4999 - I;
        Ids[T][Number] = Intern(std::to_string(Number));
        if (Pool.text(Ids[T][Number]) != std::to_string(Number))
          ADD_FAILURE() << Number;
      }
    });
  for (std::thread &T : Threads)
    T.join();
  for (int T = 1; T != 4; ++T)
    EXPECT_EQ(Ids[T], Ids[0]);
  EXPECT_EQ(Pool.size(), 5001u); // and null
}

} // namespace
