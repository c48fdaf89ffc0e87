//===- LogBlocks.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogReader.h"
#include "KB/LogTable.h"
#include "KB/MarkdownNode.h"
#include "KB/MarkdownText.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Kind = MarkdownNode::Kind;

static bool beginsEntry(StringRef Label) {
  std::optional<Section> S = parseSectionLabel(Label);
  return S == Section::Symptom || S == Section::RootCause;
}

void LogReader::paragraph(const MarkdownNode *P, bool InItem) {
  unsigned Line = line(P);
  if (!InItem && !B.inSection() && table(P))
    return;
  bool LineStart = true, Labelled = false;
  size_t Start = B.Text.size();
  unsigned StartLine = Line;
  InlineRenderer Inlines(B.Text);
  for (const MarkdownNode *N = P->First; N; N = N->Next) {
    std::optional<LabelText> L;
    if (LineStart)
      L = labelAt(N, context(InItem));
    if (L && !InItem && !Labelled && B.Text.size() > Start) {
      // `Loss is nan` on the line above, in the same paragraph.
      Lead = Start;
      LeadLine = StartLine;
      LeadIsBold = false;
    }
    if (L && label(*L, Line)) {
      Labelled = true;
      Inlines.restart();
      B.Text += L->Rest;
      if (L->Nodes == 2)
        N = N->Next;
      LineStart = false;
      continue;
    }
    Kind Type = N->K;
    LineStart = Type == Kind::SoftBreak || Type == Kind::LineBreak;
    Line += LineStart;
    Inlines.add(*N);
  }
  if (InItem)
    return;
  noLead();
  if (!Labelled && B.Text.size() - Start <= 120) {
    const MarkdownNode *First = P->First;
    Lead = Start;
    LeadLine = StartLine;
    LeadIsBold = First && First->K == Kind::Strong && !First->Next;
  }
}

bool LogReader::table(const MarkdownNode *P) {
  const MarkdownNode *First = P->First;
  if (!First || First->K != Kind::Text || !First->Text.starts_with("|"))
    return false;
  return readLogTable(inlineText(P), line(P), B);
}

void LogReader::append(StringRef Text, StringRef Indent) {
  for (char C : Text) {
    B.Text += C;
    if (C == '\n')
      B.Text += Indent;
  }
}

const MarkdownNode *LogReader::firstItem(const MarkdownNode *List) {
  const MarkdownNode *Item = List->First;
  return Item ? Item->First : nullptr;
}

std::optional<LabelText> LogReader::itemLabel(const MarkdownNode *N,
                                              bool Plain) const {
  if (!N || N->K != Kind::Paragraph ||
      !N->First)
    return std::nullopt;
  LabelContext C = context(/*InItem=*/true);
  C.ItemLabels |= Plain;
  std::optional<LabelText> L = labelAt(N->First, C);
  return L && parseSectionLabel(L->Name) ? L : std::nullopt;
}

bool LogReader::isEntry(const MarkdownNode *Item) const {
  const MarkdownNode *First = Item->First;
  if (!First || First->K != Kind::Paragraph ||
      itemLabel(First, true))
    return false;
  for (const MarkdownNode *N = First->Next; N; N = N->Next) {
    const MarkdownNode *At = N->K == Kind::List ? firstItem(N) : N;
    if (std::optional<LabelText> L = itemLabel(At, true))
      return beginsEntry(L->Name);
  }
  return false;
}

void LogReader::item(const MarkdownNode *Item, StringRef Indent,
                     unsigned Depth) {
  bool First = true;
  for (const MarkdownNode *N = Item->First; N; N = N->Next) {
    if (First && itemLabel(N, false)) {
      // `- **Symptom**: ...`: the bullet belongs to the form.
      B.Text.resize(StringRef(B.Text).rtrim("-0123456789. ").size());
    }
    if (!First && N->K != Kind::List)
      B.Text += "\n" + Indent.str() + "  ";
    block(N, Indent.str() + "  ", Depth + 1, /*InItem=*/true);
    First = false;
  }
}

void LogReader::list(const MarkdownNode *List, StringRef Indent,
                     unsigned Depth) {
  int Number = List->Number;
  if (Depth == 0)
    ItemLabels = B.hasEntry() && (ItemLabels || !B.hasSection()) &&
                 itemLabel(firstItem(List), true);
  bool OfEntries = false;
  for (const MarkdownNode *Item = List->First; Item; Item = Item->Next) {
    if (Depth == 0 && (OfEntries || !B.inSection()) && isEntry(Item)) {
      tellOutside();
      if (B.hasEntry() && !B.hasSection())
        B.abandon();
      OfEntries = ItemLabels = true;
      const MarkdownNode *Title = Item->First;
      B.open(inlineText(Title), "", 0, line(Title));
      for (const MarkdownNode *N = Title->Next; N; N = N->Next)
        block(N, "", Depth + 1, /*InItem=*/true);
      continue;
    }
    if (OfEntries)
      B.close();
    if (!B.Text.empty() && B.Text.back() != '\n')
      B.Text += '\n';
    if (Depth == 0)
      B.item(line(Item));
    B.Text += Indent;
    B.Text += List->Ordered ? std::to_string(Number++) + ". " : "- ";
    item(Item, Indent, Depth);
    if (OfEntries && !B.hasEntry())
      outside(Item);
  }
  if (OfEntries)
    B.close();
}

void LogReader::block(const MarkdownNode *N, const std::string &Indent,
                      unsigned Depth, bool InItem) {
  // Beyond this nobody means the structure, and recursion must end.
  if (Depth > 32) {
    B.Text += flatText(N);
    return;
  }
  if (!InItem && !B.Text.empty())
    B.Text += "\n\n";
  Kind Type = N->K;
  if (Type != Kind::Paragraph)
    noLead();
  switch (Type) {
  case Kind::Paragraph:
    return paragraph(N, InItem);
  case Kind::List:
    return list(N, Indent, Depth);
  case Kind::CodeBlock:
    return append(codeBlockText(N), Indent);
  case Kind::HtmlBlock:
    return append(N->Text.rtrim(), Indent);
  case Kind::Quote:
    for (const MarkdownNode *Child = N->First; Child; Child = Child->Next)
      block(Child, Indent, Depth + 1, InItem);
    return;
  case Kind::Heading: // Inside a quote or an item.
    B.Text += inlineText(N);
    return;
  default:
    return;
  }
}

} // namespace culprit
