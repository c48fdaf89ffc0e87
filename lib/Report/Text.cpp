//===- Text.cpp - The report for a terminal ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A line of what was read, the hypotheses in full, and whatever else a reader
// must know to judge them: what was also seen, not checked or not read.
//
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "Report/Changes.h"
#include "Report/GoodText.h"
#include "Report/Recording.h"
#include "Report/Report.h"
#include "Report/Selection.h"
#include "Report/TextHypothesis.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit {

/// From this probability that no entry has the cause, the report says so.
static constexpr double UnknownToldFrom = 0.2;

/// The sum of the counts in \p Column; a row without one counts \p Default.
static size_t sumOf(const Table &T, StringRef Column, int64_t Default) {
  const ColumnView *Counts = T.find(Column);
  if (!Counts)
    return T.rows() * Default;
  int64_t Sum = 0;
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    Cell C = T.cell(Row, *Counts);
    Sum += C.Null ? Default : C.Int;
  }
  return std::max<int64_t>(Sum, 0);
}

namespace {

std::string plural(size_t Count, StringRef Noun) {
  return formatCount(static_cast<int64_t>(Count)) + " " + Noun.str() +
         (Count == 1 ? "" : "s");
}

/// Prints one report; keeps the style and the width.
class Printer {
public:
  Printer(raw_ostream &OS, const RunReport &R, const TextStyle &Style)
      : OS(OS), R(R), Style(Style) {}

  void run() {
    header();
    if (R.Since)
      printChanges(OS, *R.Since, R.SincePath, Style);
    const Diagnosis &D = R.Result;
    Shown = selectHypotheses(D, Style.Top);
    layers();
    size_t Rank = 0;
    for (const ShownHypothesis &S : Shown.Full)
      printHypothesis(OS, R, Style, S, ++Rank);
    if (!Shown.Others.empty())
      OS << "    others: " << nameHypotheses(Shown.Others) << "\n\n";
    unknownCause();
    if (D.Hypotheses.empty())
      nothingFound();
    leads();
    if (R.Good)
      printGood(OS, *R.Good, Style.Width);
    unexplained();
    alsoSeen();
    if (D.Hypotheses.empty())
      notChecked();
    notRead();
    failures();
    footer();
  }

private:
  void header() {
    std::string Where = join(R.Paths, " ");
    const Case &C = R.Evidence;
    std::vector<std::string> Parts{plural(C.inputs().size(), "file")};
    auto count = [&](TableId Id, StringRef Noun) {
      if (size_t Rows = C.table(Id).rows())
        Parts.push_back(plural(Rows, Noun));
    };
    // Of large files some rows stand for many.
    auto countAll = [&](size_t All, StringRef Noun) {
      if (All)
        Parts.push_back(plural(All, Noun));
    };
    count(TableId::gpu_work, "device event");
    count(TableId::host_ops, "host operator");
    count(TableId::scalars, "scalar");
    count(TableId::tensors, "tensor");
    countAll(sumOf(C.table(TableId::requests), "weight", 1),
             "request");
    count(TableId::tokens, "token");
    countAll(std::max(C.table(TableId::log_lines).rows(),
                      sumOf(C.table(TableId::log_templates),
                            "lines", 0)),
             "log line");
    count(TableId::documents, "document");
    size_t Counts[4] = {};
    for (const Outcome &O : R.Outcomes)
      ++Counts[static_cast<unsigned>(O.Kind)];
    std::string Detectors =
        formatv("{0}: {1} matched, {2} clear, {3} skipped",
                plural(R.Outcomes.size(), "detector"), Counts[0], Counts[1],
                Counts[2]);
    if (Counts[3])
      Detectors += formatv(", {0} failed", Counts[3]);
    std::string Left = "culprit " + R.Version + "   " + Where + ": " +
                       join(Parts, ", ");
    if (Left.size() + Detectors.size() + 3 <= Style.Width)
      OS << Left << "   " << Detectors << "\n\n";
    else
      OS << Left << '\n' << Detectors << "\n\n";
  }

  /// Where no cause stands out, a part of the system still may.
  void layers() {
    const Diagnosis &D = R.Result;
    if (D.Result != Verdict::Uncertain || D.Hypotheses.size() == 1 ||
        D.Layers.empty())
      return;
    std::vector<std::string> Parts;
    unsigned Suspected = 0;
    for (const LayerShare &L : D.Layers) {
      Suspected += L.Probability >= SuspectedFrom;
      if (L.Probability >= 0.05)
        Parts.push_back(L.Layer + " " + percentText(L.Probability));
    }
    std::string Line = "no cause stands out; by layer of what is suspected: " +
                       join(Parts, ", ");
    if (Suspected > ManyLayers)
      Line += ". More than three layers fit: take parts out first (fixed "
              "batch, one device, plain kernels) and see with which the "
              "symptom goes";
    printWrapped(OS, Line, "layer  ", "       ", Style.Width);
    OS << '\n';
  }

