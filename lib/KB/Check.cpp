//===- Check.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Check.h"
#include "KB/AddEntryText.h"
#include "KB/EntryTitle.h"
#include "KB/LogMatcher.h"
#include "KB/MarkdownReader.h"
#include "KB/NearDuplicates.h"
#include "KB/Store.h"
#include "KB/WordKeys.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <iterator>
#include <map>

using namespace llvm;

namespace culprit {

/// A symptom that shares this much of its words with the cause tells the
/// cause again.
static constexpr double Restating = 0.8;

namespace {

class EntryChecker {
public:
  /// \p Seen has the words of the symptom in \p Keys.
  EntryChecker(const Entry &E, const EntryLines &Lines, const Vocabulary &V,
               ArrayRef<uint32_t> Seen, WordKeys &Keys,
               std::vector<Diagnostic> &Out)
      : E(E), Lines(Lines), V(V), Seen(Seen), Keys(Keys), Out(Out) {}

  void check(bool Curated) {
    if (E.Title.empty())
      error("the entry has no title", "write what broke in one line");
    missing("Symptom", E.Symptom.empty(),
            "write what one sees, in the words of who hits it");
    // Who sets a matter aside says why instead, and who is still at it knows
    // neither cause nor fix.
    bool Aside = isSetAside(E.Status), Open = isOpen(E.Status);
    if (Aside)
      missing("Rationale",
              E.RootCause.empty() && !told("rationale") && !told("decision"),
              "write why it was left as it is");
    else
      required(Open ? Severity::Note : Severity::Error);
    if (Curated) {
      missing("Class", E.Class.empty(), "name a class of classes.tsv");
      missing("Signals", E.Signals.empty(),
              "list symptoms of symptoms.md with their frequency");
      missing("Confirm",
              E.Confirm.Experiment.empty() && E.Confirm.Confirms.empty(),
              "name the cheapest experiment and its outcomes");
      missing("References", E.References.empty(),
              "link where the cause was confirmed");
    }
    for (const std::string &Label : promptLabels(E))
      error("'" + E.Title + "' has a prompt for " + Label,
            "answer what 'kb add' asks after TODO, or take the line out");
    if (E.Status == "DRAFT")
      report(Severity::Warning, E.Source.Line, "'" + E.Title + "' is a draft",
             "read it, mend what was guessed, then write its status");
    std::string Meant = statusMeant(E.Status);
    if (!Meant.empty())
      report(Severity::Warning, E.Source.Line,
             "'" + E.Title + "' has the status '" + E.Status + "'",
             "did you mean '" + Meant + "'?");
    prevention();
    symptom();
    fix();
    rootCause();
    signals();
    confirmation();
    references();
    logFragments();
  }

private:
  void report(Severity Level, unsigned Line, const Twine &What,
              const Twine &Hint) {
    Out.push_back({Level, (E.Source.File + ":" + Twine(Line) + ": " + What).str(),
                   Hint.str()});
  }
  /// Of the entry's own line.
  void error(const Twine &What, const Twine &Hint = "") {
    report(Severity::Error, E.Source.Line, What, Hint);
  }
  /// Of the line of section \p S.
  void error(Section S, const Twine &What, const Twine &Hint = "") {
    report(Severity::Error, lineOf(S), What, Hint);
  }
  void warning(Section S, const Twine &What, const Twine &Hint = "") {
    report(Severity::Warning, lineOf(S), What, Hint);
  }
  unsigned lineOf(Section S) const {
    unsigned Line = Lines.Sections[static_cast<unsigned>(S)];
    return Line ? Line : E.Source.Line;
  }

  void missing(StringRef Label, bool Absent, StringRef Hint,
               Severity Level = Severity::Error) {
    if (Absent)
      report(Level, E.Source.Line, "'" + E.Title + "' has no " + Label, Hint);
  }

  /// Whether the entry has a section \p Label that is none of ours.
  bool told(StringRef Label) const {
    return any_of(E.Other, [&](const OtherSection &S) {
      return StringRef(S.Label).equals_insensitive(Label);
    });
  }

  void required(Severity Level) {
    missing("Root Cause", E.RootCause.empty(), "write why it happened", Level);
    missing("Fix", E.Fix.empty(), "write how it was resolved", Level);
    missing("Files", E.Files.empty(), "name the files that were changed",
            Level);
    missing("Prevention", E.Prevention.empty(),
            "write what would have caught it earlier", Level);
  }

  void prevention() {
    for (auto [I, Item] : enumerate(E.Prevention)) {
      std::string Why = isPrompt(Item) ? "" : preventionObjection(Item);
      bool Known = Lines.Items.size() == E.Prevention.size();
      unsigned Line = Known ? Lines.Items[I]
                            : lineOf(Section::Prevention);
      if (!Why.empty())
        report(Severity::Error, Line,
               "prevention '" + firstSentence(Item) + "' " + Why,
               "name a check, where it runs and what makes it fail: 'Test: "
               "load the weights, compare all shapes'");
    }
  }

