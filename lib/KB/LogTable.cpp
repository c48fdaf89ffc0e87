//===- LogTable.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/LogTable.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

using Cells = SmallVector<StringRef, 8>;

/// The cells of `| a | b |`. A bar in a code span is no border.
static Cells cells(StringRef Row) {
  Row = Row.trim();
  Row.consume_front("|");
  Row.consume_back("|");
  Cells Out;
  bool InCode = false;
  size_t Begin = 0;
  for (size_t I = 0; I <= Row.size(); ++I) {
    if (I < Row.size() && Row[I] == '`')
      InCode = !InCode;
    if (I == Row.size() || (Row[I] == '|' && !InCode)) {
      Out.push_back(Row.slice(Begin, I).trim());
      Begin = I + 1;
    }
  }
  return Out;
}

static bool isDelimiterRow(StringRef Row) {
  return Row.contains("--") &&
         all_of(Row, [](char C) { return StringRef("|-: ").contains(C); });
}

static bool namesTitle(StringRef Label) {
  for (StringRef L : {"title", "issue", "bug", "name", "id", "what"})
    if (Label.equals_insensitive(L))
      return true;
  return false;
}

bool readLogTable(StringRef Text, unsigned Line, EntryBuilder &Out) {
  SmallVector<StringRef, 16> Rows;
  Text.split(Rows, '\n');
  if (Rows.size() < 2 || !isDelimiterRow(Rows[1].trim()))
    return false;
  Cells Head = cells(Rows[0]);
  auto Names = [&](Section S) {
    return any_of(Head, [&](StringRef L) { return parseSectionLabel(L) == S; });
  };
  if (!Names(Section::Symptom) ||
      (!Names(Section::RootCause) && !Names(Section::Fix)))
    return false;
  if (Out.hasEntry() && !Out.hasSection())
    Out.abandon();
  for (size_t I = 2; I < Rows.size(); ++I) {
    unsigned At = Line + static_cast<unsigned>(I);
    if (Rows[I].trim().empty())
      continue;
    Cells Row = cells(Rows[I]);
    if (Row.size() != Head.size()) {
      Out.remark(Severity::Warning, At,
                 "a row of " + Twine(Row.size()) + " cells in a table of " +
                     Twine(Head.size()) + ", skipped",
                 "write a bar that is text as \\|, inside of `code`");
      continue;
    }
    StringRef Title, Symptom;
    for (auto [Label, Cell] : zip(Head, Row)) {
      if (namesTitle(Label) && Title.empty() && Cell.count(' ') > 0)
        Title = Cell;
      if (parseSectionLabel(Label) == Section::Symptom)
        Symptom = Cell;
    }
    std::string Short = shortened(firstSentence(Symptom), 80);
    Out.open(Title.empty() ? StringRef(Short) : Title, "", 0, At);
    for (auto [Label, Cell] : zip(Head, Row)) {
      if (Cell.empty() || (namesTitle(Label) && Cell == Title))
        continue;
      if (std::optional<Section> S = parseSectionLabel(Label))
        Out.section(*S, At);
      else
        Out.other(Label, At);
      Out.Text += Cell;
    }
    Out.close();
  }
  return true;
}

} // namespace culprit
