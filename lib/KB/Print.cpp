//===- Print.cpp - Entries and search results for people --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/AddEntryText.h"
#include "KB/Search.h"
#include "KB/TextWrap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// `label      text ...` with the text wrapped behind the label.
static void printField(raw_ostream &OS, StringRef Indent, StringRef Label,
                       StringRef Text) {
  if (Text.trim().empty() || isPrompt(Text))
    return;
  std::string Head = formatv("{0}{1,-10} ", Indent, Label).str();
  std::string Rest(Head.size(), ' ');
  printWrapped(OS, Text, Head, Rest, TextWidth);
}

void printSearchText(raw_ostream &OS, const SearchResult &Result) {
  for (const auto &[From, To] : Result.Corrections)
    OS << "read '" << From << "' as '" << To << "'\n";
  if (Result.Hits.empty()) {
    OS << "no entry fits\n";
    return;
  }
  for (const SearchHit &H : Result.Hits) {
    const Entry &E = *H.Found;
    if (H.Rank > 1)
      OS << '\n';
    std::string Head = std::to_string(H.Rank) + ". ";
    std::string Title = E.Class.empty() ? E.Title : E.Class + ": " + E.Title;
    printWrapped(OS, Title, Head, std::string(Head.size(), ' '), TextWidth);
    printField(OS, "   ", "symptom", firstSentence(E.Symptom));
    if (E.RootCause != E.Title)
      printField(OS, "   ", "cause", firstSentence(E.RootCause));
    printField(OS, "   ", "fix", firstSentence(E.Fix));
    printField(OS, "   ", "separates", H.Separates);
    printField(OS, "   ", "entry", E.Id + "  (" + placeText(E.Source) + ")");
    if (!H.Shares.empty())
      printShares(OS, H);
  }
}

json::Value searchJson(const SearchResult &Result) {
  json::Array Results;
  for (const SearchHit &H : Result.Hits) {
    const Entry &E = *H.Found;
    json::Object Hit{
        {"rank", H.Rank},
        {"entry", E.Id},
        {"class", E.Class},
        {"title", E.Title},
        {"score", std::round(H.Score * 1000) / 1000},
        {"symptom", E.Symptom},
        {"cause", E.RootCause},
        {"fix", E.Fix},
        {"separates", H.Separates},
        {"source", json::Object{{"file", json::fixUTF8(E.Source.File)},
                                {"line", E.Source.Line}}}};
    if (!H.Shares.empty())
      Hit["explain"] = sharesJson(H);
    Results.push_back(std::move(Hit));
  }
  return json::Object{{"schema", 1},
                      {"query", json::fixUTF8(Result.Query)},
                      {"results", std::move(Results)}};
}

static void printSection(raw_ostream &OS, StringRef Label, StringRef Text) {
  if (Text.trim().empty())
    return;
  OS << '\n' << Label << '\n';
  printWrapped(OS, Text, "  ", "  ", TextWidth);
}

static void printList(raw_ostream &OS, StringRef Label,
                      ArrayRef<std::string> Items) {
  if (Items.empty())
    return;
  OS << '\n' << Label << '\n';
  for (const std::string &Item : Items)
    printWrapped(OS, Item, "  - ", "    ", TextWidth);
}

void printEntryText(raw_ostream &OS, const Entry &E) {
  std::string Title =
      E.Status.empty() ? E.Title : "[" + E.Status + "] " + E.Title;
  printWrapped(OS, Title, "", "", TextWidth);
  OS << "entry  " << E.Id << '\n';
  if (!E.Class.empty())
    OS << "class  " << E.Class << '\n';
  OS << "from   " << placeText(E.Source) << (E.Date.empty() ? "" : ", ")
     << E.Date << '\n';

  printSection(OS, "Symptom", E.Symptom);
  printList(OS, "Also seen as", E.AlsoSeenAs);
  printList(OS, "Fails when", E.FailsWhen);
  printList(OS, "Works when", E.WorksWhen);
  printList(OS, "Log", E.LogFragments);
  printSection(OS, "Root Cause", E.RootCause);
  printSection(OS, "Fix", E.Fix);
  printSection(OS, "Workarounds", E.Workarounds);
  if (!E.Confirm.Experiment.empty() || !E.Confirm.Confirms.empty()) {
    OS << "\nConfirm\n";
    printField(OS, "  ", "try", E.Confirm.Experiment);
    printField(OS, "  ", "confirms", E.Confirm.Confirms);
    printField(OS, "  ", "refutes", E.Confirm.Refutes);
  }
  std::vector<std::string> Signals;
  for (const Signal &S : E.Signals)
    Signals.push_back(S.Symptom + " (" + frequencyName(S.How).str() + ")");
  printList(OS, "Signals", Signals);
  printSection(OS, "Files", E.Files);
  printList(OS, "Prevention", E.Prevention);
  printList(OS, "References", E.References);
  for (const OtherSection &S : E.Other)
    printSection(OS, S.Label.empty() ? "Other" : StringRef(S.Label), S.Text);
}

json::Value entryJson(const Entry &E) {
  json::Array Signals;
  for (const Signal &S : E.Signals)
    Signals.push_back(json::Object{{"symptom", S.Symptom},
                                   {"frequency", frequencyName(S.How)}});
  json::Array Other;
  for (const OtherSection &S : E.Other)
    Other.push_back(json::Object{{"label", S.Label}, {"text", S.Text}});
  return json::Object{
      {"entry", E.Id},
      {"date", E.Date},
      {"status", E.Status},
      {"title", E.Title},
      {"class", E.Class},
      {"symptom", E.Symptom},
      {"also_seen_as", json::Array(E.AlsoSeenAs)},
      {"cause", E.RootCause},
      {"fix", E.Fix},
      {"files", E.Files},
      {"prevention", json::Array(E.Prevention)},
      {"signals", std::move(Signals)},
      {"log", json::Array(E.LogFragments)},
      {"fails_when", json::Array(E.FailsWhen)},
      {"works_when", json::Array(E.WorksWhen)},
      {"workarounds", E.Workarounds},
      {"confirm", json::Object{{"experiment", E.Confirm.Experiment},
                               {"confirms", E.Confirm.Confirms},
                               {"refutes", E.Confirm.Refutes}}},
      {"references", json::Array(E.References)},
      {"other", std::move(Other)},
      {"source", json::Object{{"file", json::fixUTF8(E.Source.File)},
                              {"line", E.Source.Line}}}};
}

} // namespace culprit
