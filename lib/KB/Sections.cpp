//===- Sections.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Sections.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace culprit {

namespace {
struct SectionName {
  Section Id;
  StringRef Label;
  StringRef Others;
};
} // namespace

static const SectionName SectionNames[] = {
#define KB_SECTION(Id, Label, Others) {Section::Id, Label, Others},
#include "KB/Sections.def"
};

StringRef sectionLabel(Section S) {
  return SectionNames[static_cast<unsigned>(S)].Label;
}

/// \p Label without what people put around a label: `2. Symptom:`, a sign
/// before it, `Symptom (what we saw)`, `What happened?`.
static StringRef bareLabel(StringRef Label) {
  Label = Label.trim();
  if (!Label.consume_back(":"))
    Label.consume_back("：");
  Label = Label.rtrim(" ?");
  StringRef Numbered = Label.ltrim("0123456789");
  if (Numbered.size() < Label.size() &&
      (Numbered.consume_front(".") || Numbered.consume_front(")")))
    Label = Numbered.ltrim();
  auto [First, Rest] = Label.split(' ');
  bool IsSign = !Rest.empty() && all_of(First, [](char C) {
    return (static_cast<unsigned char>(C) & 0x80) != 0;
  });
  if (IsSign && isAlpha(Rest.ltrim().front()))
    Label = Rest.ltrim();
  size_t Open = Label.find(" (");
  if (Open != StringRef::npos && Label.ends_with(")"))
    Label = Label.take_front(Open);
  return Label.trim();
}

bool isOtherLabel(StringRef Label) {
  static constexpr StringRef Known[] = {
      "decision", "rationale", "action", "actions", "impact", "timeline",
      "note", "notes", "owner", "author", "reporter", "reported by",
      "assignee", "severity", "priority", "environment", "env", "version",
      "versions", "component", "tags", "labels", "summary", "description",
      "background", "context", "detection", "steps to reproduce",
      "reproduction", "repro", "to reproduce", "expected behavior",
      "expected behaviour", "expected", "evidence", "debugging",
      "investigation", "verification", "verified", "related", "status",
      "date", "title", "commit", "commits", "pr", "ticket", "time spent",
      "cost", "time lost", "hours",
      "duration", "contributing factors", "what went well", "recovery",
      "where we got lucky", "what went poorly", "additional context",
      "status update", "discussion", "comments", "决定", "影响", "备注"};
  Label = bareLabel(Label);
  return any_of(Known, [&](StringRef K) { return Label.equals_insensitive(K); });
}

std::optional<Section> parseSectionLabel(StringRef Label) {
  Label = bareLabel(Label);
  if (Label.empty() || Label.size() > 40)
    return std::nullopt;
  for (const SectionName &N : SectionNames) {
    if (Label.equals_insensitive(N.Label))
      return N.Id;
    SmallVector<StringRef, 8> Others;
    N.Others.split(Others, '|');
    for (StringRef Other : Others)
      if (Label.equals_insensitive(Other))
        return N.Id;
  }
  return std::nullopt;
}

std::string closestSectionLabel(StringRef Unknown) {
  std::vector<std::string> Known;
  for (const SectionName &N : SectionNames)
    Known.push_back(N.Label.str());
  return closestName(Unknown, Known);
}

std::vector<std::string> listItems(StringRef Text) {
  std::vector<std::string> Items;
  bool HasList = false, Blank = true;
  while (!Text.empty()) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    StringRef Rest = Line;
    bool Starts = Rest.consume_front("- ");
    if (!Starts) {
      StringRef Digits = Rest.take_while(isDigit);
      Starts =
          !Digits.empty() && Rest.drop_front(Digits.size()).starts_with(". ");
      if (Starts)
        Rest = Rest.drop_front(Digits.size() + 2);
    }
    HasList |= Starts;
    if (Line.trim().empty()) {
      Blank = true;
      continue;
    }
    // Outside a list a blank line separates items, inside it does not.
    bool Nested = HasList && Line.starts_with("  ");
    if (Starts) // The box of a task list.
      for (StringRef Box : {"[ ] ", "[x] ", "[X] "})
        Rest.consume_front(Box);
    if (Starts || Items.empty() || (Blank && !Nested))
      Items.push_back(Rest.trim().str());
    else
      Items.back() += (Nested ? "\n" : " ") + Rest.trim().str();
    Blank = false;
  }
  return Items;
}

/// Splits at \p Separators outside of backquotes and parentheses.
static std::vector<std::string> splitOutside(StringRef Text,
                                             StringRef Separators) {
  std::vector<std::string> Out(1);
  bool InCode = false;
  int Depth = 0;
  for (char C : Text) {
    if (C == '`')
      InCode = !InCode;
    if (!InCode && C == '(')
      ++Depth;
    if (!InCode && C == ')' && Depth)
      --Depth;
    if (!InCode && !Depth && Separators.contains(C))
      Out.emplace_back();
    else
      Out.back() += C == '\n' ? ' ' : C;
  }
  std::vector<std::string> Trimmed;
  for (StringRef Part : Out)
    if (!Part.trim().empty())
      Trimmed.push_back(Part.trim().str());
  return Trimmed;
}

/// The items of a list, or the parts of prose between semicolons.
static std::vector<std::string> alternatives(StringRef Text) {
  std::vector<std::string> Out;
  for (const std::string &Item : listItems(Text))
    append_range(Out, splitOutside(Item, ";"));
  for (std::string &Item : Out)
    if (Item.size() > 1 && Item.back() == '.')
      Item.pop_back();
  return Out;
}

