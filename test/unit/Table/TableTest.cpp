//===- TableTest.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Table.h"
#include "Support/Error.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace culprit;

namespace {

using Columns = std::vector<std::pair<std::string, ColumnRef>>;
using Rows = std::vector<size_t>;
using Ints = std::vector<int64_t>;

ColumnRef ints(const Ints &Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = Values;
  return Out;
}

ColumnRef doubles(const std::vector<double> &Values) {
  auto Out = std::make_shared<Column>(ColumnType::Double);
  Out->mutableDoubles() = Values;
  return Out;
}

/// Null for "-".
ColumnRef strings(StringPool &Pool, const std::vector<std::string> &Values) {
  auto Out = std::make_shared<Column>(ColumnType::String);
  for (const std::string &Value : Values)
    Out->addString(Value == "-" ? NullString : Pool.intern(Value));
  return Out;
}

/// row  dur   kind      value
///  0   30    copy      1.5
///  1   10    kernel    nan
///  2   null  copy      -2
///  3   20    -         null
///  4   10    kernel    4
Table sample() {
  auto Pool = std::make_shared<StringPool>();
  double NaN = std::numeric_limits<double>::quiet_NaN();
  Pool->intern("kernel"); // so that ids are not in the order of the texts
  return Table("gpu_work", Pool,
               Columns{{"dur", ints({30, 10, NullInt, 20, 10})},
                       {"kind", strings(*Pool, {"copy", "kernel", "copy", "-",
                                                "kernel"})},
                       {"value", doubles({1.5, NaN, -2, nullDouble(), 4})}},
               5, /*IsOrigin=*/true);
}

Rows originRows(const Table &T) {
  Rows Out;
  for (size_t I = 0; I != T.rows(); ++I)
    Out.push_back(T.originRow(I));
  return Out;
}

Rows originRows(llvm::Expected<Table> T) {
  if (T)
    return originRows(*T);
  ADD_FAILURE() << llvm::toString(T.takeError());
  return {};
}

std::string message(llvm::Error E) {
  std::string Out;
  for (const Diagnostic &D : toDiagnostics(std::move(E)))
    Out += D.Message + (D.Hint.empty() ? "" : " / " + D.Hint);
  return Out;
}

std::string text(const Table &T, size_t Row, llvm::StringRef Column) {
  const ColumnView *View = T.find(Column);
  return View ? T.cell(Row, *View).text() : "no column " + Column.str();
}

TEST(TableTest, FindsColumns) {
  Table T = sample();
  EXPECT_EQ(T.find("none"), nullptr);
  EXPECT_EQ((*T.column("dur"))->getInt(3), 20);
  EXPECT_EQ(message(T.column("durr").takeError()),
            "unknown column 'durr' in 'gpu_work' / did you mean 'dur'? "
            "columns: dur, kind, value");
  EXPECT_EQ(message(T.column("kind", ColumnType::Int).takeError()),
            "column 'kind' in 'gpu_work' is string, not int");
}

TEST(TableTest, TakeComposesAndKeepsTheOrigin) {
  Table T = sample().take({4, 2, 0, 0});
  EXPECT_EQ(originRows(T), (Rows{4, 2, 0, 0}));
  EXPECT_EQ(text(T, 0, "value"), "4");
  Table Again = T.take({1, 3}); // rows 2 and 0
  EXPECT_EQ(originRows(Again), (Rows{2, 0}));
  EXPECT_EQ(text(Again, 0, "kind"), "copy");
  EXPECT_EQ(Again.originName(), "gpu_work");
  // The columns of one table share one index.
  EXPECT_EQ(Again.columns()[0].Rows, Again.columns()[2].Rows);
  EXPECT_EQ(T.take({}).rows(), 0u);
}

TEST(TableTest, SliceIsClipped) {
  EXPECT_EQ(originRows(sample().slice(1, 2)), (Rows{1, 2}));
  EXPECT_EQ(originRows(sample().slice(3, 100)), (Rows{3, 4}));
  EXPECT_EQ(originRows(sample().slice(9, 1)), (Rows{}));
}

TEST(TableTest, SelectAndWith) {
  Table T = *sample().select({"value", "dur"});
  ASSERT_EQ(T.columns().size(), 2u);
  EXPECT_EQ(T.columns()[0].Name, "value");
  EXPECT_EQ(message(sample().select({"none"}).takeError()),
            "unknown column 'none' in 'gpu_work' / columns: dur, kind, value");
  Table Some = sample().take({4, 0}).with("dur", ints({7, 8}));
  EXPECT_EQ(Some.columns().size(), 3u);   // replaced
  EXPECT_EQ(text(Some, 0, "dur"), "7");   // by position, not by index
  EXPECT_EQ(text(Some, 0, "value"), "4"); // of row 4
  Some = Some.with("new", ints({1, 2}));
  EXPECT_EQ(text(Some.take({1}), 0, "new"), "2");
  EXPECT_EQ(sample().renamed("x").name(), "x");
}

TEST(TableTest, SortIsStableWithNullsLast) {
  EXPECT_EQ(originRows(sample().sort({{"dur"}})), (Rows{1, 4, 3, 0, 2}));
  EXPECT_EQ(originRows(sample().sort({{"dur", true}})), (Rows{0, 3, 1, 4, 2}));
  // By text, not by id: copy before kernel.
  EXPECT_EQ(originRows(sample().sort({{"kind"}})), (Rows{0, 2, 1, 4, 3}));
  EXPECT_EQ(originRows(sample().sort({{"kind"}, {"dur", true}})),
            (Rows{0, 2, 1, 4, 3}));
  // A NaN comes after the numbers and before the nulls, in both directions.
  EXPECT_EQ(originRows(sample().sort({{"value"}})), (Rows{2, 0, 4, 1, 3}));
  EXPECT_EQ(originRows(sample().sort({{"value", true}})),
            (Rows{4, 0, 2, 1, 3}));
  EXPECT_EQ(originRows(sample().take({3, 4, 1}).sort({{"dur"}})),
            (Rows{4, 1, 3}));
}

TEST(TableTest, TopLeavesOutNullAndNaN) {
  EXPECT_EQ(originRows(sample().top(2, "dur")), (Rows{0, 3}));
  EXPECT_EQ(originRows(sample().top(9, "dur")), (Rows{0, 3, 1, 4}));
  EXPECT_EQ(originRows(sample().top(9, "value")), (Rows{4, 0, 2}));
  EXPECT_EQ(message(sample().top(1, "kind").takeError()),
            "top: column 'kind' in 'gpu_work' is string, not a number");
}

TEST(TableTest, DistinctAndGroup) {
  EXPECT_EQ(originRows(sample().distinct({"kind"})), (Rows{0, 1}));
  std::vector<Table> Groups = *sample().group({"kind"});
  ASSERT_EQ(Groups.size(), 2u); // in order of appearance, without null
  EXPECT_EQ(originRows(Groups[0]), (Rows{0, 2}));
  EXPECT_EQ(originRows(Groups[1]), (Rows{1, 4}));
  Groups = *sample().group({"kind", "dur"}); // row 2 has no dur, row 3 no kind
  ASSERT_EQ(Groups.size(), 2u);
  EXPECT_EQ(originRows(Groups[1]), (Rows{1, 4}));
}

TEST(TableTest, AroundCountsInTheViewAndAsksByOrigin) {
  Table T = sample().take({4, 3, 1, 0});
  EXPECT_EQ(originRows(T.around(3, 1)), (Rows{4, 3, 1}));
  EXPECT_EQ(originRows(T.around(4, 1)), (Rows{4, 3}));
  EXPECT_EQ(originRows(T.around(1, SIZE_MAX)), (Rows{4, 3, 1, 0}));
  EXPECT_EQ(message(T.around(2, 1).takeError()),
            "around: 'gpu_work' does not hold that row / pass a row of the "
            "same table, before it was filtered away");
}

TEST(TableTest, ConcatKeepsWhatBothHave) {
  Table A = sample().take({4, 2});
  Table B = *sample().select({"value", "dur"});
  // Other pools: only columns without text are joined here.
  Table T = *A.concat(B.take({0}));
  ASSERT_EQ(T.columns().size(), 2u);
  EXPECT_EQ(T.rows(), 3u);
  EXPECT_EQ(text(T, 0, "dur"), "10");
  EXPECT_EQ(text(T, 1, "dur"), "-");
  EXPECT_EQ(text(T, 2, "dur"), "30");
  EXPECT_EQ(originRows(T), (Rows{4, 2, 0}));
}

TEST(TableTest, JoinTakesTheFirstPartner) {
  auto Pool = std::make_shared<StringPool>();
  Table Left("calls", Pool,
             Columns{{"id", ints({1, 2, NullInt, 3})},
                     {"dur", ints({10, 20, 30, 40})}},
             4, true);
  Table Right("work", Pool,
              Columns{{"id", ints({3, 1, 1, NullInt})},
                      {"dur", ints({300, 100, 101, 999})},
                      {"name", strings(*Pool, {"c", "a", "b", "x"})}},
              4, true);
  Table Inner = *Left.join(Right, {"id"}, Table::JoinKind::Inner);
  EXPECT_EQ(originRows(Inner), (Rows{0, 3})); // ids 1 and 3
  EXPECT_EQ(text(Inner, 0, "dur"), "10");
  EXPECT_EQ(text(Inner, 0, "dur_right"), "100");
  EXPECT_EQ(text(Inner, 1, "name"), "c");
  ASSERT_EQ(Inner.columns().size(), 4u); // id once

  Table Outer = *Left.join(Right, {"id"}, Table::JoinKind::Left, "_gpu");
  EXPECT_EQ(originRows(Outer), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(text(Outer, 0, "name"), "a");
  EXPECT_EQ(text(Outer, 1, "name"), "-");    // no partner
  EXPECT_EQ(text(Outer, 2, "dur_gpu"), "-"); // null keys match nothing
  EXPECT_EQ(text(Outer, 3, "dur_gpu"), "300");
}

TEST(TableTest, JoinWantsKeysOfOneType) {
  EXPECT_EQ(
      message(sample()
                  .join(sample().with("dur", sample().find("value")->Data),
                        {"dur"}, Table::JoinKind::Inner)
                  .takeError()),
      "join: key 'dur' is int in 'gpu_work' and double in 'gpu_work'");
}

TEST(TableTest, NumbersAndIntegers) {
  std::vector<double> N = *sample().take({0, 2, 4}).numbers("dur");
  EXPECT_EQ(N[0], 30);
  EXPECT_TRUE(isNullDouble(N[1]));
  EXPECT_EQ(N[2], 10);
  EXPECT_EQ(*sample().integers("dur"), (Ints{30, 10, NullInt, 20, 10}));
  EXPECT_EQ(message(sample().numbers("kind").takeError()),
            "column 'kind' in 'gpu_work' is string, not a number");
  EXPECT_EQ(message(sample().integers("value").takeError()),
            "column 'value' in 'gpu_work' is double, not int");
}

TEST(TableTest, EmptyTables) {
  Table T("nothing");
  EXPECT_TRUE(T.empty());
  EXPECT_TRUE(T.originName().empty());
  EXPECT_EQ(T.take({}).rows(), 0u);
  EXPECT_EQ(T.sort({})->rows(), 0u);
  EXPECT_EQ(T.concat(sample())->columns().size(), 0u);
}

} // namespace
