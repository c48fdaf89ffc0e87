//===- AddEntryStyle.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/AddEntryStyle.h"
#include "KB/EntryTitle.h"
#include "KB/MarkdownReader.h"
#include "KB/Sections.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <array>
#include <cmark.h>
#include <set>

using namespace llvm;

namespace culprit {

/// Offsets of the lines of \p Text, which end as cmark ends them: \n, \r\n or
/// \r; behind them the end of the text.
static std::vector<size_t> lineStarts(StringRef Text) {
  std::vector<size_t> Out = {0};
  for (size_t I = 0; I < Text.size(); ++I)
    if (Text[I] == '\n' ||
        (Text[I] == '\r' && !Text.substr(I + 1).starts_with("\n")))
      Out.push_back(I + 1);
  if (Out.back() != Text.size())
    Out.push_back(Text.size());
  return Out;
}

static StringRef lineAt(StringRef Text, ArrayRef<size_t> Starts, size_t I) {
  return I + 1 < Starts.size()
             ? Text.slice(Starts[I], Starts[I + 1]).rtrim("\r\n")
             : StringRef();
}

/// The headings of the document itself; those in quotes and lists are text.
static std::vector<FormHeading> findHeadings(StringRef Text,
                                            ArrayRef<size_t> Starts,
                                            const std::set<unsigned> &Entries) {
  std::vector<FormHeading> Out;
  cmark_node *Document =
      cmark_parse_document(Text.data(), Text.size(), CMARK_OPT_DEFAULT);
  for (cmark_node *N = cmark_node_first_child(Document); N;
       N = cmark_node_next(N)) {
    if (cmark_node_get_type(N) != CMARK_NODE_HEADING)
      continue;
    unsigned First = cmark_node_get_start_line(N);
    unsigned Last = cmark_node_get_end_line(N);
    if (!First || Last >= Starts.size())
      continue;
    FormHeading H;
    H.Level = cmark_node_get_heading_level(N);
    H.Line = First;
    H.Begin = Starts[First - 1];
    H.End = Starts[Last];
    H.Text =
        lineAt(Text, Starts, First - 1).trim().trim("#").trim().str();
    H.Date = findDate(H.Text).Iso;
    H.IsEntry = Entries.count(First) != 0;
    Out.push_back(std::move(H));
  }
  cmark_node_free(Document);
  return Out;
}

/// The heading \p Text of an entry with placeholders: `{s} {d}: {t}`.
static std::string titlePattern(StringRef Text) {
  std::string Pattern = Text.str();
  StringRef Date = findDate(Text).Where;
  // Placeholders as control characters, which no heading holds.
  if (!Date.empty())
    Pattern.replace(static_cast<size_t>(Date.data() - Text.data()),
                    Date.size(), "\x01");
  for (size_t Open = Pattern.find('['); Open != std::string::npos;
       Open = Pattern.find('[', Open + 1)) {
    size_t Close = Pattern.find(']', Open);
    if (Close == std::string::npos)
      break;
    StringRef Word = StringRef(Pattern).slice(Open + 1, Close);
    if (Word.empty() || Word.size() > 20 ||
        !all_of(Word, [](char C) {
          return isUpper(C) || C == ' ' || C == '-' || C == '_';
        }))
      continue;
    Pattern.replace(Open, Close + 1 - Open, "\x02");
    break;
  }
  StringRef P = Pattern;
  StringRef Head = P.take_while(
      [](char C) { return StringRef("\x01\x02 -:()[],|").contains(C); });
  for (StringRef Dash : {"– ", "— "})
    if (P.drop_front(Head.size()).starts_with(Dash))
      Head = P.take_front(Head.size() + Dash.size());
  size_t Last = P.find_last_not_of("\x01\x02 -:()[],|");
  StringRef Tail = Last == StringRef::npos ? "" : P.drop_front(Last + 1);
  if (!Tail.contains('\x01') && !Tail.contains('\x02'))
    Tail = "";
  if (!Head.contains('\x01') && !Head.contains('\x02'))
    Head = "";
  std::string Out;
  for (char C : (Head + "\x03" + Tail).str()) {
    if (C == '\x01')
      Out += "{d}";
    else if (C == '\x02')
      Out += "{s}";
    else if (C == '\x03')
      Out += "{t}";
    else
      Out += C;
  }
  return Out;
}

namespace {

/// Counts how labels are written.
class LabelCensus {
public:
  void heading(const FormHeading &H) {
    if (!parseSectionLabel(H.Text))
      return;
    ++Forms[static_cast<size_t>(LabelForm::Heading)];
    Level = H.Level;
  }

