//===- Html.cpp - The report as one page ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One file without scripts, fonts or links to anywhere, to attach to a ticket.
//
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

static std::string html(StringRef Text) {
  std::string Out;
  for (char C : json::fixUTF8(Text))
    switch (C) {
    case '&':
      Out += "&amp;";
      break;
    case '<':
      Out += "&lt;";
      break;
    case '>':
      Out += "&gt;";
      break;
    case '"':
      Out += "&quot;";
      break;
    default:
      Out += C;
    }
  return Out;
}

static void printItemRows(raw_ostream &OS, StringRef Title,
                          ArrayRef<EvidenceItem> Items) {
  for (const EvidenceItem &I : Items)
    OS << "<tr><th>" << Title << "</th><td class=n>"
       << natsText(I.Own) << "</td><td><b>" << html(I.Symptom)
       << "</b><br>" << html(I.Message) << "</td></tr>\n";
}

static void printField(raw_ostream &OS, StringRef Title, StringRef Text) {
  if (!Text.empty())
    OS << "<tr><th>" << Title << "</th><td></td><td>" << html(Text)
       << "</td></tr>\n";
}

static void printSection(raw_ostream &OS, const Case &C,
                         const ShownHypothesis &Shown, size_t Rank) {
  const Hypothesis &H = *Shown.What;
  const Entry *E = H.Entries.empty() ? nullptr : H.Entries.front();
  OS << "<h2>" << Rank << ". " << html(E ? E->Title : H.Title)
     << " <small>" << html(H.Class) << ", " << H.Layer << ", "
     << formatv("{0:F0} %", 100 * H.Probability) << "</small></h2>\n<table>\n";
  for (const SeenBefore &S : ArrayRef(H.Seen).take_front(MostSeen))
    printField(OS, "before", seenText(S));
  printItemRows(OS, "for", H.Supports);
  printItemRows(OS, "against", H.Against);
  for (const Unchecked &U : H.Open)
    printField(OS, "unknown", U.Symptom + ": needs " + U.Needs);
  if (!Shown.Rivals.empty())
    printField(OS, "rivals",
               "the same evidence fits " + nameHypotheses(Shown.Rivals));
  if (H.Recoverable.value_or(0) > 0)
    printField(OS, "wins", savingsText(C, *H.Recoverable));
  if (E) {
    printField(OS, "cause", firstWith(H.Entries, &Entry::RootCause));
    printField(OS, "fix", firstWith(H.Entries, &Entry::Fix));
    for (const std::string &Item : firstPrevention(H.Entries))
      printField(OS, "prevent", Item);
    printField(OS, "check", H.Next.Experiment + " " + H.Next.Confirms + " " +
                                H.Next.Refutes);
  }
  OS << "</table>\n";
}

void printHtml(raw_ostream &OS, const RunReport &R, unsigned Top) {
  std::string Title = "culprit: " + html(join(R.Paths, " "));
  OS << "<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>"
     << Title
     << "</title><style>body{font:15px/1.45 sans-serif;max-width:60em;"
        "margin:2em auto;padding:0 1em}th{text-align:left;vertical-align:top;"
        "padding-right:1em;color:#666;font-weight:normal}td{vertical-align:"
        "top;padding-bottom:.4em}td.n{text-align:right;padding-right:1em}"
        "small{color:#666;font-weight:normal}</style></head><body>\n<h1>"
     << Title << "</h1>\n<p>Verdict: <b>" << toString(R.Result.Result)
     << "</b>, culprit " << html(R.Version) << "</p>\n";
  size_t Rank = 0;
  for (const ShownHypothesis &S : selectHypotheses(R.Result, Top).Full)
    printSection(OS, R.Evidence, S, ++Rank);
  if (std::vector<std::string> Leads = describeLeads(R.Result);
      !Leads.empty()) {
    OS << "<h2>Leads</h2>\n";
    for (const std::string &Line : Leads)
      OS << "<p>" << html(Line) << "</p>\n";
  }
  for (const std::string &Line : describeUnexplained(R.Result, R.Symptoms))
    OS << "<p>Not shown: " << html(Line) << "</p>\n";
  OS << "<h2>Symptoms seen</h2>\n<ul>\n";
  for (const Outcome &O : R.Outcomes)
    for (const Report &Seen : O.Reports)
      OS << "<li><b>" << html(Seen.Symptom) << "</b> ("
         << html(O.Detector) << "): " << html(Seen.Message) << "</li>\n";
  OS << "</ul>\n<h2>Inputs</h2>\n<ul>\n";
  for (const InputSummary &I : R.Evidence.inputs())
    OS << "<li>" << html(I.Path) << ": "
       << (I.Failed           ? "could not be read"
           : I.Format.empty() ? "unknown format"
                              : html(I.Format))
       << "</li>\n";
  OS << "</ul>\n";
  if (R.Since) {
    OS << "<h2>Since an earlier report</h2>\n<ul>\n";
    for (const std::string &Line : changesText(*R.Since, R.SincePath))
      OS << "<li>" << html(Line) << "</li>\n";
    OS << "</ul>\n";
  }
  if (R.Good)
    printGoodHtml(OS, *R.Good);
  OS << "</body></html>\n";
}

} // namespace culprit
