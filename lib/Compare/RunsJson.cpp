//===- RunsJson.cpp - A comparison of runs for programs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static json::Value text(StringRef Text) {
  return json::isUTF8(Text) ? Text.str() : json::fixUTF8(Text);
}

/// JSON has no NaN and no infinity; these are text.
static json::Value number(double Value) {
  if (std::isfinite(Value))
    return Value;
  return formatNumber(Value);
}

template <typename T> static json::Value orNull(const std::optional<T> &Value) {
  if (!Value)
    return nullptr;
  if constexpr (std::is_same_v<T, double>)
    return number(*Value);
  else
    return *Value;
}

static json::Value verdictJson(const std::optional<CompareVerdict> &V) {
  return V ? json::Value(toString(*V)) : json::Value(nullptr);
}

static json::Value metricJson(const MetricComparison &M) {
  return json::Object{
      {"name", text(M.Name)},
      {"role", toString(M.Kind.Role)},
      {"better_when", toString(M.Kind.Better)},
      {"points", int64_t(M.Points)},
      {"a", number(M.A)},
      {"b", number(M.B)},
      {"difference", number(M.Difference)},
      {"mean_difference", number(M.MeanDifference)},
      {"nu", orNull(M.Nu)},
      {"freedom", number(M.Freedom)},
      {"detectable", orNull(M.Detectable)},
      {"verdict", verdictJson(M.Verdict)},
      {"direction", M.better() > 0   ? json::Value("better")
                    : M.better() < 0 ? json::Value("worse")
                                     : json::Value(nullptr)},
      {"why", M.Why.empty() ? json::Value(nullptr) : text(M.Why)}};
}

static json::Value firstJson(const FirstDifference &F) {
  return json::Object{{"kind", F.Kind},
                      {"says", text(F.Says)},
                      {"common_steps", int64_t(F.Common)},
                      {"step", orNull(F.Step)},
                      {"last_equal", orNull(F.LastEqual)},
                      {"metric",
                       F.Step ? text(F.Metric) : json::Value(nullptr)},
                      {"a", number(F.A)},
                      {"b", number(F.B)},
                      {"relative", number(F.Relative)},
                      {"rounding", F.Rounding},
                      {"decimals", orNull(F.Decimals)},
                      {"tenfold_steps", orNull(F.TenfoldSteps)},
                      {"last_relative", number(F.LastRelative)}};
}

static json::Value setupJson(const RunSetup &S) {
  json::Array Changes, Pairs;
  std::vector<const RunChange *> Matter;
  for (const RunChange &C : S.Changes) {
    Changes.push_back(json::Object{{"kind", C.Kind},
                                   {"key", text(C.Key)},
                                   {"a", text(C.A)},
                                   {"b", text(C.B)},
                                   {"semantic", C.Semantic}});
    if (C.Semantic && C.Kind != "software")
      Matter.push_back(&C);
  }
  for (size_t I = 0; I != Matter.size(); ++I)
    for (size_t J = I + 1; J != Matter.size() && Pairs.size() < 64; ++J)
      Pairs.push_back(
          json::Array{text(Matter[I]->Key), text(Matter[J]->Key)});
  return json::Object{{"kind", S.Kind},
                      {"says", text(S.Says)},
                      {"changes", std::move(Changes)},
                      {"confounded_pairs", std::move(Pairs)}};
}

static json::Value sweepJson(const LrSweep &S) {
  json::Array Widths;
  for (const LrSweep::Width &W : S.Widths)
    Widths.push_back(json::Object{{"width", W.Width},
                                  {"best_lr", W.BestLr},
                                  {"between", orNull(W.Between)},
                                  {"level", number(W.Level)},
                                  {"lrs", int64_t(W.Lrs)},
                                  {"at_edge", W.AtEdge},
                                  {"unsure", W.Unsure}});
  return json::Object{{"metric", text(S.Metric)},
                      {"lr_key", text(S.LrKey)},
                      {"width_key", text(S.WidthKey)},
                      {"widths", std::move(Widths)},
                      {"slope", orNull(S.Slope)},
                      {"says", text(S.Says)}};
}

json::Value runsJson(const RunsComparison &C) {
  json::Array Groups, Candidates, Noise, Proxies, Remarks;
  for (const RunGroup &G : C.Groups) {
    json::Array Names;
    for (size_t I : G.Runs)
      Names.push_back(text(C.Runs[I].Name));
    Groups.push_back(
        json::Object{{"name", text(G.Name)}, {"runs", std::move(Names)}});
  }
  for (const CandidateComparison &Each : C.Candidates) {
    json::Array Metrics, Notes;
    for (const MetricComparison &M : Each.Metrics)
      Metrics.push_back(metricJson(M));
    for (const std::string &R : Each.Remarks)
      Notes.push_back(text(R));
    Candidates.push_back(json::Object{
        {"a", text(C.Groups[Each.A].Name)},
        {"b", text(C.Groups[Each.B].Name)},
        {"verdict", Each.Decided ? json::Value(toString(Each.Verdict))
                                 : json::Value(nullptr)},
        {"traded", Each.Traded},
        {"says", text(Each.Says)},
        {"axis", Each.Axis},
        {"from", Each.From},
        {"to", Each.To},
        {"metrics", std::move(Metrics)},
        {"first_difference",
         Each.First ? firstJson(*Each.First) : json::Value(nullptr)},
        {"setup", setupJson(Each.Setup)},
        {"remarks", std::move(Notes)}});
  }
  for (const MetricComparison &M : C.Noise)
    Noise.push_back(metricJson(M));
  for (const ProxyTrust &P : C.Proxies)
    Proxies.push_back(json::Object{{"small", text(P.Small)},
                                   {"large", text(P.Large)},
                                   {"metric", text(P.Metric)},
                                   {"ablations", int64_t(P.Ablations)},
                                   {"rank_correlation", P.Rho},
                                   {"p", P.P},
                                   {"same_best", P.SameBest},
                                   {"says", text(P.Says)}});
  for (const std::string &R : C.Remarks)
    Remarks.push_back(text(R));
  return json::Object{
      {"schema", 1},
      {"kind", "runs"},
      {"verdict", toString(C.Verdict)},
      {"groups", std::move(Groups)},
      {"candidates", std::move(Candidates)},
      {"noise", std::move(Noise)},
      {"sweep", C.Sweep ? sweepJson(*C.Sweep) : json::Value(nullptr)},
      {"proxies", std::move(Proxies)},
      {"remarks", std::move(Remarks)}};
}

} // namespace culprit
