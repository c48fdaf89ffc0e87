//===- DocumentRows.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/DocumentRows.h"
#include "Readers/DocumentShape.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

/// Files that a data set may be in, by their endings.
static bool mayHoldData(StringRef Name) {
  for (StringRef Ending : {".gz", ".zst"})
    Name.consume_back(Ending);
  return Name.ends_with(".jsonl") || Name.ends_with(".json") ||
         Name.ends_with(".ndjson");
}

uint64_t TextBudget::of(StringRef Path, uint64_t DiskSize) {
  uint64_t All = DiskSize;
  std::error_code Problem;
  StringRef Parent = sys::path::parent_path(Path);
  sys::fs::directory_iterator It(Parent.empty() ? "." : Parent, Problem), End;
  // Behind so many bytes no part is more than Whole, however many follow.
  for (; !Problem && It != End && All / (Folder / Whole) <= DiskSize;
       It.increment(Problem)) {
    if (sys::path::filename(It->path()) == sys::path::filename(Path) ||
        !mayHoldData(It->path()))
      continue;
    if (ErrorOr<sys::fs::basic_file_status> Status = It->status())
      All += Status->getSize();
  }
  const double Part =
      All ? static_cast<double>(DiskSize) / static_cast<double>(All) : 1;
  return std::max(Whole, static_cast<uint64_t>(
                             static_cast<double>(Folder) * Part));
}

DocumentRows::DocumentRows(Source &S, uint64_t Budget) : S(S), Budget(Budget) {
  auto Id = [&](StringRef Text) {
    return Text.empty() ? NullString : S.pool().intern(Text);
  };
  File = Id(S.path());
  Run = Id(S.Run);
  Split = Id(splitOfPath(S.path()));
}

/// Content may be parts, [{"type": "text", "text": "..."}], or turns again.
void DocumentRows::turn(StringRef Role, LooseValue Content) {
  if (Content.isNull() || !Content)
    return;
  if (!Text.empty())
    Text += '\n';
  (Text += Role) += Role.empty() ? "" : ": ";
  if (!Content.isArray() && !Content.isObject()) {
    Text += Content.written();
    return;
  }
  bool First = true;
  for (LooseValue V = Content.first(); V; V = V.next()) {
    LooseValue Part = V.isObject() ? V.any({"text", "content"}) : V;
    if (Part.written().empty())
      continue;
    if (!First)
      Text += '\n';
    Text += Part.written();
    First = false;
  }
}

static StringRef roleOf(StringRef Role) {
  if (Role == "human")
    return "user";
  return Role == "gpt" || Role == "model" || Role == "bot" || Role == "chatgpt"
             ? "assistant"
             : Role;
}

void DocumentRows::textOf(LooseValue Record) {
  Text.clear();
  if (LooseValue List = Record.any(turnsKeys()); List.isArray()) {
    if (StringRef System = Record["system"].text(); !System.empty())
      turn("system", Record["system"]);
    for (LooseValue V = List.first(); V; V = V.next())
      if (V["role"] || V["content"])
        turn(roleOf(V["role"].text()), V["content"]);
      else
        turn(roleOf(V["from"].text()), V["value"]);
    return;
  }
  if (LooseValue Whole = Record.any(textKeys()); Whole.isText())
    return turn("", Whole);
  LooseValue Question = Record.any(questionKeys());
  turn("user", Question);
  // Alpaca's further input belongs to the question.
  LooseValue Input = Record.any({"input", "context"});
  if (Input && Input.key() != Question.key() && !Input.written().empty())
    turn("", Input);
  turn("assistant", Record.any(answerKeys()));
}

bool DocumentRows::add(LooseValue Record, int64_t Line) {
  if (documentShape(Record) == DocumentShape::None)
    return false;
  ++Rows;
  if (Rows > MaxRows) {
    ++Uncounted;
    return true;
  }
  textOf(Record);
  namespace column = documents;
  TableBuilder &Row = S.table(TableId::documents);
  Row.addRow();
  Row.setId(column::source, File);
  if (Run)
    Row.setId(column::run, Run);
  StringRef Own = splitOfWord(Record["split"].text());
  if (!Own.empty())
    Row.set(column::split, Own);
  else if (Split)
    Row.setId(column::split, Split);
  LooseValue Id = Record.any({"id", "_id", "uuid", "doc_id", "idx", "index",
                              "qid", "question_id", "prompt_id"});
  StringRef Written = Id.written();
  std::string Name = Written.empty() ? "#" + utostr(Rows)
                                     : wholeCharacters(Written, 256).str();
  Row.setId(column::id, S.pool().intern(Name));
  const uint64_t Most =
      Kept < Budget / 2 ? MaxText : Kept < Budget ? MaxStart : 0;
  if (Most) {
    StringRef Part = wholeCharacters(Text, Most);
    Cut += Most == MaxStart && Part.size() < Text.size();
    Kept += Part.size();
    Row.setId(column::text, S.pool().intern(Part));
  } else {
    ++Without;
  }
  Row.set(column::bytes, static_cast<int64_t>(Text.size()));
  Row.set(column::place, Line);
  return true;
}

void DocumentRows::finish() {
  if (Cut || Without)
    S.warn(S.path() + ": of " + utostr(Rows) + " documents " + utostr(Cut) +
               " are kept to their first " + utostr(MaxStart) +
               " bytes and " + utostr(Without) + " without their text",
           "copies among these are found in part or not at all; give a part "
           "of the data set to look at all of it");
  if (Uncounted)
    S.warn(S.path() + ": " + utostr(Uncounted) +
               " documents after the first " + utostr(MaxRows) +
               " were left out",
           "give a part of the data set to look at all of it");
}

} // namespace culprit
