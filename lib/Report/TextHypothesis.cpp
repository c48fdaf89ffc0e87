//===- TextHypothesis.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/TextHypothesis.h"
#include "KB/Entry.h"
#include "KB/TextWrap.h"
#include "Report/Locate.h"
#include "Report/Recording.h"
#include "Report/Savings.h"
#include "Report/SeenText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

std::string percentText(double P) {
  if (P > 0.995)
    return "> 99 %";
  return formatv("{0} %", static_cast<int>(P * 100 + 0.5)).str();
}

std::string natsText(double LogOdds) {
  return formatv("{0}{1:F1}", LogOdds > -0.05 ? "+" : "-", std::fabs(LogOdds))
      .str();
}

std::string shiftsText(ArrayRef<Shift> Shifts) {
  std::vector<std::string> Parts;
  for (const Shift &S : Shifts)
    Parts.push_back(S.Class + " " + percentText(S.Probability));
  return Parts.empty() ? "nothing likely" : join(Parts, ", ");
}

std::string firstSentences(StringRef Text, size_t Count) {
  std::vector<std::string> All = sentences(Text);
  if (All.size() > Count)
    All.resize(Count);
  return join(All, " ");
}

StringRef shortPath(const RunReport &R, StringRef Path) {
  if (R.Paths.size() == 1 && Path.size() > R.Paths[0].size()) {
    StringRef Rest = Path;
    if (Rest.consume_front(StringRef(R.Paths[0]).rtrim('/')) &&
        Rest.consume_front("/"))
      return Rest;
  }
  return Path;
}

