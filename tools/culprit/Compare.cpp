//===- Compare.cpp - culprit compare ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Compare.h"
#include "Commands.h"
#include "Compare/Configs.h"
#include "Compare/Runs.h"
#include "Compare/OperatorLog.h"
#include "Compare/Tensors.h"
#include "Evidence.h"
#include "Options.h"
#include "Progress.h"
#include "Readers/Reader.h"
#include "llvm/Support/FormatVariadic.h"
#include <atomic>
#include <thread>

using namespace llvm;

namespace culprit {

static cl::SubCommand CompareCommand(
    "compare", "Say what makes one profile slower or faster than another, how "
               "tensors differ from a reference, which run is better, or what "
               "was changed in a configuration");
static cl::list<std::string>
    ComparePaths(cl::Positional, cl::sub(CompareCommand), cl::desc("A B..."));
static cl::opt<std::string>
    Noise("noise", cl::sub(CompareCommand), cl::value_desc("PATH"),
          cl::desc("Tensors: a second run of the reference; what the two "
                   "differ by is noise"));
static cl::opt<OutputFormat, false, ChoiceParser<OutputFormat>> CompareFormat(
    "format", cl::sub(CompareCommand), cl::init(OutputFormat::Text),
    cl::value_desc("text|json|markdown"), cl::desc("Form of the comparison"),
    cl::values(clEnumValN(OutputFormat::Text, "text", "For a terminal"),
               clEnumValN(OutputFormat::Json, "json", "For programs"),
               clEnumValN(OutputFormat::Markdown, "markdown", "For an issue")));
static cl::opt<bool>
    Metrics("metrics", cl::sub(CompareCommand),
            cl::desc("Compare the metrics, though there are profiles or "
                     "tensors too"));
static cl::opt<std::string>
    Group("group", cl::sub(CompareCommand), cl::value_desc("KEY,..."),
          cl::desc("Runs: put those with the same values of these settings "
                   "into one group (all settings but the seed)"));
static cl::opt<unsigned, false, CountParser> CompareTop(
    "top", cl::sub(CompareCommand), cl::init(10), cl::value_desc("N"),
    cl::desc("Contributions, tensors, metrics or groups shown (10)"));
static cl::opt<unsigned, false, CountParser>
    CompareJobs("jobs", cl::sub(CompareCommand), cl::init(0),
                cl::value_desc("N"), cl::desc("Threads (one a core)"));
namespace {
enum class FailureKind { Never, Different };
} // namespace
static cl::opt<FailureKind, false, ChoiceParser<FailureKind>>
    CompareFailOn("fail-on", cl::sub(CompareCommand),
                  cl::init(FailureKind::Never), cl::value_desc("different"),
                  cl::desc("Exit 1 if the verdict is different"),
                  cl::values(clEnumValN(FailureKind::Different, "different",
                                        "Beyond the noise")));

/// Reads \p Given side by side: a dump is mostly one large file.
static Expected<std::vector<Case>> readSides(ArrayRef<std::string> Given) {
  Progress Waiting("reading");
  const unsigned Threads = threadCount(CompareJobs);
  const unsigned Each =
      std::max<unsigned>(1, Threads / static_cast<unsigned>(Given.size()));
  std::vector<std::optional<Expected<Case>>> Read(Given.size());
  const auto Side = [&](size_t I) {
    Read[I].emplace(readCase({Given[I]}, Each, TensorDetail::Values));
  };
  std::atomic<size_t> Next = 0;
  const auto Work = [&] {
    for (size_t I = Next++; I < Given.size(); I = Next++)
      Side(I);
  };
  std::vector<std::thread> Helpers;
  for (size_t I = 1; I < std::min<size_t>(Given.size(), Threads); ++I)
    Helpers.emplace_back(Work);
  Work();
  for (std::thread &Helper : Helpers)
    Helper.join();
  std::vector<Case> Out;
  Error First = Error::success();
  for (std::optional<Expected<Case>> &R : Read)
    if (*R)
      Out.push_back(std::move(**R));
    else if (First)
      consumeError(R->takeError());
    else
      First = R->takeError();
  if (First)
    return First;
  for (const Case &C : Out)
    reportUnread(C);
  return Out;
}

static int exitFor(CompareVerdict V) {
  return CompareFailOn == FailureKind::Different &&
                 V == CompareVerdict::Different
             ? ExitRefused
             : ExitDone;
}

static int compareDumps(ArrayRef<std::string> Given, ArrayRef<Case> Sides) {
  TensorOptions Options;
  Options.Threads = threadCount(CompareJobs);
  if (Sides.size() > 2)
    Options.Noise = &Sides[2];
  Expected<TensorComparison> Compared =
      compareTensors(Sides[0], Given[0], Sides[1], Given[1], Options);
  if (!Compared)
    return report(Compared.takeError());
  Compared->NoisePath = Noise;
  switch (CompareFormat) {
  case OutputFormat::Json:
    outs() << formatv("{0:2}", tensorsJson(*Compared)) << '\n';
    break;
  case OutputFormat::Markdown:
    printTensorsMarkdown(outs(), *Compared, CompareTop);
    break;
  default:
    printTensors(outs(), *Compared, CompareTop);
    break;
  }
  return exitFor(Compared->Verdict);
}

static int compareOperators(ArrayRef<std::string> Given, const Case &Ref,
                            const Case &Ours) {
  Expected<OperatorComparison> Compared =
      compareOperatorLogs(Ref, Given[0], Ours, Given[1]);
  if (!Compared)
    return report(Compared.takeError());
  switch (CompareFormat) {
  case OutputFormat::Json:
    outs() << formatv("{0:2}", operatorsJson(*Compared)) << '\n';
    break;
  case OutputFormat::Markdown:
    printOperatorsMarkdown(outs(), *Compared, CompareTop);
    break;
  default:
    printOperators(outs(), *Compared, CompareTop);
    break;
  }
  return exitFor(Compared->Verdict);
}

/// Dumps are compared where both sides have some and not both are profiles.
static bool areDumps(const Case &A, const Case &B) {
  const auto Both = [&](TableId Id) { return A.has(Id) && B.has(Id); };
  return Both(TableId::tensors) && !Both(TableId::gpu_work);
}

static int compareMetrics(ArrayRef<std::string> Given, ArrayRef<Case> Sides) {
  std::vector<RunRecord> Runs;
  for (auto [Path, Side] : zip(Given, Sides)) {
    std::vector<RunRecord> Here = runRecords(Side, Path);
    if (Here.empty())
      return report(failure(Path + ": there are no metrics to compare",
                            "give the folder of a run that logged some; "
                            "'culprit inspect " +
                                Path + "' lists what it has"));
    std::move(Here.begin(), Here.end(), std::back_inserter(Runs));
  }
  RunsOptions Options;
  Options.Group = Group;
  Expected<RunsComparison> Compared = compareRuns(std::move(Runs), Options);
  if (!Compared)
    return report(Compared.takeError());
  switch (CompareFormat) {
  case OutputFormat::Json:
    outs() << formatv("{0:2}", runsJson(*Compared)) << '\n';
    break;
  case OutputFormat::Markdown:
    printRunsMarkdown(outs(), *Compared, CompareTop);
    break;
  default:
    printRuns(outs(), *Compared, CompareTop);
    break;
  }
  return exitFor(Compared->Verdict);
}

/// Metrics are compared where they are asked for, where there are more runs
/// than two, and where two sides have nothing else in common.
static bool areRuns(ArrayRef<Case> Sides) {
  const auto All = [&](TableId Id) {
    return all_of(Sides, [Id](const Case &C) { return C.has(Id); });
  };
  if (Metrics || !Group.empty())
    return true;
  if (Sides.size() == 1)
    return runRecords(Sides[0], "").size() > 1;
  return Sides.size() > 2 || (All(TableId::scalars) && !All(TableId::gpu_work) &&
                              !All(TableId::tensors));
}

static int printSettings(const ConfigComparison &Compared) {
  switch (CompareFormat) {
  case OutputFormat::Json:
    outs() << formatv("{0:2}", configsJson(Compared)) << '\n';
    break;
  case OutputFormat::Markdown:
    printConfigsMarkdown(outs(), Compared, CompareTop);
    break;
  default:
    printConfigs(outs(), Compared, CompareTop);
    break;
  }
  return exitFor(Compared.verdict());
}

/// Settings are compared where the sides have nothing that was measured.
static bool areSettings(ArrayRef<Case> Sides) {
  static constexpr TableId Measured[] = {TableId::scalars, TableId::gpu_work,
                                         TableId::tensors, TableId::requests,
                                         TableId::tokens};
  return all_of(Sides, [](const Case &C) {
    return (C.has(TableId::config) || C.has(TableId::packages)) &&
           none_of(Measured, [&](TableId Id) { return C.has(Id); });
  });
}

/// Settings are what is left to compare where nothing was measured that both
/// sides have: requests of two logs, or settings beside other things.
static bool haveSettings(const Case &A, const Case &B) {
  const auto Told = [](const Case &C) {
    return C.has(TableId::config) || C.has(TableId::packages) ||
           C.has(TableId::requests);
  };
  const bool Profile =
      A.has(TableId::gpu_work) || B.has(TableId::gpu_work);
  return !Profile && Told(A) && Told(B);
}

/// What is given is no pair: runs in any number, or an error.
static int compareMany(ArrayRef<std::string> Given) {
  if (Given.empty() || !Noise.empty())
    return -1;
  Expected<std::vector<Case>> Sides = readSides(Given);
  if (!Sides)
    return report(Sides.takeError());
  if (Given.size() == 1 && areSettings(*Sides))
    if (std::optional<ConfigComparison> Two = compareSidesOf((*Sides)[0]))
      return printSettings(*Two);
  return areRuns(*Sides) ? compareMetrics(Given, *Sides) : -1;
}

int runCompare() {
  std::vector<std::string> Given(ComparePaths.begin(), ComparePaths.end());
  if (Error E = checkPaths("compare", Given))
    return report(std::move(E));
  if (Given.size() != 2) {
    if (const int Exit = compareMany(Given); Exit >= 0)
      return Exit;
    return report(failure("compare: two sides are wanted, not " +
                              Twine(Given.size()),
                          "give two files or folders, the one to compare with "
                          "first: culprit compare before.json.gz "
                          "after.json.gz; runs with metrics may be more, and "
                          "a diff of settings is one"));
  }
  if (!Noise.empty())
    Given.push_back(Noise);
  Expected<std::vector<Case>> Sides = readSides(Given);
  if (!Sides)
    return report(Sides.takeError());
  const Case &A = (*Sides)[0], &B = (*Sides)[1];
  if (Noise.empty() && areSettings(*Sides)) {
    Expected<ConfigComparison> Compared =
        compareConfigs(A, Given[0], B, Given[1]);
    return Compared ? printSettings(*Compared) : report(Compared.takeError());
  }
  if (Noise.empty() && areRuns(*Sides))
    return compareMetrics(Given, *Sides);
  if (Noise.empty() && A.has(TableId::scalars) && B.has(TableId::scalars))
    report(Diagnostic{Severity::Note,
                      "both sides log metrics too: --metrics compares those",
                      ""});
  if (areDumps(A, B) && isOperatorLog(A) && isOperatorLog(B))
    return compareOperators(Given, A, B);
  if (areDumps(A, B))
    return compareDumps(Given, *Sides);
  if (!Noise.empty())
    return report(failure("compare: --noise is for dumps of tensors, and not "
                          "both sides have some",
                          "leave it out: profiles tell their noise by their "
                          "steps"));
  if (haveSettings(A, B)) {
    Expected<ConfigComparison> Compared =
        compareConfigs(A, Given[0], B, Given[1]);
    return Compared ? printSettings(*Compared) : report(Compared.takeError());
  }
  if (!A.has(TableId::gpu_work) && !B.has(TableId::gpu_work))
    return report(failure("compare: nothing that both sides have can be "
                          "compared: no profile, tensors, metrics, settings, "
                          "packages or requests",
                          "'culprit inspect " + Given[0] + " " + Given[1] +
                              "' lists what was read"));
  Expected<ProfileComparison> Compared =
      compareCases(A, Given[0], B, Given[1]);
  if (!Compared)
    return report(Compared.takeError());
  switch (CompareFormat) {
  case OutputFormat::Json:
    outs() << formatv("{0:2}", comparisonJson(*Compared)) << '\n';
    break;
  case OutputFormat::Markdown:
    printComparisonMarkdown(outs(), *Compared, CompareTop);
    break;
  default:
    printComparison(outs(), *Compared, CompareTop);
    break;
  }
  return exitFor(Compared->Verdict);
}

} // namespace culprit
