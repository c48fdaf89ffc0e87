//===- RunsSweep.cpp - Learning rates over widths, and proxies --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Two questions that many runs answer together: does the best learning rate
// move with the width, and do small runs put changes in the order that large
// runs put them in?
//
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Compare/RunsStatistics.h"
#include "Support/Units.h"
#include "Table/Series.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace culprit {

static constexpr StringRef LrKeys[] = {"lr",      "learning_rate", "max_lr",
                                       "peak_lr", "base_lr"};
static constexpr StringRef WidthKeys[] = {"n_embd",     "d_model",
                                          "hidden_size", "width",
                                          "model_dim",  "embed_dim",
                                          "hidden_dim", "dim"};
static constexpr StringRef DepthKeys[] = {"n_layer", "n_layers", "num_layers",
                                          "num_hidden_layers", "depth"};
/// Fewest learning rates of a width, and ablations of two sizes.
static constexpr size_t FewestLrs = 3, FewestAblations = 4;

/// The last part of a key path.
static StringRef lastPart(StringRef Key) {
  const StringRef Last = Key.rsplit('.').second;
  return Last.empty() ? Key : Last;
}

namespace {

/// What a learning rate ends at: the mean over its seeds.
struct Tried {
  double Sum = 0, Squares = 0;
  size_t Runs = 0;
  double level() const { return Sum / double(Runs); }
};

} // namespace

/// Lower is better: levels of a metric that should rise are negated.
static std::vector<double> costs(ArrayRef<RunRecord> Runs,
                                 const std::string &Metric) {
  std::vector<const RunRecord *> All;
  for (const RunRecord &R : Runs)
    All.push_back(&R);
  std::vector<double> Out = finalLevels(All, Metric);
  if (metricKind(Metric).Better == MetricBetter::Higher)
    for (double &V : Out)
      V = -V;
  return Out;
}

/// Minimum over log lr of the parabola through three points.
static std::optional<double> vertex(const std::array<double, 3> &X,
                                    const std::array<double, 3> &Y) {
  const double D1 = (Y[1] - Y[0]) / (X[1] - X[0]);
  const double D2 = (Y[2] - Y[1]) / (X[2] - X[1]);
  const double Curvature = (D2 - D1) / (X[2] - X[0]);
  if (!(Curvature > 0))
    return std::nullopt;
  return (X[0] + X[1]) / 2 - D1 / (2 * Curvature);
}

/// The smallest number of \p Grid that is not a run that blew up.
static LrSweep::Width bestOf(double Width,
                             const std::map<double, Tried> &Grid) {
  LrSweep::Width Out;
  Out.Width = Width;
  Out.Lrs = Grid.size();
  auto Best = Grid.end();
  double Spread = 0, Freedom = 0;
  for (auto It = Grid.begin(); It != Grid.end(); ++It) {
    const Tried &C = It->second;
    if (!std::isfinite(C.Sum))
      continue;
    if (Best == Grid.end() || C.level() < Best->second.level())
      Best = It;
    Spread += std::max(0.0, C.Squares - C.Sum * C.Sum / double(C.Runs));
    Freedom += double(C.Runs) - 1;
  }
  if (Best == Grid.end())
    return Out;
  Out.BestLr = Best->first;
  Out.Level = Best->second.level();
  Out.AtEdge = Best == Grid.begin() || std::next(Best) == Grid.end();
  if (Freedom > 0) {
    const double Nu = std::sqrt(Spread / Freedom);
    const double T = studentBound(0.05, Freedom);
    for (const auto &[Lr, C] : Grid)
      if (Lr != Out.BestLr && std::isfinite(C.Sum) &&
          C.level() - Out.Level <=
              T * Nu * std::sqrt(1 / double(C.Runs) +
                                 1 / double(Best->second.Runs)))
        Out.Unsure = true;
  }
  if (Out.AtEdge)
    return Out;
  auto Before = std::prev(Best), After = std::next(Best);
  if (std::isfinite(Before->second.Sum) && std::isfinite(After->second.Sum))
    if (std::optional<double> X =
            vertex({std::log(Before->first), std::log(Best->first),
                    std::log(After->first)},
                   {Before->second.level(), Out.Level,
                    After->second.level()}))
      Out.Between = std::exp(*X);
  return Out;
}

