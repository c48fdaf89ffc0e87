//===- GoodMetrics.cpp - Curves outside those of good runs ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Curves of the run as a whole, against the band of the good runs. Of several
// good runs the levels at the end are judged by the noise between these too.
//
//===----------------------------------------------------------------------===//

#include "Compare/GoodBand.h"
#include "Compare/GoodRun.h"
#include "Compare/Runs.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// The least margin of a band, as a share of the value: machines differ by
/// 3 %, and nobody logs an lr of more digits than this.
static constexpr double CostMargin = 0.03, Margin = 0.01;
/// Points in common from which on a curve inside the band says something.
static constexpr size_t FewestShared = 4;
/// Unchanged metrics that are named.
static constexpr size_t MostNamedMetrics = 4;

/// Whether the curve of \p Name can tell that a run is other: of what is told
/// to a run the learning rate alone.
static bool isTold(StringRef Name) {
  const MetricRole Role = metricKind(Name).Role;
  return Role != MetricRole::Setting || Name == "lr";
}

static std::string bandText(const Band &B) {
  return formatNumber(B.Low, 3) + " to " + formatNumber(B.High, 3);
}

static GoodChange changeOf(StringRef Name, const Excursion &E) {
  GoodChange Out;
  Out.Kind = "metric";
  Out.Name = Name.str();
  Out.Good = bandText(E.There);
  Out.Bad = formatNumber(E.Value, 4);
  Out.Standing = E.There.standing(E.Value);
  Out.From = E.From;
  Out.Stays = E.Stays;
  if (E.Stays)
    Out.Says = formatv("{0} outside the band from step {1} on: {2} at step "
                       "{3}, band {4}",
                       Name, formatCount(E.From), Out.Bad, formatCount(E.Step),
                       Out.Good);
  else
    Out.Says = formatv("{0} leaves the band at {1} of {2} points, first at "
                       "step {3}: {4} at step {5}, band {6}",
                       Name, E.Outside, E.Points, formatCount(E.From), Out.Bad,
                       formatCount(E.Step), Out.Good);
  return Out;
}

/// Levels at the end that differ by more than seeds make, though no single
/// point is out of the band.
static void addLevels(ArrayRef<const RunRecord *> Good,
                      ArrayRef<const RunRecord *> Bad,
                      std::vector<std::string> &Inside, GoodComparison &Into) {
  CandidateComparison C;
  compareMetrics(Good, Bad, C);
  for (const MetricComparison &M : C.Metrics) {
    auto It = llvm::find(Inside, M.Name);
    if (It == Inside.end() || M.Verdict != CompareVerdict::Different ||
        !M.Detectable)
      continue;
    GoodChange Out;
    Out.Kind = "metric";
    Out.Name = M.Name;
    Out.Good = formatNumber(M.A, 4);
    Out.Bad = formatNumber(M.B, 4);
    // Below all that leaves the band.
    Out.Standing = 0.2;
    Out.Says = formatv("{0} ends at {1} instead of {2}, more than seeds make "
                       "({3})",
                       M.Name, Out.Bad, Out.Good,
                       formatNumber(*M.Detectable, 2));
    Into.Changes.push_back(std::move(Out));
    Inside.erase(It);
  }
}

void compareGoodMetrics(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                        GoodComparison &Into) {
  std::vector<RunRecord> InGood, InBad;
  for (const ComparedRun &G : Good)
    for (RunRecord &R : runRecords(*G.Evidence, G.Path))
      InGood.push_back(std::move(R));
  InBad = runRecords(*Bad.Evidence, Bad.Path);
  if (InGood.empty() || InBad.empty())
    return;
  std::vector<const RunRecord *> A, B;
  for (const RunRecord &R : InGood)
    A.push_back(&R);
  for (const RunRecord &R : InBad)
    B.push_back(&R);

  std::vector<std::string> Inside;
  size_t Shared = 0;
  for (const auto &[Name, First] : B.front()->Series) {
    if (!First.Layer.empty() || !isTold(Name))
      continue;
    std::vector<const ScalarSeries *> Curves;
    for (const RunRecord *R : A)
      if (const ScalarSeries *S = R->series(Name); S && S->Layer.empty())
        Curves.push_back(S);
    if (Curves.size() != A.size())
      continue;
    const double Floor =
        metricKind(Name).Role == MetricRole::Cost ? CostMargin : Margin;
    std::optional<Excursion> Worst;
    size_t Looked = 0;
    for (const RunRecord *R : B) {
      const ScalarSeries *S = R->series(Name);
      size_t Points = 0;
      std::optional<Excursion> E =
          S ? leavesBand(Curves, *S, Floor, Points) : std::nullopt;
      Looked += Points;
      if (E && (!Worst || E->There.standing(E->Value) >
                              Worst->There.standing(Worst->Value)))
        Worst = E;
    }
    Shared += Looked != 0;
    if (Worst)
      Into.Changes.push_back(changeOf(Name, *Worst));
    else if (Looked >= FewestShared)
      Inside.push_back(Name);
  }
  if (!Shared) {
    Into.Remarks.push_back("no metric has steps in common with the good run");
    return;
  }
  // One good run tells nothing of what seeds do to a level.
  if (A.size() > 1)
    addLevels(A, B, Inside, Into);
  if (Inside.empty())
    return;
  const size_t More = Inside.size() > MostNamedMetrics
                          ? Inside.size() - MostNamedMetrics
                          : 0;
  Inside.resize(Inside.size() - More);
  Into.Same.push_back("the curves of " + join(Inside, ", ") +
                      (More ? formatv(" and {0} more", More).str()
                            : ""));
}

} // namespace culprit
