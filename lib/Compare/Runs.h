//===- Runs.h - Training runs side by side ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares the metrics of runs: what ends better or worse than noise makes
/// it, from which step on two runs are not the same and what that tells, and
/// what was changed between them. More than two runs are groups of seeds; the
/// first group is the baseline of the others. Groups that differ in learning
/// rate and width, or in size, are read as a sweep or as proxies too.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_RUNS_H
#define CULPRIT_COMPARE_RUNS_H

#include "Compare/Compare.h"
#include "Compare/RunsMetrics.h"
#include "Compare/RunsRecord.h"

namespace culprit {

/// One metric of a group beside that of the baseline, over the range that all
/// of these runs have.
struct MetricComparison {
  std::string Name;
  MetricKind Kind;
  size_t Points = 0; ///< In common.
  /// Level at the end of the common range, over its last tenth: of two runs the
  /// mean of paired points without outliers, of groups the mean of medians.
  double A = 0, B = 0;
  double Difference = 0; ///< B - A.
  double MeanDifference = 0; ///< Paired, over the common range.
  /// Deviation of one side's level by chance; none where nothing tells it.
  std::optional<double> Nu;
  double Freedom = 0;
  /// The smallest difference that is more than noise: t nu sqrt(1/k_A+1/k_B).
  std::optional<double> Detectable;
  std::optional<CompareVerdict> Verdict; ///< None where noise is unknown.
  std::string Why; ///< Beside an unusual verdict, in words.

