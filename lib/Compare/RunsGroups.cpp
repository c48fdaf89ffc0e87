//===- RunsGroups.cpp - Groups of seeds beside a baseline -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Support/Units.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace culprit {

/// The value that \p R has for setting \p Key, whole or as the last part of a
/// key path; "-" for none.
static std::string valueOf(const RunRecord &R, StringRef Key) {
  auto It = R.Config.find(Key.str());
  if (It != R.Config.end())
    return It->second;
  for (const auto &[Path, Value] : R.Config)
    if (StringRef(Path).rsplit('.').second == Key)
      return Value;
  return "-";
}

/// \p Name without what tells seeds apart: "base-seed3" and "base_s3" are
/// "base".
static std::string withoutSeed(StringRef Name) {
  const size_t Digits = Name.find_last_not_of("0123456789");
  if (Digits == StringRef::npos || Digits + 1 == Name.size())
    return Name.str();
  StringRef Head = Name.take_front(Digits + 1).rtrim("-_=.");
  if (!Head.consume_back_insensitive("seed")) {
    if (!Head.ends_with_insensitive("-s") && !Head.ends_with_insensitive("_s"))
      return Name.str();
    Head = Head.drop_back();
  }
  Head = Head.rtrim("-_=./");
  return Head.empty() ? "all" : Head.str();
}

/// What tells the group of \p R: its settings but for the seed, else its name.
static std::string groupKey(const RunRecord &R, StringRef By) {
  std::string Out;
  if (!By.empty()) {
    SmallVector<StringRef, 4> Keys;
    By.split(Keys, ',', -1, false);
    for (StringRef Key : Keys)
      Out += (Out.empty() ? "" : ", ") + Key.str() + "=" + valueOf(R, Key);
    return Out;
  }
  if (R.Config.empty())
    return "\1" + withoutSeed(R.Name);
  for (const auto &[Key, Value] : R.Config)
    if (changeKind(Key) != "seed" && mattersToResults(Key))
      Out += Key + "=" + Value + "\n";
  return Out;
}

std::vector<RunGroup> groupRuns(ArrayRef<RunRecord> Runs, StringRef By) {
  std::vector<RunGroup> Out;
  std::vector<std::string> Keys;
  for (auto [I, R] : enumerate(Runs)) {
    std::string Key = groupKey(R, By);
    auto It = llvm::find(Keys, Key);
    if (It == Keys.end()) {
      Keys.push_back(Key);
      Out.push_back({By.empty() ? R.Name : Key, {I}});
    } else {
      Out[size_t(It - Keys.begin())].Runs.push_back(I);
    }
  }
  if (!By.empty())
    return Out;
  // What the runs of a group share of their names, where that says something.
  std::set<std::string> Taken;
  for (RunGroup &G : Out) {
    const std::string Short = withoutSeed(Runs[G.Runs[0]].Name);
    const bool Shared = all_of(G.Runs, [&](size_t I) {
      return withoutSeed(Runs[I].Name) == Short;
    });
    if (G.Runs.size() > 1 && Shared && Taken.insert(Short).second)
      G.Name = Short;
  }
  return Out;
}

/// Names of metrics that are better, or worse, with their change.
static std::string listOf(const CandidateComparison &C, int Way) {
  std::string Out;
  size_t Named = 0;
  for (const MetricComparison &M : C.Metrics) {
    if (M.better() != Way || M.Kind.Role == MetricRole::Signal)
      continue;
    if (Named++ == 3) {
      Out += ", ...";
      break;
    }
    Out += (Out.empty() ? "" : ", ") + M.Name;
    if (std::isfinite(M.Difference))
      Out += formatv(" ({0}{1})", M.Difference > 0 ? "+" : "",
                     formatNumber(M.Difference, 3));
    else
      Out += " (not finite)";
  }
  return Out;
}

