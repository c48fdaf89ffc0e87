//===- CsvScalars.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CsvScalars.h"
#include "Readers/ScalarRows.h"
#include "Readers/TextEncoding.h"
#include "Readers/TextLines.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace llvm;

namespace culprit {

namespace {
/// The records of a CSV text. Cells are views of the text, or of Owned where
/// doubled quotes had to be undone.
class CsvRecords {
public:
  CsvRecords(StringRef Text, char Separator)
      : Text(Text), Separator(Separator) {}

  /// Reads the next record; false at the end of the text.
  bool next();

  std::vector<StringRef> Cells;
  int64_t Line = 0;          ///< First line of the record, from 1.
  bool Unterminated = false; ///< A quoted cell did not end.

private:
  StringRef quotedCell();
  StringRef Text;
  char Separator;
  int64_t NextLine = 1;
  std::vector<std::string> Owned;
};
} // namespace

/// Reads the quoted cell that Text begins with.
StringRef CsvRecords::quotedCell() {
  std::string Value;
  size_t I = 1;
  for (; I < Text.size(); ++I) {
    if (Text[I] == '\n')
      ++NextLine;
    if (Text[I] != '"') {
      Value += Text[I];
      continue;
    }
    if (I + 1 == Text.size() || Text[I + 1] != '"')
      break;
    Value += Text[I++];
  }
  Unterminated = I >= Text.size();
  Text = Text.drop_front(std::min(I + 1, Text.size()));
  Owned.push_back(std::move(Value));
  return Owned.back();
}

bool CsvRecords::next() {
  Cells.clear();
  Owned.clear();
  // Views into the strings must survive the growth of the vector.
  Owned.reserve(Text.take_until([](char C) { return C == '\n'; }).count('"') +
                1);
  if (Text.empty())
    return false;
  Line = NextLine;
  for (;;) {
    StringRef Cell;
    if (Text.starts_with("\"") && Owned.size() < Owned.capacity())
      Cell = quotedCell();
    size_t Stop = Text.find_first_of(StringRef("\n\0", 1).str() + Separator);
    StringRef Plain = Text.take_front(Stop);
    Cells.push_back(Cell.data() ? Cell : Plain.trim());
    if (Stop == StringRef::npos) {
      Text = "";
      return true;
    }
    bool End = Text[Stop] == '\n';
    Text = Text.drop_front(Stop + 1);
    if (End) {
      ++NextLine;
      return true;
    }
  }
}

/// The separator of the header line: the one it has most of.
static char separatorOf(StringRef Header) {
  char Best = 0;
  size_t Most = 0;
  for (char C : {',', '\t', ';'})
    if (size_t Count = Header.count(C); Count > Most) {
      Best = C;
      Most = Count;
    }
  return Best;
}

/// A number as Excel writes it where the comma is decimal: 2,5 and 1.234,5.
static std::optional<double> parseCommaNumber(StringRef Cell) {
  std::string Plain;
  for (char C : Cell)
    if (C != '.')
      Plain += C == ',' ? '.' : C;
  return parseNumber(Plain);
}

/// Whether a comma stands in front of decimals in \p Text, whose cells are
/// parted by semicolons: where it parts thousands there are three digits
/// behind it, always, and no nought in front.
static bool hasDecimalCommas(StringRef Text, char Separator) {
  if (Separator != ';')
    return false;
  CsvRecords Records(Text, Separator);
  for (unsigned Rows = 0; Rows != 1000 && Records.next(); ++Rows)
    for (StringRef Cell : Records.Cells) {
      auto [Whole, Decimals] = Cell.split(',');
      StringRef Digits = Decimals.take_while(isDigit);
      if (Digits.empty() || !parseCommaNumber(Cell) ||
          Decimals.contains(','))
        continue;
      if (Digits.size() != 3 || Whole.ltrim("+-") == "0")
        return true;
    }
  return false;
}

static bool isNumberOrBlank(StringRef Cell) {
  return Cell.empty() || parseNumber(Cell) || parseCommaNumber(Cell);
}

Match CsvScalarsReader::matches(const InputFile &File) const {
  std::string Converted;
  StringRef Head = asUtf8(File.head(), Converted);
  StringRef Header = Head.take_until([](char C) { return C == '\n'; });
  char Separator = separatorOf(Header);
  // JSON on one line has commas too.
  if (!Separator || Header.ltrim().starts_with("{") ||
      Header.ltrim().starts_with("["))
    return Match::No;
  CsvRecords Records(Head, Separator);
  if (!Records.next())
    return Match::No;
  bool Step = false, Known = false;
  size_t Columns = Records.Cells.size();
  for (StringRef Name : Records.Cells) {
    if (parseNumber(Name) || Name.size() > 80)
      return Match::No; // a row of numbers, or prose with commas
    Step |= fieldKind(Name) == FieldKind::Step;
    Known |= scalarName(Name).Known || isLossLike(Name);
  }
  if (!Step && !Known)
    return Match::No;
  if (!Records.next())
    return Match::Possible; // a header alone
  size_t Numeric = llvm::count_if(Records.Cells, isNumberOrBlank);
  bool Fits = Records.Cells.size() == Columns && Numeric * 2 >= Columns;
  return Fits ? Match::Likely : Match::No;
}

/// TensorBoard downloads one scalar a file, named run-train-tag-loss.csv, with
/// the columns Wall time, Step and Value.
static std::string nameOfValues(StringRef Path) {
  StringRef Stem = sys::path::stem(Path);
  size_t Tag = Stem.rfind("tag-");
  return Stem.drop_front(Tag == StringRef::npos ? 0 : Tag + 4).str();
}

static void readCell(ScalarRows &Rows, StringRef Name, StringRef Cell,
                     StringRef ValueName, bool DecimalCommas) {
  if (Cell.empty())
    return; // not logged
  std::optional<double> Number =
      DecimalCommas ? parseCommaNumber(Cell) : parseNumber(Cell);
  if (!Number)
    Rows.string(Name, Cell);
  else if (!ValueName.empty() && fieldKind(Name) == FieldKind::Value)
    Rows.number(ValueName, *Number);
  else
    Rows.number(Name, *Number);
}

/// The cell of the column epoch, where it is a whole number.
static std::optional<double> wholeEpoch(ArrayRef<std::string> Names,
                                        ArrayRef<StringRef> Cells) {
  for (size_t I = 0; I != Names.size() && I != Cells.size(); ++I)
    if (StringRef(Names[I]).equals_insensitive("epoch")) {
      std::optional<double> Epoch = parseNumber(Cells[I]);
      if (Epoch && std::fabs(*Epoch) < 1e15 && *Epoch == std::floor(*Epoch))
        return Epoch;
    }
  return std::nullopt;
}

/// Whether the table has no step but an epoch, a new one in each row: Keras'
/// CSVLogger. A resumed run appends with its epochs going on.
static bool countsEpochs(StringRef Text, char Separator,
                         ArrayRef<std::string> Names) {
  for (const std::string &Name : Names)
    if (fieldKind(Name) == FieldKind::Step)
      return false;
  CsvRecords Records(Text, Separator);
  Records.next();
  std::optional<double> Last;
  while (Records.next()) {
    if (Records.Cells.size() != Names.size())
      continue;
    std::optional<double> Epoch = wholeEpoch(Names, Records.Cells);
    if (!Epoch || (Last && *Epoch <= *Last))
      return false;
    Last = Epoch;
  }
  return Last.has_value();
}

Error CsvScalarsReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  std::string Converted;
  StringRef Text = asUtf8(*Contents, Converted);
  char Separator =
      separatorOf(Text.take_until([](char C) { return C == '\n'; }));
  bool DecimalCommas = hasDecimalCommas(Text, Separator);
  CsvRecords Records(Text, Separator);
  if (!Records.next())
    return failure(Into.path() + ": no header line");
  std::vector<std::string> Names(Records.Cells.begin(), Records.Cells.end());
  bool HasMetric = llvm::any_of(Names, [](const std::string &Name) {
    FieldKind Kind = fieldKind(Name);
    return Kind == FieldKind::Metric || Kind == FieldKind::Layer;
  });
  std::string ValueName = HasMetric ? "" : nameOfValues(Into.path());
  bool CountsEpochs = countsEpochs(Text, Separator, Names);

