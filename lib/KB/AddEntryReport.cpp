//===- AddEntryReport.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/AddEntryReport.h"
#include "KB/AddEntryText.h"
#include "KB/LogMatcher.h"
#include "Support/Error.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace llvm;

namespace culprit {

/// So many observations are read; the rest is in the report.
static constexpr size_t MostObservations = 8;
static constexpr size_t MostFragments = 3;
/// Of a line of a log and of a message, in bytes.
static constexpr size_t FragmentBytes = 120, MessageBytes = 400;
/// A cause that is less likely is not worth a suggestion.
static constexpr double Likely = 0.1;
/// A cause that a diagnosis claims.
static constexpr double Claimed = 0.5;

namespace {

/// One thing a detector saw.
struct Observation {
  std::string Symptom, Detector, Message, Place;
  bool Supports = false; ///< Of the first cause.
};

} // namespace

static StringRef text(const json::Object &O, StringRef Key) {
  return O.getString(Key).value_or("");
}

template <typename F>
static void eachObject(const json::Object &O, StringRef Key, F Visit) {
  if (const json::Array *A = O.getArray(Key))
    for (const json::Value &V : *A)
      if (const json::Object *Item = V.getAsObject())
        Visit(*Item);
}

/// `train.log:51` of the first place of \p Evidence.
static std::string placeOf(const json::Object &Report) {
  std::string Out;
  eachObject(Report, "evidence", [&](const json::Object &Evidence) {
    StringRef Source = text(Evidence, "source");
    if (!Out.empty() || Source.empty())
      return;
    Out = sys::path::filename(Source).str();
    const json::Array *Places = Evidence.getArray("places");
    if (!Places || Places->empty())
      return;
    if (std::optional<int64_t> Line = Places->front().getAsInteger())
      Out += ":" + std::to_string(*Line);
  });
  return Out;
}

/// The log lines among the evidence of \p Report.
static void addFragments(const json::Object &Report,
                         std::vector<std::string> &Out) {
  eachObject(Report, "evidence", [&](const json::Object &Evidence) {
    StringRef Table = text(Evidence, "table");
    const json::Array *Columns = Evidence.getArray("columns");
    const json::Array *Cells = Evidence.getArray("cells");
    if ((Table != "errors" && Table != "log_lines") || !Columns || !Cells)
      return;
    auto Column = find_if(*Columns, [](const json::Value &V) {
      StringRef Name = V.getAsString().value_or("");
      return Name == "message" || Name == "text";
    });
    size_t At = static_cast<size_t>(Column - Columns->begin());
    for (const json::Value &Row : *Cells) {
      const json::Array *Values = Row.getAsArray();
      if (!Values || At >= Values->size() || Out.size() >= MostFragments)
        continue;
      StringRef Line = (*Values)[At].getAsString().value_or("");
      Line = wholeCharacters(Line.split('\n').first.trim(), FragmentBytes);
      if (Line.size() >= LogMatcher::MinFragment && !is_contained(Out, Line))
        Out.push_back(Line.str());
    }
  });
}

/// What the detectors saw, that which supports \p First before the rest.
static std::vector<Observation> observations(const json::Object &Report,
                                             const json::Object *First,
                                             std::vector<std::string> &Log) {
  std::set<std::pair<StringRef, StringRef>> Supporting;
  if (First)
    eachObject(*First, "supports", [&](const json::Object &S) {
      Supporting.insert({text(S, "detector"), text(S, "symptom")});
    });
  std::vector<Observation> Out;
  eachObject(Report, "outcomes", [&](const json::Object &Outcome) {
    if (text(Outcome, "outcome") != "matched")
      return;
    StringRef Detector = text(Outcome, "detector");
    eachObject(Outcome, "reports", [&](const json::Object &R) {
      StringRef Symptom = text(R, "symptom");
      if (text(R, "severity") == "info" || Symptom == "log-text")
        return;
      Observation O;
      O.Symptom = Symptom.str();
      O.Detector = Detector.str();
      O.Message = shortened(text(R, "message"), MessageBytes);
      O.Place = placeOf(R);
      O.Supports = Supporting.count({Detector, Symptom}) != 0;
      if (O.Supports || !First)
        addFragments(R, Log);
      Out.push_back(std::move(O));
    });
  });
  llvm::stable_sort(Out, [](const Observation &A, const Observation &B) {
    return A.Supports > B.Supports;
  });
  return Out;
}

static std::string evidenceList(ArrayRef<Observation> Seen,
                                StringRef Version) {
  std::string Out = "Seen by culprit " + Version.str() + ":\n\n";
  for (const Observation &O : Seen.take_front(MostObservations)) {
    std::string Message;
    for (char C : O.Message)
      Message += C == '\n' ? ' ' : C;
    Out += "- " + escapedMarkdown(Message) + " (`" + O.Detector + "`" +
           (O.Place.empty() ? "" : ", `" + O.Place + "`") + ")\n";
  }
  if (Seen.size() > MostObservations)
    Out += formatv("- and {0} more\n", Seen.size() - MostObservations).str();
  return Out;
}

/// Cause, fix and prevention of \p First as questions.
static void askAbout(const json::Object &First, double Probability, Entry &E) {
  if (E.RootCause.empty()) {
    E.RootCause =
        formatv("TODO: confirm or correct. culprit's first cause is `{0}` "
                "with probability {1:f2}: {2}",
                text(First, "class"), Probability,
                escapedMarkdown(text(First, "title")));
    if (const json::Object *Next = First.getObject("next_check"))
      E.RootCause += ". To settle it: " +
                     escapedMarkdown(text(*Next, "experiment")) + " " +
                     escapedMarkdown(text(*Next, "confirms"));
  }
  std::string Fix = firstSentence(text(First, "fix"));
  if (E.Fix.empty() && !Fix.empty())
    E.Fix = "TODO: how it was resolved, with the change. Suggested: " +
            escapedMarkdown(Fix);
  if (!E.Prevention.empty())
    return;
  SmallVector<StringRef, 4> Items;
  text(First, "prevention").split(Items, '\n', -1, false);
  for (StringRef Item : Items)
    E.Prevention.push_back("TODO: keep, change or drop: " +
                           escapedMarkdown(Item.trim()));
}

Error fillFromReport(StringRef Json, StringRef Name, Entry &E) {
  StringLiteral Remedy = "it is made by 'culprit diagnose --format json PATH "
                         "> report.json'";
  Expected<json::Value> Parsed = json::parse(Json);
  if (!Parsed)
    return failure(Name + ": " + toString(Parsed.takeError()), Remedy);
  const json::Object *Report = Parsed->getAsObject();
  if (!Report || !Report->getArray("outcomes") ||
      !Report->getArray("hypotheses"))
    return failure(Name + ": not a report of culprit diagnose", Remedy);
  if (Report->getInteger("schema").value_or(0) != 1)
    return failure(Name + ": a report of another schema than 1",
                   "run 'culprit diagnose' again with this version");

  const json::Array &Hypotheses = *Report->getArray("hypotheses");
  const json::Object *First =
      Hypotheses.empty() ? nullptr : Hypotheses.front().getAsObject();
  double Probability = First ? First->getNumber("probability").value_or(0) : 0;
  if (Probability < Likely)
    First = nullptr;
  std::vector<std::string> Log;
  std::vector<Observation> Seen = observations(*Report, First, Log);
  if (Seen.empty() && !First && E.Symptom.empty())
    return failure(Name + ": nothing was found in this report",
                   "say what you see: --symptom 'loss is nan after step 800'");

  if (E.Title.empty() && First)
    E.Title = text(*First, "title").str();
  // With its class the entry is told as seen before where the cause is again.
  if (E.Class.empty() && Probability >= Claimed)
    E.Class = text(*First, "class").str();
  if (E.Title.empty() && !Seen.empty())
    E.Title = shortened(firstSentence(Seen.front().Message), 100);
  if (E.Symptom.empty() && !Seen.empty())
    E.Symptom = escapedMarkdown(firstSentence(Seen.front().Message));
  if (!Seen.empty())
    E.Symptom += "\n\n" + evidenceList(Seen, text(*Report, "culprit"));
  for (const Observation &O : Seen) {
    bool Known = any_of(E.Signals, [&](const Signal &S) {
      return S.Symptom == O.Symptom;
    });
    // Once is not always.
    if (!Known && (O.Supports || !First))
      E.Signals.push_back({O.Symptom, Frequency::Often});
  }
  if (E.LogFragments.empty())
    E.LogFragments = std::move(Log);
  if (First)
    askAbout(*First, Probability, E);
  return Error::success();
}

} // namespace culprit
