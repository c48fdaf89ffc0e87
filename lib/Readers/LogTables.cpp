//===- LogTables.cpp - Metrics in a printed table ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Of the columns one or two count, and the names of the others are the loop's.
//
//===----------------------------------------------------------------------===//

#include "Readers/LogTables.h"
#include "Readers/LogDialects.h"
#include "Readers/ScalarNames.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static constexpr size_t MaxColumns = 40;

static std::vector<std::string> cellsOf(StringRef Text, StringRef Border) {
  std::vector<std::string> Out;
  while (!(Text = Text.ltrim()).empty() && Out.size() <= MaxColumns) {
    auto [Cell, Rest] = Text.split(Border);
    Out.push_back(Cell.trim().str());
    Text = Rest;
  }
  return Out;
}

static bool isEpochName(StringRef Name) {
  return Name.equals_insensitive("epoch") || Name == "E";
}

static bool isStepName(StringRef Name) {
  return Name == "#" || fieldKind(Name) == FieldKind::Step ||
         fieldKind(Name) == FieldKind::Batch;
}

/// Whether \p Names may be those of a table's columns: the first counts, and
/// one is a loss or the like. A sentence about losses does not begin with a
/// counter.
static bool areColumns(ArrayRef<std::string> Names) {
  return Names.size() >= 3 && Names.size() <= MaxColumns &&
         (isEpochName(Names[0]) || isStepName(Names[0])) &&
         any_of(Names, [](StringRef C) { return isLossLike(C); }) &&
         all_of(Names, [](StringRef C) {
           return (C == "#" || isAlpha(C[0])) && C.size() <= 60;
         });
}

static std::vector<std::string> columnsOf(StringRef Text) {
  Text.consume_front("# "); // NequIP marks it as a comment
  if (Text.size() > 500 || Text.find_first_of(":=|{}[],;") != StringRef::npos)
    return {};
  for (StringRef Border : {"  ", " "})
    if (std::vector<std::string> Names = cellsOf(Text, Border);
        areColumns(Names))
      return Names;
  return {};
}

/// A cell as a number; minutes and seconds are none but no text either.
static bool isCell(StringRef Cell, std::optional<double> &Value) {
  Value = parseNumber(Cell);
  return Value || Cell == "-" || Cell == "None" ||
         (isDigit(Cell[0]) && Cell.contains(':') &&
          all_of(Cell, [](char C) { return isDigit(C) || C == ':'; }));
}

PrintedTable::Kind PrintedTable::line(StringRef Text) {
  if (Text.empty())
    return Kind::Other;
  if (isAlpha(Text[0]) || Text[0] == '#') {
    // A line of another kind may stand between two rows.
    std::vector<std::string> Names = columnsOf(Text);
    if (Names.empty())
      return Kind::Other;
    Columns = std::move(Names);
    return Kind::Names;
  }
  if (Columns.empty())
    return Kind::Other;
  std::vector<std::string> Cells = cellsOf(Text, " ");
  if (Cells.size() != Columns.size())
    return Kind::Other;
  Values.assign(Cells.size(), std::nullopt);
  for (size_t I = 0; I != Cells.size(); ++I)
    if (!isCell(Cells[I], Values[I]))
      return Kind::Other;
  return Values[0] ? Kind::Row : Kind::Other;
}

bool LogDialects::tableLine(const LogLine &L) {
  PrintedTable::Kind Is = Table.line(L.Body);
  if (Is != PrintedTable::Kind::Row)
    return Is == PrintedTable::Kind::Names;
  ArrayRef<std::string> Columns = Table.columns();
  ArrayRef<std::optional<double>> Values = Table.values();
  std::optional<double> Epoch, Step;
  for (size_t I = 0; I != 2; ++I)
    if (isEpochName(Columns[I]))
      Epoch = Values[I];
    else if (isStepName(Columns[I]) && !Step)
      Step = Values[I];
  begin(L);
  Stepped |= Step.has_value();
  double At = Step ? Steps.ofCounter(*Step, Epoch) : *Epoch;
  if (std::fabs(At) < 1e15)
    Rows.step(static_cast<int64_t>(At));
  for (size_t I = 0; I != Columns.size(); ++I)
    if (Values[I] && !(I < 2 && isStepName(Columns[I])))
      Rows.number(isEpochName(Columns[I]) ? "epoch" : Columns[I], *Values[I]);
  return Rows.end();
}

} // namespace culprit
