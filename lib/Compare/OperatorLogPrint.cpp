//===- OperatorLogPrint.cpp - Operator logs for people and programs -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/MarkdownCell.h"
#include "Compare/OperatorLog.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static std::string titleOf(const LoggedTensor &L, bool Places) {
  std::string Out = L.Name;
  if (!L.Shape.empty())
    Out += " " + L.Shape;
  if (Places)
    Out += formatv(" (step {0}, rank {1})", L.Step, L.Rank);
  return Out;
}

/// "norm 812 in ref and 840 in ours, 3.3e-2 apart".
static std::string figuresOf(const LoggedPair &P) {
  if (P.Verdict == CompareVerdict::Same)
    return "equal";
  if (P.Figure == "checksum")
    return "the checksums differ";
  if (P.Figure == "nonfinite")
    return formatv("not finite in {0} alone",
                   P.Ours.NonFinite ? "ours" : "ref");
  std::string Out =
      formatv("{0} {1} in ref and {2} in ours", P.Figure,
              formatNumber(P.RefValue, 6), formatNumber(P.OursValue, 6));
  if (std::isfinite(P.Relative))
    Out += formatv(", {0} apart where {1} is rounding",
                   formatNumber(P.Relative, 3), formatNumber(P.Allowed, 3));
  return Out;
}

static bool hasPlaces(const OperatorComparison &C) {
  return any_of(C.Pairs, [&](const LoggedPair &P) {
    return P.Ref.Step != C.Pairs.front().Ref.Step ||
           P.Ref.Rank != C.Pairs.front().Ref.Rank;
  });
}

static std::string headline(const OperatorComparison &C) {
  const int64_t All = int64_t(C.Pairs.size());
  if (C.First) {
    const LoggedPair &P = C.Pairs[*C.First];
    std::string Out = titleOf(P.Ref, hasPlaces(C)) +
                      " is the first beyond rounding: " + figuresOf(P);
    if (C.InputRelative == 0)
      return Out + "; what goes into it is equal";
    Out += "; what goes into it is " + formatNumber(C.InputRelative, 3) +
           " apart";
    if (!(P.Relative > 10 * C.InputRelative))
      Out += " already: the error comes from before, where nothing that was "
             "logged shows it";
    return Out;
  }
  if (!C.OnlyRef.empty() || !C.OnlyOurs.empty())
    return formatv("the {0} operators that both ran agree, but not both ran "
                   "the same",
                   formatCount(All));
  if (C.FirstInexact)
    return formatv("{0} operators agree, {1} of them to the last digit: the "
                   "rest is rounding",
                   formatCount(All),
                   formatCount(int64_t(C.count(CompareVerdict::Same))));
  return formatv("{0} operators are equal", formatCount(All));
}

/// The second line: where the last digit goes.
static std::string inexactText(const OperatorComparison &C) {
  if (!C.FirstInexact || C.FirstInexact == C.First)
    return "";
  const LoggedPair &P = C.Pairs[*C.FirstInexact];
  return "first that is not equal to the last digit: " +
         titleOf(P.Ref, hasPlaces(C)) + ": " + figuresOf(P);
}

static std::string countsText(const OperatorComparison &C) {
  const auto N = [&](CompareVerdict V) {
    return formatCount(int64_t(C.count(V)));
  };
  std::string Out = formatv(
      "{0} aligned: {1} equal, {2} within rounding, {3} beyond",
      formatCount(int64_t(C.Pairs.size())), N(CompareVerdict::Same),
      N(CompareVerdict::WithinNoise), N(CompareVerdict::Different));
  if (!C.OnlyRef.empty() || !C.OnlyOurs.empty())
    Out += formatv("; {0} only in ref, {1} only in ours",
                   formatCount(int64_t(C.OnlyRef.size())),
                   formatCount(int64_t(C.OnlyOurs.size())));
  return Out;
}

/// The pairs that differ, in order of execution, from the first one on.
static std::vector<const LoggedPair *> shown(const OperatorComparison &C,
                                             unsigned Top) {
  std::vector<const LoggedPair *> Out;
  for (const LoggedPair &P : C.Pairs)
    if (P.Verdict == CompareVerdict::Different && Out.size() < Top)
      Out.push_back(&P);
  return Out;
}

