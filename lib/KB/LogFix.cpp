//===- LogFix.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogFix.h"
#include "KB/AddEntryFile.h"
#include "KB/EntryTitle.h"
#include "KB/MarkdownReader.h"
#include "KB/Sections.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

/// `**Symptom**: text` for `**Problem:** text`; empty when \p Line begins with
/// no label in bold.
static std::string fixedLabel(StringRef Line) {
  size_t Begin = Line.find_first_not_of(" >");
  if (Begin == StringRef::npos)
    return {};
  if (Line.substr(Begin).starts_with("- ") ||
      Line.substr(Begin).starts_with("* "))
    Begin += 2;
  StringRef Rest = Line.drop_front(Begin);
  StringRef Mark = Rest.take_front(2);
  if (Mark != "**" && Mark != "__")
    return {};
  size_t End = Rest.find(Mark, 2);
  if (End == StringRef::npos)
    return {};
  StringRef Name = Rest.slice(2, End).trim();
  Rest = Rest.drop_front(End + 2);
  auto TakeColon = [](StringRef &From, bool Back) {
    return Back ? From.consume_back(":") || From.consume_back("：")
                : From.consume_front(":") || From.consume_front("：");
  };
  bool Colon = TakeColon(Name, true);
  if (!Colon) {
    Rest = Rest.ltrim(' ');
    Colon = TakeColon(Rest, false);
    for (StringRef Dash : {"- ", "– ", "— "})
      if (!Colon && Rest.consume_front(Dash))
        Colon = true;
    if (!Colon && !Rest.trim().empty())
      return {};
  }
  std::optional<Section> S = parseSectionLabel(Name);
  if (!S)
    return {};
  std::string Out =
      (Line.take_front(Begin) + "**" + sectionLabel(*S) + "**:").str();
  // Two blanks at the end are a line break.
  Rest = Rest.ltrim(' ');
  if (!Rest.empty())
    Out += " " + Rest.str();
  return Out;
}

/// `### [FIXED] title` and `## 2026-11-20` for other forms of them; empty when
/// \p Line is no heading.
static std::string fixedHeading(StringRef Line) {
  StringRef Signs = Line.take_while([](char C) { return C == '#'; });
  if (Signs.empty() || Signs.size() > 6 ||
      !Line.drop_front(Signs.size()).starts_with(" "))
    return {};
  std::string Title = Line.drop_front(Signs.size()).trim().str();
  WrittenDate Date = findDate(Title);
  if (!Date.Ambiguous && Date.Where.size() == Title.size() && !Title.empty())
    return (Signs + " " + Date.Iso).str();
  std::string Before = Title;
  std::string Status = takeStatus(Title);
  if (Status.empty())
    return {};
  // Of a title in which a link or emphasis begins, leave the rest alone.
  if (StringRef(Before).contains("](") || StringRef(Before).starts_with("~"))
    return {};
  return (Signs + " [" + Status + "] " + Title).str();
}

static bool same(const Entry &A, const Entry &B) {
  auto SameSignal = [](const Signal &X, const Signal &Y) {
    return X.Symptom == Y.Symptom && X.How == Y.How;
  };
  auto SameOther = [](const OtherSection &X, const OtherSection &Y) {
    return X.Label == Y.Label && X.Text == Y.Text;
  };
  return A.Id == B.Id && A.Date == B.Date && A.Status == B.Status &&
         A.Title == B.Title && A.Symptom == B.Symptom &&
         A.AlsoSeenAs == B.AlsoSeenAs &&
         A.RootCause == B.RootCause && A.Fix == B.Fix && A.Files == B.Files &&
         A.Prevention == B.Prevention && A.Class == B.Class &&
         std::equal(A.Signals.begin(), A.Signals.end(), B.Signals.begin(),
                    B.Signals.end(), SameSignal) &&
         A.LogFragments == B.LogFragments && A.FailsWhen == B.FailsWhen &&
         A.WorksWhen == B.WorksWhen && A.Workarounds == B.Workarounds &&
         A.Confirm.Experiment == B.Confirm.Experiment &&
         A.Confirm.Confirms == B.Confirm.Confirms &&
         A.Confirm.Refutes == B.Confirm.Refutes &&
         A.References == B.References &&
         std::equal(A.Other.begin(), A.Other.end(), B.Other.begin(),
                    B.Other.end(), SameOther) &&
         A.Source.Line == B.Source.Line;
}

