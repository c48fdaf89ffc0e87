//===- Json.cpp - The JSON contract -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// docs/json.md describes every key. Within schema 1 keys may be added and are
// never renamed. JSON has no NaN or infinity: such numbers become strings.
//
//===----------------------------------------------------------------------===//

#include "Report/Report.h"
#include "Report/Changes.h"
#include "Report/GoodText.h"
#include "KB/Entry.h"
#include "Report/Savings.h"
#include "Report/SeenText.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;
using json::Array;
using json::Object;
using json::Value;

namespace culprit {

/// Text of files may hold any bytes; JSON is UTF-8.
static std::string utf8(StringRef Text) { return json::fixUTF8(Text); }

static Value number(double V) {
  if (std::isfinite(V))
    return V;
  return formatNumber(V);
}

/// \p V to one part of \p Parts: probabilities to 1e6, nats and bits to 1e4.
static Value rounded(double V, double Parts) {
  return number(std::round(V * Parts) / Parts);
}

static Value coordinate(const Coordinate &C) {
  if (auto *I = std::get_if<int64_t>(&C.Value))
    return *I;
  if (auto *D = std::get_if<double>(&C.Value))
    return number(*D);
  if (auto *B = std::get_if<bool>(&C.Value))
    return *B;
  if (auto *Text = std::get_if<std::string>(&C.Value))
    return utf8(*Text);
  Array Many;
  for (const std::string &One : C.list())
    Many.push_back(utf8(One));
  return Many;
}

/// One object a source file: the contract's {source, table, rows}. Computed
/// rows have no source and show their cells instead.
static void addEvidence(const EvidenceRef &E, Array &Into) {
  auto cells = [&](Object &O) {
    Array Columns, Rows;
    for (const std::string &Name : E.ShownColumns)
      Columns.push_back(utf8(Name));
    for (const auto &Row : E.Shown) {
      Array Cells;
      for (const std::string &Cell : Row)
        Cells.push_back(utf8(Cell));
      Rows.push_back(std::move(Cells));
    }
    O["columns"] = std::move(Columns);
    O["cells"] = std::move(Rows);
  };
  std::vector<std::string> Sources = E.sources();
  if (Sources.size() <= 1) {
    Array Rows, Places;
    for (size_t Row : E.Rows)
      Rows.push_back(static_cast<int64_t>(Row));
    for (const Citation &C : E.Places)
      if (C.Place != NullInt)
        Places.push_back(C.Place);
    Object O{{"source", Sources.empty() ? Value(nullptr)
                                        : Value(utf8(Sources.front()))},
             {"table", E.Table},
             {"rows", std::move(Rows)},
             {"places", std::move(Places)},
             {"total", static_cast<int64_t>(E.Total)}};
    cells(O);
    Into.push_back(std::move(O));
    return;
  }
  for (const std::string &Source : Sources) {
    Array Rows, Places;
    for (size_t I = 0; I != E.Rows.size(); ++I)
      if (E.Places[I].Path == Source) {
        Rows.push_back(static_cast<int64_t>(E.Rows[I]));
        if (E.Places[I].Place != NullInt)
          Places.push_back(E.Places[I].Place);
      }
    Into.push_back(Object{{"source", utf8(Source)},
                          {"table", E.Table},
                          {"rows", std::move(Rows)},
                          {"places", std::move(Places)}});
  }
}

static Value reportJson(const Report &R) {
  Object At;
  for (const Coordinate &C : R.At)
    At[utf8(C.Key)] = coordinate(C);
  Array Evidence;
  for (const EvidenceRef &E : R.Evidence)
    addEvidence(E, Evidence);
  Object Out{{"symptom", R.Symptom},
             {"score", number(R.Score)},
             {"severity", severityName(R.Level)},
             {"at", std::move(At)},
             {"message", utf8(R.Message)},
             {"evidence", std::move(Evidence)}};
  if (R.RecoverableNs)
    Out["recoverable_ns"] = *R.RecoverableNs;
  if (R.Share)
    Out["share"] = number(*R.Share);
  if (!R.Doubt.empty())
    Out["doubt"] = utf8(R.Doubt);
  return Out;
}

static Value outcomeJson(const Outcome &O) {
  Array Missing, Reports, Unjudged;
  for (const std::string &M : O.Missing)
    Missing.push_back(utf8(M));
  for (const UnjudgedSymptom &U : O.Unjudged)
    Unjudged.push_back(
        Object{{"symptom", U.Symptom}, {"needed", utf8(U.Needed)}});
  for (const Report &R : O.Reports)
    Reports.push_back(reportJson(R));
  return Object{{"detector", O.Detector},
                {"outcome", toString(O.Kind)},
                {"missing", std::move(Missing)},
                {"error", O.Error ? Value(utf8(describeFailure(O)))
                                  : Value(nullptr)},
                {"reports", std::move(Reports)},
                {"unjudged", std::move(Unjudged)}};
}

static Value itemsJson(ArrayRef<EvidenceItem> Items) {
  Array Out;
  for (const EvidenceItem &I : Items)
    Out.push_back(Object{{"symptom", I.Symptom},
                         {"detector", I.Detector},
                         {"log_odds", rounded(I.LogOdds, 1e4)},
                         {"own", rounded(I.Own, 1e4)},
                         {"message", utf8(I.Message)}});
  return Out;
}

static Array shiftsJson(ArrayRef<Shift> Shifts) {
  Array Out;
  for (const Shift &S : Shifts)
    Out.push_back(
        Object{{"class", S.Class},
               {"posterior", rounded(S.Probability, 1e6)}});
  return Out;
}

static Value nextJson(const NextCheck &N) {
  if (N.Experiment.empty())
    return nullptr;
  return Object{{"class", N.Class},
                {"records", N.Symptom.empty() ? Value(nullptr)
                                              : Value(N.Symptom)},
                {"minutes", number(N.Minutes)},
                {"if_so", shiftsJson(N.IfSo)},
                {"if_not", shiftsJson(N.IfNot)},
                {"experiment", utf8(N.Experiment)},
                {"confirms", utf8(N.Confirms)},
                {"refutes", utf8(N.Refutes)},
                {"gain_bits", rounded(N.Gain, 1e4)}};
}

static Value leadJson(const std::optional<Lead> &L) {
  if (!L)
    return nullptr;
  Array Terms;
  for (const Lead::Term &T : L->Terms)
    Terms.push_back(
        Object{{"what", T.What},
               {"log_odds", rounded(T.LogOdds, 1e4)}});
  return Object{{"second", L->Over},
                {"log_odds", rounded(L->LogOdds, 1e4)},
                {"terms", std::move(Terms)}};
}

static Array seenJson(ArrayRef<SeenBefore> All) {
  Array Out;
  for (const SeenBefore &S : All) {
    const Entry &E = *S.Which;
    Object One{{"entry", utf8(E.Id)},
               {"date", E.Date.empty() ? Value(nullptr) : Value(utf8(E.Date))},
               {"status", utf8(E.Status)},
               {"state", seenState(S)},
               {"title", utf8(E.Title)},
               {"fix", utf8(E.Fix)},
               {"prevention", utf8(join(E.Prevention, "\n"))},
               {"source",
                Object{{"file", utf8(E.Source.File)},
                       {"line", static_cast<int64_t>(E.Source.Line)}}},
               {"by", seenBy(S)}};
    if (S.How == SeenBefore::Quote)
      One["quoted"] = Object{{"text", utf8(S.Text)},
                             {"file", utf8(S.Path)},
                             {"line", S.Line}};
    Out.push_back(std::move(One));
  }
  return Out;
}

static Value hypothesisJson(const Hypothesis &H, size_t Rank,
                            const std::optional<StepBasis> &Basis) {
  Array Entries, Open;
  for (const Entry *E : H.Entries)
    Entries.push_back(E->Id);
  for (const Unchecked &U : H.Open)
    Open.push_back(Object{{"symptom", U.Symptom},
                          {"needs", utf8(U.Needs)},
                          {"gain_bits", rounded(U.Gain, 1e4)}});
  Array Refuters;
  for (const Contradiction &C : H.Refuters)
    Refuters.push_back(Object{{"symptom", C.Symptom},
                              {"looked_for", C.Looked},
                              {"needs", utf8(C.Needs)}});
  const Entry *Best = H.Entries.empty() ? nullptr : H.Entries.front();
  std::string Prevention = join(firstPrevention(H.Entries), "\n");
  Object Out{
      {"rank", static_cast<int64_t>(Rank)},
      {"class", H.Class},
      {"layer", H.Layer},
      {"title", utf8(Best ? Best->Title : H.Title)},
      {"entries", std::move(Entries)},
      {"probability", rounded(H.Probability, 1e6)},
      {"odds", Object{{"prior", rounded(H.Prior, 1e4)},
                      {"evidence", rounded(H.Evidence, 1e4)},
                      {"rivals", rounded(H.Rivals, 1e4)},
                      {"recorded_runs", rounded(H.Recorded, 1e4)},
                      {"calibration", rounded(H.Calibration, 1e4)}}},
      {"recoverable_ns", H.Recoverable.value_or(0)},
      {"recoverable_ns_per_step",
       H.Recoverable && Basis && Basis->Steps > 0
           ? Value(*H.Recoverable / Basis->Steps)
           : Value(nullptr)},
      {"supports", itemsJson(H.Supports)},
      {"against", itemsJson(H.Against)},
      {"unchecked", std::move(Open)},
      {"refuters", std::move(Refuters)},
      {"next_check", nextJson(H.Next)},
      {"cause", utf8(Best ? firstWith(H.Entries, &Entry::RootCause)
                          : StringRef(H.Title))},
      {"fix", utf8(firstWith(H.Entries, &Entry::Fix))},
      {"prevention", utf8(Prevention)}};
  if (!H.Seen.empty())
    Out["seen_before"] = seenJson(H.Seen);
  return Out;
}

/// What was known of each symptom when causes were ranked: all that the ranking
/// saw of the detectors.
static Array symptomsJson(ArrayRef<SymptomEvidence> Symptoms) {
  Array Out;
  for (const SymptomEvidence &S : Symptoms) {
    Object One{{"id", S.Symptom},
               {"state", toString(S.State)},
               {"detector", S.Detector}};
    if (S.State == Presence::Present) {
      One["score"] = number(S.Score);
      One["informational"] = S.Informational;
      if (S.Recoverable)
        One["recoverable_ns"] = *S.Recoverable;
    }
    if (S.State == Presence::Unknown) {
      Array Needs;
      for (const std::string &Need : S.Missing)
        Needs.push_back(utf8(Need));
      One["needs"] = std::move(Needs);
    }
    Out.push_back(std::move(One));
  }
  return Out;
}

static Array quotesJson(ArrayRef<LogEvidence> Quotes) {
  Array Out;
  for (const LogEvidence &L : Quotes)
    Out.push_back(Object{{"entry", utf8(L.Quoted->Id)},
                         {"class", utf8(L.Quoted->Class)},
                         {"fragment", utf8(L.Fragment)},
                         {"file", utf8(L.Path)},
                         {"line", L.Line},
                         {"count", static_cast<int64_t>(L.Count)}});
  return Out;
}

static Value shapeJson(const RunReport &R) {
  Object Out;
  for (const auto &[Name, V] : R.Shape)
    Out[Name] = number(V);
  return Out;
}

static Value restJson(const RunReport &R) {
  Array Symptoms, Open;
  for (unsigned S : R.Result.Rest.Symptoms)
    Symptoms.push_back(R.Symptoms[S].Symptom);
  for (const Unchecked &U : R.Result.Rest.Open)
    Open.push_back(Object{{"symptom", U.Symptom}, {"needs", utf8(U.Needs)}});
  return Object{{"symptoms", std::move(Symptoms)},
                {"unchecked", std::move(Open)}};
}

static Value remarksJson(ArrayRef<Diagnostic> Remarks) {
  Array Out;
  for (const Diagnostic &D : Remarks)
    Out.push_back(Object{{"severity", severityName(D.Level)},
                         {"message", utf8(D.Message)},
                         {"hint", utf8(D.Hint)}});
  return Out;
}

static Array inputsJson(const Case &C) {
  Array Inputs;
  for (const InputSummary &I : C.inputs()) {
    Object Rows;
    for (auto [Id, Count] : I.Rows)
      Rows[schema(Id).Name] = static_cast<int64_t>(Count);
    Inputs.push_back(Object{
        {"path", utf8(I.Path)},
        {"format", I.Format.empty() ? Value(nullptr) : Value(I.Format)},
        {"rows", std::move(Rows)},
        {"failed", I.Failed},
        {"remarks", remarksJson(I.Remarks)}});
  }
  return Inputs;
}

Value toJson(const RunReport &R) {
  Array Outcomes, Hypotheses, Layers, Leads;
  for (const LayerShare &L : R.Result.Layers)
    Layers.push_back(
        Object{{"layer", L.Layer},
               {"posterior", rounded(L.Probability, 1e6)},
               {"share", rounded(L.Share, 1e6)}});
  for (const Outcome &O : R.Outcomes)
    Outcomes.push_back(outcomeJson(O));
  std::optional<StepBasis> Basis = stepBasis(R.Evidence);
  for (size_t I = 0; I != R.Result.Hypotheses.size(); ++I)
    Hypotheses.push_back(
        hypothesisJson(R.Result.Hypotheses[I], I + 1, Basis));
  for (size_t I = 0; I != R.Result.Leads.size(); ++I)
    Leads.push_back(hypothesisJson(R.Result.Leads[I], I + 1, Basis));
  Value Steps = nullptr;
  if (Basis)
    Steps = Object{{"count", Basis->Steps},
                   {"step_ns", Basis->StepNs},
                   {"window_ns", Basis->WindowNs}};
  Object All{{"schema", 1},
             {"culprit", R.Version},
             {"inputs", inputsJson(R.Evidence)},
             {"outcomes", std::move(Outcomes)},
             {"hypotheses", std::move(Hypotheses)},
             {"layers", std::move(Layers)},
             {"first_over_second", leadJson(R.Result.First)},
             {"next_check",
              R.Result.Next ? nextJson(*R.Result.Next) : Value(nullptr)},
             {"evidence", symptomsJson(R.Symptoms)},
             {"log_quotes", quotesJson(R.Quotes)},
             {"not_shown", restJson(R)},
             {"steps", std::move(Steps)},
             {"unknown", rounded(R.Result.Unknown, 1e6)},
             {"verdict", toString(R.Result.Result)}};
  if (!Leads.empty())
    All["leads"] = std::move(Leads);
  if (R.Result.Sound)
    All["sound_share"] = rounded(*R.Result.Sound, 1e6);
  if (!R.Shape.empty())
    All["shape"] = shapeJson(R);
  if (R.Good)
    All["good"] = goodJson(*R.Good);
  if (R.Since)
    All["since"] = changesJson(*R.Since, R.SincePath);
  return All;
}

Value inspectionJson(const Case &C) {
  Object Tables;
  for (unsigned T = 0; T != NumTables; ++T) {
    TableId Id = static_cast<TableId>(T);
    if (!C.has(Id))
      continue;
    Array Columns;
    for (unsigned I = 0; I != schema(Id).Columns.size(); ++I)
      if (C.has(Id, I))
        Columns.push_back(schema(Id).Columns[I].Name);
    Tables[schema(Id).Name] =
        Object{{"rows", static_cast<int64_t>(C.table(Id).rows())},
               {"columns", std::move(Columns)}};
  }
  return Object{{"schema", 1},
                {"inputs", inputsJson(C)},
                {"tables", std::move(Tables)}};
}

} // namespace culprit