void printOperators(raw_ostream &OS, const OperatorComparison &C,
                    unsigned Top) {
  OS << headline(C) << "\n";
  if (std::string Text = inexactText(C); !Text.empty())
    OS << Text << "\n";
  OS << countsText(C) << "\n";
  const bool Places = hasPlaces(C);
  std::vector<const LoggedPair *> Rows = shown(C, Top);
  if (!Rows.empty())
    OS << "\nbeyond rounding, in order of execution\n";
  for (const LoggedPair *P : Rows)
    OS << "  " << titleOf(P->Ref, Places) << ": " << figuresOf(*P) << "\n";
  if (size_t All = C.count(CompareVerdict::Different); All > Rows.size())
    OS << formatv("  {0} more\n", formatCount(int64_t(All - Rows.size())));
  const auto PrintAlone = [&](StringRef Side, ArrayRef<LoggedTensor> Alone) {
    if (Alone.empty())
      return;
    OS << "\nonly in " << Side << "\n";
    for (const LoggedTensor &L : Alone.take_front(Top))
      OS << "  " << titleOf(L, Places) << "\n";
    if (Alone.size() > Top)
      OS << formatv("  {0} more\n", formatCount(int64_t(Alone.size() - Top)));
  };
  PrintAlone("ref", C.OnlyRef);
  PrintAlone("ours", C.OnlyOurs);
  for (const std::string &Remark : C.Remarks)
    OS << "\nnote: " << Remark << "\n";
}

void printOperatorsMarkdown(raw_ostream &OS, const OperatorComparison &C,
                            unsigned Top) {
  OS << "**" << markdownCell(headline(C)) << "**\n\n";
  if (std::string Text = inexactText(C); !Text.empty())
    OS << markdownCell(Text) << "\n\n";
  OS << countsText(C) << "\n";
  std::vector<const LoggedPair *> Rows = shown(C, Top);
  if (!Rows.empty())
    OS << "\n| operator | figures |\n|---|---|\n";
  for (const LoggedPair *P : Rows)
    OS << "| " << markdownCell(titleOf(P->Ref, hasPlaces(C))) << " | "
       << markdownCell(figuresOf(*P)) << " |\n";
  const auto PrintAlone = [&](StringRef Side, ArrayRef<LoggedTensor> Alone) {
    for (auto [I, L] : enumerate(Alone.take_front(Top)))
      OS << (I ? "" : ("\nOnly in " + Side + ":\n\n").str()) << "- "
         << markdownCell(titleOf(L, hasPlaces(C))) << "\n";
  };
  PrintAlone("ref", C.OnlyRef);
  PrintAlone("ours", C.OnlyOurs);
  for (const std::string &Remark : C.Remarks)
    OS << "\n" << Remark << "\n";
}

static json::Value rowJson(const LoggedTensor &L) {
  return json::Object{{"name", jsonText(L.Name)},
                      {"layer", jsonText(L.Layer)},
                      {"role", jsonText(L.Role)},
                      {"shape", jsonText(L.Shape)},
                      {"dtype", jsonText(L.DType)},
                      {"step", L.Step},
                      {"rank", L.Rank}};
}

static json::Value pairJson(const LoggedPair &P) {
  return json::Object{{"ref", rowJson(P.Ref)},
                      {"ours_name", jsonText(P.Ours.Name)},
                      {"verdict", toString(P.Verdict)},
                      {"figure", jsonText(P.Figure)},
                      {"ref_value", jsonNumber(P.RefValue)},
                      {"ours_value", jsonNumber(P.OursValue)},
                      {"relative", jsonNumber(P.Relative)},
                      {"allowed", jsonNumber(P.Allowed)}};
}

json::Value operatorsJson(const OperatorComparison &C) {
  const auto Place = [&](std::optional<size_t> At) -> json::Value {
    return At ? pairJson(C.Pairs[*At]) : json::Value(nullptr);
  };
  json::Array Different, OnlyRef, OnlyOurs, Remarks;
  for (const LoggedPair &P : C.Pairs)
    if (P.Verdict == CompareVerdict::Different)
      Different.push_back(pairJson(P));
  for (const LoggedTensor &L : C.OnlyRef)
    OnlyRef.push_back(rowJson(L));
  for (const LoggedTensor &L : C.OnlyOurs)
    OnlyOurs.push_back(rowJson(L));
  for (const std::string &Remark : C.Remarks)
    Remarks.push_back(Remark);
  return json::Object{
      {"comparison", "operators"},
      {"verdict", toString(C.Verdict)},
      {"ref", jsonText(C.RefPath)},
      {"ours", jsonText(C.OursPath)},
      {"aligned", int64_t(C.Pairs.size())},
      {"equal", int64_t(C.count(CompareVerdict::Same))},
      {"within_rounding", int64_t(C.count(CompareVerdict::WithinNoise))},
      {"first_divergence", Place(C.First)},
      {"input_relative", jsonNumber(C.InputRelative)},
      {"first_inexact", Place(C.FirstInexact)},
      {"different", std::move(Different)},
      {"only_ref", std::move(OnlyRef)},
      {"only_ours", std::move(OnlyOurs)},
      {"remarks", std::move(Remarks)}};
}

} // namespace culprit
