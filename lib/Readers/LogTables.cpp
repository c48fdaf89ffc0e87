//===- LogTables.cpp - Metrics in a printed table ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Of the columns one or two count, and the names of the others are the loop's.
//
//===----------------------------------------------------------------------===//

#include "Readers/LogTables.h"
#include "Readers/AccessLine.h"
#include "Readers/LogDialects.h"
#include "Readers/ScalarNames.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static constexpr size_t MaxColumns = 40;

static std::vector<std::string> cellsBetween(StringRef Text, StringRef Border) {
  std::vector<std::string> Out;
  while (!(Text = Text.ltrim()).empty() && Out.size() <= MaxColumns) {
    auto [Cell, Rest] = Text.split(Border);
    Out.push_back(Cell.trim().str());
    Text = Rest;
  }
  return Out;
}

/// What stands below the beginnings of columns.
static std::vector<std::string> cellsAt(StringRef Text,
                                        ArrayRef<size_t> Starts) {
  std::vector<std::string> Out;
  for (size_t I = 0; I != Starts.size(); ++I)
    Out.push_back(Text.slice(Starts[I], I + 1 == Starts.size() ? Text.size()
                                                               : Starts[I + 1])
                      .trim()
                      .str());
  return Out;
}

/// nerfstudio's first column; the others are any of what it measures.
static constexpr StringRef StepsDone = "Step (% Done)";

static bool isEpochName(StringRef Name) {
  return Name.equals_insensitive("epoch") || Name == "E";
}

static bool isStepName(StringRef Name) {
  return Name == "#" || Name == StepsDone ||
         fieldKind(Name) == FieldKind::Step ||
         fieldKind(Name) == FieldKind::Batch;
}

/// Whether \p Name, of one word, is more likely a column's than a sentence's.
static bool looksLikeColumn(StringRef Name) {
  return isStepName(Name) || isEpochName(Name) || Name.contains('_') ||
         Name.contains('/') || scalarName(Name).Known || isLossLike(Name) ||
         Name.equals_insensitive("time") || Name.equals_insensitive("wal");
}

/// Whether \p Names may be those of a table's columns: the first counts, one is
/// a loss or the like, and no two are the same. \p Apart: more than one blank
/// is between them, which sentences have not.
static bool areColumns(ArrayRef<std::string> Names, bool Apart) {
  if (Names.size() < 3 || Names.size() > MaxColumns ||
      !(isEpochName(Names[0]) || isStepName(Names[0])))
    return false;
  StringSet<> Seen;
  bool Loss = false;
  for (StringRef Name : Names) {
    if (!(Name == "#" || isAlpha(Name[0])) || Name.size() > 60 ||
        !Seen.insert(Name).second || !(Apart || looksLikeColumn(Name)))
      return false;
    Loss |= isLossLike(Name);
  }
  return Loss;
}

static std::vector<std::string> columnNamesOf(StringRef Text) {
  Text.consume_front("# "); // NequIP marks it as a comment
  if (Text.starts_with(StepsDone)) {
    std::vector<std::string> Names;
    if (Text.size() <= 500)
      Names = cellsBetween(Text, "  ");
    const bool Whole = Names.size() >= 2 && Names.size() <= MaxColumns &&
                       Names[0] == StepsDone;
    return Whole ? Names : std::vector<std::string>();
  }
  StringRef First = Text.split(' ').first;
  if (Text.size() > 500 || !(isEpochName(First) || isStepName(First)) ||
      Text.find_first_of(":=|{}[],;") != StringRef::npos)
    return {};
  for (bool Apart : {true, false})
    if (std::vector<std::string> Names = cellsBetween(Text, Apart ? "  " : " ");
        areColumns(Names, Apart))
      return Names;
  return {};
}

/// A cell of nerfstudio's tables as a number: a counter and the part that is
/// done, a time in seconds, thousands or millions.
static std::optional<double> measured(StringRef Cell) {
  auto [Count, Unit] = Cell.split(' ');
  if (Unit.empty() || Unit.starts_with("("))
    return parseNumber(Count);
  if (Unit == "K" || Unit == "M") {
    std::optional<double> Value = parseNumber(Count);
    return Value ? std::optional(*Value * (Unit == "K" ? 1e3 : 1e6)) : Value;
  }
  std::string Time = Cell.str(); // 6 s, 295.000 ms
  erase_if(Time, [](char C) { return C == ' ' || C == ','; });
  return parseDuration(Time);
}

/// A cell as a number; minutes and seconds are none but no text either.
static bool isCell(StringRef Cell, std::optional<double> &Value) {
  Value = parseNumber(Cell);
  return Value || Cell == "-" || Cell == "None" ||
         (isDigit(Cell[0]) && Cell.contains(':') &&
          all_of(Cell, [](char C) { return isDigit(C) || C == ':'; }));
}

/// What a table may have between two of its rows: bars, remarks.
static constexpr unsigned MaxForeignInTable = 20;

PrintedTable::Kind PrintedTable::line(StringRef Text) {
  if (isAlpha(Text.empty() ? ' ' : Text[0]) || Text.starts_with("#")) {
    if (std::vector<std::string> Names = columnNamesOf(Text); !Names.empty()) {
      Columns = std::move(Names);
      Starts.clear();
      if (Columns[0] == StepsDone)
        for (size_t From = 0; StringRef Name : Columns) {
          Starts.push_back(Text.find(Name, From));
          From = Starts.back() + Name.size();
        }
      Foreign = 0;
      Last = -1;
      return Kind::Names;
    }
  }
  if (Columns.empty())
    return Kind::Other;
  std::vector<std::string> Cells;
  const bool Numbers = !Text.empty() && isDigit(Text[0]);
  if (Numbers && Text.size() <= 1000)
    Cells = Starts.empty() ? cellsBetween(Text, " ") : cellsAt(Text, Starts);
  Values.assign(Columns.size(), std::nullopt);
  bool Row = Cells.size() == Columns.size();
  for (size_t I = 0; Row && I != Cells.size(); ++I)
    Row = Starts.empty() ? isCell(Cells[I], Values[I])
                         : (Values[I] = measured(Cells[I])).has_value();
  // A counter does not go back within a table.
  if (Row && Values[0] && *Values[0] >= std::max(Last, 0.0) &&
      *Values[0] == std::floor(*Values[0]) && *Values[0] < 1e15) {
    Last = *Values[0];
    Foreign = 0;
    return Kind::Row;
  }
  // Numbers of another kind follow a table that has ended.
  if (Numbers && !StringRef(Text).contains('%'))
    Foreign = MaxForeignInTable;
  if (++Foreign > MaxForeignInTable)
    Columns.clear();
  return Kind::Other;
}

bool LogDialects::tableLine(const LogLine &L) {
  PrintedTable::Kind Is = Table.line(L.Body);
  if (Is != PrintedTable::Kind::Row)
    return Is == PrintedTable::Kind::Names;
  ArrayRef<std::string> Columns = Table.columns();
  ArrayRef<std::optional<double>> Values = Table.values();
  std::optional<double> Epoch, Step;
  for (size_t I = 0; I != 2; ++I)
    if (isEpochName(Columns[I]) && !Epoch)
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