static bool sameEntries(StringRef A, StringRef B) {
  MarkdownLog L = readMarkdown(A, "log.md"), R = readMarkdown(B, "log.md");
  return std::equal(L.Entries.begin(), L.Entries.end(), R.Entries.begin(),
                    R.Entries.end(), same) &&
         L.Remarks.size() == R.Remarks.size();
}

/// The changes that \p Fix proposes, outside of code.
template <typename Fn>
static std::vector<LineChange> propose(ArrayRef<StringRef> Lines, Fn Fix) {
  std::vector<LineChange> Out;
  StringRef Fence;
  for (auto [I, Line] : enumerate(Lines)) {
    StringRef Bare = Line.ltrim(" >");
    if (!Fence.empty()) {
      if (Bare.starts_with(Fence))
        Fence = "";
      continue;
    }
    if (Bare.starts_with("```") || Bare.starts_with("~~~")) {
      Fence = Bare.take_front(3);
      continue;
    }
    if (Line.starts_with("    ") || Line.starts_with("\t"))
      continue;
    std::string New = Fix(Line);
    if (!New.empty() && New != Line)
      Out.push_back({static_cast<unsigned>(I + 1), Line.str(), New});
  }
  return Out;
}

static std::string applied(ArrayRef<StringRef> Lines,
                           ArrayRef<LineChange> Changes) {
  std::vector<StringRef> New(Lines.begin(), Lines.end());
  for (const LineChange &C : Changes)
    New[C.Line - 1] = C.To;
  return join(New, "\n");
}

LogFix fixLog(StringRef Text) {
  LogFix Out;
  std::string Plain;
  StringRef Body = Text;
  Body.consume_front("\xEF\xBB\xBF");
  for (size_t I = 0; I < Body.size(); ++I)
    if (Body[I] != '\r' || I + 1 == Body.size() || Body[I + 1] != '\n')
      Plain += Body[I];
  if (Plain != Text && sameEntries(Text, Plain))
    Out.Plainer = true;
  else
    Plain = Text.str();

  SmallVector<StringRef, 0> Lines;
  StringRef(Plain).split(Lines, '\n');
  // Each kind of change at once; where the kind as a whole alters an entry,
  // halves of it are tried, down to the one line that does.
  std::vector<LineChange> Kept;
  auto Try = [&](auto &&Self, ArrayRef<LineChange> Some) -> void {
    if (Some.empty())
      return;
    std::vector<LineChange> All = Kept;
    append_range(All, Some);
    if (sameEntries(Plain, applied(Lines, All))) {
      Kept = std::move(All);
      return;
    }
    if (Some.size() == 1)
      return;
    Self(Self, Some.take_front(Some.size() / 2));
    Self(Self, Some.drop_front(Some.size() / 2));
  };
  Try(Try, propose(Lines, fixedLabel));
  Try(Try, propose(Lines, fixedHeading));
  sort(Kept, [](const LineChange &A, const LineChange &B) {
    return A.Line < B.Line;
  });
  Out.Text = applied(Lines, Kept);
  Out.Changes = std::move(Kept);
  return Out;
}

Expected<LogFix> fixLogFile(StringRef Path) {
  LogFix Out;
  Error E = updateFile(Path, [&](StringRef Text) -> Expected<std::string> {
    Out = fixLog(Text);
    return Out.Text;
  });
  if (E)
    return E;
  return Out;
}

} // namespace culprit