  /// The hypothesis that the knowledge base does not know this fault.
  void unknownCause() {
    if (R.Result.Unknown < UnknownToldFrom ||
        R.Result.Result != Verdict::Uncertain || R.Result.Hypotheses.empty())
      return;
    printWrapped(OS,
                 "a cause that no entry knows: " +
                     percentText(R.Result.Unknown) +
                     "; what was seen fits the causes above only in part",
                 " ?  ", "    ", Style.Width);
    OS << '\n';
  }

  /// Where to look if what stands above does not settle it: what recorded runs
  /// that look like this one had.
  void leads() {
    std::vector<const Hypothesis *> Told;
    for (const Hypothesis &H : R.Result.Leads)
      if (H.Probability >= ListedFrom)
        Told.push_back(&H);
    if (Told.empty())
      return;
    const Hypothesis &First = *Told.front();
    // A run that shows nothing is not doubted for little.
    if (R.Result.Result == Verdict::Healthy &&
        First.Probability < SuspectedFrom)
      return;
    std::string Text =
        "no symptom of its own shows it, but recorded runs with such curves and "
        "sights had: " +
        nameHypotheses(Told) + ". Of " + First.Class;
    for (const auto *Items : {&First.Supports, &First.Against})
      for (const EvidenceItem &E : *Items)
        if (E.Symptom == RecordedRunsItem)
          Text += ": " + E.Message;
    printWrapped(OS, Text, "leads        ", std::string(15, ' '), Style.Width);
    if (!First.Entries.empty() &&
        !First.Entries.front()->Confirm.Experiment.empty())
      printWrapped(OS,
                   "to tell: " +
                       firstSentences(
                           First.Entries.front()->Confirm.Experiment, 2),
                   std::string(13, ' '), std::string(15, ' '), Style.Width);
    OS << '\n';
  }

  /// Idle time and the like that no hypothesis accounts for, and what to
  /// record to find out.
  void unexplained() {
    std::vector<std::string> Lines = describeUnexplained(R.Result, R.Symptoms);
    for (size_t I = 0; I != Lines.size(); ++I)
      printWrapped(OS, Lines[I],
                   I == 0 ? "not shown    " : std::string(13, ' '),
                   std::string(15, ' '), Style.Width);
    if (!Lines.empty())
      OS << '\n';
  }

  /// What recorded runs say for it that nothing is wrong.
  std::string soundText() const {
    if (R.Result.Sound.value_or(0) < 0.5)
      return "";
    return "; of recorded runs that look like this one " +
           percentText(*R.Result.Sound) + " were sound";
  }

  void nothingFound() {
    size_t Clear = 0;
    for (const SymptomEvidence &S : R.Symptoms)
      Clear += S.State == Presence::Absent;
    const uint64_t Alone = linesAlone(R.Evidence);
    switch (R.Result.Result) {
    case Verdict::Healthy:
      printWrapped(OS,
                   formatv("healthy as far as these files can show: {0} "
                           "checked, none a sign of a fault",
                           plural(Clear, "symptom"))
                       .str(),
                   "", "", Style.Width);
      break;
    case Verdict::Insufficient:
      printWrapped(OS,
                   anyFailed() ? "insufficient: detectors failed (below), and "
                                 "the others found nothing to decide on"
                   : Alone ? formatv("insufficient: {0}, and no metric found "
                                     "in them",
                                     plural(Alone, "log line"))
                                 .str()
                   : Clear ? formatv("insufficient: {0} checked, none a sign "
                                     "of a fault, but not all of the input "
                                     "could be read as it stands (see the "
                                     "warnings)",
                                     plural(Clear, "symptom"))
                                 .str()
                           : "insufficient: these files hold nothing that "
                             "a detector can decide on",
                   "", "", Style.Width);
      break;
    default:
      printWrapped(OS,
                   (R.Result.Rest.Symptoms.empty()
                        ? "uncertain: symptoms were seen, but no known cause "
                          "explains them well enough to name it"
                        : "uncertain: the run shows that something is wrong, "
                          "and not why") +
                       soundText(),
                   "", "", Style.Width);
    }
    OS << '\n';
  }

