//===- Stats.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Stats.h"
#include "KB/AddEntryText.h"
#include "KB/Sections.h"
#include "KB/TextWrap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <set>

using namespace llvm;

namespace culprit {

/// Rows of a table for people; all stand in the JSON.
static constexpr size_t MostRows = 12;

/// Whether \p E lacks section \p S; a question is no answer.
static bool lacks(const Entry &E, Section S) {
  auto Open = [](StringRef Text) {
    return Text.trim().empty() || isPrompt(Text);
  };
  switch (S) {
  case Section::Symptom:
    return Open(E.Symptom);
  case Section::AlsoSeenAs:
    return E.AlsoSeenAs.empty();
  case Section::RootCause:
    return Open(E.RootCause);
  case Section::Fix:
    return Open(E.Fix);
  case Section::Files:
    return Open(E.Files);
  case Section::Prevention:
    return all_of(E.Prevention, isPrompt);
  case Section::Class:
    return E.Class.empty();
  case Section::Signals:
    return E.Signals.empty();
  case Section::Log:
    return E.LogFragments.empty();
  case Section::FailsWhen:
    return E.FailsWhen.empty();
  case Section::WorksWhen:
    return E.WorksWhen.empty();
  case Section::Workarounds:
    return E.Workarounds.empty();
  case Section::Confirm:
    return E.Confirm.Experiment.empty() && E.Confirm.Confirms.empty();
  case Section::References:
    return E.References.empty();
  }
  llvm_unreachable("unknown section");
}

static bool ofEveryEntry(Section S) {
  return S == Section::Symptom || S == Section::RootCause ||
         S == Section::Fix || S == Section::Files || S == Section::Prevention;
}

KbStats countEntries(ArrayRef<const Entry *> Entries, const Vocabulary &V) {
  KbStats S;
  S.Entries = static_cast<unsigned>(Entries.size());
  std::set<StringRef> Covered, Unknown;
  for (const Entry *E : Entries) {
    ++S.Files[E->Source.File];
    ++S.Status[E->Status];
    ++S.Months[E->Date.substr(0, 7)];
    const ClassTerm *T = V.rootCause(E->Class);
    ++S.Layers[T ? T->Layer : ""];
    ++S.Classes[E->Class];
    S.Curated += !E->Class.empty();
    if (T)
      Covered.insert(T->Id);
    else if (!E->Class.empty())
      Unknown.insert(E->Class);
    std::set<StringRef> Own;
    for (const Signal &Sig : E->Signals)
      if (Own.insert(Sig.Symptom).second)
        ++S.Signals[Sig.Symptom];
  }
#define KB_SECTION(Id, Label, Others)                                          \
  S.Missing.push_back(                                                         \
      {Label, static_cast<unsigned>(count_if(Entries, [](const Entry *E) {     \
         return (ofEveryEntry(Section::Id) || !E->Class.empty()) &&            \
                lacks(*E, Section::Id);                                        \
       }))});
#include "KB/Sections.def"
  for (const SymptomTerm &T : V.symptoms())
    if (!S.Signals.count(T.Id))
      S.UnusedSignals.push_back(T.Id);
  for (const ClassTerm &T : V.classes())
    if (!Covered.count(T.Id))
      S.UncoveredClasses.push_back(T.Id);
  for (StringRef C : Unknown)
    S.UnknownClasses.push_back(C.str());
  S.KnownSignals = static_cast<unsigned>(V.symptoms().size());
  S.KnownClasses = static_cast<unsigned>(V.classes().size());
  return S;
}

namespace {
using Row = std::pair<std::string, unsigned>;
} // namespace

static void printRows(raw_ostream &OS, StringRef Title, ArrayRef<Row> Rows) {
  if (Rows.empty())
    return;
  OS << '\n' << Title << '\n';
  for (const Row &R : Rows.take_front(MostRows))
    OS << formatv("{0,7}  {1}\n", R.second,
                  R.first.empty() ? "not given" : R.first);
  if (Rows.size() > MostRows)
    OS << formatv("         and {0} more\n", Rows.size() - MostRows);
}

/// The largest counts first.
static std::vector<Row> byCount(const std::map<std::string, unsigned> &Counts) {
  std::vector<Row> Out(Counts.begin(), Counts.end());
  llvm::stable_sort(
      Out, [](const Row &A, const Row &B) { return A.second > B.second; });
  return Out;
}

static void printNames(raw_ostream &OS, StringRef Title,
                       ArrayRef<std::string> Names) {
  if (Names.empty())
    return;
  OS << '\n' << Title << '\n';
  std::string Text = join(Names.take_front(40), ", ");
  if (Names.size() > 40)
    Text += formatv(" and {0} more", Names.size() - 40);
  printWrapped(OS, Text, "  ", "  ", TextWidth);
}

void printStats(raw_ostream &OS, const KbStats &S) {
  OS << S.Entries << (S.Entries == 1 ? " entry in " : " entries in ")
     << S.Files.size() << (S.Files.size() == 1 ? " file\n" : " files\n");
  if (!S.Entries)
    return;
  printRows(OS, "status", byCount(S.Status));
  std::vector<Row> Months(S.Months.rbegin(), S.Months.rend());
  printRows(OS, "month", Months);
  if (S.Curated) {
    printRows(OS, "layer", byCount(S.Layers));
    printRows(OS, "class", byCount(S.Classes));
  }
  std::vector<Row> Missing;
  copy_if(S.Missing, std::back_inserter(Missing),
          [](const Row &R) { return R.second != 0; });
  printRows(OS, "without a section (beyond the five: of entries with a class)",
            Missing);
  if (!S.Curated && S.Signals.empty())
    return;
  OS << "\ncoverage\n"
     << formatv("  {0} of {1} classes have an entry\n",
                S.KnownClasses - S.UncoveredClasses.size(), S.KnownClasses)
     << formatv("  {0} of {1} symptoms are a signal of an entry\n",
                S.KnownSignals - S.UnusedSignals.size(), S.KnownSignals);
  if (S.UncoveredClasses.size() * 2 < S.KnownClasses)
    printNames(OS, "classes without an entry", S.UncoveredClasses);
  if (S.UnusedSignals.size() * 2 < S.KnownSignals)
    printNames(OS, "symptoms that are no signal", S.UnusedSignals);
  printNames(OS, "classes that are not known", S.UnknownClasses);
  printRows(OS, "signals most used", byCount(S.Signals));
}

static json::Object countsJson(const std::map<std::string, unsigned> &Counts) {
  json::Object Out;
  for (const auto &[Name, Count] : Counts)
    Out[json::fixUTF8(Name)] = Count;
  return Out;
}

json::Value statsJson(const KbStats &S) {
  json::Object Missing;
  for (const Row &R : S.Missing)
    Missing[R.first] = R.second;
  return json::Object{
      {"schema", 1},
      {"entries", S.Entries},
      {"curated", S.Curated},
      {"files", countsJson(S.Files)},
      {"layers", countsJson(S.Layers)},
      {"classes", countsJson(S.Classes)},
      {"status", countsJson(S.Status)},
      {"months", countsJson(S.Months)},
      {"missing", std::move(Missing)},
      {"signals", countsJson(S.Signals)},
      {"known_classes", S.KnownClasses},
      {"known_signals", S.KnownSignals},
      {"uncovered_classes", json::Array(S.UncoveredClasses)},
      {"unknown_classes", json::Array(S.UnknownClasses)},
      {"unused_signals", json::Array(S.UnusedSignals)}};
}

} // namespace culprit