/// The verdict of one candidate as a sentence part.
static std::string conclusion(const CandidateComparison &C, bool Alone) {
  if (!C.Decided)
    return any_of(C.Metrics,
                  [](const MetricComparison &M) {
                    return std::isnan(M.Difference);
                  })
               ? "no metric can be judged: both end in values that are not "
                 "finite"
               : "no metric can be judged: too few common points";
  const std::string Better = listOf(C, 1), Worse = listOf(C, -1);
  switch (C.Verdict) {
  case CompareVerdict::Same:
    return any_of(C.Metrics,
                  [](const MetricComparison &M) {
                    return M.Verdict != CompareVerdict::Same;
                  })
               ? "the same in every metric but for costs, which are within "
                 "noise"
               : "the same in every metric";
  case CompareVerdict::WithinNoise:
    for (const MetricComparison &M : C.Metrics)
      if (!M.Verdict && M.Kind.Role == MetricRole::Quality)
        return "within noise where it is known; " + M.Name +
               " differs, and nothing tells its noise";
    return "within noise: no metric ends beyond what noise makes";
  case CompareVerdict::Different:
    break;
  }
  const StringRef Beyond = Alone ? ", beyond the noise within the runs" : "";
  if (C.Traded)
    return ("traded: better on " + Better + ", worse on " + Worse + Beyond)
        .str();
  if (!Better.empty())
    return ("better on " + Better + Beyond).str();
  if (!Worse.empty())
    return ("worse on " + Worse + Beyond).str();
  return "different; no metric that differs has a known better direction";
}

/// What else should be said of one candidate.
static void addRemarks(const RunsComparison &All, CandidateComparison &C) {
  const std::vector<size_t> &A = All.Groups[C.A].Runs;
  const std::vector<size_t> &B = All.Groups[C.B].Runs;
  const RunRecord &RA = All.Runs[A[0]], &RB = All.Runs[B[0]];
  const bool Alone = A.size() == 1 && B.size() == 1;
  if (Alone && C.Decided && C.Verdict != CompareVerdict::Same)
    C.Remarks.push_back(
        "noise is that within the two runs, a lower bound on what seeds make; "
        "give two or more seeds a side to know it");
  const auto InA = RA.steps(), InB = RB.steps();
  if (Alone && C.Axis == "step" && InA && InB && InA->second != InB->second)
    C.Remarks.push_back(
        formatv("A ends at step {0} and B at step {1}: levels are those at the "
                "end of the range that both have",
                formatCount(InA->second), formatCount(InB->second)));
  const auto Find = [&](StringRef Name) -> const MetricComparison * {
    auto It = find_if(C.Metrics, [&](const auto &M) { return M.Name == Name; });
    return It == C.Metrics.end() ? nullptr : &*It;
  };
  const MetricComparison *Loss = Find("val_loss");
  if (!Loss)
    Loss = Find("loss");
  if (Loss && Loss->Verdict && Loss->Verdict != CompareVerdict::Different)
    for (const MetricComparison &M : C.Metrics)
      if (M.better() == -1 && M.Kind.Better == MetricBetter::Higher &&
          M.Kind.Role == MetricRole::Quality) {
        C.Remarks.push_back(
            formatv("{0} is worse at equal {1}: look at the evaluation itself "
                    "(prompt, tokenizer, which checkpoint, precision)",
                    M.Name, Loss->Name));
        break;
      }
  for (const char *Name : {"step_time", "throughput"}) {
    const MetricComparison *M = Find(Name);
    if (!M || M->better() != -1)
      continue;
    const ScalarSeries *S = RB.series(Name);
    std::vector<ChangePoint> Changes = changePoints(S->Values);
    for (const ChangePoint &P : Changes)
      if ((P.After > P.Before) == (M->Kind.Better == MetricBetter::Lower) &&
          std::fabs(P.After - P.Before) > 0.03 * std::fabs(P.Before) &&
          P.Score > 3) {
        C.Remarks.push_back(formatv("{0} of B changes at step {1}, from {2} to "
                                    "{3}",
                                    Name, S->Steps[P.At],
                                    formatNumber(P.Before, 3),
                                    formatNumber(P.After, 3)));
        break;
      }
    C.Remarks.push_back("what makes the step slower, a profile of each run "
                        "tells: culprit compare trace_a.json trace_b.json");
    break;
  }
}

