//===- DetectorText.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "DetectorText.h"
#include "Support/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

std::string needText(const Need &N) {
  const TableSchema &T = schema(N.Table);
  std::vector<std::string> Parts;
  for (unsigned C : N.Columns)
    Parts.push_back(T.Columns[C].Name.str());
  for (const Need::Condition &Condition : N.Rows) {
    std::vector<std::string> Values;
    for (const Scalar &V : Condition.AnyOf)
      Values.push_back(toString(V));
    Parts.push_back(T.Columns[Condition.Column].Name.str() + " = " +
                    join(Values, " or "));
  }
  if (N.Data)
    Parts.push_back("data");
  return T.Name.str() + (Parts.empty() ? "" : " (" + join(Parts, ", ") + ")");
}

static json::Value scalarJson(const Scalar &V) {
  if (auto *B = std::get_if<bool>(&V))
    return *B;
  if (auto *I = std::get_if<int64_t>(&V))
    return *I;
  if (auto *D = std::get_if<double>(&V))
    return jsonNumber(*D);
  return jsonText(std::get<std::string>(V));
}

/// {"table": ..., "columns": [...], "rows": {column: [values]}}
static json::Object needJson(const Need &N) {
  const TableSchema &T = schema(N.Table);
  json::Array Columns;
  for (unsigned C : N.Columns)
    Columns.push_back(T.Columns[C].Name);
  if (N.Data)
    Columns.push_back("data");
  json::Object Rows;
  for (const Need::Condition &Condition : N.Rows) {
    json::Array Values;
    for (const Scalar &V : Condition.AnyOf)
      Values.push_back(scalarJson(V));
    Rows[T.Columns[Condition.Column].Name] = std::move(Values);
  }
  return json::Object{{"table", T.Name},
                      {"columns", std::move(Columns)},
                      {"rows", std::move(Rows)}};
}

json::Object detectorJson(const DetectorInfo &I,
                          ArrayRef<OptionChoice> Choices, StringRef Origin) {
  json::Object Needs;
  json::Array All, AnyOf;
  for (const Need &N : I.Needs.All)
    All.push_back(needJson(N));
  for (const auto &Alternatives : I.Needs.AnyOf) {
    json::Array Group;
    for (const Need &N : Alternatives)
      Group.push_back(needJson(N));
    AnyOf.push_back(std::move(Group));
  }
  Needs["all"] = std::move(All);
  Needs["any_of"] = std::move(AnyOf);

  json::Array Options;
  for (size_t K = 0; K != I.Options.size(); ++K)
    Options.push_back(json::Object{
        {"name", jsonText(I.Options[K].Name)},
        {"value", scalarJson(Choices[K].Value)},
        {"default", scalarJson(I.Options[K].Default)},
        {"origin", jsonText(Choices[K].Origin)},
        {"doc", jsonText(I.Options[K].Doc)}});

  json::Array Doc;
  for (const DocSection &S : I.Doc)
    Doc.push_back(json::Object{{"heading", jsonText(S.Heading)},
                               {"text", jsonText(S.Text)}});
  json::Array Relies;
  for (Reliance R : I.Relies)
    Relies.push_back(toString(R));
  return json::Object{{"name", jsonText(I.Id)},
                      {"text", jsonText(I.Summary)},
                      {"id", jsonText(I.Id)},
                      {"summary", jsonText(I.Summary)},
                      {"file", jsonText(I.File)},
                      {"from", jsonText(Origin)},
                      {"needs", std::move(Needs)},
                      {"relies", std::move(Relies)},
                      {"symptoms", json::Array(I.Symptoms)},
                      {"options", std::move(Options)},
                      {"doc", std::move(Doc)}};
}

} // namespace culprit
