//===- ReportTest.cpp - What detectors say ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "ScriptTest.h"

using namespace culprit;

namespace {

struct ReportTest : ScriptTest {
  /// A report with \p Fields besides what every one needs.
  Outcome report(const std::string &Fields,
                 const std::string &Evidence = "case.gpu_work") {
    return run("report { symptom = 'gpu-idle', score = 0.5, message = 'm', "
               "evidence = " +
               Evidence + ", " + Fields + "}");
  }
};

TEST_F(ReportTest, CarriesEverything) {
  Outcome O = report("at = { step = 3, rank = 0, zeta = 1.5, layer = 'a' }, "
                     "severity = 'warning', recoverable = 12.7, share = 0.3",
                     "{ case.gpu_work:first(), case.gpu_work:row(2), "
                     "case.gpu_work:gaps(), case.scalars:col('value') }");
  ASSERT_EQ(OutcomeKind::Matched, O.Kind) << error(O);
  ASSERT_EQ(1u, O.Reports.size());
  const Report &R = O.Reports.front();
  EXPECT_EQ("gpu-idle", R.Symptom);
  EXPECT_EQ(0.5, R.Score);
  EXPECT_EQ(Severity::Warning, R.Level);
  EXPECT_EQ(12, *R.RecoverableNs);
  EXPECT_EQ(0.3, *R.Share);
  std::string At;
  for (const Coordinate &C : R.At)
    At += C.Key + "=" + C.text() + " ";
  EXPECT_EQ("rank=0 step=3 layer=a zeta=1.5 ", At);

  // Rows of one table named one by one are one piece of evidence.
  ASSERT_EQ(3u, R.Evidence.size());
  const EvidenceRef &Rows = R.Evidence[0];
  EXPECT_EQ("gpu_work", Rows.Table);
  EXPECT_FALSE(Rows.Computed);
  EXPECT_EQ((std::vector<size_t>{0, 2}), Rows.Rows);
  EXPECT_EQ("run/p.json", Rows.Places[1].Path);
  EXPECT_EQ(107, Rows.Places[1].Place);
  EXPECT_EQ(std::vector<std::string>{"run/p.json"}, Rows.sources());
  const EvidenceRef &Gaps = R.Evidence[1];
  EXPECT_TRUE(Gaps.Computed);
  EXPECT_TRUE(Gaps.Rows.empty());
  EXPECT_EQ(1u, Gaps.Total);
  EXPECT_EQ("start", Gaps.ShownColumns.front());
  EXPECT_EQ("40", Gaps.Shown[0][0]);
  EXPECT_EQ("value", R.Evidence[2].Column);
  EXPECT_EQ(31u, R.Evidence[2].Total);
  EXPECT_EQ(EvidenceRef::MaxShown, R.Evidence[2].Shown.size());
}

TEST_F(ReportTest, APlaceMayBeAList) {
  Outcome O = report("at = { layers = { 'b', 'a' }, layer = 'b' }",
                     "case.gpu_work:first()");
  ASSERT_EQ(OutcomeKind::Matched, O.Kind) << error(O);
  const Report &R = O.Reports.front();
  EXPECT_EQ("layer", R.At[0].Key);
  EXPECT_TRUE(R.At[0].list().empty());
  EXPECT_EQ((std::vector<std::string>{"b", "a"}), R.at("layers")->list().vec());
  EXPECT_EQ("b, a", R.at("layers")->text());
  for (const char *Wrong : {"{}", "{ 1 }", "{ 'a', true }", "{ a = 'b' }"})
    EXPECT_TRUE(startsWith(
        error(report((std::string("at = { layers = ") + Wrong + " }").c_str(),
                     "case.gpu_work:first()")),
        "6: at.layers must be a number, a text or a list of texts, not "))
        << Wrong;
}

TEST_F(ReportTest, LongEvidenceIsCut) {
  Outcome O = run("local t = case.gpu_work\n"
                  "for i = 1, 6 do t = t:concat(t) end\n"
                  "report { symptom = 'gpu-idle', score = 0, message = 'm', "
                  "evidence = t }");
  const EvidenceRef &E = O.Reports.at(0).Evidence.at(0);
  EXPECT_EQ(256u, E.Total);
  EXPECT_EQ(EvidenceRef::MaxRows, E.Rows.size());
}

TEST_F(ReportTest, IsChecked) {
  auto Error = [&](const char *Fields) {
    return failureOf(std::string("report {") + Fields + "}");
  };
  const char *Good = "symptom = 'gpu-idle', message = 'm', ";
  auto With = [&](std::string Fields) {
    return Error((Good + Fields).c_str());
  };
  EXPECT_EQ("6: symptom 'gpu-idel' is not declared (did you mean 'gpu-idle'? "
            "declared: gpu-idle)",
            Error("symptom = 'gpu-idel', score = 1, message = 'm', evidence = "
                  "case.gpu_work"));
  EXPECT_EQ("6: the score of a report must be from 0 to 1, not 1.5 "
            "(math.min(1, ...) keeps it there)",
            With("score = 1.5, evidence = case.gpu_work"));
  EXPECT_TRUE(startsWith(With("score = 0/0, evidence = case.gpu_work"),
                         "6: the score of a report must be a number"));
  EXPECT_TRUE(startsWith(With("score = 1"), "6: a report needs a 'evidence'"));
  EXPECT_TRUE(startsWith(With("score = 1, evidence = { 'rows 1 to 3' }"),
                         "6: evidence must be rows, tables or columns, not "
                         "the text 'rows 1 to 3'"));
  EXPECT_TRUE(startsWith(With("score = 1, evidence = {}"),
                         "6: the evidence has no rows"));
  EXPECT_TRUE(startsWith(With("score = 1, evidence = "
                              "case.gpu_work:slice(0, 0)"),
                         "6: the evidence has no rows"));
  EXPECT_TRUE(startsWith(With("scroe = 1, evidence = case.gpu_work"),
                         "6: a report has no 'scroe' (did you mean 'score'?"));
  EXPECT_TRUE(startsWith(With("score = 1, at = 3, evidence = case.gpu_work"),
                         "6: `at` must be a table"));
  EXPECT_TRUE(startsWith(With("score = 1, severity = 'bad', evidence = "
                              "case.gpu_work"),
                         "6: the severity of a report is info, warning or"));
  EXPECT_TRUE(startsWith(Error("symptom = 'gpu-idle', score = 1, message = 3, "
                               "evidence = case.gpu_work"),
                         "6: the message of a report must be a text, not 3"));
}

TEST_F(ReportTest, HolesAndEmptyTablesInEvidenceAreLeftOut) {
  Outcome O = report("", "{ nil, case.gpu_work:slice(0, 0), "
                         "case.gpu_work:first() }");
  ASSERT_EQ(1u, O.Reports.size()) << error(O);
  EXPECT_EQ(1u, O.Reports[0].Evidence.size());
}

TEST_F(ReportTest, AFailureDropsReports) {
  Outcome O = run("report { symptom = 'gpu-idle', score = 1, message = 'm', "
                  "evidence = case.gpu_work }\nerror('x')");
  EXPECT_EQ(OutcomeKind::Failed, O.Kind);
  EXPECT_TRUE(O.Reports.empty());
  EXPECT_EQ("t/d failed\n  plugins/t/d.lua:7: x", describeFailure(O));
}

TEST_F(ReportTest, SkipCountsUnlessSomethingWasReported) {
  Outcome O = run("skip('more steps')");
  EXPECT_EQ(OutcomeKind::Skipped, O.Kind);
  EXPECT_EQ(std::vector<std::string>{"more steps"}, O.Missing);
  O = run("skip('more')\nreport { symptom = 'gpu-idle', score = 1, "
          "message = 'm', evidence = case.gpu_work }");
  EXPECT_EQ(OutcomeKind::Matched, O.Kind);
  EXPECT_TRUE(O.Missing.empty());
}

/// A detector of three symptoms around \p Body.
static std::string ofThree(llvm::StringRef Body) {
  return ("return {\n  api = 1, summary = \"s\",\n"
          "  needs = { scalars = { \"step\" } },\n"
          "  symptoms = { \"a\", \"b\", \"c\" },\n  run = function(case)\n" +
          Body + "\n  end,\n}\n")
      .str();
}

/// "a: what b: what" of what was left open.
static std::string unjudged(const Outcome &O) {
  std::string Out;
  for (const UnjudgedSymptom &U : O.Unjudged)
    Out += (Out.empty() ? "" : " ") + U.Symptom + ": " + U.Needed;
  return Out;
}

TEST_F(ReportTest, SkipSpeaksOfSingleSymptoms) {
  const char *Report = "report { symptom = 'a', score = 1, message = 'm', "
                       "evidence = case.gpu_work }\n";
  // Clear of a, says nothing of b and c.
  Outcome O = runFile(ofThree("skip('steps', 'b', 'c')"));
  EXPECT_EQ(OutcomeKind::Clear, O.Kind);
  EXPECT_EQ("b: steps c: steps", unjudged(O));
  // What was reported was judged.
  O = runFile(ofThree("skip('steps', 'b', 'a')\n" + std::string(Report)));
  EXPECT_EQ(OutcomeKind::Matched, O.Kind);
  EXPECT_EQ("b: steps", unjudged(O));
  // A skip of the whole after a report leaves the others open.
  O = runFile(ofThree("skip('ranks', 'b')\n" + std::string(Report) +
                      "skip('steps')"));
  EXPECT_EQ(OutcomeKind::Matched, O.Kind);
  EXPECT_EQ("b: ranks c: steps", unjudged(O));
  // All symptoms one by one are the whole.
  O = runFile(ofThree("skip('x', 'a')\nskip('y', 'b', 'c')"));
  EXPECT_EQ(OutcomeKind::Skipped, O.Kind);
  EXPECT_EQ((std::vector<std::string>{"x", "y"}), O.Missing);
  EXPECT_EQ("6: symptom 'bb' is not declared (did you mean 'b'? declared: a, "
            "b, c)",
            error(runFile(ofThree("skip('x', 'bb')"))));
}

TEST_F(ReportTest, TheFirstOfSeveralMistakesIsNamed) {
  // Lua keeps keys in an order that differs from run to run.
  const std::string Start = "report { symptom = 'gpu-idle', score = 1, "
                            "message = 'm', ";
  for (int Run = 0; Run != 20; ++Run) {
    EXPECT_EQ("6: evidence must be a list, without the key the text 'a'",
              failureOf(Start + "evidence = { d = 1, b = 1, a = 1, c = 1, "
                                "e = 1 } }"));
    EXPECT_TRUE(startsWith(
        failureOf(Start + "at = { d = {}, b = {}, a = {}, c = {} }, "
                          "evidence = case.gpu_work }"),
        "6: at.a must be a number, a text or a list "
                "of texts, not a Lua table"));
    EXPECT_TRUE(startsWith(
        failureOf("case.gpu_work:where { [true] = 1, [{}] = 2, [log] = 3 }"),
        "6: argument 1 of 'where' must have names as keys, not a Lua table"));
  }
  // What follows a zero byte counts.
  Outcome O = run(Start + "at = { name = 'a\\0b' }, "
                          "evidence = case.gpu_work }");
  ASSERT_EQ(1u, O.Reports.size());
  EXPECT_EQ(std::string("a\0b", 3), O.Reports[0].At[0].text());
}

TEST_F(ReportTest, ManyReportsAreAMistake) {
  EXPECT_TRUE(startsWith(failureOf("for i = 1, 10001 do report { symptom = "
                                   "'gpu-idle', score = 1, message = 'm', "
                                   "evidence = case.gpu_work } end"),
                         "6: more than 10000 reports"));
}

} // namespace
