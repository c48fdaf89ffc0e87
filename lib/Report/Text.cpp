//===- Text.cpp - The report for a terminal ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
//  1  The device waits for the next batch: ...              performance   97 %
//     dataloader-bound: the device idles while the host prepares the next batch
//
//     for      +5.1  input-stall
//                    GPU 0 waits 235 ms of 709 ms (33 %) for the next batch, ...
//                    run.json.gz: ranges 5, 17, 29
//     against  -2.2  ...
//     unknown        ...
//     wins     up to 59.0 ms of each step of 178 ms (33 %)
//     cause    ...
//     fix      ...
//
// One column of labels, one of what they say, so that the eye finds its place
// at 3 a.m. Nothing is cut that a line break can save.
//
//===----------------------------------------------------------------------===//

#include "KB/Entry.h"
#include "KB/TextWrap.h"
#include "Report/Locate.h"
#include "Report/Report.h"
#include "Report/Savings.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit {

namespace {

/// Probability as people read it: 97 %, or "> 99 %" rather than 100.
std::string percent(double P) {
  if (P > 0.995)
    return "> 99 %";
  return formatv("{0} %", static_cast<int>(P * 100 + 0.5)).str();
}

std::string plural(size_t Count, StringRef Noun) {
  return formatCount(static_cast<int64_t>(Count)) + " " + Noun.str() +
         (Count == 1 ? "" : "s");
}

/// The first \p Count sentences of \p Text on one line.
std::string firstSentences(StringRef Text, size_t Count) {
  std::vector<std::string> All = sentences(Text);
  if (All.size() > Count)
    All.resize(Count);
  return join(All, " ");
}

/// Numbers as ranges where they are neighbours: 231-311, 400.
std::string ranges(std::vector<int64_t> Numbers, size_t Most) {
  llvm::sort(Numbers);
  Numbers.erase(std::unique(Numbers.begin(), Numbers.end()), Numbers.end());
  std::vector<std::string> Parts;
  for (size_t I = 0; I != Numbers.size();) {
    size_t J = I;
    while (J + 1 != Numbers.size() && Numbers[J + 1] == Numbers[J] + 1)
      ++J;
    Parts.push_back(std::to_string(Numbers[I]) +
                    (J == I ? "" : "-" + std::to_string(Numbers[J])));
    I = J + 1;
  }
  bool More = Parts.size() > Most;
  if (More)
    Parts.resize(Most);
  return join(Parts, ", ") + (More ? ", ..." : "");
}

/// Whether the places of the case table \p Table are lines of a text file.
bool hasLines(StringRef Table) {
  std::optional<TableId> Id = findTable(Table);
  return Id && schema(*Id).hasLines();
}

/// What to record so that a table has rows, in the words of who records.
StringRef recordingOf(StringRef Table) {
  if (Table == "log_lines" || Table == "errors")
    return "a text log";
  if (Table == "tensors")
    return "tensor dumps";
  if (Table == "scalars")
    return "logged metrics";
  if (Table == "config" || Table == "packages")
    return "a config file";
  if (Table == "requests" || Table == "tokens")
    return "generation traces";
  if (Table == "process_groups")
    return "flight-recorder dumps";
  if (Table == "stacks")
    return "stacks of every rank";
  return "a GPU profile";
}

/// Prints one report; keeps the style and the width.
class Printer {
public:
  Printer(raw_ostream &OS, const RunReport &R, const TextStyle &Style)
      : OS(OS), R(R), Style(Style) {}

