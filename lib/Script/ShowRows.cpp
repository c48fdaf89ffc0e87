//===- ShowRows.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/ShowRows.h"
#include "Support/PlainText.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

/// Kernel names are longer than any terminal is wide.
static constexpr size_t MaxCell = 40;
static constexpr size_t MaxValue = 2000;

static std::string rowsText(size_t N) {
  return formatCount(static_cast<int64_t>(N)) + (N == 1 ? " row" : " rows");
}

static std::string padded(StringRef Text, size_t Width, bool Right) {
  size_t Wide = widthOf(Text);
  std::string Pad(Wide < Width ? Width - Wide : 0, ' ');
  return Right ? Pad + Text.str() : Text.str() + Pad;
}

/// The unit of \p Column, as the schema has it; "ns" for what verbs compute
/// under the names that times have everywhere.
static StringRef unitOf(const Table &T, const ColumnView &Column) {
  for (const std::string &Name : {T.originName(), T.name()})
    if (std::optional<TableId> Id = findTable(Name))
      if (std::optional<unsigned> C = schema(*Id).find(Column.Name))
        return schema(*Id).Columns[*C].Unit;
  if (Column.type() == ColumnType::Int &&
      (Column.Name == "start" || Column.Name == "stop" || Column.Name == "dur"))
    return "ns";
  return "";
}

/// The cell with its unit; empty where it has none that is worth a word.
static std::string withUnit(const Cell &C, StringRef Unit) {
  if (C.Null || (C.Type != ColumnType::Int && C.Type != ColumnType::Double))
    return "";
  if (C.Type == ColumnType::Int && (Unit == "time" || Unit == "ns"))
    return formatDuration(C.Int);
  if (Unit == "bytes")
    return formatBytes(C.number());
  return "";
}

static std::string cellText(const Cell &C, StringRef Unit, bool Units) {
  if (Units)
    if (std::string Text = withUnit(C, Unit); !Text.empty())
      return Text;
  // Of a Unix time six digits are the day.
  if (!C.Null && C.Type == ColumnType::Double && Unit == "s" &&
      C.number() >= 1e8 && C.number() < 1e11)
    return formatv("{0:f3}", C.number());
  return printable(C.text());
}

/// Whether the \p Rows first rows have the one value, of which more may be
/// known than is shown.
static bool isConstant(const Table &T, size_t Rows, const ColumnView &View) {
  Cell First = T.cell(0, View);
  for (size_t I = 1; I != Rows; ++I) {
    Cell C = T.cell(I, View);
    bool Same = C.Null == First.Null && C.text() == First.text();
    if (Same && !C.Null && C.Type == ColumnType::Double)
      Same = C.number() == First.number() ||
             (std::isnan(C.number()) && std::isnan(First.number()));
    if (!Same)
      return false;
  }
  return Rows > 1;
}

namespace {
struct ShownColumn {
  std::string Name;
  std::vector<std::string> Cells;
  bool Right = true; ///< Numbers.
  size_t Width = 0;
  bool Constant = false; ///< All of several rows have the one value.
  bool Repeats = false;  ///< Says what another column says.

  void measure() {
    Width = widthOf(Name);
    for (const std::string &Text : Cells)
      Width = std::max(Width, widthOf(Text));
  }
};

/// The columns that are shown, made to fit.
class Layout {
public:
  Layout(const Table &T, size_t Rows, const ShowStyle &Style);

  /// \p More rows are not shown.
  void print(std::string &Out, size_t More) const;

private:
  size_t width() const {
    size_t Sum = 0;
    for (const ShownColumn &C : Columns)
      Sum += C.Width + 2;
    return Sum ? Sum - 2 : 0;
  }
  void fit(size_t Width);

  size_t Rows;
  std::vector<ShownColumn> Columns;
  std::vector<std::string> Constant, LeftOut;
};
} // namespace

Layout::Layout(const Table &T, size_t Rows, const ShowStyle &Style)
    : Rows(Rows) {
  // What evidence calls the row.
  if (!T.originName().empty()) {
    ShownColumn &Number = Columns.emplace_back();
    Number.Name = "#";
    for (size_t I = 0; I != Rows; ++I)
      Number.Cells.push_back(std::to_string(T.originRow(I)));
    Number.measure();
  }
  for (const ColumnView &View : T.columns()) {
    bool Known = false;
    for (size_t I = 0; I != Rows && !Known; ++I)
      Known = !View.isNull(I);
    if (!Known)
      continue;
    ShownColumn &C = Columns.emplace_back();
    C.Name = View.Name;
    C.Right = View.type() == ColumnType::Int ||
              View.type() == ColumnType::Double;
    C.Constant = isConstant(T, Rows, View);
    // Evidence names the place, and raw_name and template are as a rule like
    // the text beside them.
    C.Repeats = !T.originName().empty() &&
                is_contained({"place", "raw_name", "template"}, View.Name);
    StringRef Unit = unitOf(T, View);
    for (size_t I = 0; I != Rows; ++I)
      C.Cells.push_back(
          shortened(cellText(T.cell(I, View), Unit, Style.Units), MaxCell));
    C.measure();
  }
  fit(Style.Width);
}

