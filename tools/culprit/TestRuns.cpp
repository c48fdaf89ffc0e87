//===- TestRuns.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "TestRuns.h"
#include "Commands.h"
#include "Support/Glob.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include <cstring>

using namespace llvm;

namespace culprit {

bool TestRun::abandoned() const {
  return llvm::any_of(
      Results, [](const TestResult &T) { return T.Got.Abandoned; });
}

TestRun runTarget(const TestTarget &Target, StringRef Filter,
                  KnownDetectors &Known) {
  TestRun Out;
  Out.Id = Target.Lua.empty() ? Target.Test : Target.Lua;
  Out.Lua = Target.Lua.empty() ? Target.Test : Target.Lua;
  Out.Test = Target.Test;
  Out.Named = Target.Named;
  for (const std::string &File : {Target.Lua, Target.Test})
    if (!File.empty())
      Out.Files.push_back(File);
  auto Stop = [&](TestRun::Kind Kind, Error E = Error::success()) {
    Out.What = Kind;
    append_range(Out.Problems, toDiagnostics(std::move(E)));
    return Out;
  };
  std::optional<TestFile> Test;
  if (!Target.Test.empty()) {
    Expected<TestFile> Read = readTestFile(Target.Test);
    if (!Read)
      return Stop(TestRun::Kind::Broken, Read.takeError());
    Test = std::move(*Read);
    Out.Problems = Test->Mistakes;
    if (Test->IsLitTest && Target.Lua.empty())
      return Stop(TestRun::Kind::LitTest);
  }
  auto Held = std::make_unique<DetectorSet>();
  DetectorSet &Own = *Held;
  Expected<const Detector *> D =
      detectorOf(Target, Test ? &*Test : nullptr, Known, Own);
  if (!D)
    return Stop(TestRun::Kind::Broken, D.takeError());
  if (!*D) {
    const BrokenDetector &B = Own.broken().front();
    Out.Id = B.Id;
    Out.Lua = B.Error.File;
    Out.Files.push_back(B.Error.File);
    Outcome O;
    O.Detector = B.Id;
    O.Error = B.Error;
    return Stop(TestRun::Kind::Broken,
                failure("detector " + describeFailure(O)));
  }
  const DetectorInfo &Info = (*D)->info();
  Out.Id = Info.Id;
  Out.Lua = Info.File;
  Out.Files.push_back(Info.File);
  if (!Test)
    return Stop(TestRun::Kind::NoTest);
  if (Test->IsLitTest)
    return Stop(TestRun::Kind::LitTest);
  for (const TestCase &C : Test->Cases) {
    append_range(Out.Files, inputsOf(*Test, C));
    if (!Filter.empty() && !globMatch(Filter, C.Name)) {
      ++Out.LeftOut;
      continue;
    }
    Out.Results.push_back(runTestCase(**D, *Test, C, Limits()));
  }
  if (Out.abandoned())
    static_cast<void>(Held.release()); // a thread goes on with it
  return Out;
}

namespace {
struct Counts {
  size_t Detectors = 0, Passed = 0, Failed = 0, Broken = 0, LeftOut = 0;
  size_t LitTests = 0;
  bool Mistakes = false;

