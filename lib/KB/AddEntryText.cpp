//===- AddEntryText.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/AddEntryText.h"
#include "KB/Sections.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace culprit {

static constexpr StringLiteral Prompt = "TODO: ";

bool isPrompt(StringRef Text) {
  return Text.trim().starts_with(Prompt.rtrim());
}

void addPrompts(Entry &E) {
  auto Ask = [](std::string &Text, const Twine &Question) {
    if (StringRef(Text).trim().empty())
      Text = (Prompt + Question).str();
  };
  Ask(E.Symptom, "what one sees: output, numbers, messages");
  Ask(E.RootCause, "why it happened, the actual bug");
  Ask(E.Fix, "how it was resolved, with the change");
  Ask(E.Files, "the files that were changed");
  if (E.Prevention.empty())
    E.Prevention = {(Prompt + "the test or assertion that would have caught "
                              "it, and what makes it fail")
                        .str()};
}

std::vector<std::string> promptLabels(const Entry &E) {
  std::vector<std::string> Out;
  auto Look = [&](Section S, StringRef Text) {
    if (isPrompt(Text))
      Out.push_back(sectionLabel(S).str());
  };
  Look(Section::Symptom, E.Symptom);
  Look(Section::RootCause, E.RootCause);
  Look(Section::Fix, E.Fix);
  Look(Section::Files, E.Files);
  if (any_of(E.Prevention, isPrompt))
    Out.push_back(sectionLabel(Section::Prevention).str());
  return Out;
}

/// The end of the code span or fence that begins at \p I of \p Text, or \p I
/// when none does.
static size_t codeEnd(StringRef Text, size_t I) {
  StringRef Ticks = Text.drop_front(I).take_while([](char C) {
    return C == '`';
  });
  if (Ticks.empty())
    return I;
  for (size_t At = Text.find(Ticks, I + Ticks.size()); At != StringRef::npos;) {
    size_t Run = Text.drop_front(At)
                     .take_while([](char C) { return C == '`'; })
                     .size();
    if (Run == Ticks.size())
      return At + Run;
    At = Text.find(Ticks, At + Run);
  }
  return I;
}

/// Whether the character at \p I, a star or an underscore or the like, means
/// something in markdown.
static bool isMarkup(StringRef Text, size_t I) {
  char C = Text[I];
  char Before = I ? Text[I - 1] : '\n';
  char After = I + 1 < Text.size() ? Text[I + 1] : '\n';
  switch (C) {
  case '\\':
    return isPrint(After) && !isAlnum(After) && After != ' ';
  case '*':
    return !(isSpace(Before) && isSpace(After)) || Before == '\n';
  case '_':
    return !isAlnum(Before) || !isAlnum(After);
  case '`':
    return true;
  case '<':
    return isAlpha(After) || After == '/' || After == '!' || After == '?';
  case '[':
  case ']':
    return true;
  case '&':
    return isAlnum(After) || After == '#';
  case '#':
  case '=':
  case '>':
  case '~':
    return Before == '\n';
  default:
    return false;
  }
}

std::string escapedMarkdown(StringRef Text) {
  std::string Out;
  for (size_t I = 0; I < Text.size();) {
    size_t End = codeEnd(Text, I);
    if (End > I) {
      Out += Text.slice(I, End);
      I = End;
      continue;
    }
    if (isMarkup(Text, I))
      Out += '\\';
    Out += Text[I++];
  }
  return Out;
}

/// \p Line with what would begin another block or section behind a backslash.
static std::string tameLine(StringRef Line) {
  StringRef Bare = Line.ltrim(' ');
  std::string Indent(Line.size() - Bare.size(), ' ');
  if (Bare.empty())
    return Line.str();
  bool Underline = all_of(Bare.rtrim(), [&](char C) {
    return C == Bare.front() && (C == '-' || C == '=' || C == '_' || C == '*');
  });
  if (Bare.starts_with("#") || Underline)
    return Indent + "\\" + Bare.str();
  StringRef Name = Bare;
  bool Item = Name.consume_front("- ") || Name.consume_front("* ");
  bool Strong = Name.consume_front("**");
  size_t Colon = Name.find(':');
  if (Colon == StringRef::npos ||
      !parseSectionLabel(Name.take_front(Colon).trim("*")))
    return Line.str();
  // `Fix: x` is a section; `Fix\: x` is a text.
  return Indent +
         (Twine(Item ? "- " : "") + (Strong ? "\\*\\*" : "") +
          Name.take_front(Colon) + "\\" + Name.drop_front(Colon))
             .str();
}

std::string sectionMarkdown(StringRef Text) {
  std::string Out;
  std::string Fence;
  Text = Text.trim("\r\n").rtrim();
  while (!Text.empty()) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    Line = Line.rtrim('\r');
    StringRef Bare = Line.ltrim();
    if (!Out.empty())
      Out += '\n';
    StringRef Ticks = Bare.take_while(
        [&](char C) { return C == Bare.front() && (C == '`' || C == '~'); });
    if (Fence.empty() && Ticks.size() >= 3)
      Fence = Ticks.str();
    else if (!Fence.empty() && Ticks.starts_with(Fence) &&
             Bare.rtrim() == Ticks)
      Fence.clear();
    else if (Fence.empty()) {
      Out += tameLine(Line);
      continue;
    }
    Out += Line;
  }
  if (!Fence.empty())
    Out += "\n" + Fence;
  return Out;
}