  void run() {
    header();
    const Diagnosis &D = R.Result;
    size_t Shown = 0;
    for (const Hypothesis &H : D.Hypotheses) {
      if (Shown == Style.Top)
        break;
      hypothesis(H, ++Shown);
    }
    if (Shown < D.Hypotheses.size())
      rest(Shown);
    if (D.Hypotheses.empty())
      nothingFound();
    alsoSeen();
    if (D.Hypotheses.empty())
      notChecked();
    notRead();
    failures();
    footer();
  }

private:
  /// \p Path without the one folder that was asked about.
  StringRef shortened(StringRef Path) const {
    if (R.Paths.size() == 1 && Path.size() > R.Paths[0].size()) {
      StringRef Rest = Path;
      if (Rest.consume_front(StringRef(R.Paths[0]).rtrim('/')) &&
          Rest.consume_front("/"))
        return Rest;
    }
    return Path;
  }

  /// Where the rows of a report lie: `metrics.jsonl:231-311`, or `run.json.gz
  /// gpu_work 12, 40` with event numbers.
  std::string placesOf(const Report &Seen) const {
    std::vector<std::pair<std::string, std::vector<int64_t>>> Files;
    for (const EvidenceRef &E : Seen.Evidence)
      for (const Citation &C : E.Places) {
        if (C.Path.empty() || C.Place == NullInt)
          continue;
        std::string Name = shortened(C.Path).str() +
                           (hasLines(E.Table) ? ":" : " " + E.Table + " ");
        auto It = llvm::find_if(
            Files, [&](const auto &File) { return File.first == Name; });
        if (It == Files.end())
          It = Files.insert(Files.end(), {Name, {}});
        It->second.push_back(C.Place);
      }
    std::vector<std::string> Out;
    for (auto &[Name, Places] : Files)
      Out.push_back(Name + ranges(Places, 4));
    bool More = Out.size() > 3;
    if (More)
      Out.resize(3);
    return join(Out, "; ") + (More ? "; ..." : "");
  }