/// What stands in code spans and fences; without any, the text between
/// semicolons.
static std::vector<std::string> logFragments(StringRef Text) {
  std::vector<std::string> Out;
  bool HasCode = Text.contains('`');
  if (!HasCode)
    return alternatives(Text);
  while (true) {
    size_t Open = Text.find('`');
    if (Open == StringRef::npos)
      return Out;
    Text = Text.drop_front(Open);
    size_t Ticks = Text.find_first_not_of('`');
    if (Ticks == StringRef::npos)
      return Out;
    StringRef Fence = Text.take_front(Ticks);
    Text = Text.drop_front(Ticks);
    size_t Close = Text.find(Fence);
    StringRef Code = Text.take_front(Close);
    Text = Close == StringRef::npos ? "" : Text.drop_front(Close + Ticks);
    bool IsBlock = Ticks >= 3;
    if (IsBlock) // The first line is the language.
      Code = Code.split('\n').second;
    SmallVector<StringRef, 4> Lines;
    Code.split(Lines, '\n', -1, false);
    for (StringRef Line : Lines)
      if (!Line.trim().empty())
        Out.push_back(Line.trim().str());
  }
}

/// The parts between commas, semicolons and line ends. An address ends its
/// part; what else a part says about it is kept with it.
static std::vector<std::string> references(StringRef Text) {
  std::vector<std::string> Out;
  for (const std::string &Item : listItems(Text)) {
    for (StringRef Part : splitOutside(Item, ",;")) {
      while (true) {
        size_t At = Part.find("http");
        size_t End = At == StringRef::npos ? At : Part.find(' ', At);
        if (End == StringRef::npos)
          break;
        size_t Next = Part.find("http", End);
        if (Next == StringRef::npos)
          break;
        Out.push_back(Part.take_front(Next).trim().str());
        Part = Part.drop_front(Next);
      }
      Part = Part.trim().trim("<>").rtrim(".");
      if (!Part.empty())
        Out.push_back(Part.str());
    }
  }
  return Out;
}

static void parseSignals(Entry &E, StringRef Text, unsigned Line,
                         std::vector<Diagnostic> &Remarks) {
  std::string Place = (E.Source.File + ":" + Twine(Line) + ": ").str();
  for (const std::string &Item : listItems(Text)) {
    for (StringRef Part : splitOutside(Item, ",;")) {
      Part = Part.rtrim(". ");
      // `id (often)`, `id: often` and `id - often`.
      size_t End = Part.find_first_of(" (:");
      StringRef Id = Part.take_front(End).trim("` ");
      StringRef How = End == StringRef::npos
                          ? StringRef()
                          : Part.drop_front(End).trim("() :-`");
      if (How.starts_with("–") || How.starts_with("—"))
        How = How.drop_front(3).trim();
      std::optional<Frequency> F = parseFrequency(How);
      if (F) {
        E.Signals.push_back({Id.str(), *F});
        continue;
      }
      std::string Known =
          closestName(How.lower(), {"required", "always", "often", "sometimes",
                                    "never"});
      std::string What =
          How.empty()
              ? ("signal '" + Id + "' has no frequency").str()
              : ("unknown frequency '" + How + "' of signal '" + Id + "'")
                    .str();
      Remarks.push_back({Severity::Warning, Place + What,
                         Known.empty()
                             ? "write required, always, often, sometimes or never "
                               "in parentheses after the signal"
                             : "did you mean '" + Known + "'?"});
    }
  }
}

Confirmation parseConfirmation(StringRef Text) {
  Confirmation C;
  std::string *Part = &C.Experiment;
  for (const std::string &Item : listItems(Text)) {
    for (StringRef S : sentences(Item)) {
      StringRef Bare = S.rtrim(".! ");
      bool Refutes = Bare.starts_with_insensitive("refuted") ||
                     Bare.ends_with_insensitive(": refuted");
      bool Confirms = Bare.starts_with_insensitive("confirmed") ||
                      Bare.ends_with_insensitive(": confirmed");
      if (Refutes)
        Part = &C.Refutes;
      else if (Confirms)
        Part = &C.Confirms;
      else if (Part == &C.Confirms)
        Part = &C.Refutes;
      if (!Part->empty())
        *Part += ' ';
      Part->append(S.data(), S.size());
    }
  }
  return C;
}

static void addText(std::string &To, StringRef Text) {
  if (!To.empty() && !Text.empty())
    To += "\n\n";
  To.append(Text.data(), Text.size());
}

void setSection(Entry &E, Section S, StringRef Text, unsigned Line,
                std::vector<Diagnostic> &Remarks) {
  Text = Text.trim();
  switch (S) {
  case Section::Symptom:
    return addText(E.Symptom, Text);
  case Section::AlsoSeenAs:
    append_range(E.AlsoSeenAs, listItems(Text));
    return;
  case Section::RootCause:
    return addText(E.RootCause, Text);
  case Section::Fix:
    return addText(E.Fix, Text);
  case Section::Files:
    return addText(E.Files, Text);
  case Section::Workarounds:
    return addText(E.Workarounds, Text);
  case Section::Class:
    return addText(E.Class, Text.trim("`. \n"));
  case Section::Prevention:
    append_range(E.Prevention, listItems(Text));
    return;
  case Section::Log:
    append_range(E.LogFragments, logFragments(Text));
    return;
  case Section::FailsWhen:
    append_range(E.FailsWhen, alternatives(Text));
    return;
  case Section::WorksWhen:
    append_range(E.WorksWhen, alternatives(Text));
    return;
  case Section::References:
    append_range(E.References, references(Text));
    return;
  case Section::Signals:
    return parseSignals(E, Text, Line, Remarks);
  case Section::Confirm: {
    Confirmation C = parseConfirmation(Text);
    addText(E.Confirm.Experiment, C.Experiment);
    addText(E.Confirm.Confirms, C.Confirms);
    addText(E.Confirm.Refutes, C.Refutes);
    return;
  }
  }
}

} // namespace culprit
