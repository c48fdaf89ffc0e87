//===- RunsJson.cpp - A comparison of runs for programs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Runs.h"
#include "Support/Text.h"

using namespace llvm;

namespace culprit {

template <typename T> static json::Value orNull(const std::optional<T> &Value) {
  if (!Value)
    return nullptr;
  if constexpr (std::is_same_v<T, double>)
    return jsonNumber(*Value);
  else
    return *Value;
}

static json::Value verdictJson(const std::optional<CompareVerdict> &V) {
  return V ? json::Value(toString(*V)) : json::Value(nullptr);
}

static json::Value metricJson(const MetricComparison &M) {
  return json::Object{
      {"name", jsonText(M.Name)},
      {"role", toString(M.Kind.Role)},
      {"better_when", toString(M.Kind.Better)},
      {"points", int64_t(M.Points)},
      {"a", jsonNumber(M.A)},
      {"b", jsonNumber(M.B)},
      {"difference", jsonNumber(M.Difference)},
      {"mean_difference", jsonNumber(M.MeanDifference)},
      {"nu", orNull(M.Nu)},
      {"freedom", jsonNumber(M.Freedom)},
      {"detectable", orNull(M.Detectable)},
      {"verdict", verdictJson(M.Verdict)},
      {"direction", M.better() > 0   ? json::Value("better")
                    : M.better() < 0 ? json::Value("worse")
                                     : json::Value(nullptr)},
      {"why", M.Why.empty() ? json::Value(nullptr) : jsonText(M.Why)}};
}

static json::Value firstJson(const FirstDifference &F) {
  return json::Object{{"kind", F.Kind},
                      {"says", jsonText(F.Says)},
                      {"common_steps", int64_t(F.Common)},
                      {"step", orNull(F.Step)},
                      {"last_equal", orNull(F.LastEqual)},
                      {"metric",
                       F.Step ? jsonText(F.Metric) : json::Value(nullptr)},
                      {"a", jsonNumber(F.A)},
                      {"b", jsonNumber(F.B)},
                      {"relative", jsonNumber(F.Relative)},
                      {"rounding", F.Rounding},
                      {"decimals", orNull(F.Decimals)},
                      {"tenfold_steps", orNull(F.TenfoldSteps)},
                      {"last_relative", jsonNumber(F.LastRelative)}};
}

static json::Value setupJson(const RunSetup &S) {
  json::Array Changes, Pairs;
  std::vector<const RunChange *> Matter;
  for (const RunChange &C : S.Changes) {
    json::Array Causes;
    for (StringRef Each : C.Causes)
      Causes.push_back(Each);
    Changes.push_back(json::Object{{"kind", C.Kind},
                                   {"causes", std::move(Causes)},
                                   {"known", C.Known},
                                   {"key", jsonText(C.Key)},
                                   {"a", jsonText(C.A)},
                                   {"b", jsonText(C.B)},
                                   {"semantic", C.Semantic}});
    if (C.Semantic && C.Kind != "software")
      Matter.push_back(&C);
  }
  for (size_t I = 0; I != Matter.size(); ++I)
    for (size_t J = I + 1; J != Matter.size() && Pairs.size() < 64; ++J)
      Pairs.push_back(
          json::Array{jsonText(Matter[I]->Key), jsonText(Matter[J]->Key)});
  return json::Object{{"kind", S.Kind},
                      {"says", jsonText(S.Says)},
                      {"confounders", jsonText(S.Confounders)},
                      {"changes", std::move(Changes)},
                      {"confounded_pairs", std::move(Pairs)}};
}

static json::Value sweepJson(const LrSweep &S) {
  json::Array Widths;
  for (const LrSweep::Width &W : S.Widths)
    Widths.push_back(json::Object{{"width", W.Width},
                                  {"best_lr", W.BestLr},
                                  {"between", orNull(W.Between)},
                                  {"level", jsonNumber(W.Level)},
                                  {"lrs", int64_t(W.Lrs)},
                                  {"at_edge", W.AtEdge},
                                  {"unsure", W.Unsure}});
  return json::Object{{"metric", jsonText(S.Metric)},
                      {"lr_key", jsonText(S.LrKey)},
                      {"width_key", jsonText(S.WidthKey)},
                      {"widths", std::move(Widths)},
                      {"slope", orNull(S.Slope)},
                      {"says", jsonText(S.Says)}};
}

json::Value runsJson(const RunsComparison &C) {
  json::Array Groups, Candidates, Noise, Proxies, Remarks;
  for (const RunGroup &G : C.Groups) {
    json::Array Names;
    for (size_t I : G.Runs)
      Names.push_back(jsonText(C.Runs[I].Name));
    Groups.push_back(
        json::Object{{"name", jsonText(G.Name)}, {"runs", std::move(Names)}});
  }
  for (const CandidateComparison &Each : C.Candidates) {
    json::Array Metrics, Notes;
    for (const MetricComparison &M : Each.Metrics)
      Metrics.push_back(metricJson(M));
    for (const std::string &R : Each.Remarks)
      Notes.push_back(jsonText(R));
    Candidates.push_back(json::Object{
        {"a", jsonText(C.Groups[Each.A].Name)},
        {"b", jsonText(C.Groups[Each.B].Name)},
        {"verdict", Each.Decided ? json::Value(toString(Each.Verdict))
                                 : json::Value(nullptr)},
        {"traded", Each.Traded},
        {"says", jsonText(Each.Says)},
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
    Proxies.push_back(json::Object{{"small", jsonText(P.Small)},
                                   {"large", jsonText(P.Large)},
                                   {"metric", jsonText(P.Metric)},
                                   {"ablations", int64_t(P.Ablations)},
                                   {"rank_correlation", P.Rho},
                                   {"p", P.P},
                                   {"same_best", P.SameBest},
                                   {"says", jsonText(P.Says)}});
  for (const std::string &R : C.Remarks)
    Remarks.push_back(jsonText(R));
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
