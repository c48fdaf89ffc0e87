//===- FromOutcomes.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/FromOutcomes.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

using namespace llvm;

namespace culprit {

/// Takes over \p R if it is the surest report of its symptom so far. The time
/// to be won is the most that any report of it claims.
static void addReport(SymptomEvidence &Into, const Outcome &O, int OutcomeAt,
                      int ReportAt) {
  const Report &R = O.Reports[ReportAt];
  if (R.RecoverableNs)
    Into.Recoverable = std::max(Into.Recoverable.value_or(0), *R.RecoverableNs);
  if (Into.State == Presence::Present && Into.Score >= R.Score)
    return;
  Into.State = Presence::Present;
  Into.Score = R.Score;
  Into.Detector = O.Detector;
  Into.Message = R.Message;
  Into.Informational = R.Level == Severity::Note;
  Into.Outcome = OutcomeAt;
  Into.Report = ReportAt;
}

std::vector<SymptomEvidence> collectSymptoms(ArrayRef<Outcome> Outcomes) {
  std::map<std::string, SymptomEvidence> ById;
  for (size_t I = 0; I != Outcomes.size(); ++I) {
    const Outcome &O = Outcomes[I];
    bool Ran = O.Kind == OutcomeKind::Matched || O.Kind == OutcomeKind::Clear;
    for (const std::string &Symptom : O.Symptoms) {
      SymptomEvidence &E = ById[Symptom];
      E.Symptom = Symptom;
      const UnjudgedSymptom *Unjudged = O.unjudged(Symptom);
      if (Ran && !Unjudged && E.State == Presence::Unknown) {
        E.State = Presence::Absent;
        E.Detector = O.Detector;
        E.Missing.clear();
      } else if (E.State == Presence::Unknown) {
        E.Detector = O.Detector;
        for (const std::string &M :
             Unjudged ? ArrayRef(Unjudged->Needed) : ArrayRef(O.Missing))
          if (!is_contained(E.Missing, M))
            E.Missing.push_back(M);
        if (O.Kind == OutcomeKind::Failed)
          E.Missing.push_back("a working detector: " + O.Detector + " failed");
      }
    }
    for (size_t R = 0; R != O.Reports.size(); ++R)
      addReport(ById[O.Reports[R].Symptom], O, static_cast<int>(I),
                static_cast<int>(R));
  }
  std::vector<SymptomEvidence> Out;
  for (auto &[Symptom, E] : ById)
    Out.push_back(std::move(E));
  return Out;
}

std::vector<LogEvidence> quotedEntries(const Case &C, ArrayRef<Entry> Entries) {
  std::vector<LogEvidence> Out;
  const Table &Lines = C.table(TableId::log_lines);
  if (Lines.empty())
    return Out;
  std::vector<StringRef> Texts;
  Texts.reserve(Lines.rows());
  const ColumnView &Text = *Lines.find("text");
  for (size_t I = 0; I != Lines.rows(); ++I)
    Texts.push_back(C.pool()->text(Text.getString(I)));

  std::map<unsigned, LogMatch> Best;
  for (const LogMatch &M : LogMatcher(Entries).match(Texts)) {
    auto [It, New] = Best.try_emplace(M.Entry, M);
    if (!New && M.Count > It->second.Count)
      It->second = M;
  }
  for (auto &[Index, M] : Best) {
    if (Entries[Index].Class.empty() || M.Lines.empty())
      continue;
    Citation Where = C.cite(TableId::log_lines, M.Lines.front());
    Out.push_back({&Entries[Index], Entries[Index].LogFragments[M.Fragment],
                   Where.Path, Where.Place, M.Count});
  }
  return Out;
}

} // namespace culprit