/// Slope of least squares of log lr over log width.
static double slopeOf(ArrayRef<LrSweep::Width> Widths) {
  double MeanX = 0, MeanY = 0, XX = 0, XY = 0;
  const double N = double(Widths.size());
  const auto Y = [](const LrSweep::Width &W) {
    return std::log(W.Between.value_or(W.BestLr));
  };
  for (const LrSweep::Width &W : Widths) {
    MeanX += std::log(W.Width) / N;
    MeanY += Y(W) / N;
  }
  for (const LrSweep::Width &W : Widths) {
    XX += std::pow(std::log(W.Width) - MeanX, 2);
    XY += (std::log(W.Width) - MeanX) * (Y(W) - MeanY);
  }
  return XX > 0 ? XY / XX : 0;
}

static std::string sweepText(const LrSweep &S) {
  std::string Out;
  for (const LrSweep::Width &W : S.Widths)
    Out += (Out.empty() ? "" : ", ") +
           formatv("{0} at {1} {2}", formatNumber(W.BestLr, 3),
                   lastPart(S.WidthKey), formatNumber(W.Width, 6))
               .str();
  Out = "the best learning rate is " + Out;
  const bool Edge =
      any_of(S.Widths, [](const LrSweep::Width &W) { return W.AtEdge; });
  if (!S.Slope || Edge)
    return Out + "; a best one at the end of what was tried is only a bound: "
                 "try further before reading a slope";
  Out += formatv("; it goes with width to the power {0}",
                 formatNumber(std::round(*S.Slope * 100) / 100, 3));
  if (std::fabs(*S.Slope) < 0.2)
    Out += ": it carries over from width to width";
  else if (*S.Slope < 0)
    Out += ": it falls with width, so one found on a small model is too large "
           "for a wide one (-1 is the rule of Adam without muP)";
  else
    Out += ": it rises with width";
  if (any_of(S.Widths, [](const LrSweep::Width &W) { return W.Unsure; }))
    Out += "; for some width another learning rate is within noise of the best";
  return Out;
}

std::optional<LrSweep> findSweep(ArrayRef<RunRecord> Runs,
                                 ArrayRef<RunGroup> Groups) {
  if (Runs.size() < 2 * FewestLrs)
    return std::nullopt;
  std::vector<const RunRecord *> All;
  for (const RunRecord &R : Runs)
    All.push_back(&R);
  LrSweep Out;
  Out.Metric = mainMetric(All);
  if (Out.Metric.empty())
    return std::nullopt;
  const std::vector<double> Levels = costs(Runs, Out.Metric);
  std::map<double, std::map<double, Tried>> Grid;
  for (auto [R, Level] : zip(Runs, Levels)) {
    const std::optional<double> Lr = settingOf(R, LrKeys, &Out.LrKey);
    const std::optional<double> Width = settingOf(R, WidthKeys, &Out.WidthKey);
    if (!Lr || !Width || !(*Lr > 0 && *Width > 0))
      continue;
    Tried &C = Grid[*Width][*Lr];
    C.Sum += Level;
    C.Squares += Level * Level;
    ++C.Runs;
  }
  for (const auto &[Width, Row] : Grid)
    if (Row.size() >= FewestLrs)
      if (LrSweep::Width W = bestOf(Width, Row); W.BestLr > 0)
        Out.Widths.push_back(W);
  if (Out.Widths.size() < 2)
    return std::nullopt;
  Out.Slope = slopeOf(Out.Widths);
  Out.Says = sweepText(Out);
  if (metricKind(Out.Metric).Better == MetricBetter::Higher)
    for (LrSweep::Width &W : Out.Widths)
      W.Level = -W.Level;
  return Out;
}

/// Whether \p Key says how large a run is.
static bool isSizeKey(StringRef Key) {
  StringRef Leaf = lastPart(Key);
  const StringRef Kind = changeKind(Key);
  return is_contained(WidthKeys, Leaf) || is_contained(DepthKeys, Leaf) ||
         Leaf == "n_head" || Leaf == "num_heads" ||
         Leaf == "num_attention_heads" || Leaf == "intermediate_size" ||
         Leaf == "n_inner" || Leaf == "ffn_dim" || Kind == "tokens";
}

namespace {

/// The varying sizes of a run, in the order of their keys, with their names.
using Scale = std::vector<std::pair<double, std::string>>;

/// A run as a proxy: how large it is, and what else is set.
struct ScaledRun {
  const RunRecord *Run;
  Scale Size;
  std::string Ablation;
};

} // namespace

