//===- RunsLevels.cpp - Who ends better, and is it noise? -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Levels are those of the last tenth of the range that all compared runs have,
// on an axis of tokens where all of them log tokens: runs of two batch sizes
// are not at the same place at one step.
//
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Compare/RunsCurves.h"
#include "Compare/RunsStatistics.h"
#include "Support/Units.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// A difference beyond this probability under noise alone, over all metrics
/// judged, is one.
static constexpr double Alpha = 0.05;
/// Costs that differ by less are noise: machines differ by as much.
static constexpr double CostNoise = 0.03;
/// A relative difference that rounding in float32 may make: 100 unit
/// roundoffs.
static constexpr double RoundingNoise = 100 * 0x1p-24;
/// Beyond this share of what a run learned, another seed is a failed run.
static constexpr double SeedShare = 0.2;

int MetricComparison::better() const {
  if (Verdict != CompareVerdict::Different ||
      Kind.Better == MetricBetter::Unknown)
    return 0;
  if (std::isnan(Difference)) // one side is not finite
    return std::isfinite(B) ? 1 : -1;
  return (Difference < 0) == (Kind.Better == MetricBetter::Lower) ? 1 : -1;
}

/// Whether the two curves are the same, bit by bit.
static bool sameSeries(const ScalarSeries &A, const ScalarSeries &B) {
  return A.Steps == B.Steps &&
         all_of(zip(A.Values, B.Values), [](const auto &P) {
           const double X = std::get<0>(P), Y = std::get<1>(P);
           return X == Y || (std::isnan(X) && std::isnan(Y));
         });
}

static double meanOf(ArrayRef<double> Values) {
  double Sum = 0;
  for (double V : Values)
    Sum += V;
  return Sum / double(Values.size());
}

/// nu of levels within groups, pooled; none where no group has two.
static std::optional<PairNoise> pooledNoise(ArrayRef<std::vector<double>> Of) {
  double Squares = 0, Freedom = 0;
  for (const std::vector<double> &Levels : Of) {
    const double Mean = meanOf(Levels);
    for (double L : Levels)
      Squares += (L - Mean) * (L - Mean);
    Freedom += double(Levels.size()) - 1;
  }
  if (Freedom < 1 || !std::isfinite(Squares))
    return std::nullopt;
  return PairNoise{std::sqrt(Squares / Freedom), Freedom};
}

/// Names that every run of both sides logs for the run as a whole.
static std::vector<std::string> sharedNames(ArrayRef<const RunRecord *> A,
                                            ArrayRef<const RunRecord *> B) {
  std::vector<std::string> Out;
  for (const auto &[Name, S] : A[0]->Series)
    if (S.Layer.empty() && S.size() &&
        metricKind(Name).Role != MetricRole::Setting &&
        all_of(concat<const RunRecord *const>(A, B),
               [&, N = StringRef(Name)](const RunRecord *R) {
                 const ScalarSeries *In = R->series(N);
                 return In && In->size();
               }))
      Out.push_back(Name);
  return Out;
}

/// Fills levels and noise of \p M; the verdict follows when it is known how
/// many are judged.
static void measure(const Aligned &Both, MetricComparison &M) {
  const std::vector<double> InA = levelsOf(Both.A),
                            InB = levelsOf(Both.B);
  M.A = meanOf(InA);
  M.B = meanOf(InB);
  M.Points = Both.Paired.size();
  std::vector<double> Differences;
  for (const auto &[X, Y] : Both.Paired)
    Differences.push_back(Y - X);
  if (!Differences.empty())
    M.MeanDifference = meanOf(Differences);
  std::optional<PairNoise> Noise;
  if (InA.size() == 1 && InB.size() == 1) {
    Noise = pairNoise(Differences);
    // Nothing is paired with what comes after a run blew up.
    if (!Both.Paired.empty() && !std::isnan(M.A) && !std::isnan(M.B))
      std::tie(M.A, M.B) = pairedLevels(Both.Paired);
  } else {
    Noise = pooledNoise({InA, InB});
  }
  M.Difference = M.B - M.A;
  if (Noise) {
    M.Nu = Noise->Nu;
    M.Freedom = Noise->Freedom;
  }
}

