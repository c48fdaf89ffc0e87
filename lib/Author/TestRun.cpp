//===- TestRun.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/TestRun.h"
#include "Detect/Runner.h"
#include "Readers/CaseTables.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

static std::string setting(const DetectorInfo &Info, const TestOption &O) {
  return Info.Id + "." + O.Name + "=" + O.Value;
}

static void addAt(const TestFile &Test, unsigned Line, Error E,
                  std::vector<Diagnostic> &Into) {
  append_range(Into, toDiagnostics(addContext(
                         Test.Path + ":" + Twine(Line), std::move(E))));
}

/// Complains where \p Symptom is none that \p Info can report.
static void checkSymptom(const DetectorInfo &Info, const TestFile &Test,
                         StringRef Symptom, unsigned Line,
                         std::vector<Diagnostic> &Into) {
  if (is_contained(Info.Symptoms, Symptom))
    return;
  std::string Close = closestName(Symptom, Info.Symptoms);
  addAt(Test, Line,
        failure(Info.Id + " has no symptom '" + Symptom + "'",
                (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                    "it has: " + join(Info.Symptoms, ", ")),
        Into);
}

std::vector<Diagnostic> checkAgainst(const DetectorInfo &Info,
                                     const TestFile &Test, const TestCase &C) {
  std::vector<Diagnostic> Out;
  for (const ExpectedReport &R : C.Expected.Reports)
    checkSymptom(Info, Test, R.symptom(), R.find("symptom")->Line, Out);
  for (const ExpectedField &F : C.Expected.Unjudged)
    checkSymptom(Info, Test, F.Key, F.Line, Out);
  for (const TestOption &O : C.Options)
    if (Expected<std::vector<Scalar>> Values =
            optionValues(Info, {setting(Info, O)});
        !Values)
      addAt(Test, O.Line, Values.takeError(), Out);
  return Out;
}

std::vector<std::string> inputsOf(const TestFile &Test, const TestCase &C) {
  std::vector<std::string> Out;
  for (const std::string &Path : C.Paths) {
    SmallString<256> Full;
    if (!sys::path::is_absolute(Path))
      Full = sys::path::parent_path(Test.Path);
    sys::path::append(Full, Path);
    Out.push_back(Full.str().str());
  }
  return Out;
}

/// The case that \p C describes; what was odd about it goes to \p Remarks.
static Expected<Case> makeCase(const TestFile &Test, const TestCase &C,
                               std::vector<Diagnostic> &Remarks) {
  if (!C.Paths.empty()) {
    std::vector<std::string> Inputs = inputsOf(Test, C);
    Expected<Case> Out = readCase(Inputs, 1);
    if (!Out)
      return addContext(Test.Path + ":" + Twine(C.PathsLine), Out.takeError());
    bool Any = false;
    for (const InputSummary &I : Out->inputs()) {
      append_range(Remarks, I.Remarks);
      Any |= !I.Failed && !I.Format.empty();
    }
    if (!Any)
      return failure(Test.Path + ":" + Twine(C.PathsLine) + ": nothing in '" +
                         C.Paths.front() + "' could be read",
                     "'culprit inspect' says what it finds there");
    return Out;
  }
  CaseBuilder Builder;
  auto S = std::make_unique<Source>(Test.Path, Builder.pool());
  S->Format = CaseTablesReader().name().str();
  if (Error E = readCaseTables(Test.Path, C.Tables, *S))
    return E;
  append_range(Remarks, S->Remarks);
  Builder.add(std::move(S));
  return Builder.build();
}

TestResult runTestCase(const Detector &D, const TestFile &Test,
                       const TestCase &C, const Limits &Bounds) {
  TestResult Out;
  Out.Name = C.Name;
  Out.Line = C.Line;
  auto Broken = [&](Error E) {
    Out.What = TestResult::Verdict::Broken;
    append_range(Out.Problems, toDiagnostics(std::move(E)));
    return Out;
  };
  Out.Problems = checkAgainst(D.info(), Test, C);
  if (!Out.Problems.empty())
    return Broken(Error::success());
  std::vector<std::string> Settings;
  for (const TestOption &O : C.Options)
    Settings.push_back(setting(D.info(), O));
  Expected<std::vector<Scalar>> Options = optionValues(D.info(), Settings);
  if (!Options)
    return Broken(Options.takeError());
  Expected<Case> Made = makeCase(Test, C, Out.Problems);
  if (!Made)
    return Broken(Made.takeError());
  Out.Got = runDetectorWatched(
      D, std::make_shared<const Case>(std::move(*Made)), std::move(*Options),
      Bounds);
  if (!compareOutcome(C.Expected, Out.Got, Out.Rows))
    Out.What = TestResult::Verdict::Failed;
  return Out;
}

} // namespace culprit