  void header() {
    std::string Where = join(R.Paths, " ");
    const Case &C = R.Evidence;
    std::vector<std::string> Parts{plural(C.inputs().size(), "file")};
    auto count = [&](TableId Id, StringRef Noun) {
      if (size_t Rows = C.table(Id).rows())
        Parts.push_back(plural(Rows, Noun));
    };
    count(TableId::gpu_work, "device event");
    count(TableId::host_ops, "host operator");
    count(TableId::scalars, "scalar");
    count(TableId::tensors, "tensor");
    count(TableId::log_lines, "log line");
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

  /// A labelled paragraph with a hanging indent.
  void field(StringRef Label, StringRef Text) {
    std::string First = formatv("    {0,-9}", Label).str();
    printWrapped(OS, Text, First, std::string(13, ' '), Style.Width);
  }

  void item(StringRef Label, const EvidenceItem &I) {
    OS << formatv("    {0,-9}", Label);
    paint(I.LogOdds > 0 ? raw_ostream::GREEN : raw_ostream::RED,
          formatv("{0}{1:F1}", I.LogOdds > -0.05 ? "+" : "-",
                  std::fabs(I.LogOdds))
              .str());
    OS << "  " << I.Symptom << '\n';
    std::string Indent(19, ' ');
    if (!I.Message.empty())
      printWrapped(OS, I.Message, Indent, Indent, Style.Width);
    if (I.Outcome < 0 || I.LogOdds < -0.1)
      return;
    std::string Places = placesOf(R.Outcomes[I.Outcome].Reports[I.Report]);
    if (!Places.empty())
      printWrapped(OS, "in " + Places, Indent, Indent + "   ", Style.Width);
  }

  /// What would have spoken against a hypothesis, and whether it was looked
  /// for; the ids alone, two of each kind.
  static std::string refuters(ArrayRef<Contradiction> All) {
    std::vector<std::string> Looked, Open;
    for (const Contradiction &C : All)
      (C.Looked ? Looked : Open).push_back(C.Symptom);
    auto some = [](ArrayRef<std::string> Ids) {
      std::string Out = join(Ids.take_front(3), ", ");
      if (Ids.size() > 3)
        Out += ", " + std::to_string(Ids.size() - 3) + " more";
      return Out;
    };
    std::string Out;
    if (!Looked.empty())
      Out = "looked for and not there: " + some(Looked);
    if (!Open.empty())
      Out += (Out.empty() ? "" : "; ") + ("could not be looked for: " + some(Open));
    return Out;
  }

  /// How to see the rows behind the first item that has any: a query on a line
  /// of its own, to be pasted, and the time for a viewer.
  void look(ArrayRef<EvidenceItem> Supports) {
    for (const EvidenceItem &I : Supports) {
      if (I.Outcome < 0)
        continue;
      for (const EvidenceRef &E :
           R.Outcomes[I.Outcome].Reports[I.Report].Evidence) {
        std::optional<std::string> Query = evidenceSql(E, 5);
        if (!Query)
          continue;
        OS << formatv("    {0,-9}", "look") << "culprit sql "
           << join(R.Paths, " ") << " \"" << *Query << "\"\n";
        std::optional<TableId> Id = findTable(E.Table);
        if (Id && !E.Rows.empty())
          if (auto Range = viewerRange(R.Evidence, *Id, E.Rows.front()))
            field("", "in a viewer of " + shortened(Range->Path).str() +
                          ": the first is at " + Range->text());
        return;
      }
    }
  }

  void hypothesis(const Hypothesis &H, size_t Rank) {
    const Entry *E = H.Entries.empty() ? nullptr : H.Entries.front();
    std::string Title = E ? E->Title : H.Title;
    std::string Right = formatv("{0,-11} {1,6}", H.Layer, percent(H.Probability));
    size_t Room = Style.Width - 5 - Right.size() - 2;
    if (Title.size() > Room)
      Title = Title.substr(0, Title.rfind(' ', Room - 3)) + " ...";
    paint(raw_ostream::SAVEDCOLOR, formatv(" {0}  ", Rank).str() + Title, true);
    OS.indent(static_cast<unsigned>(Room + 2 - Title.size())) << Right << '\n';
    printWrapped(OS, H.Class + ": " + H.Title, "    ", "    ", Style.Width);
    OS << '\n';

    for (size_t I = 0; I != H.Supports.size(); ++I)
      item(I == 0 ? "for" : "", H.Supports[I]);
    for (size_t I = 0; I != H.Against.size(); ++I)
      item(I == 0 ? "against" : "", H.Against[I]);
    if (H.Against.empty())
      field("against", "nothing");
    if (!H.Refuters.empty())
      field("refuter", refuters(H.Refuters));
    for (size_t I = 0; I != H.Open.size(); ++I)
      field(I == 0 ? "unknown" : "",
            H.Open[I].Symptom + ": " + H.Open[I].Text + " (needs " +
                H.Open[I].Needs + ")");
    look(H.Supports);
    if (H.Recoverable.value_or(0) > 0)
      field("wins", savingsText(R.Evidence, *H.Recoverable));
    if (E) {
      field("cause", firstSentences(E->RootCause, 2));
      field("fix", firstSentences(E->Fix, 2));
      if (!E->Prevention.empty())
        field("prevent", E->Prevention.front());
      if (!E->Confirm.Experiment.empty())
        field("check", firstSentences(E->Confirm.Experiment, 2) + " " +
                           E->Confirm.Confirms);
      seenBefore(H);
      field("more", "culprit kb show " + E->Id);
    }
    OS << '\n';
  }

  /// A team's own entry of the same cause: the best news there is.
  void seenBefore(const Hypothesis &H) {
    for (const Entry *E : H.Entries)
      if (E->References.empty() && !E->Date.empty())
        field("seen", E->Date + " \"" + E->Title + "\" in " + E->Source.File +
                          ":" + std::to_string(E->Source.Line));
  }

  void rest(size_t From) {
    OS << "    others:";
    for (size_t I = From; I != R.Result.Hypotheses.size(); ++I)
      OS << (I == From ? " " : ", ") << R.Result.Hypotheses[I].Class << ' '
         << percent(R.Result.Hypotheses[I].Probability);
    OS << "\n\n";
  }

  void nothingFound() {
    size_t Clear = 0;
    for (const SymptomEvidence &S : R.Symptoms)
      Clear += S.State == Presence::Absent;
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
                   "insufficient: these files hold nothing that a detector "
                   "can decide on",
                   "", "", Style.Width);
      break;
    default:
      printWrapped(OS,
                   "uncertain: symptoms were seen, but no known cause explains "
                   "them well enough to name it",
                   "", "", Style.Width);
    }
    OS << '\n';
  }

