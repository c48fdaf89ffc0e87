//===- ObserveFigures.cpp - Latencies, accuracy, final metrics --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Figures that must not get worse. How far chance moves one is told by its own
// interval: of a quantile by its bootstrap, of a share by Wilson's, of the end
// of a curve by the scatter of its last tenth. A tolerance beside it stands for
// what no single run tells: another machine, another seed.
//
//===----------------------------------------------------------------------===//

#include "Compare/RunsMetrics.h"
#include "Compare/RunsRecord.h"
#include "Compare/RunsStatistics.h"
#include "Golden/Observe.h"
#include "Golden/Statistics.h"
#include "Support/Units.h"
#include "Table/Statistics.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Fewer values tell neither a median nor a 95th percentile.
static constexpr size_t LeastForMedian = 5, LeastForTail = 40;
/// Fewer requests tell no share of errors.
static constexpr double LeastForShare = 20;

namespace {
/// The figures of the requests of one file.
struct FileFigures {
  std::vector<double> Latency, FirstToken;
  double Requests = 0, Errors = 0, Judged = 0, Right = 0;
};
} // namespace

static void addQuantiles(const std::string &Name, StringRef What,
                         std::vector<double> Values, GoldenRun &Run) {
  if (Values.empty())
    return;
  const std::string Id = ("latency/" + Name + "/" + What + ".").str();
  if (Values.size() < LeastForMedian) {
    Run.Notes.push_back(Name + ": " + What.str() + " of " +
                        formatCount(int64_t(Values.size())) +
                        " requests is too little to hold; record " +
                        formatCount(int64_t(LeastForMedian)) + " or more");
    return;
  }
  const auto Add = [&](StringRef Label, double Q) {
    const Interval I = quantileInterval(Values, Q);
    Observation O = levelItem(Id + Label.str(), I.Value, I.Low, I.High,
                              /*LowerIsBetter=*/true, "s", 0.1,
                              "10 % for the load of the machine, beside the 95 "
                              "% bootstrap intervals of both runs");
    O.Where = Name;
    O.Item.set("count", int64_t(Values.size()));
    Run.Items.push_back(std::move(O));
  };
  Add("p50", 0.5);
  if (Values.size() >= LeastForTail)
    Add("p95", 0.95);
}

static void addShare(const std::string &Id, const std::string &Name,
                     double Hits, double Count, bool LowerIsBetter,
                     GoldenRun &Run) {
  const Interval I = shareInterval(Hits, Count);
  Observation O = levelItem(Id, I.Value, I.Low, I.High, LowerIsBetter, "", 0,
                            "Wilson's 95 % intervals of both runs are all that "
                            "chance may move it");
  O.Where = Name;
  O.Item.set("count", int64_t(Count));
  Run.Items.push_back(std::move(O));
}

static void observeServing(const Case &C, const InputNames &Names,
                           GoldenRun &Run) {
  const Table &T = C.table(TableId::requests);
  const auto Column = [&](unsigned I) -> const ColumnView & {
    return T.columns()[I];
  };
  std::map<std::string, FileFigures> Files;
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    FileFigures &F = Files[Names.of(TableId::requests, Row)];
    const double Weight = Column(requests::weight).isNull(Row)
                              ? 1
                              : Column(requests::weight).number(Row);
    const bool Error = !Column(requests::error).isNull(Row) ||
                       Column(requests::status).number(Row) >= 400;
    F.Requests += Weight;
    F.Errors += Error ? Weight : 0;
    if (!Column(requests::correct).isNull(Row)) {
      ++F.Judged;
      F.Right += Column(requests::correct).number(Row);
    }
    if (Error) // fails fast or runs into a timeout: no latency of an answer
      continue;
    if (const double V = Column(requests::latency).number(Row);
        std::isfinite(V))
      F.Latency.push_back(V);
    if (const double V = Column(requests::ttft).number(Row); std::isfinite(V))
      F.FirstToken.push_back(V);
  }
  for (auto &[Name, F] : Files) {
    addQuantiles(Name, "latency", F.Latency, Run);
    addQuantiles(Name, "ttft", F.FirstToken, Run);
    if (F.Requests >= LeastForShare)
      addShare("metrics/" + Name + "/error-share", Name, F.Errors, F.Requests,
               /*LowerIsBetter=*/true, Run);
    if (F.Judged > 0)
      addShare("metrics/" + Name + "/accuracy", Name, F.Right, F.Judged,
               /*LowerIsBetter=*/false, Run);
  }
}

/// The allowance beside a metric's own scatter.
static std::pair<double, StringRef> allowance(const MetricKind &Kind) {
  if (Kind.Role == MetricRole::Cost)
    return {0.1, "10 % for the load of the machine, beside the scatter of the "
                 "last tenth of both runs"};
  return {0.05, "5 % for what another seed does, which one run cannot tell, "
                "beside the scatter of the last tenth of both runs"};
}

static void observeCurves(const Case &C, const InputNames &Names,
                          GoldenRun &Run) {
  // The folder of a run as it is known within the paths given.
  std::map<std::string, std::string> Folders;
  const Table &T = C.table(TableId::scalars);
  const ColumnView &RunOf = T.columns()[scalars::run];
  std::string Path, Folder;
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    if (RunOf.isNull(Row))
      continue;
    if (const std::string Own = C.cite(TableId::scalars, Row).Path;
        Own != Path) {
      Path = Own;
      Folder = sys::path::parent_path(Names.of(Path)).str();
    }
    const std::string Key = C.pool()->text(RunOf.getString(Row)).str();
    auto It = Folders.insert({Key, Folder}).first;
    It->second = std::min(It->second, Folder);
  }
  for (const RunRecord &R : runRecords(C, ".")) {
    const auto It = Folders.find(R.Folder);
    const std::string In =
        It == Folders.end() || It->second.empty() ? "" : It->second + "/";
    for (const auto &[Name, Series] : R.Series) {
      const MetricKind Kind = metricKind(Series.Metric);
      if (!Series.Layer.empty() || Kind.Better == MetricBetter::Unknown ||
          (Kind.Role != MetricRole::Quality && Kind.Role != MetricRole::Cost))
        continue;
      const size_t Window = lastTenth(Series.size());
      const ArrayRef<double> Last =
          ArrayRef<double>(Series.Values).take_back(Window);
      const std::optional<double> Level = quantile(Last, 0.5);
      Observation O;
      // A median of w values: 1.2533 sd / sqrt(w); 95 % is 1.96 of it.
      double Half = 0;
      if (const std::optional<double> Sd = standardDeviation(Last))
        Half = 1.96 * 1.2533 * *Sd / std::sqrt(double(Window));
      const size_t Broken = size_t(count_if(
          Last, [](double V) { return !std::isfinite(V); }));
      const double Value =
          Level && Broken * 2 <= Window ? *Level : std::nan("");
      const auto [Rtol, Why] = allowance(Kind);
      O = levelItem("metrics/" + In + Name, Value, Value - Half, Value + Half,
                    Kind.Better == MetricBetter::Lower, "", Rtol, Why);
      O.Item.set("count", int64_t(Window));
      O.Where = In.empty() ? "the run" : StringRef(In).drop_back().str();
      Run.Items.push_back(std::move(O));
    }
  }
}

void observeFigures(const Case &C, const InputNames &Names, GoldenRun &Run) {
  if (C.has(TableId::requests))
    observeServing(C, Names, Run);
  if (C.has(TableId::scalars))
    observeCurves(C, Names, Run);
}

} // namespace culprit