  /// \p Line outside of code, after the line \p Before.
  void line(StringRef Line, StringRef Before) {
    bool Item = Line.consume_front("- ") || Line.consume_front("* ");
    StringRef Name, Rest;
    LabelForm Form;
    if (Line.consume_front("**")) {
      std::tie(Name, Rest) = Line.split("**");
      Form = Name.ends_with(":") ? LabelForm::ColonInside
                                 : LabelForm::ColonAfter;
      if (Form == LabelForm::ColonAfter && !Rest.consume_front(":"))
        return;
    } else {
      std::tie(Name, Rest) = Line.split(':');
      if (Name.size() == Line.size() || Item)
        return;
      Form = LabelForm::Plain;
    }
    std::optional<Section> S = parseSectionLabel(Name);
    if (!S)
      return;
    ++Forms[static_cast<size_t>(Form)];
    Items += Item ? 1 : -1;
    if (!StringRef(Before).trim().starts_with("#"))
      Blank += Before.trim().empty() ? 1 : -1;
    if (*S == Section::Symptom || *S == Section::RootCause ||
        *S == Section::Fix)
      Below += Rest.trim().empty() ? 1 : -1;
  }

  void settle(LogStyle &Style) const {
    auto Most = std::max_element(Forms.begin(), Forms.end());
    if (!*Most)
      return;
    Style.Labels = static_cast<LabelForm>(Most - Forms.begin());
    if (Style.Labels == LabelForm::Heading) {
      Style.LabelLevel = Level;
      return;
    }
    Style.LabelsAreItems = Items > 0;
    Style.BlankLines = Blank >= 0 && !Style.LabelsAreItems;
    Style.TextBelow = Below > 0;
  }

private:
  std::array<unsigned, 4> Forms = {};
  unsigned Level = 4;
  int Items = 0, Blank = 0, Below = 0;
};

} // namespace

static bool isRule(StringRef Line) {
  Line = Line.trim();
  return Line.size() >= 3 && (all_equal(Line)) &&
         StringRef("-*_").contains(Line.front());
}

/// Whether \p Dates fall rather than rise.
static bool fall(ArrayRef<StringRef> Dates) {
  int Falls = 0;
  for (size_t I = 1; I < Dates.size(); ++I)
    Falls += Dates[I] < Dates[I - 1] ? 1 : Dates[I] > Dates[I - 1] ? -1 : 0;
  return Falls > 0;
}

static void readLines(StringRef Text, ArrayRef<size_t> Starts,
                      ArrayRef<FormHeading> Headings, LogStyle &Style) {
  LabelCensus Labels;
  std::set<unsigned> EntryLines;
  for (const FormHeading &H : Headings) {
    if (H.IsEntry)
      EntryLines.insert(H.Line);
    else if (!EntryLines.empty() && H.Level > Style.EntryLevel)
      Labels.heading(H); // `## References` is a chapter, not a label
  }
  int Dashes = 0, Rules = 0, BlankAfter = 0;
  bool InFence = false;
  StringRef Before, LastFull;
  for (size_t I = 0; I + 1 < Starts.size(); ++I) {
    StringRef Line = lineAt(Text, Starts, I);
    if (EntryLines.count(I + 1)) {
      if (EntryLines.size() > 1 && I + 1 != *EntryLines.begin())
        Rules += isRule(LastFull) ? 1 : -1;
      BlankAfter += lineAt(Text, Starts, I + 1).trim().empty() ? 1 : -1;
    }
    StringRef Bare = Line.ltrim();
    if (Bare.starts_with("```") || Bare.starts_with("~~~"))
      InFence = !InFence;
    else if (!InFence) {
      Labels.line(Line, Before);
      Dashes += Bare.starts_with("- ");
      Dashes -= Bare.starts_with("* ") && !isRule(Bare.substr(2));
    }
    Before = Line;
    if (!Bare.empty())
      LastFull = Line;
  }
  Labels.settle(Style);
  Style.Bullet = Dashes < 0 ? '*' : '-';
  Style.Rules = Rules > 0;
  if (!EntryLines.empty())
    Style.BlankAfterTitle = BlankAfter >= 0;
}

LogForm readLogForm(StringRef Text, StringRef File) {
  LogForm Out;
  LogStyle &Style = Out.Style;
  std::vector<size_t> Starts = lineStarts(Text);
  std::set<unsigned> EntryLines;
  for (const Entry &E : readMarkdown(Text, File).Entries)
    EntryLines.insert(E.Source.Line);
  Out.Headings = findHeadings(Text, Starts, EntryLines);
  Style.Crlf = Text.count("\r\n") * 2 > Text.count('\n');

  std::vector<StringRef> HeadDates, OwnDates;
  const FormHeading *LastEntry = nullptr, *LastDate = nullptr;
  for (const FormHeading &H : Out.Headings) {
    if (H.IsEntry) {
      LastEntry = &H;
      if (!H.Date.empty())
        OwnDates.push_back(H.Date);
    } else if (!H.Date.empty()) {
      LastDate = &H;
      HeadDates.push_back(H.Date);
    }
  }
  if (LastEntry) {
    Style.EntryLevel = LastEntry->Level;
    Style.LabelLevel = std::min(LastEntry->Level + 1, 6u);
    Style.Title = titlePattern(LastEntry->Text);
  }
  readLines(Text, Starts, Out.Headings, Style);
  if (LastDate) {
    Style.DateLevel = LastDate->Level;
    // `## [2026-11-20]`, but not `## 2026-11-20, a bad day`.
    StringRef Text = LastDate->Text, Where = findDate(Text).Where;
    StringRef Left = Text.take_front(Where.data() - Text.data());
    StringRef Right = Text.drop_front(Left.size() + Where.size());
    if (none_of((Left + Right).str(), [](char C) { return isAlnum(C); }))
      Style.DateHeading = (Left + "{d}" + Right).str();
  } else if (LastEntry) {
    Style.DateHeadings = false;
  }
  Style.NewestFirst = fall(HeadDates.empty() ? OwnDates : HeadDates);
  return Out;
}

/// The end of the block that heading \p I opens: the next heading of its
/// level or above, but for entries, which some logs write as high as dates.
static size_t blockEnd(ArrayRef<FormHeading> Headings, size_t I, size_t End) {
  for (size_t K = I + 1; K < Headings.size(); ++K)
    if (Headings[K].Level <= Headings[I].Level && !Headings[K].IsEntry)
      return Headings[K].Begin;
  return End;
}

/// The place among entries whose dates stand in their own headings, if at all.
static EntryPlace placeAmongEntries(const LogForm &Log, StringRef Text,
                                    StringRef Date) {
  EntryPlace P;
  P.Offset = Text.size();
  bool ByDate = StringRef(Log.Style.Title).contains("{d}");
  const FormHeading *Last = nullptr;
  for (const FormHeading &H : Log.Headings) {
    if (!H.IsEntry)
      continue;
    Last = &H;
    bool Earlier = Log.Style.NewestFirst && ByDate && H.Date <= Date;
    bool Later = !Log.Style.NewestFirst && ByDate && H.Date > Date;
    if (!H.Date.empty() && (Earlier || Later)) {
      P.Offset = H.Begin;
      P.BeforeEntry = true;
      return P;
    }
  }
  if (Last)
    P.Offset =
        blockEnd(Log.Headings, static_cast<size_t>(Last - &Log.Headings[0]),
                 Text.size());
  return P;
}

EntryPlace placeForEntry(const LogForm &Log, StringRef Text,
                         StringRef Date) {
  const LogStyle &Style = Log.Style;
  ArrayRef<FormHeading> Headings = Log.Headings;
  auto IsDate = [&](const FormHeading &H) {
    return !H.IsEntry && !H.Date.empty() && H.Level == Style.DateLevel;
  };
  if (!Style.DateHeadings)
    return placeAmongEntries(Log, Text, Date);
  EntryPlace P;
  P.Offset = Text.size();
  P.NeedsDate = true;
  size_t Last = Headings.size();
  for (size_t I = 0; I < Headings.size(); ++I) {
    const FormHeading &H = Headings[I];
    if (!IsDate(H))
      continue;
    if (H.Date == Date) {
      P.NeedsDate = false;
      size_t End = blockEnd(Headings, I, Text.size());
      size_t First = I + 1 < Headings.size() ? Headings[I + 1].Begin : End;
      P.Offset = Style.NewestFirst ? std::min(First, End) : End;
      P.BeforeEntry = Style.NewestFirst && First < End;
      return P;
    }
    if (Style.NewestFirst ? H.Date < Date : H.Date > Date) {
      P.Offset = H.Begin;
      P.BeforeEntry = true;
      return P;
    }
    Last = I;
  }
  if (Last < Headings.size())
    P.Offset = blockEnd(Headings, Last, Text.size());
  return P;
}

} // namespace culprit
