//===- TensorsJson.cpp - A tensor comparison for programs -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "Support/Text.h"

using namespace llvm;

namespace culprit {

static json::Value textOrNull(StringRef Text) {
  return Text.empty() ? json::Value(nullptr) : jsonText(Text);
}

static json::Value intOrNull(std::optional<int64_t> Value) {
  return Value ? json::Value(*Value) : json::Value(nullptr);
}

static json::Array list(ArrayRef<std::string> Texts) {
  json::Array Out;
  for (const std::string &T : Texts)
    Out.push_back(jsonText(T));
  return Out;
}

static json::Array list(ArrayRef<int64_t> Numbers) {
  json::Array Out;
  for (int64_t N : Numbers)
    Out.push_back(N);
  return Out;
}

static json::Array list(ArrayRef<NamePair> Pairs) {
  json::Array Out;
  for (const NamePair &P : Pairs)
    Out.push_back(json::Object{{"ref", textOrNull(P.Ref)},
                               {"ours", textOrNull(P.Ours)},
                               {"detail", jsonText(P.Detail)}});
  return Out;
}

static json::Object placeJson(const TensorEntry &E) {
  return json::Object{{"step", intOrNull(E.Step)},
                      {"rank", intOrNull(E.Rank)},
                      {"token", intOrNull(E.Token)}};
}

static json::Value indexJson(const TensorDifference &D,
                             std::optional<int64_t> I) {
  return I ? json::Value(list(D.Pair.Ref.View->unravel(*I)))
           : json::Value(nullptr);
}

/// Parameters may hold what JSON has no number for.
static json::Object parameters(const json::Object &From) {
  json::Object Out;
  for (const auto &Each : From) {
    std::optional<double> Value = Each.second.getAsNumber();
    Out[Each.first] =
        Value && !std::isfinite(*Value) ? jsonNumber(*Value) : Each.second;
  }
  return Out;
}

static json::Value differenceJson(const TensorDifference &D) {
  const DifferenceSums &S = D.Sums;
  json::Object Out{
      {"name", jsonText(D.Pair.Ref.Name)},
      {"ours_name", jsonText(D.Pair.Ours.Name)},
      {"at", placeJson(D.Pair.Ref)},
      {"verdict", toString(D.Verdict)},
      {"kind", nullptr},
      {"class", nullptr},
      {"max_abs", jsonNumber(S.MaxAbs)},
      {"mean_abs", jsonNumber(S.meanAbs())},
      {"rel_l2", jsonNumber(S.relL2())},
      {"cosine", jsonNumber(S.cosine())},
      {"tolerance", jsonNumber(D.Allowed)},
      {"tolerance_rel_l2", jsonNumber(D.Tolerance.RelL2)},
      {"tolerance_from", jsonText(D.Tolerance.Basis)},
      {"noise_rel_l2", D.NoiseRelL2 ? jsonNumber(*D.NoiseRelL2)
                                    : json::Value(nullptr)},
      {"numel", D.Pair.Ref.View->numel()},
      {"different", S.Different},
      {"above", S.Above},
      {"nonfinite", json::Object{{"ref_only", S.RefNonFinite},
                                 {"ours_only", S.OursNonFinite},
                                 {"both", S.BothNonFinite}}},
      {"first", intOrNull(S.FirstAbove ? S.FirstAbove : S.FirstDifferent)},
      {"first_index",
       indexJson(D, S.FirstAbove ? S.FirstAbove : S.FirstDifferent)},
      {"max_index", indexJson(D, S.MaxAt)},
      {"parameters", json::Object{}}};
  if (D.Kind) {
    Out["kind"] = D.Kind->Kind;
    Out["class"] = textOrNull(D.Kind->Class);
    Out["says"] = jsonText(D.Kind->Says);
    Out["confidence"] = jsonNumber(D.Kind->Confidence);
    Out["explained"] = jsonNumber(D.Kind->Explained);
    Out["residual"] = jsonNumber(D.Kind->Residual);
    Out["parameters"] = parameters(D.Kind->Parameters);
  }
  return Out;
}

static json::Value firstJson(const TensorComparison &C) {
  if (!C.First)
    return nullptr;
  const TensorDifference &D = C.Differences[C.First->Difference];
  const auto At = D.Sums.FirstAbove ? D.Sums.FirstAbove : D.Sums.FirstDifferent;
  return json::Object{
      {"name", jsonText(D.Pair.Ref.Name)},
      {"layer", jsonText(D.Pair.Ref.Layer)},
      {"at", placeJson(D.Pair.Ref)},
      {"index", indexJson(D, At)},
      {"flat_index", intOrNull(At)},
      {"input", textOrNull(C.First->Input)},
      {"input_rel_l2", C.First->InputRelL2 ? jsonNumber(*C.First->InputRelL2)
                                           : json::Value(nullptr)},
      {"output_rel_l2", jsonNumber(D.Sums.relL2())},
      {"kind", D.Kind ? json::Value(D.Kind->Kind) : json::Value(nullptr)},
      {"class", textOrNull(C.First->Class)}};
}

json::Value tensorsJson(const TensorComparison &C) {
  // What is equal is counted and not listed.
  json::Array Differences;
  for (const TensorDifference &D : C.Differences)
    if (D.Verdict != CompareVerdict::Same)
      Differences.push_back(differenceJson(D));
  json::Value Steps = nullptr;
  if (C.Steps)
    Steps = json::Object{{"kind", C.Steps->Kind},
                         {"class", textOrNull(C.Steps->Class)},
                         {"at", C.Steps->Step},
                         {"slope", jsonNumber(C.Steps->Slope)},
                         {"says", jsonText(C.Steps->Says)}};
  const NameReport &N = C.Names;
  return json::Object{
      {"schema", 1},
      {"kind", "tensors"},
      {"verdict", toString(C.Verdict)},
      {"ref", jsonText(C.RefPath)},
      {"ours", jsonText(C.OursPath)},
      {"noise", textOrNull(C.NoisePath)},
      {"counts",
       json::Object{
           {"ref", int64_t(C.RefTensors)},
           {"ours", int64_t(C.OursTensors)},
           {"compared", int64_t(C.Differences.size())},
           {"same", int64_t(C.count(CompareVerdict::Same))},
           {"within_noise", int64_t(C.count(CompareVerdict::WithinNoise))},
           {"different", int64_t(C.count(CompareVerdict::Different))}}},
      {"names", json::Object{{"matched", int64_t(N.Matched)},
                             {"missing", list(N.Missing)},
                             {"unexpected", list(N.Unexpected)},
                             {"renamed", list(N.Renamed)},
                             {"fused", list(N.Fused)},
                             {"shapes", list(N.Shapes)},
                             {"dtypes", list(N.DTypes)},
                             {"not_compared", list(N.NotCompared)}}},
      {"first_divergence", firstJson(C)},
      {"steps", std::move(Steps)},
      {"differences", std::move(Differences)},
      {"remarks", list(C.Remarks)}};
}

} // namespace culprit