  void symptom() {
    if (E.Symptom.empty())
      return;
    std::vector<uint32_t> Why = Keys.distinct(E.RootCause);
    size_t Both = sharedKeys(Seen, Why);
    bool Restates = Seen.size() >= 3 && Both >= Restating * Seen.size();
    // A cause within the words of the symptom adds nothing to it.
    bool Echoes = Why.size() >= 2 && Both >= Restating * Why.size();
    if (Restates)
      error(Section::Symptom,
            "the symptom of '" + E.Title + "' restates the root cause",
            "write what one sees before knowing the cause: output, numbers, "
            "messages");
    else if (Echoes)
      error(Section::RootCause,
            "the root cause of '" + E.Title + "' restates the symptom",
            "write what in the code, data or machine made it happen");
    std::string Objection = symptomObjection(E.Symptom);
    if (!Objection.empty())
      error(Section::Symptom, "the symptom of '" + E.Title + "' " + Objection,
            "write what was observed: output, numbers, messages, and when");
    std::string Lower = StringRef(E.Symptom).lower();
    for (StringRef Cue : {"because ", "due to ", "caused by "})
      if (StringRef(Lower).contains(Cue)) {
        warning(Section::Symptom,
                "the symptom of '" + E.Title + "' explains ('" + Cue.rtrim() +
                    "')",
                "move the explanation to the Root Cause");
        return;
      }
  }

  void fix() {
    std::string Objection =
        E.Fix.empty() ? std::string() : fixObjection(E.Fix);
    if (!Objection.empty())
      error(Section::Fix, "the fix of '" + E.Title + "' " + Objection,
            "write what was changed, where, and from what to what");
  }

  void rootCause() {
    std::string Objection =
        E.RootCause.empty() ? std::string() : causeObjection(E.RootCause);
    if (!Objection.empty())
      error(Section::RootCause,
            "the root cause of '" + E.Title + "' " + Objection,
            "write what in the code, data or machine made it happen");
    if (E.Class.empty() || V.rootCause(E.Class))
      return;
    std::string Known = V.closestClass(E.Class);
    error(Section::Class, "unknown class '" + E.Class + "'",
          Known.empty() ? "'culprit list classes' lists them"
                        : "did you mean '" + Known + "'?");
  }

  void signals() {
    std::map<StringRef, Frequency> Seen;
    for (const Signal &S : E.Signals) {
      if (!V.symptom(S.Symptom)) {
        std::string Known = V.closestSymptom(S.Symptom);
        error(Section::Signals, "unknown signal '" + S.Symptom + "'",
              Known.empty() ? "the symptoms are listed in symptoms.md"
                            : "did you mean '" + Known + "'?");
      }
      auto [It, New] = Seen.try_emplace(S.Symptom, S.How);
      if (New)
        continue;
      if (It->second == S.How)
        warning(Section::Signals, "signal '" + S.Symptom + "' is listed twice");
      else
        error(Section::Signals, "signal '" + S.Symptom + "' is both " +
                  frequencyName(It->second) + " and " + frequencyName(S.How),
              "keep one");
    }
  }

  void confirmation() {
    const Confirmation &C = E.Confirm;
    if (!C.Experiment.empty() && C.Confirms.empty())
      warning(Section::Confirm, "the experiment of '" + E.Title +
                  "' has no outcome that "
                  "confirms",
              "add a sentence 'Confirmed if ...'");
    else if (!C.Confirms.empty() && C.Refutes.empty())
      warning(Section::Confirm, "the experiment of '" + E.Title +
                  "' has no outcome that "
                  "refutes",
              "add a sentence 'Refuted if ...'");
  }

  void references() {
    for (const std::string &R : E.References) {
      StringRef Address = R;
      size_t At = Address.find("http");
      Address = Address.drop_front(std::min(At, Address.size()))
                    .take_until([](char C) { return isSpace(C); });
      // Without a scheme: a title or a ticket, but not `github.com/a/b`.
      bool Bare = StringRef(R).contains("://") ||
                  (!StringRef(R).contains(' ') &&
                   StringRef(R).split('/').first.contains('.'));
      bool Good = Address.empty() && !Bare;
      if (Address.consume_front("https://") ||
          Address.consume_front("http://")) {
        StringRef Host = Address.split('/').first;
        Good = Host.contains('.') && !Host.contains("..") && Host.size() > 3;
      }
      if (!Good)
        error(Section::References, "reference '" + R + "' is not a complete address",
              "write it in full: https://github.com/owner/name/issues/1");
    }
  }

  void logFragments() {
    for (const std::string &Fragment : E.LogFragments)
      if (Fragment.size() < LogMatcher::MinFragment)
        warning(Section::Log, "log fragment '" + Fragment + "' is too short to match",
                "quote the constant part of the message");
  }

