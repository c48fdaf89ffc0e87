//===- TestFileTest.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/TestFile.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace culprit;

namespace {

/// The first mistake in \p Text, with its hint in brackets.
std::string mistake(llvm::StringRef Text) {
  TestFile F = parseTestFile("a.test", Text);
  if (F.Mistakes.empty())
    return "";
  const Diagnostic &D = F.Mistakes.front();
  return D.Message + (D.Hint.empty() ? "" : " [" + D.Hint + "]");
}

TEST(WrittenNumber, DecimalsGiveTheTolerance) {
  auto Fits = [](const char *Text, double Value) {
    return WrittenNumber::parse(Text)->matches(Value);
  };
  EXPECT_TRUE(Fits("0.8", 0.84));
  EXPECT_FALSE(Fits("0.8", 0.86));
  EXPECT_TRUE(Fits("0.80", 0.804));
  EXPECT_FALSE(Fits("0.80", 0.84));
  EXPECT_TRUE(Fits("40", 40));
  EXPECT_FALSE(Fits("40", 40.4));
  EXPECT_TRUE(Fits("1.56e6", 1561000));
  EXPECT_FALSE(Fits("1.56e6", 1566000));
  EXPECT_TRUE(Fits("1.5e-3", 0.00154));
  EXPECT_TRUE(Fits("0.1", 0.1 + 1e-15));
  EXPECT_TRUE(Fits("nan", std::nan("")));
  EXPECT_FALSE(WrittenNumber::parse("many"));
  EXPECT_FALSE(WrittenNumber::parse(""));
}

TEST(TestFile, ReadsEveryPart) {
  TestFile F = parseTestFile("dir/a.test", R"(# 60 us of every 100 us.
# RUN: %culprit test %s
detector: gpu/idle
name: idle
case:
  gpu_work: {columns: [start, stop], rows: [[0, 1]]}
  gpu_work: {columns: [start, stop], rows: [[2, 3]]}
options: {min_share: 0.3, word: "x y"}
expect:
- symptom: gpu-idle
  at: {device: 0, layer: "a b"}
  message: "GPU 0 *"
  score: 0.8
---
name: two files
case: [a.json, b.log]
expect: {clear: true, unjudged: {gpu-idle: "more *"}}
---
name: one file
case: a.json
expect: {skipped: [gpu_work, scalars.loss]}
---
name: none
case: {}
expect: []
)");
  ASSERT_TRUE(F.Mistakes.empty()) << F.Mistakes[0].Message;
  EXPECT_FALSE(F.IsLitTest);
  EXPECT_EQ(F.Detector, "gpu/idle");
  ASSERT_EQ(F.Cases.size(), 4u);
  const TestCase &Idle = F.Cases[0];
  EXPECT_EQ(Idle.Name, "idle");
  EXPECT_EQ(Idle.Line, 4u);
  // Blank but for the tables, which keep their lines and columns.
  EXPECT_EQ(Idle.Tables,
            "\n\n\n\n\n"
            "  gpu_work: {columns: [start, stop], rows: [[0, 1]]}\n"
            "  gpu_work: {columns: [start, stop], rows: [[2, 3]]}\n");
  ASSERT_EQ(Idle.Options.size(), 2u);
  EXPECT_EQ(Idle.Options[1].Value, "x y");
  EXPECT_EQ(Idle.Options[1].Line, 8u);
  ASSERT_EQ(Idle.Expected.Reports.size(), 1u);
  const ExpectedReport &R = Idle.Expected.Reports[0];
  EXPECT_EQ(R.Line, 10u);
  ASSERT_EQ(R.Fields.size(), 5u);
  EXPECT_EQ(R.symptom(), "gpu-idle");
  EXPECT_EQ(R.Fields[2].Key, "at.layer");
  EXPECT_EQ(R.Fields[2].Text, "a b");
  EXPECT_EQ(R.find("score")->Line, 13u);

  EXPECT_EQ(F.Cases[1].Paths, (std::vector<std::string>{"a.json", "b.log"}));
  EXPECT_EQ(F.Cases[1].Expected.What, Expectation::Kind::Clear);
  ASSERT_EQ(F.Cases[1].Expected.Unjudged.size(), 1u);
  EXPECT_EQ(F.Cases[1].Expected.Unjudged[0].Text, "more *");
  EXPECT_EQ(F.Cases[2].Expected.Texts.size(), 2u);
  EXPECT_EQ(F.Cases[3].Expected.What, Expectation::Kind::Clear);
}

TEST(TestFile, AFlowMapOfTablesBeginsAtItsBracket) {
  TestFile F = parseTestFile("a.test", "name: n\n"
                                       "case: {scalars: {columns: [a],\n"
                                       "  rows: [[1]]}}   # why\n"
                                       "expect: clear\n");
  ASSERT_EQ(F.Cases.size(), 1u);
  EXPECT_EQ(F.Cases[0].Tables, "\n      {scalars: {columns: [a],\n"
                               "  rows: [[1]]}}   # why\n");
}

TEST(TestFile, CommandsOfLitAlone) {
  EXPECT_TRUE(parseTestFile("a", "# RUN: %culprit list %s\nx: [").IsLitTest);
  EXPECT_FALSE(parseTestFile("a", "# RUN: %culprit test %s").IsLitTest);
  EXPECT_FALSE(parseTestFile("a", "name: RUNNING").IsLitTest);
}

TEST(TestFile, AMistakeLeavesTheOtherCases) {
  TestFile F = parseTestFile("a.test", "name: a\ncase: {}\nexpect: claer\n"
                                       "---\n"
                                       "name: b\ncase: {}\nexpect: clear\n"
                                       "---\n"
                                       "name: [\n"
                                       "---\n"
                                       "name: c\ncase: {}\nexpect: clear\n");
  EXPECT_EQ(F.Cases.size(), 2u);
  ASSERT_EQ(F.Mistakes.size(), 2u);
  EXPECT_EQ(F.Mistakes[0].Message, "a.test:3: cannot expect 'claer'");
  EXPECT_TRUE(llvm::StringRef(F.Mistakes[0].Hint)
                  .starts_with("did you mean 'clear'?"));
  EXPECT_TRUE(llvm::StringRef(F.Mistakes[1].Message)
                  .starts_with("a.test:9: this is no YAML"))
      << F.Mistakes[1].Message;
}

TEST(TestFile, TabsAndIndentsAreNamed) {
  TestFile Tab = parseTestFile(
      "a.test", "name: a\ncase:\n  scalars:\n\tcolumns: [step]\n");
  ASSERT_EQ(Tab.Mistakes.size(), 1u);
  EXPECT_EQ(Tab.Mistakes[0].Hint,
            "it begins with a tab, and YAML wants blanks");
  TestFile Left = parseTestFile(
      "a.test", "name: a\ncase:\n  scalars:\n    columns: [step]\n"
                "   rows: [[1]]\nexpect: clear\n");
  ASSERT_EQ(Left.Mistakes.size(), 1u);
  EXPECT_TRUE(llvm::StringRef(Left.Mistakes[0].Hint)
                  .starts_with("keys of one map stand below each other;"))
      << Left.Mistakes[0].Hint;
}

TEST(TestFile, NamesEveryMistake) {
  EXPECT_TRUE(llvm::StringRef(mistake("# nothing\n"))
                  .starts_with("a.test: no case in it ["));
  EXPECT_TRUE(llvm::StringRef(mistake("- a\n"))
                  .starts_with("a.test:1: a case must be a map, not a list"));
  EXPECT_TRUE(
      llvm::StringRef(mistake("name: a\ncsae: {}\nexpect: clear\n"))
          .starts_with("a.test:2: a test case has no 'csae' [did you mean "
                       "'case'?"));
  EXPECT_TRUE(llvm::StringRef(mistake("name: a\nexpect: clear\n"))
                  .starts_with("a.test:1: the case has no 'case'"));
  auto Expected = [](llvm::StringRef Text) {
    return mistake(("name: a\ncase: {}\nexpect: " + Text + "\n").str());
  };
  EXPECT_EQ(Expected("\n  symptom: x"),
            "a.test:4: reports must be a list [begin the report with a dash: "
            "- symptom: ...]");
  EXPECT_EQ(Expected("\n- mesage: x\n  symptom: y").substr(0, 42),
            "a.test:4: a report has no 'mesage' [did yo");
  EXPECT_EQ(Expected("\n- message: x"), "a.test:4: the report has no symptom");
  EXPECT_EQ(Expected("\n- symptom: x\n  at: 3"),
            "a.test:5: 'at' must be a map, not '3' [write at: {device: 0}]");
  EXPECT_EQ(Expected("\n- symptom: x\n  score: high"),
            "a.test:5: the score of a report must be a number, not 'high'");
  EXPECT_EQ(Expected("\n- symptom: x\n  severity: bad"),
            "a.test:5: the severity is info, warning or error, not 'bad'");
  EXPECT_EQ(Expected("\n- symptom: x\n  evidence: 1.5"),
            "a.test:5: evidence wants how many rows there are, not '1.5'");
  EXPECT_EQ(Expected("{clear: true, failed: x}"),
            "a.test:3: a case has one outcome: reports, clear, skipped or "
            "failed");
  EXPECT_EQ(Expected("{skipped: []}"),
            "a.test:3: 'skipped' wants a text, not a list");
  EXPECT_EQ(mistake("name: a\nname: b\ncase: {}\nexpect: clear\n"),
            "a.test:2: 'name' is given twice [keep one of them; a line of "
            "three dashes begins another document]");
  EXPECT_EQ(mistake("name: a\ncase: {}\nexpect: clear\n---\n"
                    "name: a\ncase: {}\nexpect: clear\n"),
            "a.test:5: the name 'a' is taken by line 1");
}

TEST(TestFile, DeepNestingEnds) {
  std::string Deep = "name: a\ncase: " + std::string(5000, '[') + "\n";
  EXPECT_NE(mistake(Deep), "");
}

} // namespace