static std::vector<ScaledRun> scaledRuns(ArrayRef<RunRecord> Runs) {
  std::map<std::string, std::set<std::string>> Sizes;
  for (const RunRecord &R : Runs)
    for (const auto &[Key, Value] : R.Config)
      if (isSizeKey(Key))
        Sizes[Key].insert(Value);
  std::vector<ScaledRun> Out;
  for (const RunRecord &R : Runs) {
    ScaledRun S{&R, {}, {}};
    for (const auto &[Key, Value] : R.Config) {
      const StringRef Kind = changeKind(Key);
      if (!isSizeKey(Key)) {
        if (Kind != "seed" && mattersToResults(Key))
          S.Ablation += Key + "=" + Value + "\n";
        continue;
      }
      if (Sizes[Key].size() < 2)
        continue;
      double Number = 0;
      if (StringRef(Value).getAsDouble(Number) || std::isnan(Number))
        Number = 0;
      S.Size.push_back({Number, lastPart(Key).str() + " " + Value});
    }
    if (!S.Size.empty())
      Out.push_back(std::move(S));
  }
  return Out;
}

std::vector<ProxyTrust> findProxies(ArrayRef<RunRecord> Runs,
                                    ArrayRef<RunGroup> Groups) {
  std::vector<ProxyTrust> Out;
  std::vector<const RunRecord *> All;
  for (const RunRecord &R : Runs)
    All.push_back(&R);
  if (Groups.size() < 2 * FewestAblations)
    return Out;
  const std::string Metric = mainMetric(All);
  if (Metric.empty())
    return Out;
  std::map<Scale, std::vector<ScaledRun>> ByScale;
  for (ScaledRun &S : scaledRuns(Runs))
    ByScale[S.Size].push_back(std::move(S));
  // Runs of one scale end together; those of two need not.
  std::map<Scale, std::map<std::string, Tried>> Levels;
  for (const auto &[Size, Here] : ByScale) {
    std::vector<const RunRecord *> Of;
    for (const ScaledRun &S : Here)
      Of.push_back(S.Run);
    for (auto [S, Level] : zip(Here, finalLevels(Of, Metric))) {
      Tried &C = Levels[Size][S.Ablation];
      C.Sum += Level;
      ++C.Runs;
    }
  }
  const double Sign =
      metricKind(Metric).Better == MetricBetter::Higher ? -1 : 1;
  for (auto Small = Levels.begin(); Small != Levels.end(); ++Small) {
    auto Large = std::next(Small);
    if (Large == Levels.end())
      break;
    std::vector<double> X, Y;
    for (const auto &[Ablation, C] : Small->second) {
      auto It = Large->second.find(Ablation);
      if (It == Large->second.end() || !std::isfinite(C.Sum) ||
          !std::isfinite(It->second.Sum))
        continue;
      X.push_back(Sign * C.level());
      Y.push_back(Sign * It->second.level());
    }
    const std::optional<double> Rho = rankCorrelation(X, Y);
    if (X.size() < FewestAblations || !Rho)
      continue;
    ProxyTrust P;
    const auto NameOf = [](const Scale &S) {
      std::string Name;
      for (const auto &[Number, Text] : S)
        Name += (Name.empty() ? "" : ", ") + Text;
      return Name;
    };
    P.Small = NameOf(Small->first);
    P.Large = NameOf(Large->first);
    P.Metric = Metric;
    P.Ablations = X.size();
    P.Rho = *Rho;
    P.P = rankCorrelationP(*Rho, X.size());
    P.SameBest = (min_element(X) - X.begin()) == (min_element(Y) - Y.begin());
    P.Says = formatv("{0} changes at {1} and at {2} rank alike by {3:f2} "
                     "(chance {4}); the best is {5}: ",
                     P.Ablations, P.Small, P.Large, P.Rho,
                     formatNumber(P.P, 2),
                     P.SameBest ? "the same" : "another one");
    if (P.P > 0.05)
      P.Says += "too little to trust the smaller size";
    else if (P.Rho >= 0.8)
      P.Says += "the smaller size predicts the larger";
    else
      P.Says += "the smaller size is a filter: what hurts there may be "
                "dropped, what helps there needs the larger size to confirm";
    Out.push_back(std::move(P));
  }
  return Out;
}

} // namespace culprit