  /// What would have to be recorded first for \p S: the kind of file where
  /// that is not there at all, the column or the kind of row otherwise. One
  /// thing only: who has no profile need not read what it should hold.
  std::string needOf(const SymptomEvidence &S) const {
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

  /// What was not checked, by what would have to be recorded for it; what
  /// would decide most first.
  void notChecked() {
    constexpr size_t MostLines = 8, MostNames = 3;
    std::map<std::string, std::vector<std::string>> ByNeed;
    for (const SymptomEvidence &S : R.Symptoms)
      if (S.State == Presence::Unknown && !S.Missing.empty() &&
          !isPossession(S.Symptom))
        ByNeed[needOf(S)].push_back(S.Symptom);
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
      printWrapped(OS, What + Need, Label, std::string(15, ' '), Style.Width);
    }
    if (Rest)
      OS << "             and " << plural(Rest, "symptom")
         << " more: --format json lists what each needs\n";
    if (Lines)
      OS << '\n';
  }

  /// Reports that no shown hypothesis uses: nothing that was found is lost.
  void alsoSeen() {
    std::vector<std::pair<int, int>> Used;
    for (const ShownHypothesis &H : Shown.Full)
      for (const EvidenceItem &E : H.What->Supports)
        Used.push_back({E.Outcome, E.Report});
    if (!R.Result.Rest.Symptoms.empty()) {
      const SymptomEvidence &First = R.Symptoms[R.Result.Rest.Symptoms.front()];
      Used.push_back({First.Outcome, First.Report});
    }
    bool First = true;
    for (const SymptomEvidence &S : R.Symptoms) {
      if (S.State != Presence::Present || isPossession(S.Symptom) ||
          is_contained(Used, std::pair(S.Outcome, S.Report)))
        continue;
      printWrapped(OS, S.Symptom + ": " + S.Message,
                   First ? "also seen    " : std::string(13, ' '),
                   std::string(15, ' '), Style.Width);
      First = false;
    }
    if (!First)
      OS << '\n';
  }

  /// Files that took no part: unknown formats are listed, never guessed.
  void notRead() {
    std::vector<std::string> Names;
    for (const InputSummary &I : R.Evidence.inputs())
      if (I.Failed || I.Format.empty())
        Names.push_back(shortPath(R, I.Path).str() +
                        (I.Failed ? " (see the error)" : " (unknown format)"));
    if (Names.empty())
      return;
    size_t More = Names.size() > 5 ? Names.size() - 5 : 0;
    Names.resize(std::min<size_t>(Names.size(), 5));
    if (More)
      Names.push_back(formatv("{0} more", More).str());
    printWrapped(OS, join(Names, ", "), "not read     ", std::string(15, ' '),
                 Style.Width);
    OS << '\n';
  }

  bool anyFailed() const {
    return llvm::any_of(R.Outcomes, [](const Outcome &O) {
      return O.Kind == OutcomeKind::Failed;
    });
  }

  void failures() {
    size_t Failed = 0, Ran = 0;
    for (const Outcome &O : R.Outcomes) {
      Ran += O.Kind == OutcomeKind::Matched || O.Kind == OutcomeKind::Clear;
      if (O.Kind != OutcomeKind::Failed)
        continue;
      ++Failed;
      OS << "detector " << describeFailure(O) << '\n';
    }
    if (Failed)
      OS << formatv("  note: {0} other {1} ran; what is said above does not "
                    "rest on {2}\n",
                    Ran, Ran == 1 ? "detector" : "detectors",
                    Failed == 1 ? "this one" : "these");
  }

  /// What the next check takes, and what either answer would make of the
  /// ranking.
  static std::string outcomesText(const NextCheck &N) {
    return formatv("{0} min, {1:F1} bits expected; if so: {2}; if not: {3}",
                   formatNumber(N.Minutes), N.Gain, shiftsText(N.IfSo),
                   shiftsText(N.IfNot))
        .str();
  }

  void footer() {
    if (R.Result.Next) {
      const NextCheck &N = *R.Result.Next;
      std::vector<std::string> Parts;
      std::string What =
          N.Symptom.empty()
              ? firstSentences(N.Experiment, 2)
          : recordingOf(N.Needs) == N.Needs
              ? "Record " + N.Needs + "."
              : ("Record " + recordingOf(N.Needs) + " (" + N.Needs + ").")
                    .str();
      for (const std::string &Part : {What, N.Confirms, N.Refutes})
        if (!Part.empty())
          Parts.push_back(Part);
      printWrapped(OS, join(Parts, " ") + " (" + N.Class + ")", "next   ",
                   "       ", Style.Width);
      // Of what is as good as certain no answer changes anything.
      if (N.Gain >= 0.05)
        printWrapped(OS, outcomesText(N), "       ", "       ", Style.Width);
    }
    if (!R.Result.Hypotheses.empty())
      OS << "more   culprit explain " << R.Result.Hypotheses.front().Class
         << "; --format json for all evidence\n";
  }

  raw_ostream &OS;
  const RunReport &R;
  const TextStyle &Style;
  Selection Shown;
};

} // namespace

void printText(raw_ostream &OS, const RunReport &R, const TextStyle &Style) {
  Printer(OS, R, Style).run();
}

} // namespace culprit
