//===- NilNamesTest.cpp - Which expression of a line was nil --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/NilNames.h"
#include "ScriptTest.h"

using namespace culprit;

namespace {

/// What is said to be nil; the variable `m` and the field `row.layer` are.
std::string nilIn(llvm::StringRef Message, llvm::StringRef Line) {
  return findNil(Message, Line,
                 [](llvm::StringRef Name, llvm::StringRef Field) {
                   return (Name == "m" && Field.empty()) ||
                          (Name == "row" && Field == "layer");
                 })
      .Text;
}

constexpr const char *Index = "attempt to index a nil value";
constexpr const char *Compare = "attempt to compare number with nil";
constexpr const char *Compute = "attempt to perform arithmetic on a nil value";

TEST(NilNamesTest, VerbsThatMayGiveNothing) {
  EXPECT_EQ("late:first()", nilIn(Index, "  at = { step = late:first().step }"));
  EXPECT_EQ("a.b:where(\"x)\"):last()",
            nilIn(Index, "log(a.b:where(\"x)\"):last().step) -- :first().x"));
  EXPECT_EQ(":first()", nilIn(Index, "  :first().step"));
  EXPECT_EQ("t:max('v')", nilIn(Compare, "if t:max('v') > 3 then"));
  EXPECT_EQ("t:max('v')", nilIn(Compute, "return 2 * t:max('v')"));
  // Cut in front, where it is too long to read.
  EXPECT_EQ("..." + std::string(52, 'b') + ":first()",
            nilIn(Index, std::string(80, 'b') + ":first().x"));
}

TEST(NilNamesTest, FunctionsOfOnesOwn) {
  EXPECT_EQ("copies.tiny(work)", nilIn(Index, "local n = copies.tiny(work).n"));
  // where() always gives a table, and format() a text.
  EXPECT_EQ("", nilIn(Index, "local n = work:where('a'):x"));
  EXPECT_EQ("", nilIn(Index, "local n = units.format(3):x"));
}

TEST(NilNamesTest, WhatIsCompared) {
  EXPECT_EQ("m", nilIn(Compare, "if m > 3 then"));
  EXPECT_EQ("row.layer", nilIn(Compare, "if 3 <= row.layer then"));
  EXPECT_EQ("", nilIn(Compare, "if other > 3 and row.step < 2 then"));
  // `m` is nil here, and no side of the comparison.
  EXPECT_EQ("", nilIn(Compare, "if not m and f.a.b > 3 then"));
}

TEST(NilNamesTest, NoAnswerWhereSeveralCouldBeMeant) {
  EXPECT_EQ("", nilIn(Index, "log(a:first().x, b:first().x)"));
  EXPECT_EQ("", nilIn(Compare, "if m > row.layer then"));
  EXPECT_EQ("a:first()", nilIn(Index, "log(a:first().x, a:first().y)"));
  EXPECT_EQ("", nilIn("attempt to call a nil value", "m > 3"));
}

TEST(NilNamesTest, AnyLineIsRead) {
  for (const char *Line :
       {"", ")", "().x", "(.x", "'", "\"\\", "--", ")))].x", ":)(.y", "m", "m<"})
    for (const char *Message : {Index, Compare, Compute})
      nilIn(Message, Line);
}

class NilInDetectorTest : public ScriptTest {};

TEST_F(NilInDetectorTest, ErrorsNameIt) {
  EXPECT_EQ(failureOf("log(1,\n case.scalars:where('step < 0'):first().step)"),
            "7: attempt to index a nil value "
            "(case.scalars:where('step < 0'):first()) (first() is nil where "
            "there is no such row: test it first, as in `if not row then "
            "return end`)");
  EXPECT_TRUE(llvm::StringRef(
                  failureOf("local m = case.scalars:where('step < 0')\n"
                            "m = m:max('value') if m > 3 then end"))
                  .starts_with("7: attempt to compare number with nil (m)"));
}

} // namespace