/// Numbers as ranges where they are neighbours: 231-311, 400.
static std::string neighbours(std::vector<int64_t> Numbers, size_t Most) {
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
static bool hasLines(StringRef Table) {
  std::optional<TableId> Id = findTable(Table);
  return Id && schema(*Id).hasLines();
}

namespace {
/// Prints hypotheses of one report; keeps the style and the width.
class HypothesisPrinter {
public:
  HypothesisPrinter(raw_ostream &OS, const RunReport &R,
                    const TextStyle &Style)
      : OS(OS), R(R), Style(Style) {}

  void print(const ShownHypothesis &Shown, size_t Rank) {
    const Hypothesis &H = *Shown.What;
    const Entry *E = H.Entries.empty() ? nullptr : H.Entries.front();
    std::string Title = E ? E->Title : H.Title;
    std::string Right =
        formatv("{0,-11} {1,6}", H.Layer, percentText(H.Probability));
    size_t Room = Style.Width - 5 - Right.size() - 2;
    if (Title.size() > Room)
      Title = Title.substr(0, Title.rfind(' ', Room - 3)) + " ...";
    paint(raw_ostream::SAVEDCOLOR, formatv(" {0}  ", Rank).str() + Title, true);
    OS.indent(static_cast<unsigned>(Room + 2 - Title.size())) << Right << '\n';
    printWrapped(OS, H.Class + ": " + H.Title, "    ", "    ", Style.Width);
    seenBefore(H);
    OS << '\n';

    for (size_t I = 0; I != H.Supports.size(); ++I)
      item(I == 0 ? "for" : "", H.Supports[I]);
    for (size_t I = 0; I != H.Against.size(); ++I)
      item(I == 0 ? "against" : "", H.Against[I]);
    if (H.Against.empty())
      field("against", "nothing");
    field("odds", oddsText(H));
    if (Rank == 1 && R.Result.First)
      field("first", leadText(*R.Result.First));
    if (!H.Refuters.empty())
      field("refuter", refuters(H.Refuters));
    else if (!H.Next.Refutes.empty())
      field("refuter", "the check below: " + H.Next.Refutes);
    for (size_t I = 0; I != H.Open.size(); ++I)
      field(I == 0 ? "unknown" : "",
            H.Open[I].Symptom + ": " + H.Open[I].Text + " (needs " +
                H.Open[I].Needs + ")" + gainText(H.Open[I].Gain));
    if (!Shown.Rivals.empty())
      field("rivals", "the same evidence fits " + nameHypotheses(Shown.Rivals));
    look(H.Supports);
    if (H.Recoverable.value_or(0) > 0)
      field("wins", savingsText(R.Evidence, *H.Recoverable));
    if (E)
      tell(H);
    OS << '\n';
  }

private:
  /// Where the rows of a report lie: `metrics.jsonl:231-311`, or `run.json.gz
  /// gpu_work 12, 40` with event numbers.
  std::string placesOf(const Report &Seen) const {
    std::vector<std::pair<std::string, std::vector<int64_t>>> Files;
    for (const EvidenceRef &E : Seen.Evidence)
      for (const Citation &C : E.Places) {
        if (C.Path.empty() || C.Place == NullInt)
          continue;
        std::string Name = shortPath(R, C.Path).str() +
                           (hasLines(E.Table) ? ":" : " " + E.Table + " ");
        auto It = llvm::find_if(
            Files, [&](const auto &File) { return File.first == Name; });
        if (It == Files.end())
          It = Files.insert(Files.end(), {Name, {}});
        It->second.push_back(C.Place);
      }
    std::vector<std::string> Out;
    for (auto &[Name, Places] : Files)
      Out.push_back(Name + neighbours(Places, 4));
    bool More = Out.size() > 3;
    if (More)
      Out.resize(3);
    return join(Out, "; ") + (More ? "; ..." : "");
  }

  /// A labelled paragraph with a hanging indent.
  void field(StringRef Label, StringRef Text) {
    std::string First = formatv("    {0,-9}", Label).str();
    printWrapped(OS, Text, First, std::string(13, ' '), Style.Width);
  }

  void item(StringRef Label, const EvidenceItem &I) {
    OS << formatv("    {0,-9}", Label);
    paint(I.Own > 0 ? raw_ostream::GREEN : raw_ostream::RED,
          natsText(I.Own));
    OS << "  " << I.Symptom << '\n';
    std::string Indent(19, ' ');
    if (!I.Message.empty())
      printWrapped(OS, I.Message, Indent, Indent, Style.Width);
    if (I.Outcome < 0 || I.Own < 0)
      return;
    std::string Places = placesOf(R.Outcomes[I.Outcome].Reports[I.Report]);
    if (!Places.empty())
      printWrapped(OS, "in " + Places, Indent, Indent + "   ", Style.Width);
  }

  /// Less than a twentieth of a bit is not worth recording anything.
  static std::string gainText(double Bits) {
    if (Bits < 0.05)
      return "";
    return formatv(" would tell {0:F1} bits", Bits < 0.1 ? 0.1 : Bits).str();
  }

  /// The sum that makes the probability. Evidence has terms too small to list.
  static std::string oddsText(const Hypothesis &H) {
    std::string Out = "prior " + natsText(H.Prior) + ", evidence " +
                      natsText(H.Evidence);
    if (std::fabs(H.Rivals) >= 0.05)
      Out += ", other causes of the same " + natsText(H.Rivals);
    if (std::fabs(H.Recorded) >= 0.05)
      Out += ", recorded runs " + natsText(H.Recorded);
    if (std::fabs(H.Calibration) >= 0.05)
      Out += ", calibration " + natsText(H.Calibration);
    return Out + ": " +
           natsText(H.Prior + H.Evidence + H.Rivals + H.Recorded +
                    H.Calibration) + ", " +
           percentText(H.Probability);
  }

  /// Why the first is not the second.
  static std::string leadText(const Lead &L) {
    constexpr size_t Most = 4;
    std::vector<std::string> Terms;
    for (const Lead::Term &T : ArrayRef(L.Terms).take_front(Most))
      Terms.push_back(StringSwitch<std::string>(T.What)
                          .Case("rivals", "other causes")
                          .Case("log-text", "quoted log lines")
                          .Default(T.What) +
                      " " + natsText(T.LogOdds));
    std::string Out = L.LogOdds >= 0 ? "ahead of " + L.Over + " by " +
                                           natsText(L.LogOdds)
                                     : "before " + L.Over +
                                           ", which is likelier by " +
                                           natsText(-L.LogOdds) +
                                           " and wins less time";
    return Terms.empty() ? Out : Out + ": " + join(Terms, ", ");
  }

  /// What would have spoken against a hypothesis, and whether it was looked
  /// for, or what it takes; three of each kind.
  static std::string refuters(ArrayRef<Contradiction> All) {
    std::vector<std::string> Looked, Open;
    for (const Contradiction &C : All)
      if (C.Looked)
        Looked.push_back(C.Symptom);
      else
        Open.push_back(C.Symptom +
                       (C.Needs.empty() ? ""
                                        : " (needs " +
                                              recordingOf(C.Needs).str() +
                                              ")"));
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
      Out += (Out.empty() ? "" : "; ") +
             ("could not be looked for: " + some(Open));
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
            field("", "in a viewer of " + shortPath(R, Range->Path).str() +
                          ": the first is at " + Range->text());
        return;
      }
    }
  }

  /// The team's own entries of the same cause: the best news there is.
  void seenBefore(const Hypothesis &H) {
    ArrayRef<SeenBefore> Shown = ArrayRef(H.Seen).take_front(MostSeen);
    for (const SeenBefore &S : Shown) {
      std::string Text = seenText(S);
      if (S.How == SeenBefore::Quote)
        Text += " of " + shortPath(R, S.Path).str() + ":" +
                std::to_string(S.Line);
      printWrapped(OS, Text, "    ", "      ", Style.Width);
    }
    if (H.Seen.size() > Shown.size())
      OS << "      and " << H.Seen.size() - Shown.size() << " more\n";
  }

  /// Cause, fix and what follows. What a team's own entry has of it stands
  /// above, and what everybody knows is told here.
  void tell(const Hypothesis &H) {
    ArrayRef<const Entry *> General = generalEntries(H);
    field("cause", firstSentences(firstWith(H.Entries, &Entry::RootCause), 2));
    if (H.Seen.size() < H.Entries.size()) {
      field("fix", firstSentences(firstWith(General, &Entry::Fix), 2));
      if (ArrayRef<std::string> Items = firstPrevention(General);
          !Items.empty())
        field("prevent", Items.front());
    }
    if (!H.Next.Experiment.empty())
      field("check",
            firstSentences(H.Next.Experiment, 2) + " " + H.Next.Confirms);
    std::string More = "culprit kb show " + H.Entries.front()->Id;
    if (General.front() != H.Entries.front())
      More += " " + General.front()->Id;
    field("more", More);
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

void printHypothesis(raw_ostream &OS, const RunReport &R,
                     const TextStyle &Style, const ShownHypothesis &Shown,
                     size_t Rank) {
  HypothesisPrinter(OS, R, Style).print(Shown, Rank);
}

} // namespace culprit