  /// 1: B is better; -1: worse; 0: neither, or nobody knows.
  int better() const;
};

/// Where two runs stop being the same.
struct FirstDifference {
  std::string Kind; ///< none, init, data-order, data, start, kernel, forward,
                    ///< gradient, update, resume, schedule, evaluation, sudden.
  std::string Says;
  size_t Common = 0; ///< Steps both logged.
  std::optional<int64_t> Step, LastEqual;
  std::string Metric; ///< The earliest in the step that differs.
  double A = 0, B = 0;
  double Relative = 0; ///< Of the loss where that first differs, else Metric.
  bool Rounding = false; ///< As small as rounding makes it.
  /// The number format is unknown, and a narrow one would make as much.
  bool Narrow = false;
  bool StaysSmall = false; ///< Rounding to the end.
  /// Decimals of the log, where a difference that small may be hidden.
  std::optional<int> Decimals;
  /// Steps for a tenfold growth, where it grew from rounding to its last size.
  std::optional<double> TenfoldSteps;
  /// Median over the last tenth; infinite where one side is mostly not finite
  /// there.
  double LastRelative = 0;
};

/// A setting, package or measured property that two runs do not share.
struct RunChange {
  std::string Kind; ///< seed, lr, batch-size, tokens, data, tokenizer, eval,
                    ///< hardware, schedule, precision, optimizer, model,
                    ///< software, other, bookkeeping; see ConfigKeys.h.
  std::string Key, A, B;
  bool Semantic = true; ///< May change what is learned.
  /// Symptoms and classes that another value can bring about.
  llvm::SmallVector<llvm::StringRef, 4> Causes = {};
  bool Known = true; ///< Whether ConfigKeys.def has the key.
  std::string Why = {}; ///< Why it does not matter after all; see Compensated.
};

struct RunSetup {
  std::vector<RunChange> Changes; ///< Semantic ones first.
  std::string Says;
  std::string Kind; ///< unknown, same, seed, one, confounded.
  /// Changes that matter, those of one batch size, of packages and of seeds
  /// once each.
  size_t Things = 0;
  /// Which of the usual confounders differ, agree, are not recorded; empty
  /// where a side recorded no settings.
  std::string Confounders;
};

struct RunGroup {
  std::string Name;
  std::vector<size_t> Runs; ///< In RunsComparison::Runs.
};

struct CandidateComparison {
  size_t A = 0, B = 0; ///< Groups.
  CompareVerdict Verdict = CompareVerdict::Same;
  bool Decided = false; ///< Whether some metric could be judged.
  bool Traded = false;
  std::vector<MetricComparison> Metrics;
  std::optional<FirstDifference> First; ///< Of one run a side.
  RunSetup Setup;
  std::string Axis; ///< "tokens" or "step".
  int64_t From = 0, To = 0; ///< Common range on it.
  double Tests = 1; ///< Metrics that share the 5 %.
  std::string Says;
  std::vector<std::string> Remarks;
};

/// The best learning rate of each width.
struct LrSweep {
  struct Width {
    double Width = 0, BestLr = 0, Level = 0;
    std::optional<double> Between; ///< Minimum of the parabola around it.
    size_t Lrs = 0;
    bool AtEdge = false;  ///< The best is the smallest or largest tried.
    bool Unsure = false;  ///< Another is within noise.
  };
  std::string Metric, LrKey, WidthKey;
  std::vector<Width> Widths; ///< Rising.
  std::optional<double> Slope; ///< Of log lr over log width.
  std::string Says;
};

/// Whether small runs put changes in the order that large runs do.
struct ProxyTrust {
  std::string Small, Large, Metric;
  size_t Ablations = 0;
  double Rho = 0, P = 1;
  bool SameBest = false;
  std::string Says;
};

struct RunsComparison {
  CompareVerdict Verdict = CompareVerdict::Same;
  std::vector<RunRecord> Runs;
  std::vector<RunGroup> Groups; ///< The baseline first.
  std::vector<CandidateComparison> Candidates;
  /// Noise of the seeds of the only group, where there is one.
  std::vector<MetricComparison> Noise;
  std::optional<LrSweep> Sweep;
  std::vector<ProxyTrust> Proxies;
  std::vector<std::string> Remarks;
};

struct RunsOptions {
  /// Settings that tell groups apart, with commas between; empty: all but the
  /// seed and what is bookkeeping.
  std::string Group;
};

/// Fails for fewer than two runs and where no metric is shared.
llvm::Expected<RunsComparison> compareRuns(std::vector<RunRecord> Runs,
                                           const RunsOptions &Options);

void printRuns(llvm::raw_ostream &OS, const RunsComparison &C, unsigned Top);
void printRunsMarkdown(llvm::raw_ostream &OS, const RunsComparison &C,
                       unsigned Top);
llvm::json::Value runsJson(const RunsComparison &C);

// The steps of compareRuns(), for tests.

/// Where \p A and \p B stop being the same; none without a common step.
std::optional<FirstDifference> firstDifference(const RunRecord &A,
                                               const RunRecord &B);

/// What kind of change another value of setting \p Key is; "bookkeeping" for
/// names and places.
llvm::StringRef changeKind(llvm::StringRef Key);

/// Whether another value of setting \p Key may change results: not for names,
/// places, and what costs only time and memory.
bool mattersToResults(llvm::StringRef Key);

/// "lr 1e-3 -> 3e-3", long values cut.
std::string changeText(const RunChange &C);

/// What \p A and \p B do not share. Seeds are no change where a
/// side has several.
RunSetup compareRunSetups(llvm::ArrayRef<const RunRecord *> A,
                          llvm::ArrayRef<const RunRecord *> B);

/// The number that \p R has under one of \p Keys, whole or as the last part of
/// a key path; Found is the key.
std::optional<double> settingOf(const RunRecord &R,
                                llvm::ArrayRef<llvm::StringRef> Keys,
                                std::string *Found = nullptr);

/// Groups \p Runs by configuration; see RunsOptions::Group.
std::vector<RunGroup> groupRuns(llvm::ArrayRef<RunRecord> Runs,
                                llvm::StringRef By);

/// The metrics of group \p B beside those of group \p A.
void compareMetrics(llvm::ArrayRef<const RunRecord *> A,
                    llvm::ArrayRef<const RunRecord *> B,
                    CandidateComparison &Into);

/// The noise of \p Runs, seeds of one configuration.
std::vector<MetricComparison>
seedNoise(llvm::ArrayRef<const RunRecord *> Runs);

/// The metric that stands for how good \p Runs are: val_loss, else loss, else
/// the first by name that all have. Empty for none.
std::string mainMetric(llvm::ArrayRef<const RunRecord *> Runs);

/// Level of \p Metric at the end of the range common to \p Runs, one each.
std::vector<double> finalLevels(llvm::ArrayRef<const RunRecord *> Runs,
                                llvm::StringRef Metric);

std::optional<LrSweep> findSweep(llvm::ArrayRef<RunRecord> Runs,
                                 llvm::ArrayRef<RunGroup> Groups);
std::vector<ProxyTrust> findProxies(llvm::ArrayRef<RunRecord> Runs,
                                    llvm::ArrayRef<RunGroup> Groups);

} // namespace culprit

#endif // CULPRIT_COMPARE_RUNS_H
