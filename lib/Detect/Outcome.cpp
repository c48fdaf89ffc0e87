//===- Outcome.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Outcome.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

StringRef toString(OutcomeKind Kind) {
  switch (Kind) {
  case OutcomeKind::Matched:
    return "matched";
  case OutcomeKind::Clear:
    return "clear";
  case OutcomeKind::Skipped:
    return "skipped";
  case OutcomeKind::Failed:
    return "failed";
  }
  llvm_unreachable("all kinds are named");
}

StringRef severityName(Severity Level) {
  switch (Level) {
  case Severity::Note:
    return "info";
  case Severity::Warning:
    return "warning";
  case Severity::Error:
    return "error";
  }
  llvm_unreachable("all severities are named");
}

std::vector<std::string> EvidenceRef::sources() const {
  std::vector<std::string> Out;
  for (const Citation &Place : Places)
    if (!Place.Path.empty() && !is_contained(Out, Place.Path))
      Out.push_back(Place.Path);
  return Out;
}

/// The first rows of \p T as text. `place` is left out, the citation has it.
static void showRows(const Table &T, EvidenceRef &Into) {
  size_t Count = std::min(T.rows(), EvidenceRef::MaxShown);
  Into.Shown.resize(Count);
  for (const ColumnView &Column : T.columns()) {
    bool Known = false;
    for (size_t I = 0; I != Count && !Known; ++I)
      Known = !Column.isNull(I);
    if (!Known || Column.Name == "place")
      continue;
    Into.ShownColumns.push_back(Column.Name);
    for (size_t I = 0; I != Count; ++I)
      Into.Shown[I].push_back(T.cell(I, Column).text());
  }
}

EvidenceRef evidenceOf(const Case &C, const Table &T, StringRef Column) {
  EvidenceRef Out;
  Out.Column = Column.str();
  Out.Total = T.rows();
  std::optional<TableId> Id = findTable(T.originName());
  Out.Table = Id ? T.originName() : T.name();
  Out.Computed = !Id;
  size_t Count = Id ? std::min(T.rows(), EvidenceRef::MaxRows) : 0;
  for (size_t I = 0; I != Count; ++I) {
    Out.Rows.push_back(T.originRow(I));
    Out.Places.push_back(C.cite(*Id, Out.Rows.back()));
  }
  showRows(T, Out);
  return Out;
}

std::string Coordinate::text() const {
  if (const int64_t *Whole = std::get_if<int64_t>(&Value))
    return std::to_string(*Whole);
  if (const double *Number = std::get_if<double>(&Value))
    return formatNumber(*Number, 6);
  if (const bool *Truth = std::get_if<bool>(&Value))
    return *Truth ? "true" : "false";
  if (const std::string *Text = std::get_if<std::string>(&Value))
    return *Text;
  return llvm::join(list(), ", ");
}

ArrayRef<std::string> Coordinate::list() const {
  const auto *Many = std::get_if<std::vector<std::string>>(&Value);
  return Many ? ArrayRef(*Many) : ArrayRef<std::string>();
}

const Coordinate *Report::at(StringRef Key) const {
  for (const Coordinate &C : At)
    if (C.Key == Key)
      return &C;
  return nullptr;
}

unsigned coordinateRank(StringRef Key) {
  static constexpr StringLiteral Known[] = {
      "run",    "variant",  "request", "source", "line", "host", "rank",
      "device", "context",  "stream",  "group",  "step", "time", "token",
      "order",  "position", "layer",   "layers", "role", "name", "index"};
  return static_cast<unsigned>(llvm::find(Known, Key) - std::begin(Known));
}

const UnjudgedSymptom *Outcome::unjudged(StringRef Symptom) const {
  auto It = llvm::find_if(Unjudged, [&](const UnjudgedSymptom &U) {
    return U.Symptom == Symptom;
  });
  return It == Unjudged.end() ? nullptr : &*It;
}

std::string describeFailure(const Outcome &O) {
  std::string Out = O.Detector + " failed";
  if (!O.Error)
    return Out;
  const DetectorError &E = *O.Error;
  Out += "\n  ";
  if (!E.File.empty()) {
    Out += E.File + ":";
    if (E.Line)
      Out += std::to_string(E.Line) + ":";
    Out += " ";
  }
  Out += E.Message;
  for (const CodePlace &Caller : E.CalledFrom)
    Out += "\n  note: called from " +
           (Caller.File == E.File ? "line " : Caller.File + ":") +
           std::to_string(Caller.Line);
  if (!E.Hint.empty())
    Out += "\n  note: " + E.Hint;
  return Out;
}

} // namespace culprit
