//===- Markdown.cpp - The report for issues and wikis -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Entry.h"
#include "Report/Changes.h"
#include "Report/GoodText.h"
#include "Report/Report.h"
#include "Report/Selection.h"
#include "Report/Savings.h"
#include "Report/SeenText.h"
#include "Report/TextHypothesis.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// Names and messages hold `_`, `*` and `<`, which would become markup.
static std::string escaped(StringRef Text) {
  std::string Out;
  for (char C : Text) {
    if (StringRef("\\`*_<>|[]#").contains(C))
      Out += '\\';
    Out += C == '\n' ? ' ' : C;
  }
  return Out;
}

static void printItems(raw_ostream &OS, StringRef Title,
                       ArrayRef<EvidenceItem> Items) {
  if (Items.empty())
    return;
  OS << "\n**" << Title << "**\n\n";
  for (const EvidenceItem &I : Items)
    OS << "- `" << I.Symptom << "` ("
       << natsText(I.Own) << "): " << escaped(I.Message) << '\n';
}

static void printHypothesis(raw_ostream &OS, const Case &C,
                            const ShownHypothesis &Shown, size_t Rank) {
  const Hypothesis &H = *Shown.What;
  const Entry *E = H.Entries.empty() ? nullptr : H.Entries.front();
  OS << "\n## " << Rank << ". " << escaped(E ? E->Title : H.Title) << "\n\n`"
     << H.Class << "`, " << H.Layer << ", probability "
     << formatv("{0:F2}", H.Probability);
  if (H.Recoverable.value_or(0) > 0)
    OS << ", wins " << savingsText(C, *H.Recoverable);
  OS << '\n';
  for (const SeenBefore &S : ArrayRef(H.Seen).take_front(MostSeen))
    OS << "\n**Seen before**: " << escaped(seenText(S)) << '\n';
  printItems(OS, "For", H.Supports);
  printItems(OS, "Against", H.Against);
  if (!H.Open.empty()) {
    OS << "\n**Not checked**\n\n";
    for (const Unchecked &U : H.Open)
      OS << "- `" << U.Symptom << "`: needs " << escaped(U.Needs) << '\n';
  }
  if (!Shown.Rivals.empty())
    OS << "\nThe same evidence fits "
       << escaped(nameHypotheses(Shown.Rivals)) << ".\n";
  if (!E)
    return;
  OS << "\n**Cause**: " << escaped(firstWith(H.Entries, &Entry::RootCause))
     << "\n\n**Fix**: " << escaped(firstWith(H.Entries, &Entry::Fix)) << '\n';
  if (ArrayRef<std::string> Items = firstPrevention(H.Entries);
      !Items.empty()) {
    OS << "\n**Prevention**\n\n";
    for (const std::string &Item : Items)
      OS << "- " << escaped(Item) << '\n';
  }
  if (!H.Next.Experiment.empty())
    OS << "\n**Check**: " << escaped(H.Next.Experiment) << ' '
       << escaped(H.Next.Confirms) << ' ' << escaped(H.Next.Refutes) << '\n';
}

void printMarkdown(raw_ostream &OS, const RunReport &R, unsigned Top) {
  OS << "# culprit " << R.Version << ": " << escaped(join(R.Paths, " "))
     << "\n\nVerdict: **" << toString(R.Result.Result) << "**\n";
  size_t Rank = 0;
  for (const ShownHypothesis &S : selectHypotheses(R.Result, Top).Full)
    printHypothesis(OS, R.Evidence, S, ++Rank);
  if (std::vector<std::string> Leads = describeLeads(R.Result);
      !Leads.empty()) {
    OS << "\n## Leads\n";
    for (const std::string &Line : Leads)
      OS << '\n' << escaped(Line) << '\n';
  }
  for (const std::string &Line : describeUnexplained(R.Result, R.Symptoms))
    OS << "\nNot shown: " << escaped(Line) << '\n';
  OS << "\n## Symptoms seen\n\n";
  bool Any = false;
  for (const Outcome &O : R.Outcomes)
    for (const Report &Seen : O.Reports) {
      OS << "- `" << Seen.Symptom << "` (" << O.Detector
         << "): " << escaped(Seen.Message) << '\n';
      Any = true;
    }
  if (!Any)
    OS << "None.\n";
  OS << "\n## Inputs\n\n| file | format |\n|---|---|\n";
  for (const InputSummary &I : R.Evidence.inputs())
    OS << "| " << escaped(I.Path) << " | "
       << (I.Failed           ? "could not be read"
           : I.Format.empty() ? "unknown"
                              : escaped(I.Format))
       << " |\n";
  if (R.Since) {
    OS << "\n## Since an earlier report\n\n";
    for (const std::string &Line : changesText(*R.Since, R.SincePath))
      OS << "- " << escaped(Line) << '\n';
  }
  if (R.Good)
    printGoodMarkdown(OS, *R.Good);
}

} // namespace culprit
