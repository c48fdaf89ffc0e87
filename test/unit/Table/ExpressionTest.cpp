//===- ExpressionTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Expression.h"
#include "Support/Error.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace culprit;

namespace {

using Columns = std::vector<std::pair<std::string, ColumnRef>>;

/// row  dur        step  value  ok     name       shape
///  0   5          1     0.5    true   'gemm_a'   [8, 64]
///  1   20         2     nan    false  'copy'     []
///  2   null       3     null   null   null       [1]
///  3   20         4     inf    true   ''         []
///  4   7          2     -2.5   false  'gemm_b'   [2]
Table sample() {
  auto Pool = std::make_shared<StringPool>();
  auto Dur = std::make_shared<Column>(ColumnType::Int);
  for (int64_t Value :
       {int64_t(5), int64_t(20), NullInt, int64_t(20), int64_t(7)})
    Dur->addInt(Value);
  auto Step = std::make_shared<Column>(ColumnType::Int);
  for (int64_t Value : {1, 2, 3, 4, 2})
    Step->addInt(Value);
  auto Value = std::make_shared<Column>(ColumnType::Double);
  Value->addDouble(0.5);
  Value->addDouble(std::numeric_limits<double>::quiet_NaN());
  Value->addNull();
  Value->addDouble(std::numeric_limits<double>::infinity());
  Value->addDouble(-2.5);
  auto Ok = std::make_shared<Column>(ColumnType::Bool);
  Ok->addBool(true);
  Ok->addBool(false);
  Ok->addNull();
  Ok->addBool(true);
  Ok->addBool(false);
  auto Name = std::make_shared<Column>(ColumnType::String);
  Name->addString(Pool->intern("gemm_a"));
  Name->addString(Pool->intern("copy"));
  Name->addNull();
  Name->addString(Pool->intern(""));
  Name->addString(Pool->intern("gemm_b"));
  auto Shape = std::make_shared<Column>(ColumnType::IntList);
  Shape->addList({8, 64});
  Shape->addList({});
  Shape->addList({1});
  Shape->addList({});
  Shape->addList({2});
  return Table("gpu_work", Pool,
               Columns{{"dur", Dur},
                       {"step", Step},
                       {"value", Value},
                       {"ok", Ok},
                       {"name", Name},
                       {"shape", Shape}},
               5, /*IsOrigin=*/true);
}

using Rows = std::vector<size_t>;

Rows originRows(const Table &T) {
  Rows Out;
  for (size_t I = 0; I != T.rows(); ++I)
    Out.push_back(T.originRow(I));
  return Out;
}

std::string message(llvm::Error E) {
  std::string Out;
  for (const Diagnostic &D : toDiagnostics(std::move(E)))
    Out += D.Message + (D.Hint.empty() ? "" : " / " + D.Hint);
  return Out;
}

/// The rows of sample() for which Text holds.
Rows chosen(llvm::StringRef Text, std::vector<Argument> Arguments = {}) {
  llvm::Expected<Table> T = where(sample(), Text, Arguments);
  if (T)
    return originRows(*T);
  ADD_FAILURE() << message(T.takeError());
  return {99};
}

std::string problem(llvm::StringRef Text,
                    std::vector<Argument> Arguments = {}) {
  llvm::Expected<Table> T = where(sample(), Text, Arguments);
  if (!T)
    return message(T.takeError());
  return "no error";
}

/// Row 0 of what Text computes, as text.
std::string first(llvm::StringRef Text, std::vector<Argument> Arguments = {}) {
  Table T = sample();
  llvm::Expected<ColumnRef> C = compute(T, Text, Arguments);
  if (!C)
    return message(C.takeError());
  EXPECT_EQ((*C)->size(), 5u);
  return (*C)->cell(0, *T.pool()).text();
}

TEST(ExpressionTest, ComparesIntegers) {
  EXPECT_EQ(chosen("dur == 20"), (Rows{1, 3}));
  EXPECT_EQ(chosen("dur != 20"), (Rows{0, 4})); // row 2 is unknown
  EXPECT_EQ(chosen("dur < 7"), (Rows{0}));
  EXPECT_EQ(chosen("dur <= 7"), (Rows{0, 4}));
  EXPECT_EQ(chosen("dur > 7"), (Rows{1, 3}));
  EXPECT_EQ(chosen("dur >= 7"), (Rows{1, 3, 4}));
  EXPECT_EQ(chosen("7 <= dur"), (Rows{1, 3, 4})); // the constant first
  EXPECT_EQ(chosen("dur > step * 7"), (Rows{1})); // 20 > 14; 20 < 28; 7 < 14
  EXPECT_EQ(chosen("dur >= ?", {int64_t(20)}), (Rows{1, 3}));
}

TEST(ExpressionTest, ComparesWholeDoublesWithIntegersExactly) {
  EXPECT_EQ(chosen("dur > 6.5"), (Rows{1, 3, 4}));
  EXPECT_EQ(chosen("dur >= 2e1"), (Rows{1, 3}));
  EXPECT_EQ(chosen("dur >= ?", {20.0}), (Rows{1, 3}));
  // 2^53 + 1 is no double: as doubles the two would be equal.
  EXPECT_EQ(first("9007199254740993 > 9007199254740992.0"), "true");
  EXPECT_EQ(chosen("dur < 1e300"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(chosen("dur < ?", {std::nan("")}), (Rows{}));
}

TEST(ExpressionTest, ComparesDoublesAsIeeeDoes) {
  // Row 1 is a NaN that was logged, row 2 is null.
  EXPECT_EQ(chosen("value < 1"), (Rows{0, 4}));
  EXPECT_EQ(chosen("value != 0.5"), (Rows{1, 3, 4}));
  EXPECT_EQ(chosen("value == value"), (Rows{0, 3, 4}));
  EXPECT_EQ(chosen("value != value"), (Rows{1}));
  EXPECT_EQ(chosen("finite(value)"), (Rows{0, 4}));
  EXPECT_EQ(chosen("not finite(value)"), (Rows{1, 2, 3}));
  EXPECT_EQ(chosen("finite(dur)"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(chosen("abs(value) > 1"), (Rows{3, 4})); // inf, 2.5
}

TEST(ExpressionTest, MultipliesTheNumbersOfLists) {
  // 8 * 64 = 512, then 1 and 2; rows without a list have no product.
  EXPECT_EQ(chosen("product(shape) == 512"), (Rows{0}));
  EXPECT_EQ(chosen("product(shape) < 2 * dur - 10"), (Rows{4}));
  EXPECT_EQ(chosen("product(shape) is null"), (Rows{1, 3}));
  EXPECT_EQ(problem("product(dur) > 1"),
            "in \"product(dur) > 1\": 'product' takes an int list, not int "
            "column 'dur' at column 1");
}

TEST(ExpressionTest, KeepsUnknownUnknown) {
  EXPECT_EQ(chosen("not dur == 20"), (Rows{0, 4}));
  EXPECT_EQ(chosen("dur == 20 or dur != 20"), (Rows{0, 1, 3, 4}));
  // Row 2: unknown or true is true, unknown and false is false.
  EXPECT_EQ(chosen("dur == 20 or step == 3"), (Rows{1, 2, 3}));
  EXPECT_EQ(chosen("not (dur == 20 and step == 1)"), (Rows{0, 1, 2, 3, 4}));
  EXPECT_EQ(chosen("not (dur == 20 and step == 3)"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(chosen("not (ok and ok)"), (Rows{1, 4})); // 2 and 2 is unknown
  EXPECT_EQ(chosen("(dur > 0) is null"), (Rows{2}));
}

TEST(ExpressionTest, TestsForNull) {
  for (llvm::StringRef Name : {"dur", "value", "ok", "name"}) {
    EXPECT_EQ(chosen((Name + " is null").str()), (Rows{2})) << Name.str();
    EXPECT_EQ(chosen((Name + " is not null").str()), (Rows{0, 1, 3, 4}));
  }
  EXPECT_EQ(chosen("shape is null"), (Rows{1, 3}));
  EXPECT_EQ(chosen("shape is not null"), (Rows{0, 2, 4}));
}

TEST(ExpressionTest, ReadsConditionsAndBools) {
  EXPECT_EQ(chosen("ok"), (Rows{0, 3}));
  EXPECT_EQ(chosen("not ok"), (Rows{1, 4}));
  EXPECT_EQ(chosen("ok == false"), (Rows{1, 4}));
  EXPECT_EQ(chosen("ok != ?", {true}), (Rows{1, 4}));
  EXPECT_EQ(chosen("true"), (Rows{0, 1, 2, 3, 4}));
  EXPECT_EQ(chosen("1 > 2"), (Rows{}));
}

TEST(ExpressionTest, ComparesText) {
  EXPECT_EQ(chosen("name == 'copy'"), (Rows{1}));
  EXPECT_EQ(chosen("name != \"copy\""), (Rows{0, 3, 4}));
  EXPECT_EQ(chosen("name == ''"), (Rows{3})); // empty text is not null
  EXPECT_EQ(chosen("name == 'never seen'"), (Rows{}));
  EXPECT_EQ(chosen("name != 'never seen'"), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(chosen("name == ?", {std::string("gemm_a")}), (Rows{0}));
  EXPECT_EQ(chosen("name >= 'gemm_a'"), (Rows{0, 4}));
  EXPECT_EQ(chosen("'gemm_a' > name"), (Rows{1, 3})); // name < 'gemm_a'
  EXPECT_EQ(chosen("name < name"), (Rows{}));
  EXPECT_EQ(chosen("name <= name"), (Rows{0, 1, 3, 4}));
  // Neither is in the pool; they are still two texts.
  EXPECT_EQ(chosen("? == 'all' or step == 1", {std::string("some")}),
            (Rows{0}));
  EXPECT_EQ(first("'it''s' == \"it's\""), "true");
}

TEST(ExpressionTest, MatchesGlobsAndFindsText) {
  EXPECT_EQ(chosen("match(name, 'gemm*')"), (Rows{0, 4}));
  EXPECT_EQ(chosen("match(name, 'gemm_?|copy')"), (Rows{0, 1, 4}));
  EXPECT_EQ(chosen("match(name, 'gemm')"), (Rows{})); // the whole name
  EXPECT_EQ(chosen("match(name, 'x|')"), (Rows{3}));  // an empty alternative
  EXPECT_EQ(chosen("not match(name, 'gemm*')"), (Rows{1, 3}));
  EXPECT_EQ(chosen("contains(name, 'emm_')"), (Rows{0, 4}));
  EXPECT_EQ(chosen("contains(name, ?)", {std::string("op")}), (Rows{1}));
  EXPECT_EQ(chosen("match(?, 'a*') and step == 1", {std::string("abc")}),
            (Rows{0}));
}

TEST(ExpressionTest, ComputesExactly) {
  EXPECT_EQ(first("dur + step * 2"), "7");    // 5 + 1 * 2
  EXPECT_EQ(first("(dur + step) * 2"), "12"); // (5 + 1) * 2
  EXPECT_EQ(first("dur - 2 - 1"), "2");       // (5 - 2) - 1
  EXPECT_EQ(first("dur / 2"), "2.5");         // a double
  EXPECT_EQ(first("6 / 3 / 2"), "1");         // (6 / 3) / 2
  EXPECT_EQ(first("dur + value"), "5.5");     // 5 + 0.5
  EXPECT_EQ(first("-dur + 1"), "-4");         // (-5) + 1
  EXPECT_EQ(first("abs(step - dur)"), "4");   // |1 - 5|
  EXPECT_EQ(first("- - 3"), "3");
  EXPECT_EQ(first("1e-3 * 2"), "0.002");
  EXPECT_EQ(first("dur / 0"), "inf");
  // A double holds no odd number above 2^53 = 9007199254740992.
  EXPECT_EQ(first("9007199254740992 + step"), "9007199254740993");
  // 2^63 - 1 + 2 wraps to -2^63 + 1.
  EXPECT_EQ(first("9223372036854775807 + 2"), "-9223372036854775807");
}

TEST(ExpressionTest, ComputesColumnsOfEveryType) {
  Table T = sample();
  ColumnRef Sum = *compute(T, "dur + 1");
  ASSERT_EQ(Sum->type(), ColumnType::Int);
  EXPECT_EQ(Sum->ints()[4], 8); // 7 + 1
  EXPECT_TRUE(Sum->isNull(2));
  ColumnRef Share = *compute(T, "dur / 10");
  ASSERT_EQ(Share->type(), ColumnType::Double);
  EXPECT_DOUBLE_EQ(Share->doubles()[4], 0.7); // 7 / 10
  EXPECT_TRUE(isNullDouble(Share->doubles()[2]));
  ColumnRef Scaled = *compute(T, "value * 2");
  EXPECT_TRUE(std::isnan(Scaled->doubles()[1]));
  EXPECT_FALSE(Scaled->isNull(1)); // a NaN that was logged stays a value
  EXPECT_TRUE(Scaled->isNull(2));
  ColumnRef Long = *compute(T, "dur > 6");
  ASSERT_EQ(Long->type(), ColumnType::Bool);
  EXPECT_EQ(Long->bools()[0], 0); // 5 > 6
  EXPECT_EQ(Long->bools()[1], 1); // 20 > 6
  EXPECT_EQ(Long->bools()[2], NullBool);
  ColumnRef Word = *compute(T, "'new'");
  ASSERT_EQ(Word->type(), ColumnType::String);
  EXPECT_EQ(T.pool()->text(Word->strings()[4]), "new");
  // The column itself is shared, not copied.
  EXPECT_EQ(*compute(T, "dur"), T.find("dur")->Data);
}

TEST(ExpressionTest, ReadsThroughARowIndex) {
  Table T = sample().take({4, 2, 0});
  EXPECT_EQ(originRows(*where(T, "dur < 10")), (Rows{4, 0})); // 7, null, 5
  EXPECT_EQ(originRows(*where(T, "name is null")), (Rows{2}));
  EXPECT_EQ(originRows(*where(T, "shape is null")),
            (Rows{})); // [2] [1] [8, 64]
  EXPECT_EQ(originRows(*where(T, "match(name, '*a') and ok")), (Rows{0}));
  EXPECT_EQ((*compute(T, "dur"))->ints()[0], 7);
}

TEST(ExpressionTest, CrossesBlocks) {
  // 5,000 rows are 2,048 + 2,048 + 904.
  auto N = std::make_shared<Column>(ColumnType::Int);
  for (int64_t I = 0; I != 5000; ++I)
    N->addInt(I);
  Table T("t", nullptr, Columns{{"n", N}}, 5000, true);
  EXPECT_EQ(originRows(*where(T, "n == 2047 or n == 2048 or n >= 4998")),
            (Rows{2047, 2048, 4998, 4999}));
  EXPECT_EQ((*compute(T, "n + 1"))->ints()[4999], 5000);
  EXPECT_EQ((*compute(T, "7"))->ints()[4999], 7);
}

TEST(ExpressionTest, LongChainsDoNotNest) {
  std::string Text = "step == 0";
  for (int I = 0; I != 20000; ++I)
    Text += " or step == 4";
  EXPECT_EQ(chosen(Text), (Rows{3}));
}

TEST(ExpressionTest, NamesColumnsInBackQuotes) {
  Table T = sample().with("odd `name`", sample().find("step")->Data);
  EXPECT_EQ(where(T, "`odd ``name``` == 4")->rows(), 1u);
  EXPECT_EQ(whereEqual(T, {{"odd `name`", int64_t(2)}})->rows(), 2u);
}

TEST(ExpressionTest, WhereEqual) {
  Table T = sample();
  EXPECT_EQ(originRows(*whereEqual(T, {{"dur", int64_t(20)}, {"ok", true}})),
            (Rows{3}));
  EXPECT_EQ(originRows(*whereEqual(T, {{"name", std::string("copy")}})),
            (Rows{1}));
  EXPECT_EQ(whereEqual(T, {})->rows(), 5u);
  EXPECT_EQ(message(whereEqual(T, {{"nam", int64_t(1)}}).takeError()),
            "unknown column 'nam' in 'gpu_work' / did you mean 'name'? "
            "columns: dur, step, value, ok, name, shape");
  EXPECT_EQ(message(whereEqual(T, {{"name", int64_t(1)}}).takeError()),
            "in \"name\": cannot compare string column 'name' with int "
            "at column 1 / text is quoted, as in kind == 'kernel'");
}

TEST(ExpressionTest, SaysWhereTheSyntaxIsWrong) {
  EXPECT_EQ(problem("dur >>= 3"),
            "in \"dur >>= 3\": expected a value at column 6");
  EXPECT_EQ(problem(""), "in \"\": expected a value at column 1");
  EXPECT_EQ(problem("dur > "), "in \"dur > \": expected a value at column 7");
  EXPECT_EQ(problem("dur = 3"), "in \"dur = 3\": unexpected '=' at column 5 / "
                                "use '==' to compare");
  EXPECT_EQ(problem("ok && ok"),
            "in \"ok && ok\": unexpected '&&' at column 4 / use 'and'");
  EXPECT_EQ(problem("dur > 3 4"),
            "in \"dur > 3 4\": expected an operator at column 9");
  EXPECT_EQ(problem("(dur > 3"), "in \"(dur > 3\": expected ')' at column 9");
  EXPECT_EQ(problem("dur > 5ms"),
            "in \"dur > 5ms\": malformed number '5ms' at column 7 / numbers "
            "have no units; times are in nanoseconds, as in 5e6");
  EXPECT_EQ(problem("dur > 99999999999999999999"),
            "in \"dur > 99999999999999999999\": the number "
            "99999999999999999999 does not fit 64 bits at column 7 / write it "
            "with an exponent, as in 1e20");
  EXPECT_EQ(problem("name == 'x"),
            "in \"name == 'x\": unclosed quote at column 9");
  EXPECT_EQ(problem("1 < dur < 5"),
            "in \"1 < dur < 5\": comparisons do not chain: unexpected '<' at "
            "column 9 / join them with 'and', as in 1 < x and x < 5");
  EXPECT_EQ(problem("dur is 3"),
            "in \"dur is 3\": expected 'null' at column 8");
  EXPECT_EQ(problem("matches(name, 'x')"),
            "in \"matches(name, 'x')\": unknown function 'matches' at column "
            "1 / did you mean 'match'? functions: abs, ceil, coalesce, "
            "contains, ends_with, exp, finite, floor, if, length, log, match, "
            "max, min, product, round, sqrt, starts_with");
  EXPECT_EQ(problem("dur > \xc3\xa4"),
            "in \"dur > \xc3\xa4\": unexpected '\xc3\xa4' at column 7");
}

TEST(ExpressionTest, CountsArguments) {
  EXPECT_EQ(problem("dur > ?"), "in \"dur > ?\": 1 '?' but 0 arguments / each "
                                "'?' takes the next argument");
  EXPECT_EQ(problem("dur > 1", {int64_t(1)}),
            "in \"dur > 1\": 0 '?' but 1 argument / each '?' takes the next "
            "argument");
}

TEST(ExpressionTest, SaysWhichTypesClash) {
  EXPECT_EQ(problem("duration > 1"),
            "unknown column 'duration' in 'gpu_work' / did you mean 'dur'? "
            "columns: dur, step, "
            "value, ok, name, shape");
  EXPECT_EQ(problem("name > 3"),
            "in \"name > 3\": cannot compare string column 'name' with int at "
            "column 6 / text is quoted, as in kind == 'kernel'");
  EXPECT_EQ(problem("ok == 1"),
            "in \"ok == 1\": cannot compare bool column 'ok' with int at "
            "column 4 / a condition stands alone or equals true or false");
  EXPECT_EQ(problem("shape == 1"),
            "in \"shape == 1\": cannot compare int list column 'shape' with "
            "int at column 7 / a list can only be tested by 'is null'");
  EXPECT_EQ(problem("ok < true"),
            "in \"ok < true\": conditions have no order at column 4 / use "
            "'==' or '!=', 'and' or 'or'");
  EXPECT_EQ(problem("dur and ok"),
            "in \"dur and ok\": 'and' takes a condition, not int column 'dur' "
            "at column 5 / compare it, as in dur > 0");
  EXPECT_EQ(problem("dur"), "in \"dur\": expected a condition, not int / "
                            "compare it, as in dur > 0");
  EXPECT_EQ(problem("name + 1 > 2"),
            "in \"name + 1 > 2\": expected a number, not string column 'name' "
            "at column 6");
  EXPECT_EQ(problem("match(dur, 'x')"),
            "in \"match(dur, 'x')\": 'match' takes text, not int column 'dur' "
            "at column 1");
  EXPECT_EQ(problem("contains(name, name)"),
            "in \"contains(name, name)\": the second part of 'contains' is not "
            "text in quotes or a '?' at column 1 / as in contains(name, "
            "'gemm')");
  EXPECT_EQ(first("shape"), "in \"shape\": column 'shape' is an int list and "
                            "cannot be computed with");
}

TEST(ExpressionTest, LimitsNesting) {
  std::string Deep = std::string(64, '(') + "ok" + std::string(64, ')');
  EXPECT_EQ(chosen(Deep), (Rows{0, 3}));
  std::string Deeper = "(" + Deep + ")";
  EXPECT_EQ(problem(Deeper), "in \"" + Deeper +
                                 "\": nested deeper than 64 levels at column "
                                 "66");
  std::string Minus = std::string(100000, '-') + "1";
  EXPECT_NE(problem(Minus).find("nested deeper"), std::string::npos);
}

} // namespace