static bool isJudged(const MetricComparison &M) {
  return M.Kind.Role == MetricRole::Quality || M.Kind.Role == MetricRole::Cost;
}

static void judge(MetricComparison &M, double Tests, double KA, double KB,
                  bool Same) {
  if (Same) {
    M.Verdict = CompareVerdict::Same;
    return;
  }
  if (std::isnan(M.Difference)) {
    if (std::isfinite(M.A) == std::isfinite(M.B)) {
      M.Why = "both end in values that are not finite";
      return;
    }
    M.Verdict = CompareVerdict::Different;
    M.Why = formatv("{0} ends in values that are not finite",
                    std::isfinite(M.A) ? "B" : "A");
    return;
  }
  if (!M.Nu) {
    M.Why = M.Points < 4
                ? formatv("{0} common points do not tell noise", M.Points).str()
                : std::string("its noise is not known");
    return;
  }
  if (*M.Nu == 0 && M.Difference == 0) {
    M.Verdict = CompareVerdict::Same;
    return;
  }
  const double T = studentBound(Alpha / Tests, M.Freedom);
  double Bound = T * *M.Nu * std::sqrt(1 / KA + 1 / KB);
  Bound = std::max(Bound, (M.Kind.Role == MetricRole::Cost ? CostNoise
                                                          : RoundingNoise) *
                              std::max(std::fabs(M.A), std::fabs(M.B)));
  M.Detectable = Bound;
  M.Verdict = std::fabs(M.Difference) > Bound ? CompareVerdict::Different
                                              : CompareVerdict::WithinNoise;
}

/// What the first run of \p Side learned of \p Name: how far its curve moved.
static double progressOf(const Curve &C) {
  if (C.Y.empty())
    return 0;
  const double First =
      quantile(ArrayRef(C.Y).take_front(std::max<size_t>(
                   1, lastTenth(C.Y.size()))),
               0.5)
          .value_or(0);
  return std::fabs(First - levelOf(C.Y));
}

/// Of two runs that differ in the seed alone: what another seed does is the
/// noise itself, unless one of the runs failed. \p Progress is what A learned.
static void judgeSeeds(MetricComparison &M, double Progress) {
  if (M.Kind.Role != MetricRole::Quality ||
      M.Verdict != CompareVerdict::Different || !std::isfinite(M.Difference))
    return;
  if (std::fabs(M.Difference) <= SeedShare * Progress) {
    M.Verdict = CompareVerdict::WithinNoise;
    M.Why = "only the seed differs: this is one draw of its noise";
    return;
  }
  M.Why = formatv("only the seed differs, but by {0:f0} % of what A learned: "
                  "one of the two runs failed",
                  100 * std::fabs(M.Difference) / std::max(Progress, 1e-300));
}

/// The verdict on a candidate from those on its metrics.
static void decide(CandidateComparison &C) {
  bool AllSame = true, Different = false;
  const bool Outcomes = any_of(C.Metrics, isJudged);
  for (const MetricComparison &M : C.Metrics) {
    if (Outcomes && !isJudged(M))
      continue;
    if (!M.Verdict) {
      AllSame = false;
      continue;
    }
    C.Decided = true;
    // Clocks are never the same twice.
    if (M.Kind.Role != MetricRole::Cost)
      AllSame &= M.Verdict == CompareVerdict::Same;
    Different |= M.Verdict == CompareVerdict::Different;
  }
  C.Verdict = Different ? CompareVerdict::Different
              : AllSame ? CompareVerdict::Same
                        : CompareVerdict::WithinNoise;
  const auto Goes = [&](int Way) {
    return any_of(C.Metrics, [&](const MetricComparison &M) {
      return isJudged(M) && M.better() == Way;
    });
  };
  C.Traded = Goes(1) && Goes(-1);
}