  /// What keeps \p S from being checked: "a GPU profile" where that kind of
  /// file is not there at all, the column or the kind of row otherwise.
  std::string needOf(const SymptomEvidence &S) const {
    std::vector<std::string> Out;
    for (const std::string &Missing : S.Missing) {
      StringRef Name = StringRef(Missing).split('.').first;
      std::optional<TableId> Id = findTable(Name);
      std::string Need = Id && !R.Evidence.has(*Id) ? recordingOf(Name).str()
                                                    : Missing;
      if (!is_contained(Out, Need))
        Out.push_back(Need);
    }
    return join(Out, " and ");
  }

  /// What was not checked, by what would have to be recorded for it.
  void notChecked() {
    std::map<std::string, std::vector<std::string>> ByNeed;
    for (const SymptomEvidence &S : R.Symptoms)
      if (S.State == Presence::Unknown && !S.Missing.empty())
        ByNeed[needOf(S)].push_back(S.Symptom);
    size_t Lines = 0;
    for (auto &[Need, Symptoms] : ByNeed) {
      if (Symptoms.size() > 4) {
        size_t More = Symptoms.size() - 3;
        Symptoms.resize(3);
        Symptoms.push_back(formatv("{0} more", More).str());
      }
      std::string Label = Lines++ == 0 ? "not checked: " : "             ";
      printWrapped(OS, join(Symptoms, ", ") + " (needs " + Need + ")", Label,
                   std::string(15, ' '), Style.Width);
    }
    if (Lines)
      OS << '\n';
  }

  /// Reports that no shown hypothesis uses: nothing that was found is lost.
  void alsoSeen() {
    std::vector<std::pair<int, int>> Used;
    for (size_t I = 0; I != R.Result.Hypotheses.size() && I != Style.Top; ++I)
      for (const EvidenceItem &E : R.Result.Hypotheses[I].Supports)
        Used.push_back({E.Outcome, E.Report});
    bool First = true;
    for (const SymptomEvidence &S : R.Symptoms) {
      if (S.State != Presence::Present ||
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
        Names.push_back(shortened(I.Path).str() +
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

  void failures() {
    for (const Outcome &O : R.Outcomes)
      if (O.Kind == OutcomeKind::Failed)
        OS << "detector " << describeFailure(O) << '\n';
  }

  void footer() {
    if (R.Result.Next) {
      printWrapped(OS,
                   firstSentences(R.Result.Next->Experiment, 2) + " " +
                       R.Result.Next->Confirms + " " + R.Result.Next->Refutes +
                       " (" + R.Result.Next->Class + ")",
                   "next   ", "       ", Style.Width);
    }
    if (!R.Result.Hypotheses.empty())
      OS << "more   culprit explain " << R.Result.Hypotheses.front().Class
         << "; --format json for all evidence\n";
  }

  void paint(raw_ostream::Colors Color, StringRef Text, bool Bold = false) {
    if (Style.Color)
      OS.changeColor(Color, Bold);
    OS << Text;
    if (Style.Color)
      OS.resetColor();
  }

  raw_ostream &OS;
  const RunReport &R;
  const TextStyle &Style;
};

} // namespace

void printText(raw_ostream &OS, const RunReport &R, const TextStyle &Style) {
  Printer(OS, R, Style).run();
}

} // namespace culprit