void Layout::fit(size_t Width) {
  if (width() <= Width)
    return;
  // What is the same in every row is said once.
  for (size_t I = 0; I != Columns.size();) {
    if (!Columns[I].Constant) {
      ++I;
      continue;
    }
    Constant.push_back(Columns[I].Name + " = " + Columns[I].Cells.front());
    Columns.erase(Columns.begin() + I);
  }
  // Then long texts are cut shorter, and columns go: those that repeat
  // another, then from the right.
  for (size_t Most : {30, 20}) {
    if (width() <= Width)
      return;
    for (ShownColumn &C : Columns) {
      if (C.Right)
        continue;
      for (std::string &Text : C.Cells)
        Text = shortened(Text, Most);
      C.measure();
    }
  }
  while (width() > Width && Columns.size() > 1) {
    auto Last = find_if(reverse(Columns),
                        [](const ShownColumn &C) { return C.Repeats; });
    size_t Gone = Last == Columns.rend() ? Columns.size() - 1
                                         : Columns.rend() - Last - 1;
    LeftOut.insert(LeftOut.begin(), Columns[Gone].Name);
    Columns.erase(Columns.begin() + Gone);
  }
}

void Layout::print(std::string &Out, size_t More) const {
  auto Line = [&](auto Text) {
    std::string One;
    for (const ShownColumn &C : Columns)
      One += (One.empty() ? "" : "  ") + padded(Text(C), C.Width, C.Right);
    Out += StringRef(One).rtrim(' ').str() + "\n";
  };
  if (!Columns.empty()) {
    Line([](const ShownColumn &C) { return StringRef(C.Name); });
    for (size_t I = 0; I != Rows; ++I)
      Line([I](const ShownColumn &C) { return StringRef(C.Cells[I]); });
  }
  if (More)
    Out += "... " + formatCount(static_cast<int64_t>(More)) +
           (More == 1 ? " more row\n" : " more rows\n");
  if (!Constant.empty())
    Out += "in each of these rows: " + join(Constant, ", ") + "\n";
  if (!LeftOut.empty())
    Out += "no room for: " + join(LeftOut, ", ") + "; select() chooses\n";
}

std::string showTable(const Table &T, const ShowStyle &Style) {
  std::string Out = (T.name().empty() ? "table" : T.name()) + ": " +
                    rowsText(T.rows()) + "\n";
  size_t Rows = std::min(T.rows(), Style.MaxRows);
  if (!Rows)
    return Out;
  Layout(T, Rows, Style).print(Out, T.rows() - Rows);
  return Out;
}

std::string showRow(const Table &T, size_t Row, const ShowStyle &Style) {
  std::string Out = T.name().empty() ? "row" : T.name();
  if (!T.originName().empty())
    Out = T.originName() + "#" + std::to_string(T.originRow(Row));
  Out += "\n";
  size_t Width = 0;
  for (const ColumnView &View : T.columns())
    if (!View.isNull(Row))
      Width = std::max(Width, widthOf(View.Name));
  for (const ColumnView &View : T.columns()) {
    if (View.isNull(Row))
      continue;
    Cell C = T.cell(Row, View);
    StringRef Of = unitOf(T, View);
    std::string Text = shortened(cellText(C, Of, /*Units=*/false), MaxValue);
    std::string Unit = withUnit(C, Of);
    Out += "  " + padded(View.Name, Width, false) + "  " + Text;
    if (!Unit.empty() && Unit != Text)
      Out += "  (" + Unit + ")";
    Out += "\n";
  }
  return Out;
}

std::string showColumn(const Table &T, size_t Index, const ShowStyle &Style) {
  const ColumnView &View = T.columns()[Index];
  StringRef Unit = unitOf(T, View);
  std::string Out = T.name() + "." + View.Name + ": " + rowsText(T.rows());
  size_t Rows = std::min(T.rows(), Style.MaxRows);
  std::string Line = "\n ";
  size_t Wide = 1;
  for (size_t I = 0; I != Rows; ++I) {
    std::string Text =
        " " + shortened(cellText(T.cell(I, View), Unit, Style.Units), MaxCell);
    if (I + 1 != T.rows())
      Text += ",";
    if (Wide + widthOf(Text) > Style.Width && Wide > 1) {
      Line += "\n ";
      Wide = 1;
    }
    Wide += widthOf(Text);
    Line += Text;
  }
  if (Rows)
    Out += Line;
  if (T.rows() > Rows)
    Out += " ... " + formatCount(static_cast<int64_t>(T.rows() - Rows)) +
           " more";
  return Out + "\n";
}

std::string showCase(const Case &C) {
  std::string Out;
  size_t Width = 0;
  for (const TableSchema &T : schemas())
    Width = std::max(Width, T.Name.size());
  for (const TableSchema &T : schemas())
    if (std::optional<TableId> Id = findTable(T.Name); Id && C.has(*Id))
      Out += padded(T.Name, Width, false) + "  " +
             rowsText(C.table(*Id).rows()) + "\n";
  return Out.empty() ? "a case without a row\n" : Out;
}

} // namespace culprit
