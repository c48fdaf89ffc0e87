//===- ExpressionFunctionsTest.cpp ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Error.h"
#include "Table/Expression.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace culprit;

namespace {

/// row   a     b     x      ok     name
///  0    7     2     2.25   true   'gemm_a'
///  1   -7     2    -2.5    false  'copy'
///  2   null   0     null   null   null
///  3    7     0     nan    true   ''
struct FunctionsTest : testing::Test {
  FunctionsTest() {
    auto Pool = std::make_shared<StringPool>();
    auto A = std::make_shared<Column>(ColumnType::Int);
    auto B = std::make_shared<Column>(ColumnType::Int);
    auto X = std::make_shared<Column>(ColumnType::Double);
    auto Ok = std::make_shared<Column>(ColumnType::Bool);
    auto Name = std::make_shared<Column>(ColumnType::String);
    for (int64_t Value : {int64_t(7), int64_t(-7), NullInt, int64_t(7)})
      A->addInt(Value);
    for (int64_t Value : {2, 2, 0, 0})
      B->addInt(Value);
    for (double Value : {2.25, -2.5, nullDouble(), std::nan("")})
      X->addDouble(Value);
    Ok->addBool(true);
    Ok->addBool(false);
    Ok->addNull();
    Ok->addBool(true);
    Name->addString(Pool->intern("gemm_a"));
    Name->addString(Pool->intern("copy"));
    Name->addNull();
    Name->addString(Pool->intern(""));
    T = Table("t", Pool,
              std::vector<std::pair<std::string, ColumnRef>>{
                  {"a", A}, {"b", B}, {"x", X}, {"ok", Ok}, {"name", Name}},
              4);
  }

  /// The values of \p Expression as text, with blanks between.
  std::string values(llvm::StringRef Expression,
                     llvm::ArrayRef<Argument> Arguments = {}) {
    llvm::Expected<ColumnRef> Out = compute(T, Expression, Arguments);
    if (!Out)
      return problemOf(Out.takeError());
    std::string Text;
    for (size_t I = 0; I != (*Out)->size(); ++I)
      Text += (I ? " " : "") + (*Out)->cell(I, *T.pool()).text();
    return Text;
  }
  static std::string problemOf(llvm::Error E) {
    return toDiagnostics(std::move(E)).front().Message;
  }