  ScalarRows Rows(Into);
  Rows.takeSetOfPath();
  if (!HasMetric)
    Rows.expect(Names);
  size_t Broken = 0;
  while (Records.next()) {
    if (Records.Cells.size() == 1 && Records.Cells[0].empty())
      continue; // a blank line
    if (Records.Cells.size() != Names.size() || Records.Unterminated) {
      if (++Broken <= 3)
        Into.warn(Into.path() + ":" + Twine(Records.Line) + ": " +
                      Twine(Records.Cells.size()) + " cells where the header " +
                      "names " + Twine(Names.size()),
                  "the row was skipped; a run that was killed leaves its last "
                  "row unfinished");
      continue;
    }
    Rows.begin(Records.Line);
    for (size_t I = 0; I != Names.size(); ++I)
      readCell(Rows, Names[I], Records.Cells[I], ValueName, DecimalCommas);
    if (CountsEpochs)
      if (std::optional<double> Epoch = wholeEpoch(Names, Records.Cells))
        Rows.step(static_cast<int64_t>(*Epoch));
    Rows.end();
  }
  if (Broken > 3)
    Into.warn(Into.path() + ": " + Twine(Broken - 3) +
              " more rows do not have the cells that the header names");
  Rows.finish();
  if (Rows.rows() == 0)
    return failure(Into.path() + ": no row holds a number",
                   "nothing was logged yet, or the file lost its rows");
  return Error::success();
}

} // namespace culprit
