//===- DetectorPage.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/DetectorPage.h"
#include "Case/Schema.h"
#include "KB/TextWrap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

static constexpr unsigned PageWidth = 120;

static std::string code(StringRef Text) { return ("`" + Text + "`").str(); }

/// A cell of a table: on one line, without the mark that ends a cell.
static std::string cell(StringRef Text) {
  std::string Out;
  for (char C : Text) {
    if (C == '|')
      Out += '\\';
    Out += C == '\n' ? ' ' : C;
  }
  return Out;
}

static void item(raw_ostream &OS, StringRef Text, StringRef Indent = "") {
  printWrapped(OS, Text, Indent.str() + "- ", Indent.str() + "  ", PageWidth);
}

/// "`scalars` with `step`, `value`, where `metric` is `loss`".
static std::string needText(const Need &N) {
  const TableSchema &T = schema(N.Table);
  std::vector<std::string> Columns;
  for (unsigned C : N.Columns)
    Columns.push_back(code(T.Columns[C].Name));
  if (N.Data)
    Columns.push_back("the values themselves");
  std::string Out = code(T.Name);
  if (!Columns.empty())
    Out += " with " + join(Columns, ", ");
  for (const Need::Condition &Where : N.Rows) {
    std::vector<std::string> Values;
    for (const Scalar &V : Where.AnyOf)
      Values.push_back(code(toString(V)));
    Out += ", where " + code(T.Columns[Where.Column].Name) + " is " +
           join(Values, " or ");
  }
  return Out;
}

static void printNeeds(raw_ostream &OS, const DetectorInfo &D) {
  OS << "\n## Needs\n\n";
  for (const Need &N : D.Needs.All)
    item(OS, needText(N));
  for (const std::vector<Need> &Alternatives : D.Needs.AnyOf) {
    std::vector<std::string> Texts;
    for (const Need &N : Alternatives)
      Texts.push_back(needText(N));
    item(OS, "one of: " + join(Texts, "; "));
  }
  if (D.Relies.empty())
    return;
  std::vector<std::string> Aspects;
  for (Reliance R : D.Relies)
    Aspects.push_back(code(toString(R)));
  OS << '\n';
  printWrapped(OS,
               "Relies on " + join(Aspects, ", ") +
                   " of a profile: where `capture_quality` says these are "
                   "poor, its reports count less or it is skipped.",
               "", "", PageWidth);
}

/// The entries that \p Symptom is a signal of, under one line for each way
/// that it is one.
static void printSignals(raw_ostream &OS, StringRef Symptom,
                         ArrayRef<Entry> Entries) {
  for (Frequency How : {Frequency::Required, Frequency::Always,
                        Frequency::Often, Frequency::Sometimes,
                        Frequency::Never}) {
    std::vector<std::string> Ids;
    for (const Entry &E : Entries)
      for (const Signal &S : E.Signals)
        if (S.Symptom == Symptom && S.How == How)
          Ids.push_back(code(E.Id));
    if (!Ids.empty())
      item(OS, (frequencyName(How) + ": ").str() + join(Ids, ", "), "  ");
  }
}

static void printSymptoms(raw_ostream &OS, const DetectorInfo &D,
                          const Vocabulary &Words, ArrayRef<Entry> Entries) {
  OS << "\n## Symptoms\n\n";
  printWrapped(OS,
               "What it may report, and the causes of the knowledge base that "
               "show it, by how often they do.",
               "", "", PageWidth);
  OS << '\n';
  for (const std::string &Id : D.Symptoms) {
    const SymptomTerm *Term = Words.symptom(Id);
    item(OS, code(Id) + (Term ? ": " + Term->Text : ""));
    printSignals(OS, Id, Entries);
  }
}

static void printOptions(raw_ostream &OS, const DetectorInfo &D) {
  if (D.Options.empty())
    return;
  OS << "\n## Options\n\nSet by `--option " << D.Id
     << ".NAME=VALUE`, or under `options` in `.culprit.yaml`.\n\n"
        "| option | default | meaning |\n|---|---|---|\n";
  for (const OptionSpec &O : D.Options)
    OS << "| " << code(O.Name) << " | " << code(cell(toString(O.Default)))
       << " | " << cell(O.Doc) << " |\n";
}

void printDetectorPage(raw_ostream &OS, const DetectorInfo &D,
                       const Vocabulary &Words, ArrayRef<Entry> Entries) {
  OS << "# " << D.Id << "\n\n";
  printWrapped(OS, D.Summary + ".", "", "", PageWidth);
  for (const DocSection &S : D.Doc) {
    OS << '\n';
    if (!S.Heading.empty())
      OS << "## " << S.Heading << "\n\n";
    OS << S.Text << '\n';
  }
  printNeeds(OS, D);
  printSymptoms(OS, D, Words, Entries);
  printOptions(OS, D);
  // A shipped file by its place in the source, wherever it is installed.
  std::string Shipped = "plugins/" + D.Id + ".lua";
  StringRef File = D.File;
  OS << "\nSource: " << code(File.ends_with("/" + Shipped) ? Shipped : File)
     << '\n';
}

void printDetectorIndex(raw_ostream &OS,
                        ArrayRef<std::unique_ptr<Detector>> All) {
  OS << "# Detectors\n\n"
     << All.size()
     << " detectors, by group. Generated by `scripts/renew-docs` from "
        "`plugins/`; do not edit.\n";
  StringRef Group;
  for (const std::unique_ptr<Detector> &D : All) {
    auto [Of, Name] = StringRef(D->id()).split('/');
    if (Of != Group)
      OS << "\n## " << Of << "\n\n| detector | reports |\n|---|---|\n";
    Group = Of;
    OS << "| [" << Name << "](" << D->id() << ".md) | "
       << cell(D->info().Summary) << " |\n";
  }
}

} // namespace culprit
