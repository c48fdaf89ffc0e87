//===- Sarif.cpp - SARIF 2.1.0 for code-scanning viewers --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One rule a detector, one result a report. Fingerprints are made of detector,
// symptom and place, without figures, so that two runs can be compared.
//
//===----------------------------------------------------------------------===//

#include "Report/Changes.h"
#include "Report/GoodText.h"
#include "Report/Report.h"
#include "Report/Selection.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;
using json::Array;
using json::Object;
using json::Value;

namespace culprit {

static StringRef levelOf(Severity Level) {
  switch (Level) {
  case Severity::Error:
    return "error";
  case Severity::Warning:
    return "warning";
  case Severity::Note:
    return "note";
  }
  llvm_unreachable("unknown severity");
}

/// The first place in a file that the report rests on, with a line where the
/// table's places are lines.
static Array locationsOf(const Report &R) {
  Array Logical;
  auto add = [&](StringRef Key, StringRef Text) {
    std::string Full = (Key + "=" + Text).str();
    Logical.push_back(Object{{"name", json::fixUTF8(Text)},
                             {"fullyQualifiedName", json::fixUTF8(Full)}});
  };
  for (const Coordinate &C : R.At) {
    for (const std::string &One : C.list())
      add(C.Key, One);
    if (C.list().empty())
      add(C.Key, C.text());
  }
  Object Location;
  for (const EvidenceRef &E : R.Evidence) {
    if (E.Places.empty() || E.Places.front().Path.empty())
      continue;
    Object Physical{
        {"artifactLocation",
         Object{{"uri", json::fixUTF8(E.Places.front().Path)}}}};
    std::optional<TableId> Id = findTable(E.Table);
    bool IsLine = Id && schema(*Id).hasLines();
    if (IsLine && E.Places.front().Place > 0)
      Physical["region"] = Object{{"startLine", E.Places.front().Place}};
    Location["physicalLocation"] = std::move(Physical);
    break;
  }
  if (!Logical.empty())
    Location["logicalLocations"] = std::move(Logical);
  Array Out;
  if (!Location.empty())
    Out.push_back(std::move(Location));
  return Out;
}

/// What has no place in a file: causes that recorded runs alone speak for.
static Array leadsOf(const Diagnosis &D) {
  Array Out;
  for (const Hypothesis *H : tellLeads(D))
    Out.push_back(Object{{"class", H->Class},
                         {"probability", H->Probability},
                         {"message", json::fixUTF8(recordedText(*H))}});
  return Out;
}

Value toSarif(const RunReport &R) {
  Array Rules, Results;
  for (size_t I = 0; I != R.Outcomes.size(); ++I) {
    const Outcome &O = R.Outcomes[I];
    Rules.push_back(Object{{"id", O.Detector}});
    for (const Report &Seen : O.Reports) {
      std::string Identity = O.Detector + "|" + Seen.Symptom;
      for (const Coordinate &C : Seen.At)
        if (C.Key != "step" && C.Key != "line" && C.list().empty())
          Identity += "|" + C.Key + "=" + C.text();
      Results.push_back(Object{
          {"ruleId", O.Detector},
          {"ruleIndex", static_cast<int64_t>(I)},
          {"level", levelOf(Seen.Level)},
          {"message", Object{{"text", json::fixUTF8(Seen.Message)}}},
          {"locations", locationsOf(Seen)},
          {"partialFingerprints",
           Object{{"culprit/v1",
                   utohexstr(xxh3_64bits(Identity), /*LowerCase=*/true)}}},
          {"properties", Object{{"symptom", Seen.Symptom}}}});
    }
  }
  Object Driver{{"name", "culprit"},
                {"version", R.Version},
                {"rules", std::move(Rules)}};
  Object Run{{"tool", Object{{"driver", std::move(Driver)}}},
             {"results", std::move(Results)}};
  Object More;
  if (Array Leads = leadsOf(R.Result); !Leads.empty())
    More["leads"] = std::move(Leads);
  if (R.Good)
    More["good"] = goodJson(*R.Good);
  if (R.Since)
    More["since"] = changesJson(*R.Since, R.SincePath);
  if (!More.empty())
    Run["properties"] = std::move(More);
  return Object{
      {"version", "2.1.0"},
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
      {"runs", Array{std::move(Run)}}};
}

} // namespace culprit