  Table T;
};

TEST_F(FunctionsTest, RemainderHasTheSignOfTheDivisor) {
  // -7 = -4 * 2 + 1. Nothing is left of a division by 0.
  EXPECT_EQ("1 1 - -", values("a % b"));
  EXPECT_EQ("-1 -1 - -1", values("a % -2"));
  EXPECT_EQ("0 0 - 0", values("a % -1"));
  EXPECT_EQ("0.25 1.5 - nan", values("x % 2"));
  // Binds as * does: 1 + (7 % 4).
  EXPECT_EQ("4 2 - 4", values("1 + a % 4"));
}

TEST_F(FunctionsTest, Rounding) {
  EXPECT_EQ("2 -3 - nan", values("floor(x)"));
  EXPECT_EQ("3 -2 - nan", values("ceil(x)"));
  EXPECT_EQ("2 -3 - nan", values("round(x)"));
  EXPECT_EQ("7 -7 - 7", values("floor(a)")); // stays an integer
  EXPECT_EQ(ColumnType::Int, (*compute(T, "round(a + b)"))->type());
}

TEST_F(FunctionsTest, RootsAndLogarithms) {
  EXPECT_EQ("1.5 - - nan", values("sqrt(x)"));
  EXPECT_EQ("1.94591 - - 1.94591", values("log(a)")); // ln 7
  EXPECT_EQ("- - - -", values("log(0 * a)"));
  EXPECT_EQ("7.38906 7.38906 1 1", values("exp(b)")); // e^2
}

TEST_F(FunctionsTest, LeastAndLargest) {
  EXPECT_EQ("2 -7 - 0", values("min(a, b)"));
  EXPECT_EQ("7 2 - 7", values("max(a, b)"));
  EXPECT_EQ("2 -7 - nan", values("min(a, b, x)"));
  EXPECT_EQ("7 5 - 7", values("max(a, b, 5)"));
  EXPECT_EQ("2.25 0 - nan", values("max(x, 0)"));
}

TEST_F(FunctionsTest, If) {
  EXPECT_EQ("7 2 0 7", values("if(ok, a, b)")); // unknown is not true
  EXPECT_EQ("7 -2.5 - 7", values("if(a > 0, a, x)"));
  // A text that no row holds is still a value.
  EXPECT_EQ("up down down up", values("if(a > 0, 'up', 'down')"));
  EXPECT_EQ("true false false true", values("'up2' == if(a > 0, 'up2', 'd2')"));
  EXPECT_EQ("true false false true", values("if(ok, ok, false)"));
  EXPECT_EQ("in \"if(ok, a, name)\": 'if' cannot choose between int column 'a' "
            "and string column 'name' at column 1",
            values("if(ok, a, name)"));
  EXPECT_EQ("in \"if(a, 1, 2)\": 'if' takes a condition, not int column 'a' at "
            "column 1",
            values("if(a, 1, 2)"));
  EXPECT_EQ("in \"if(ok, 1)\": expected ',' at column 9",
            values("if(ok, 1)"));
}

TEST_F(FunctionsTest, Coalesce) {
  EXPECT_EQ("7 -7 0 7", values("coalesce(a, b)"));
  EXPECT_EQ("7 -7 -1 7", values("coalesce(a, a, -1)"));
  EXPECT_EQ("2.25 -2.5 0 nan", values("coalesce(x, b)")); // NaN is a value
  EXPECT_EQ("gemm_a copy none ", values("coalesce(name, 'none')"));
}

TEST_F(FunctionsTest, In) {
  EXPECT_EQ("true false - true", values("a in (1, 7)"));
  EXPECT_EQ("true true - true", values("a in (-7.0, 7, 0.5)"));
  EXPECT_EQ("false false - false", values("a not in (?, ?)",
                                          {int64_t(7), int64_t(-7)}));
  EXPECT_EQ("false true - false", values("x in (-2.5, 3)"));
  EXPECT_EQ("true false - false", values("name in ('gemm_a', 'absent')"));
  EXPECT_EQ("true true - false", values("name not in ('')"));
  EXPECT_EQ("false true - false", values("ok in (false)"));
  EXPECT_EQ("true true true true", values("'k' in ('k')"));
  EXPECT_EQ("in \"a in ('x')\": cannot look for string in int column 'a' at "
            "column 3",
            values("a in ('x')"));
  EXPECT_EQ("in \"a in (b)\": expected a constant or '?' at column 8",
            values("a in (b)"));
  EXPECT_EQ("in \"a in 3\": expected '(' at column 6", values("a in 3"));
  // Many are searched, few are compared one by one.
  std::string Text = "a in (-7";
  for (int I = 100; I != 160; ++I)
    Text += ", " + std::to_string(I);
  EXPECT_EQ("false true - false", values(Text + ")"));
  EXPECT_EQ("in \"a not b\": expected 'in' at column 7", values("a not b"));
}

TEST_F(FunctionsTest, Texts) {
  EXPECT_EQ("6 4 - 0", values("length(name)"));
  EXPECT_EQ("3 3 3 3", values("length('abc')"));
  EXPECT_EQ("true false - false", values("starts_with(name, 'gemm')"));
  EXPECT_EQ("true false - false", values("ends_with(name, '_a')"));
  EXPECT_EQ("in \"length(a)\": 'length' takes text, not int column 'a' at "
            "column 1",
            values("length(a)"));
}

TEST_F(FunctionsTest, NamesWhatThereIs) {
  EXPECT_EQ("unknown function 'flor'",
            values("flor(x)").substr(14, 23));
  auto Problem = toDiagnostics(compute(T, "flor(x)").takeError()).front();
  EXPECT_EQ("did you mean 'floor'? functions: abs, ceil, coalesce, contains, "
            "ends_with, exp, finite, floor, if, length, log, match, max, min, "
            "product, round, sqrt, starts_with",
            Problem.Hint);
  // Words of functions are still names of columns.
  Table Named = T.with("max", T.find("b")->Data).with("in", T.find("a")->Data);
  EXPECT_EQ(2u, where(Named, "max == 2")->rows());
  EXPECT_EQ(2u, where(Named, "in in (7)")->rows());
}

TEST_F(FunctionsTest, ParsedOnceAndBoundAnew) {
  for (int64_t Least : {-10, 0, 10})
    EXPECT_EQ(Least < -7 ? 3u : Least < 7 ? 2u : 0u,
              where(T, "a > ?", {Argument(Least)})->rows());
  // The same text over columns of other types.
  Table Other = T.with("a", T.find("x")->Data);
  EXPECT_EQ(1u, where(Other, "a > ?", {Argument(2.0)})->rows());
  EXPECT_EQ("in \"a > ?\": 1 '?' but 2 arguments",
            values("a > ?", {int64_t(1), int64_t(2)}));
  EXPECT_EQ("in \"a > ?\": cannot compare int column 'a' with string at "
            "column 3",
            values("a > ?", {std::string("x")}));
}

TEST_F(FunctionsTest, WhereValues) {
  EXPECT_EQ(2u, whereValues(T, {{"a", {int64_t(7)}}})->rows());
  EXPECT_EQ(3u, whereValues(T, {{"a", {int64_t(7), int64_t(-7)}}})->rows());
  EXPECT_EQ(1u, whereValues(T, {{"a", {int64_t(7)}},
                                {"name", {std::string("gemm_a"),
                                          std::string("copy")}}})
                    ->rows());
  EXPECT_EQ(0u, whereValues(T, {{"a", {}}})->rows());
  EXPECT_EQ(4u, whereValues(T, {})->rows());
}

} // namespace
