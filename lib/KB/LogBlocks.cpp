//===- LogBlocks.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogReader.h"
#include "KB/LogTable.h"
#include "KB/MarkdownText.h"
#include "llvm/ADT/StringExtras.h"
#include <cmark.h>

using namespace llvm;

namespace culprit {

static bool beginsEntry(StringRef Label) {
  std::optional<Section> S = parseSectionLabel(Label);
  return S == Section::Symptom || S == Section::RootCause;
}

void LogReader::paragraph(cmark_node *P, bool InItem) {
  unsigned Line = line(P);
  if (!InItem && !B.inSection() && table(P))
    return;
  bool LineStart = true, Labelled = false;
  size_t Start = B.Text.size();
  unsigned StartLine = Line;
  for (cmark_node *N = cmark_node_first_child(P); N; N = cmark_node_next(N)) {
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
      B.Text += L->Rest;
      if (L->Nodes == 2)
        N = cmark_node_next(N);
      LineStart = false;
      continue;
    }
    cmark_node_type Type = cmark_node_get_type(N);
    LineStart = Type == CMARK_NODE_SOFTBREAK || Type == CMARK_NODE_LINEBREAK;
    Line += LineStart;
    renderInline(B.Text, N);
  }
  if (InItem)
    return;
  noLead();
  if (!Labelled && B.Text.size() - Start <= 120) {
    cmark_node *First = cmark_node_first_child(P);
    Lead = Start;
    LeadLine = StartLine;
    LeadIsBold = First && cmark_node_get_type(First) == CMARK_NODE_STRONG &&
                 !cmark_node_next(First);
  }
}

bool LogReader::table(cmark_node *P) {
  cmark_node *First = cmark_node_first_child(P);
  if (!First || cmark_node_get_type(First) != CMARK_NODE_TEXT ||
      !StringRef(cmark_node_get_literal(First)).starts_with("|"))
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

cmark_node *LogReader::firstItem(cmark_node *List) {
  cmark_node *Item = cmark_node_first_child(List);
  return Item ? cmark_node_first_child(Item) : nullptr;
}

std::optional<LabelText> LogReader::itemLabel(cmark_node *N, bool Plain) const {
  if (!N || cmark_node_get_type(N) != CMARK_NODE_PARAGRAPH ||
      !cmark_node_first_child(N))
    return std::nullopt;
  LabelContext C = context(/*InItem=*/true);
  C.ItemLabels |= Plain;
  std::optional<LabelText> L = labelAt(cmark_node_first_child(N), C);
  return L && parseSectionLabel(L->Name) ? L : std::nullopt;
}

bool LogReader::isEntry(cmark_node *Item) const {
  cmark_node *First = cmark_node_first_child(Item);
  if (!First || cmark_node_get_type(First) != CMARK_NODE_PARAGRAPH ||
      itemLabel(First, true))
    return false;
  for (cmark_node *N = cmark_node_next(First); N; N = cmark_node_next(N)) {
    cmark_node *At =
        cmark_node_get_type(N) == CMARK_NODE_LIST ? firstItem(N) : N;
    if (std::optional<LabelText> L = itemLabel(At, true))
      return beginsEntry(L->Name);
  }
  return false;
}

void LogReader::item(cmark_node *Item, StringRef Indent, unsigned Depth) {
  bool First = true;
  for (cmark_node *N = cmark_node_first_child(Item); N;
       N = cmark_node_next(N)) {
    if (First && itemLabel(N, false)) {
      // `- **Symptom**: ...`: the bullet belongs to the form.
      B.Text.resize(StringRef(B.Text).rtrim("-0123456789. ").size());
    }
    if (!First && cmark_node_get_type(N) != CMARK_NODE_LIST)
      B.Text += "\n" + Indent.str() + "  ";
    block(N, Indent.str() + "  ", Depth + 1, /*InItem=*/true);
    First = false;
  }
}

void LogReader::list(cmark_node *List, StringRef Indent, unsigned Depth) {
  bool Ordered = cmark_node_get_list_type(List) == CMARK_ORDERED_LIST;
  int Number = cmark_node_get_list_start(List);
  if (Depth == 0)
    ItemLabels = B.hasEntry() && (ItemLabels || !B.hasSection()) &&
                 itemLabel(firstItem(List), true);
  bool OfEntries = false;
  for (cmark_node *Item = cmark_node_first_child(List); Item;
       Item = cmark_node_next(Item)) {
    if (Depth == 0 && (OfEntries || !B.inSection()) && isEntry(Item)) {
      tellOutside();
      if (B.hasEntry() && !B.hasSection())
        B.abandon();
      OfEntries = ItemLabels = true;
      cmark_node *Title = cmark_node_first_child(Item);
      B.open(inlineText(Title), "", 0, line(Title));
      for (cmark_node *N = cmark_node_next(Title); N; N = cmark_node_next(N))
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
    B.Text += Ordered ? std::to_string(Number++) + ". " : "- ";
    item(Item, Indent, Depth);
    if (OfEntries && !B.hasEntry())
      outside(Item);
  }
  if (OfEntries)
    B.close();
}

void LogReader::block(cmark_node *N, const std::string &Indent, unsigned Depth,
             bool InItem) {
  // Beyond this nobody means the structure, and recursion must end.
  if (Depth > 32) {
    B.Text += flatText(N);
    return;
  }
  if (!InItem && !B.Text.empty())
    B.Text += "\n\n";
  cmark_node_type Type = cmark_node_get_type(N);
  if (Type != CMARK_NODE_PARAGRAPH)
    noLead();
  switch (Type) {
  case CMARK_NODE_PARAGRAPH:
    return paragraph(N, InItem);
  case CMARK_NODE_LIST:
    return list(N, Indent, Depth);
  case CMARK_NODE_CODE_BLOCK:
    return append(codeBlockText(N), Indent);
  case CMARK_NODE_HTML_BLOCK:
    return append(StringRef(cmark_node_get_literal(N)).rtrim(), Indent);
  case CMARK_NODE_BLOCK_QUOTE:
    for (cmark_node *Child = cmark_node_first_child(N); Child;
         Child = cmark_node_next(Child))
      block(Child, Indent, Depth + 1, InItem);
    return;
  case CMARK_NODE_HEADING: // Inside a quote or an item.
    B.Text += inlineText(N);
    return;
  default:
    return;
  }
}

} // namespace culprit