  size_t cases() const { return Passed + Failed + Broken; }
  int exitCode() const {
    return Mistakes || Broken ? ExitBadUse : Failed ? ExitRefused : ExitDone;
  }
};
} // namespace

static Counts count(ArrayRef<TestRun> Runs) {
  Counts Out;
  StringSet<> Ids; // a detector may have several tests
  for (const TestRun &R : Runs) {
    if (!R.Results.empty())
      Out.Detectors += Ids.insert(R.Id).second;
    Out.LeftOut += R.LeftOut;
    Out.LitTests += R.What == TestRun::Kind::LitTest;
    Out.Mistakes |= !R.Problems.empty();
    for (const TestResult &T : R.Results)
      ++(T.What == TestResult::Verdict::Passed   ? Out.Passed
         : T.What == TestResult::Verdict::Failed ? Out.Failed
                                                 : Out.Broken);
  }
  return Out;
}

/// "2 passed, 1 failed"; what is nought is left out.
static std::string countsText(const Counts &C) {
  std::vector<std::string> Parts;
  if (C.Passed || !(C.Failed || C.Broken))
    Parts.push_back(std::to_string(C.Passed) + " passed");
  if (C.Failed)
    Parts.push_back(std::to_string(C.Failed) + " failed");
  if (C.Broken)
    Parts.push_back(std::to_string(C.Broken) + " could not be run");
  if (C.LeftOut)
    Parts.push_back(std::to_string(C.LeftOut) + " left out");
  return join(Parts, ", ");
}

static std::string plural(size_t N, StringRef Word) {
  return (Twine(N) + " " + Word + (N == 1 ? "" : "s")).str();
}

static void printLog(const Outcome &O) {
  for (const std::string &Line : O.Log)
    outs() << "    log: " << Line << '\n';
}

static void printFailed(const TestRun &R, const TestResult &T,
                        const TestStyle &Style) {
  auto &OS = outs();
  if (Style.Color)
    OS.changeColor(raw_ostream::RED, /*Bold=*/true);
  OS << "  FAIL";
  if (Style.Color)
    OS.resetColor();
  OS << ' ' << T.Name << "\n    " << R.Test << ':' << T.Line << '\n';
  for (const Diagnostic &D : T.Problems)
    OS << "    warning: " << D.Message << '\n';
  printSideBySide(OS, T.Rows, {Style.Width, 2, Style.Color});
  for (const SideRow &R : T.Rows)
    if (R.Differs && StringRef(R.Left).ltrim("- ").starts_with("message: ") &&
        StringRef(R.Right).contains(
            StringRef(R.Left).ltrim("- ").drop_front(strlen("message: "))))
      OS << "    note: a message is compared as a whole; * stands for any "
            "text\n";
  if (T.Got.Error) {
    SmallVector<StringRef, 8> Lines;
    std::string Text = describeFailure(T.Got);
    StringRef(Text).split(Lines, '\n');
    for (StringRef Line : Lines)
      OS << "    " << Line << '\n';
  }
  printLog(T.Got);
  OS << '\n';
}

/// The line of \p File that \p D names; 0 when it names another place.
static unsigned lineIn(StringRef File, const Diagnostic &D) {
  StringRef Text = D.Message;
  unsigned Line = 0;
  if (Text.consume_front(File) && Text.consume_front(":"))
    Text.consumeInteger(10, Line);
  return Line;
}

static void printOne(const TestRun &R, size_t Width, const TestStyle &Style) {
  auto &OS = outs();
  auto Line = [&](const Twine &Text) {
    OS << left_justify(R.Id, static_cast<unsigned>(Width)) << "  " << Text
       << '\n';
  };
  // Mistakes first: they may be why a case is not among the others.
  std::vector<Diagnostic> Mistakes = R.Problems;
  for (const TestResult &T : R.Results)
    if (T.What == TestResult::Verdict::Broken)
      append_range(Mistakes, T.Problems);
  llvm::stable_sort(Mistakes, [&](const Diagnostic &A, const Diagnostic &B) {
    return lineIn(R.Test, A) < lineIn(R.Test, B);
  });
  OS.flush();
  report(Mistakes);
  switch (R.What) {
  case TestRun::Kind::NoTest:
    return Line("no test: its cases belong into " + testPlace(R.Lua));
  case TestRun::Kind::LitTest:
    if (R.Named)
      Line("a lit test: run scripts/test --filter " +
           sys::path::stem(R.Test));
    return;
  case TestRun::Kind::Broken:
    return Line("not run");
  case TestRun::Kind::Ran:
    break;
  }
  Counts C = count(R);
  if (C.Mistakes && !C.cases() && !C.LeftOut)
    return Line("no case of its test can be read");
  Line(countsText(C));
  for (const TestResult &T : R.Results) {
    if (T.What == TestResult::Verdict::Failed) {
      printFailed(R, T, Style);
    } else if (Style.Verbose) {
      OS << (T.What == TestResult::Verdict::Passed ? "  ok   " : "  ----  ")
         << T.Name << '\n';
      printLog(T.Got);
    }
  }
}

int printRuns(ArrayRef<TestRun> Runs, const TestStyle &Style) {
  size_t Width = 0;
  constexpr size_t Most = 40; // the path of a test that has no detector
  for (const TestRun &R : Runs)
    if ((R.What != TestRun::Kind::LitTest || R.Named) && R.Id.size() <= Most)
      Width = std::max(Width, R.Id.size());
  for (const TestRun &R : Runs)
    printOne(R, Width, Style);
  Counts C = count(Runs);
  size_t Silent = llvm::count_if(Runs, [](const TestRun &R) {
    return R.What == TestRun::Kind::LitTest && !R.Named;
  });
  if (Silent)
    outs() << plural(Silent, "lit test")
           << (Silent == 1 ? " is" : " are") << " not run here: scripts/test\n";
  if (C.cases() || C.LeftOut)
    outs() << plural(C.cases(), "case") << " of "
           << plural(C.Detectors, "detector") << ": " << countsText(C) << '\n';
  return C.exitCode();
}

int printRunsAsJson(ArrayRef<TestRun> Runs) {
  json::Array Detectors;
  auto Messages = [](ArrayRef<Diagnostic> All) {
    json::Array Out;
    for (const Diagnostic &D : All)
      Out.push_back(json::Object{{"message", jsonText(D.Message)},
                                 {"hint", jsonText(D.Hint)}});
    return Out;
  };
  for (const TestRun &R : Runs) {
    json::Array Cases;
    for (const TestResult &T : R.Results) {
      json::Array Rows, Log;
      for (const SideRow &Row : T.Rows)
        Rows.push_back(json::Object{{"expected", jsonText(Row.Left)},
                                    {"actual", jsonText(Row.Right)},
                                    {"differs", Row.Differs}});
      for (const std::string &Line : T.Got.Log)
        Log.push_back(jsonText(Line));
      Cases.push_back(json::Object{
          {"name", jsonText(T.Name)},
          {"line", T.Line},
          {"result", T.What == TestResult::Verdict::Passed   ? "passed"
                     : T.What == TestResult::Verdict::Failed ? "failed"
                                                             : "broken"},
          {"rows", std::move(Rows)},
          {"error", T.Got.Error ? jsonText(describeFailure(T.Got))
                                : json::Value(nullptr)},
          {"problems", Messages(T.Problems)},
          {"log", std::move(Log)}});
    }
    StringRef Status = R.What == TestRun::Kind::Ran       ? "ran"
                       : R.What == TestRun::Kind::NoTest  ? "no test"
                       : R.What == TestRun::Kind::LitTest ? "lit test"
                                                          : "broken";
    Detectors.push_back(json::Object{{"detector", jsonText(R.Id)},
                                     {"file", jsonText(R.Lua)},
                                     {"test", jsonText(R.Test)},
                                     {"status", Status},
                                     {"problems", Messages(R.Problems)},
                                     {"cases", std::move(Cases)}});
  }
  Counts C = count(Runs);
  json::Object Out{{"schema", 1},
                   {"detectors", std::move(Detectors)},
                   {"passed", static_cast<int64_t>(C.Passed)},
                   {"failed", static_cast<int64_t>(C.Failed)},
                   {"broken", static_cast<int64_t>(C.Broken)}};
  outs() << formatv("{0:2}", json::Value(std::move(Out))) << '\n';
  return C.exitCode();
}

} // namespace culprit