/// Fails for a setting of \p By that no run has: all would be one group.
static Error checkGroupKeys(ArrayRef<RunRecord> Runs, StringRef By) {
  SmallVector<StringRef, 4> Keys;
  By.split(Keys, ',', -1, false);
  for (StringRef Key : Keys)
    if (all_of(Runs,
               [&](const RunRecord &R) { return valueOf(R, Key) == "-"; }))
      return failure("--group: no run has a setting '" + Twine(Key) + "'",
                     "settings are read from config.json and the like in the "
                     "folders of the runs");
  return Error::success();
}

Expected<RunsComparison> compareRuns(std::vector<RunRecord> Runs,
                                     const RunsOptions &Options) {
  if (Runs.size() < 2)
    return failure("compare: there is one run with metrics, not two",
                   "give the folders of two runs or more, or one folder that "
                   "holds several");
  if (Error E = checkGroupKeys(Runs, Options.Group))
    return E;
  RunsComparison Out;
  Out.Runs = std::move(Runs);
  nameRuns(Out.Runs);
  if (Out.Runs.size() == 2 && Options.Group.empty())
    Out.Groups = {{Out.Runs[0].Name, {0}}, {Out.Runs[1].Name, {1}}};
  else
    Out.Groups = groupRuns(Out.Runs, Options.Group);

  const auto RunsOf = [&](const RunGroup &G) {
    std::vector<const RunRecord *> List;
    for (size_t I : G.Runs)
      List.push_back(&Out.Runs[I]);
    return List;
  };
  const std::vector<const RunRecord *> Base = RunsOf(Out.Groups[0]);
  bool Shared = false;
  if (Out.Groups.size() == 1) {
    Out.Noise = seedNoise(Base);
    Out.Verdict = CompareVerdict::WithinNoise;
    Shared = !Out.Noise.empty();
    for (const MetricComparison &M : Out.Noise)
      if (std::isnan(M.A))
        Out.Remarks.push_back("some run ends in values of " + M.Name +
                              " that are not finite: its noise is not known");
    Out.Remarks.push_back("all runs are of one configuration: what they differ "
                          "by is the noise of seeds");
  }
  for (size_t G = 1; G < Out.Groups.size(); ++G) {
    CandidateComparison C;
    C.A = 0;
    C.B = G;
    const std::vector<const RunRecord *> Side = RunsOf(Out.Groups[G]);
    C.Setup = compareRunSetups(Base, Side);
    compareMetrics(Base, Side, C);
    if (Base.size() == 1 && Side.size() == 1)
      C.First = firstDifference(*Base[0], *Side[0]);
    C.Says = conclusion(C, Base.size() == 1 && Side.size() == 1);
    addRemarks(Out, C);
    Shared |= !C.Metrics.empty();
    if (C.Verdict == CompareVerdict::Different)
      Out.Verdict = CompareVerdict::Different;
    else if (C.Verdict == CompareVerdict::WithinNoise &&
             Out.Verdict == CompareVerdict::Same)
      Out.Verdict = CompareVerdict::WithinNoise;
    Out.Candidates.push_back(std::move(C));
  }
  if (!Shared)
    return failure("compare: the runs have no metric in common over a common "
                   "range",
                   "'culprit inspect' on each run lists what it logged");
  Out.Sweep = findSweep(Out.Runs, Out.Groups);
  Out.Proxies = findProxies(Out.Runs, Out.Groups);
  return Out;
}

} // namespace culprit
