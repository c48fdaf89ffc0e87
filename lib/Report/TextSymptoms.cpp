//===- TextSymptoms.cpp - Symptoms that no hypothesis tells -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What was seen and nothing explains, what was not seen although recorded runs
// speak for it, and what could not be looked for, by what to record for it.
//
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "Report/Recording.h"
#include "Report/TextParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace llvm;

namespace culprit {

/// Prints \p Lines behind \p Label, which is as wide as its column.
static void printList(raw_ostream &OS, StringRef Label,
                      ArrayRef<std::string> Lines, unsigned Width) {
  for (size_t I = 0; I != Lines.size(); ++I)
    printWrapped(OS, Lines[I], I == 0 ? Label.str() : std::string(13, ' '),
                 std::string(15, ' '), Width);
  if (!Lines.empty())
    OS << '\n';
}

void printLeads(raw_ostream &OS, const RunReport &R, unsigned Width) {
  printList(OS, "leads        ", describeLeads(R.Result), Width);
}

void printUnexplained(raw_ostream &OS, const RunReport &R, unsigned Width) {
  printList(OS, "not shown    ", describeUnexplained(R.Result, R.Symptoms),
            Width);
}

/// What would have to be recorded first for \p S: the kind of file where
/// that is not there at all, the column or the kind of row otherwise. One
/// thing only: who has no profile need not read what it should hold.
static std::string needOf(const SymptomEvidence &S, const RunReport &R) {
  bool Profiled = R.Evidence.has(TableId::gpu_work);
  std::string First;
  for (const std::string &Missing : S.Missing) {
    StringRef Name = StringRef(Missing).split('.').first;
    std::optional<TableId> Id = findTable(Name.split(' ').first);
    std::string Need = Id && !R.Evidence.has(*Id) ? recordingOf(Name).str()
                                                  : Missing;
    // A log without errors is no log that is missing.
    if (Id == TableId::errors && R.Evidence.has(TableId::log_lines))
      Need = "an error in the log, which has none";
    if (Missing == "tensors.variant")
      Need = "dumps of one computation in two variants";
    if (Id && !Profiled && isOfProfile(*Id))
      return "a GPU profile";
    if (First.empty())
      First = Need;
  }
  return First;
}

void printNotChecked(raw_ostream &OS, const RunReport &R, unsigned Width) {
  constexpr size_t MostLines = 8, MostNames = 3;
  std::map<std::string, std::vector<std::string>> ByNeed;
  for (const SymptomEvidence &S : R.Symptoms)
    if (S.State == Presence::Unknown && !S.Missing.empty() &&
        !isPossession(S.Symptom))
      ByNeed[needOf(S, R)].push_back(S.Symptom);
  std::vector<std::pair<std::string, std::vector<std::string>>> Groups(
      ByNeed.begin(), ByNeed.end());
  llvm::stable_sort(Groups, [](const auto &A, const auto &B) {
    return A.second.size() > B.second.size();
  });
  size_t Lines = 0, Rest = 0;
  for (auto &[Need, Symptoms] : Groups) {
    if (Lines == MostLines) {
      Rest += Symptoms.size();
      continue;
    }
    // Of many the names say less than how many they are.
    std::string What = Symptoms.size() > MostNames
                           ? plural(Symptoms.size(), "symptom") + " need "
                           : join(Symptoms, ", ") +
                                 (Symptoms.size() == 1 ? " needs " : " need ");
    std::string Label = Lines++ == 0 ? "not checked  " : "             ";
    printWrapped(OS, What + Need, Label, std::string(15, ' '), Width);
  }
  if (Rest)
    OS << "             and " << plural(Rest, "symptom")
       << " more: --format json lists what each needs\n";
  if (Lines)
    OS << '\n';
}

void printAlsoSeen(raw_ostream &OS, const RunReport &R,
                   const Selection &Shown, unsigned Width) {
  std::vector<std::pair<int, int>> Used;
  for (const ShownHypothesis &H : Shown.Full)
    for (const EvidenceItem &E : H.What->Supports)
      Used.push_back({E.Outcome, E.Report});
  if (!R.Result.Rest.Symptoms.empty()) {
    const SymptomEvidence &First = R.Symptoms[R.Result.Rest.Symptoms.front()];
    Used.push_back({First.Outcome, First.Report});
  }
  std::vector<std::string> Lines;
  for (const SymptomEvidence &S : R.Symptoms) {
    if (S.State != Presence::Present || isPossession(S.Symptom) ||
        is_contained(Used, std::pair(S.Outcome, S.Report)))
      continue;
    Lines.push_back(S.Symptom + ": " + S.Message);
  }
  printList(OS, "also seen    ", Lines, Width);
}

} // namespace culprit
