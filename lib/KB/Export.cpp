//===- Export.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Export.h"
#include "KB/AddEntryText.h"
#include "KB/Search.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

json::Value exportJson(ArrayRef<const Entry *> Entries) {
  json::Array All;
  for (const Entry *E : Entries)
    All.push_back(entryJson(*E));
  return json::Object{{"schema", 1}, {"entries", std::move(All)}};
}

/// \p E with its plain texts as markdown.
static Entry escaped(const Entry &E) {
  Entry Out = E;
  auto Escape = [](std::string &Text) { Text = escapedMarkdown(Text); };
  auto EscapeAll = [&](std::vector<std::string> &Items) {
    for (std::string &Item : Items)
      Escape(Item);
  };
  Escape(Out.Title);
  Escape(Out.Symptom);
  Escape(Out.RootCause);
  Escape(Out.Fix);
  Escape(Out.Files);
  Escape(Out.Workarounds);
  Escape(Out.Confirm.Experiment);
  Escape(Out.Confirm.Confirms);
  Escape(Out.Confirm.Refutes);
  EscapeAll(Out.AlsoSeenAs);
  EscapeAll(Out.Prevention);
  EscapeAll(Out.FailsWhen);
  EscapeAll(Out.WorksWhen);
  EscapeAll(Out.References);
  for (OtherSection &S : Out.Other)
    Escape(S.Text);
  return Out;
}

void exportMarkdown(raw_ostream &OS, ArrayRef<const Entry *> Entries) {
  OS << "# Issues Log\n";
  StringRef Date;
  for (const Entry *E : Entries) {
    // An entry without a date under a heading with one would get it.
    if (E->Date != Date)
      OS << "\n## " << (E->Date.empty() ? "Without a date" : E->Date) << '\n';
    Date = E->Date;
    OS << '\n' << entryMarkdown(escaped(*E), LogStyle());
  }
}

static void cell(raw_ostream &OS, StringRef Text, bool Last = false) {
  for (char C : Text.trim()) {
    if (C == '\t')
      OS << "\\t";
    else if (C == '\n')
      OS << "\\n";
    else if (C == '\r')
      OS << "\\r";
    else if (C == '\\')
      OS << "\\\\";
    else
      OS << C;
  }
  OS << (Last ? '\n' : '\t');
}

void exportTsv(raw_ostream &OS, ArrayRef<const Entry *> Entries) {
  OS << "entry\tdate\tstatus\ttitle\tclass\tsymptom\tcause\tfix\tfiles\t"
        "prevention\tsignals\tlog\treferences\tfile\tline\n";
  for (const Entry *E : Entries) {
    std::vector<std::string> Signals;
    for (const Signal &S : E->Signals)
      Signals.push_back(S.Symptom + " (" + frequencyName(S.How).str() + ")");
    for (StringRef Text : {StringRef(E->Id), StringRef(E->Date),
                           StringRef(E->Status), StringRef(E->Title),
                           StringRef(E->Class), StringRef(E->Symptom),
                           StringRef(E->RootCause), StringRef(E->Fix),
                           StringRef(E->Files)})
      cell(OS, Text);
    cell(OS, join(E->Prevention, "\n"));
    cell(OS, join(Signals, ", "));
    cell(OS, join(E->LogFragments, "\n"));
    cell(OS, join(E->References, "\n"));
    cell(OS, E->Source.File);
    cell(OS, std::to_string(E->Source.Line), /*Last=*/true);
  }
}

} // namespace culprit
