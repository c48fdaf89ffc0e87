//===- LogReader.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogReader.h"
#include "KB/EntryTitle.h"
#include "KB/MarkdownNode.h"
#include "KB/MarkdownText.h"

using namespace llvm;

namespace culprit {

using Kind = MarkdownNode::Kind;

static bool beginsEntry(Section S) {
  return S == Section::Symptom || S == Section::RootCause;
}

unsigned LogReader::line(const MarkdownNode *N) const {
  return Base + N->Line;
}

void LogReader::frontMatter(const FrontMatter &F) {
  std::string Title, Status;
  for (const auto &[Key, Value] : F.Fields) {
    if (StringRef(Key).equals_insensitive("title"))
      Title = Value;
    else if (StringRef(Key).equals_insensitive("date"))
      B.setDate(Value, 1);
    else if (StringRef(Key).equals_insensitive("status"))
      Status = "[" + Value + "] ";
  }
  if (!Title.empty())
    Above.set(1, Status + Title, 1);
}

void LogReader::block(const MarkdownNode &N, unsigned LinesBefore) {
  Base = LinesBefore;
  if (N.K == Kind::Heading)
    return heading(&N);
  bool Open = B.hasEntry();
  size_t Entries = Out.Entries.size();
  block(&N, "", 0);
  if (!Open && !B.hasEntry() && Out.Entries.size() == Entries)
    outside(&N);
}

void LogReader::finish() {
  tellOutside();
  B.close();
}

void LogReader::heading(const MarkdownNode *N) {
  int Level = N->Number;
  unsigned Line = line(N);
  std::string Title = StringRef(inlineText(N)).trim().str();
  noLead();

  std::optional<Section> S = parseSectionLabel(Title);
  StringRef Rest;
  if (!S && B.hasEntry() && Level > B.level()) {
    // `#### Symptom: the loss is nan`
    StringRef Label;
    std::tie(Label, Rest) = StringRef(Title).split(": ");
    S = Rest.empty() ? std::nullopt : parseSectionLabel(Label);
  }
  bool IsOther = !S && isOtherLabel(Title);
  bool Below = B.hasEntry() && Level > B.level();
  if (S && (Below || (B.hasEntry() && Level == B.level()))) {
    B.section(*S, Line);
    B.Text += Rest;
    return;
  }
  if (!B.hasEntry() &&
      ((S && beginsEntry(*S)) || (IsOther && Above.above(Level)))) {
    openUntitled(Level, Line);
    Below = B.level() < Level;
    if (S)
      return B.section(*S, Line);
  }
  std::string Plain = Title;
  std::string Status = takeStatus(Plain);
  WrittenDate Found = findDate(Title);
  bool OnlyDate = !Found.Where.empty() && Found.Where.size() == Title.size();
  if (Below && Status.empty() && !OnlyDate) {
    if (IsOther || B.hasSection())
      return B.other(Title, Line);
    // What looked like an entry stands over entries.
    const LogHeading &Group = Above.at(B.level());
    B.setDate(Group.Title, Group.Line);
    if (!StringRef(B.Text).trim().empty())
      B.remark(Severity::Note, Group.Line,
               "text between this heading and the next, skipped");
    B.abandon();
  }
  tellOutside();
  B.close();
  Above.set(Level, Title, Line);
  if (!Status.empty() || (Level == 3 && !OnlyDate))
    return B.open(Plain, Status, Level, Line);
  if (!Found.Where.empty())
    B.setDate(Title, Line);
  else if (Level <= 2)
    B.clearDate();
}

void LogReader::openUntitled(int LabelLevel, unsigned Line) {
  const LogHeading *H = Above.above(LabelLevel);
  std::string Between;
  if (H && Outside.first() > H->Line) {
    Between = std::move(B.Text);
    Outside.clear();
  }
  tellOutside();
  if (H)
    B.open(H->Title, "", H->Level, H->Line);
  else
    B.openUntitled(Line);
  B.Text = std::move(Between);
}

void LogReader::outside(const MarkdownNode *N) {
  Kind Type = N->K;
  bool IsComment =
      Type == Kind::HtmlBlock &&
      N->Text.starts_with("<!--");
  if (Type == Kind::Rule || IsComment)
    return;
  Outside.add(line(N), Base + N->LastLine,
              Type == Kind::Paragraph, Out.Entries.empty());
}

void LogReader::tellOutside() {
  Outside.tell(B);
  if (!B.hasEntry())
    B.Text.clear();
}

LabelContext LogReader::context(bool InItem) const {
  LabelContext C;
  C.UsesStrong = UsesStrong;
  C.InItem = InItem;
  C.ItemLabels = ItemLabels;
  C.HasEntry = B.hasEntry() || Above.above(7);
  C.InSection = B.inSection();
  return C;
}

bool LogReader::isNext(Section S) const {
  if (S != Section::Symptom || !B.has(S) ||
      !(B.has(Section::RootCause) || B.has(Section::Fix)))
    return false;
  return B.level() == 0 || (Lead != std::string::npos && LeadIsBold);
}

void LogReader::openAtLabel(unsigned Line) {
  std::string Title;
  if (Lead != std::string::npos) {
    Title = StringRef(B.Text).drop_front(Lead).trim().str();
    B.Text.resize(Lead);
    Outside.cut(LeadLine);
  }
  bool Headed = !B.hasEntry() && Above.above(7);
  if (Title.empty() || Title.size() > 120 || (Headed && !LeadIsBold)) {
    B.Text += Title;
    if (B.hasEntry() && !Headed)
      return B.openUntitled(Line);
    return openUntitled(7, Line);
  }
  tellOutside();
  B.open(Title, "", 0, LeadLine);
}

bool LogReader::label(const LabelText &L, unsigned Line) {
  std::optional<Section> S = parseSectionLabel(L.Name);
  if (!B.hasEntry()) {
    bool IsMeta = !S && (StringRef(L.Name).equals_insensitive("date") ||
                         StringRef(L.Name).equals_insensitive("status"));
    if (IsMeta)
      openUntitled(7, Line);
    else if (S && beginsEntry(*S))
      openAtLabel(Line);
    else
      return false;
  } else if (S && isNext(*S)) {
    openAtLabel(Line);
  }
  noLead();
  UsesStrong |= L.Strong && S;
  if (S)
    B.section(*S, Line);
  else
    B.other(L.Name, Line);
  return true;
}

} // namespace culprit