namespace {

/// Puts the sections of one entry together.
class EntryWriter {
public:
  EntryWriter(const LogStyle &Style, std::string &Out)
      : Style(Style), Out(Out) {}

  void section(StringRef Label, const std::string &Given) {
    std::string Text = sectionMarkdown(Given);
    if (StringRef(Text).trim().empty())
      return;
    // A block can only begin on a line of its own.
    StringRef First = StringRef(Text).ltrim();
    bool Block = First.starts_with("```") || First.starts_with("~~~") ||
                 First.starts_with("- ") || First.starts_with("* ") ||
                 First.starts_with("|") || First.starts_with("1. ");
    separate();
    std::string Indent;
    if (Style.Labels == LabelForm::Heading) {
      Out += std::string(Style.LabelLevel, '#') + " " + Label.str() + "\n";
      if (Style.BlankLines)
        Out += '\n';
    } else {
      StringRef Star = Style.Labels == LabelForm::Plain ? "" : "**";
      if (Style.LabelsAreItems) {
        Out += std::string(1, Style.Bullet) + " ";
        Indent = "  ";
      }
      Out += Star.str() + Label.str();
      Out += Style.Labels == LabelForm::ColonInside ? ":" + Star.str()
                                                    : Star.str() + ":";
      bool Below = Block || Style.TextBelow;
      Out += Below ? "\n" + Indent : " ";
    }
    for (StringRef Rest = Text; !Rest.empty();) {
      StringRef Line;
      std::tie(Line, Rest) = Rest.split('\n');
      Out += Line;
      Out += '\n';
      if (!Rest.empty() && !Rest.starts_with("\n"))
        Out += Indent;
    }
  }

  void list(StringRef Label, ArrayRef<std::string> Items) {
    std::string Text;
    for (const std::string &Item : Items) {
      Text += std::string(1, Style.Bullet) + " ";
      for (char C : StringRef(Item).trim()) {
        Text += C;
        if (C == '\n')
          Text += "  ";
      }
      Text += '\n';
    }
    section(Label, Text);
  }

private:
  void separate() {
    bool Title = std::exchange(First, false);
    if (Title ? Style.BlankAfterTitle : Style.BlankLines)
      Out += '\n';
  }

  const LogStyle &Style;
  std::string &Out;
  bool First = true;
};

} // namespace

static void replacePart(std::string &In, StringRef What, StringRef With) {
  size_t At = In.find(What.str());
  if (At != std::string::npos)
    In.replace(At, What.size(), With.str());
}

static std::string title(const Entry &E, const LogStyle &Style) {
  std::string Text;
  for (char C : StringRef(E.Title).trim())
    Text += static_cast<unsigned char>(C) <= 0x20 ? ' ' : C;
  std::string Out = Style.Title;
  // The title last: it may hold anything.
  replacePart(Out, "{s}", E.Status.empty() ? "" : "[" + E.Status + "]");
  replacePart(Out, "{d}", E.Date);
  replacePart(Out, "{t}", Text);
  return StringRef(Out).ltrim(" :-").rtrim().str();
}

/// A code span of \p Text, whatever it holds.
static std::string codeSpan(StringRef Text) {
  StringRef Ticks = Text.contains("``")  ? "```"
                    : Text.contains('`') ? "``"
                                         : "`";
  StringRef Space = Text.starts_with("`") || Text.ends_with("`") ? " " : "";
  return (Ticks + Space + Text + Space + Ticks).str();
}

std::string entryMarkdown(const Entry &E, const LogStyle &Style) {
  std::string Out =
      std::string(Style.EntryLevel, '#') + " " + title(E, Style) + "\n";
  EntryWriter W(Style, Out);
  auto Label = [](Section S) { return sectionLabel(S); };
  std::vector<std::string> Signals, Fragments;
  for (const Signal &S : E.Signals)
    Signals.push_back(S.Symptom + " (" + frequencyName(S.How).str() + ")");
  for (const std::string &F : E.LogFragments)
    Fragments.push_back(codeSpan(F));
  std::vector<std::string> Confirm;
  for (const std::string *Part :
       {&E.Confirm.Experiment, &E.Confirm.Confirms, &E.Confirm.Refutes})
    if (!Part->empty())
      Confirm.push_back(*Part);

  W.section(Label(Section::Symptom), E.Symptom);
  W.list(Label(Section::AlsoSeenAs), E.AlsoSeenAs);
  W.section(Label(Section::Class), E.Class);
  W.section(Label(Section::Signals), join(Signals, ", "));
  W.section(Label(Section::FailsWhen), join(E.FailsWhen, "; "));
  W.section(Label(Section::WorksWhen), join(E.WorksWhen, "; "));
  W.section(Label(Section::Log), join(Fragments, "; "));
  W.section(Label(Section::RootCause), E.RootCause);
  W.section(Label(Section::Fix), E.Fix);
  W.section(Label(Section::Workarounds), E.Workarounds);
  W.section(Label(Section::Confirm), join(Confirm, " "));
  W.section(Label(Section::Files), E.Files);
  W.list(Label(Section::Prevention), E.Prevention);
  W.section(Label(Section::References), join(E.References, ", "));
  for (const OtherSection &S : E.Other)
    W.section(S.Label.empty() ? "Notes" : StringRef(S.Label), S.Text);
  return Out;
}

} // namespace culprit