  const Entry &E;
  const EntryLines &Lines;
  const Vocabulary &V;
  ArrayRef<uint32_t> Seen;
  WordKeys &Keys;
  std::vector<Diagnostic> &Out;
};

} // namespace

/// \p First has, for each entry, the first with nearly its symptom.
static void checkDuplicates(ArrayRef<Entry> Entries, ArrayRef<size_t> First,
                            std::vector<Diagnostic> &Out) {
  StringMap<const Entry *> Titles;
  for (size_t I = 0; I < Entries.size(); ++I) {
    const Entry &E = Entries[I];
    auto [It, New] = Titles.try_emplace(slug(E.Title, 1000), &E);
    if (!New) {
      Out.push_back({Severity::Error,
                     placeText(E.Source) + ": '" + E.Title + "' is a duplicate",
                     "the first one is at " + placeText(It->second->Source)});
      continue;
    }
    if (First[I] == I)
      continue;
    // The same symptom of another cause is what the log is for, as long as it
    // says how to tell them apart.
    const Entry &Other = Entries[First[I]];
    Out.push_back(
        {Severity::Warning,
         placeText(E.Source) + ": nearly the same symptom as at " +
             placeText(Other.Source),
         E.Class == Other.Class ? "join the two entries"
                                : "say in both what separates them"});
  }
}

void checkEntries(ArrayRef<Entry> Entries, const Vocabulary &V,
                  const CheckOptions &Options, std::vector<Diagnostic> &Out,
                  ArrayRef<EntryLines> Lines) {
  EntryLines None;
  WordKeys Keys(/*OnlyNames=*/true);
  std::vector<std::vector<uint32_t>> Symptoms;
  for (auto [I, E] : enumerate(Entries)) {
    Symptoms.push_back(
        Keys.distinct(isPrompt(E.Symptom) ? StringRef() : E.Symptom));
    EntryChecker(E, I < Lines.size() ? Lines[I] : None, V, Symptoms.back(),
                 Keys, Out)
        .check(Options.Curated || !E.Class.empty());
  }
  checkDuplicates(Entries, firstNearlyEqual(Symptoms, Keys.size()), Out);
}

/// Orders diagnostics, which begin with `file:line:`, by place.
static void sortByPlace(std::vector<Diagnostic> &Diagnostics,
                        ArrayRef<std::string> Files) {
  struct Placed {
    size_t File;
    unsigned Line;
    Diagnostic D;
  };
  std::vector<Placed> All;
  for (Diagnostic &D : Diagnostics) {
    size_t File = 0;
    unsigned Line = 0;
    for (; File < Files.size(); ++File) {
      StringRef Rest = D.Message;
      if (Rest.consume_front(Files[File]) && Rest.consume_front(":")) {
        Rest.consumeInteger(10, Line);
        break;
      }
    }
    All.push_back({File, Line, std::move(D)});
  }
  llvm::stable_sort(All, [](const Placed &A, const Placed &B) {
    return std::pair(A.File, A.Line) < std::pair(B.File, B.Line);
  });
  for (auto [To, From] : zip(Diagnostics, All))
    To = std::move(From.D);
}

Expected<CheckReport> checkLogs(ArrayRef<std::string> Paths,
                                const Vocabulary &V,
                                const CheckOptions &Options) {
  Expected<std::vector<std::string>> Files = expandLogs(Paths);
  if (!Files)
    return Files.takeError();
  CheckReport Report;
  std::vector<Entry> Entries;
  std::vector<EntryLines> Lines;
  for (const std::string &File : *Files) {
    ErrorOr<std::unique_ptr<MemoryBuffer>> Buffer = MemoryBuffer::getFile(File);
    if (!Buffer)
      return failure(File + ": " + Buffer.getError().message());
    MarkdownLog Log = readMarkdown((*Buffer)->getBuffer(), File);
    append_range(Report.Diagnostics, Log.Remarks);
    if (Log.Entries.empty())
      Report.Diagnostics.push_back(noEntry(File));
    Entries.insert(Entries.end(), std::make_move_iterator(Log.Entries.begin()),
                   std::make_move_iterator(Log.Entries.end()));
    append_range(Lines, Log.Lines);
    ++Report.Files;
  }
  Report.Entries = Entries.size();
  checkEntries(Entries, V, Options, Report.Diagnostics, Lines);
  sortByPlace(Report.Diagnostics, *Files);
  return Report;
}

bool CheckReport::refused() const {
  return any_of(Diagnostics,
                [](const Diagnostic &D) { return D.Level == Severity::Error; });
}

void printCheckSummary(raw_ostream &OS, const CheckReport &Report) {
  auto Count = [&](Severity Level) {
    return count_if(Report.Diagnostics,
                    [&](const Diagnostic &D) { return D.Level == Level; });
  };
  auto Print = [&](size_t N, StringRef One, StringRef Many) {
    OS << N << ' ' << (N == 1 ? One : Many);
  };
  Print(Report.Entries, "entry", "entries");
  OS << " in ";
  Print(Report.Files, "file", "files");
  OS << ": ";
  Print(Count(Severity::Error), "error", "errors");
  OS << ", ";
  Print(Count(Severity::Warning), "warning", "warnings");
  OS << '\n';
}

} // namespace culprit