void compareMetrics(ArrayRef<const RunRecord *> A,
                    ArrayRef<const RunRecord *> B, CandidateComparison &Into) {
  std::vector<const RunRecord *> All(A.begin(), A.end());
  All.insert(All.end(), B.begin(), B.end());
  const bool Tokens = byTokens(All);
  Into.Axis = Tokens ? "tokens" : "step";
  const bool Alone = A.size() == 1 && B.size() == 1;
  std::vector<double> Progress;
  std::vector<bool> Same;
  bool Any = false;
  for (const std::string &Name : sharedNames(A, B)) {
    const Aligned Both = align(A, B, Name, Tokens);
    if (!Both.IsCommon)
      continue;
    MetricComparison M;
    M.Name = Name;
    M.Kind = metricKind(Name);
    measure(Both, M);
    Into.Metrics.push_back(std::move(M));
    Progress.push_back(progressOf(Both.A[0]));
    Same.push_back(Alone && sameSeries(*A[0]->series(Name),
                                       *B[0]->series(Name)));
    if (!Any || Both.To - Both.From > double(Into.To - Into.From)) {
      Into.From = int64_t(Both.From);
      Into.To = int64_t(Both.To);
      Any = true;
    }
  }
  Into.Tests = std::max<double>(1, double(count_if(Into.Metrics, isJudged)));
  for (size_t I = 0; I != Into.Metrics.size(); ++I) {
    MetricComparison &M = Into.Metrics[I];
    judge(M, Into.Tests, double(A.size()), double(B.size()), Same[I]);
    if (Alone && Into.Setup.Kind == "seed")
      judgeSeeds(M, Progress[I]);
  }
  const auto Order = [](const MetricComparison &M) {
    if (M.Name == "val_loss")
      return 0;
    if (M.Name == "loss")
      return 1;
    return M.Kind.Role == MetricRole::Quality ? 2
           : M.Kind.Role == MetricRole::Cost  ? 3
                                              : 4;
  };
  stable_sort(Into.Metrics, [&](const auto &X, const auto &Y) {
    return Order(X) < Order(Y);
  });
  decide(Into);
}

std::vector<MetricComparison> seedNoise(ArrayRef<const RunRecord *> Runs) {
  std::vector<MetricComparison> Out;
  const bool Tokens = byTokens(Runs);
  for (const std::string &Name : sharedNames(Runs, {})) {
    const Aligned All = align(Runs, {}, Name, Tokens);
    if (!All.IsCommon)
      continue;
    MetricComparison M;
    M.Name = Name;
    M.Kind = metricKind(Name);
    if (!isJudged(M))
      continue;
    const std::vector<double> Levels = levelsOf(All.A);
    M.A = M.B = meanOf(Levels);
    M.Points = All.A[0].Y.size();
    if (std::optional<PairNoise> N = pooledNoise({Levels})) {
      M.Nu = N->Nu;
      M.Freedom = 2 * N->Freedom; // of two such groups
      M.Detectable = studentBound(Alpha, M.Freedom) * N->Nu *
                     std::sqrt(2.0 / double(Runs.size()));
    }
    Out.push_back(std::move(M));
  }
  return Out;
}

std::string mainMetric(ArrayRef<const RunRecord *> Runs) {
  const std::vector<std::string> Names = sharedNames(Runs, {});
  for (const char *Wanted : {"val_loss", "loss"})
    if (is_contained(Names, Wanted))
      return Wanted;
  for (const std::string &Name : Names)
    if (const MetricKind K = metricKind(Name);
        K.Role == MetricRole::Quality && K.Better != MetricBetter::Unknown)
      return Name;
  return "";
}

std::vector<double> finalLevels(ArrayRef<const RunRecord *> Runs,
                                StringRef Metric) {
  const Aligned All = align(Runs, {}, Metric, byTokens(Runs));
  return levelsOf(All.A);
}

} // namespace culprit
