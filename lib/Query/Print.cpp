//===- Print.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/Print.h"
#include "Support/PlainText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <charconv>
#include <cmath>

using namespace llvm;

namespace culprit {

static std::string numberText(double Number) {
  if (std::isinf(Number))
    return Number > 0 ? "inf" : "-inf";
  char Buffer[32];
  auto [End, Problem] =
      std::to_chars(Buffer, Buffer + sizeof(Buffer), Number);
  return std::string(Buffer, End);
}

/// The value for CSV and text; NULL is the caller's.
static std::string valueText(const QueryValue &V) {
  switch (V.Kind) {
  case QueryValue::Null:
    return "";
  case QueryValue::Integer:
    return itostr(V.Int);
  case QueryValue::Real:
    return numberText(V.Number);
  case QueryValue::Text:
    return V.String.str();
  case QueryValue::Bytes:
    return toHex(V.String, /*LowerCase=*/true);
  }
  return "";
}

namespace {

/// A line of the table, cell by cell, fit for a terminal.
struct TextCell {
  std::string Text;
  bool Number = false;
};

using TextRow = std::vector<TextCell>;

} // namespace

/// At most 60 characters: the first 57 and "...".
static std::string shortened(std::string Text) {
  constexpr size_t Most = 60;
  if (widthOf(Text) <= Most)
    return Text;
  Text.resize(std::min(Text.size(), Most - 3));
  // Not in the middle of a character.
  while (!Text.empty() && !json::isUTF8(Text))
    Text.pop_back();
  return Text + "...";
}

static TextRow textRow(const QueryRows &Rows) {
  TextRow Out;
  unsigned Count = Rows.columns().size();
  for (unsigned I = 0; I != Count; ++I) {
    QueryValue V = Rows.value(I);
    bool Number =
        V.Kind == QueryValue::Integer || V.Kind == QueryValue::Real;
    std::string Text =
        V.Kind == QueryValue::Null ? "-" : printable(valueText(V));
    if (I + 1 != Count)
      Text = shortened(std::move(Text));
    Out.push_back({std::move(Text), Number});
  }
  return Out;
}

namespace {
/// How wide each column is, and whether it holds numbers.
struct TextLayout {
  std::vector<size_t> Widths;
  SmallVector<bool, 8> Right;

  TextLayout(const TextRow &Header, ArrayRef<TextRow> Rows) {
    for (size_t I = 0; I != Header.size(); ++I) {
      size_t Width = widthOf(Header[I].Text);
      bool Numbers = false, Words = false;
      for (const TextRow &Row : Rows) {
        Width = std::max(Width, widthOf(Row[I].Text));
        Numbers |= Row[I].Number;
        Words |= !Row[I].Number && Row[I].Text != "-";
      }
      Widths.push_back(Width);
      Right.push_back(Numbers && !Words);
    }
  }

  void print(raw_ostream &OS, const TextRow &Row) const {
    std::string Line;
    for (size_t I = 0; I != Row.size(); ++I) {
      if (I)
        Line += "  ";
      size_t Width = widthOf(Row[I].Text);
      std::string Pad(Width < Widths[I] ? Widths[I] - Width : 0, ' ');
      Line += Right[I] ? Pad + Row[I].Text : Row[I].Text + Pad;
    }
    OS << StringRef(Line).rtrim(' ') << '\n';
  }
};
} // namespace

Expected<size_t> printRowsAsText(raw_ostream &OS, QueryRows &Rows) {
  constexpr size_t Measured = 1000;
  std::vector<TextRow> Held;
  std::optional<TextLayout> Layout; // once Held is measured and printed
  for (size_t Count = 0;;) {
    Expected<bool> More = Rows.next();
    if (!More)
      return More.takeError();
    if (*More) {
      ++Count;
      if (Layout)
        Layout->print(OS, textRow(Rows));
      else
        Held.push_back(textRow(Rows));
    }
    if (!Layout && (!*More || Count == Measured)) {
      TextRow Header;
      for (const std::string &Name : Rows.columns())
        Header.push_back({printable(Name)});
      Layout.emplace(Header, Held);
      Layout->print(OS, Header);
      for (const TextRow &Row : Held)
        Layout->print(OS, Row);
    }
    if (!*More)
      return Count;
  }
}

static void printCsvField(raw_ostream &OS, StringRef Text, bool IsText) {
  bool Quote = (IsText && Text.empty()) ||
               Text.find_first_of(",\"\r\n") != StringRef::npos;
  if (!Quote) {
    OS << Text;
    return;
  }
  OS << '"';
  for (char C : Text) {
    if (C == '"')
      OS << '"';
    OS << C;
  }
  OS << '"';
}

Expected<size_t> printRowsAsCsv(raw_ostream &OS, QueryRows &Rows) {
  unsigned Columns = Rows.columns().size();
  for (unsigned I = 0; I != Columns; ++I) {
    if (I)
      OS << ',';
    printCsvField(OS, Rows.columns()[I], /*IsText=*/true);
  }
  OS << "\r\n";
  size_t Count = 0;
  while (true) {
    Expected<bool> Next = Rows.next();
    if (!Next)
      return Next.takeError();
    if (!*Next)
      return Count;
    for (unsigned I = 0; I != Columns; ++I) {
      QueryValue V = Rows.value(I);
      if (I)
        OS << ',';
      printCsvField(OS, valueText(V), V.Kind == QueryValue::Text);
    }
    OS << "\r\n";
    ++Count;
  }
}

Expected<size_t> printRowsAsJson(raw_ostream &OS, QueryRows &Rows) {
  auto text = [](StringRef Text) {
    return json::Value(json::isUTF8(Text) ? Text.str() : json::fixUTF8(Text));
  };
  OS << "{\"schema\":1,\"columns\":[";
  unsigned Columns = Rows.columns().size();
  for (unsigned I = 0; I != Columns; ++I)
    OS << (I ? "," : "") << text(Rows.columns()[I]);
  OS << "],\"rows\":[";
  size_t Count = 0;
  // Closed even after an error in the middle, so that what came is JSON.
  auto finish = [&] { OS << "\n]}\n"; };
  while (true) {
    Expected<bool> Next = Rows.next();
    if (!Next || !*Next) {
      finish();
      if (!Next)
        return Next.takeError();
      return Count;
    }
    OS << (Count++ ? ",\n[" : "\n[");
    for (unsigned I = 0; I != Columns; ++I) {
      QueryValue V = Rows.value(I);
      OS << (I ? "," : "");
      switch (V.Kind) {
      case QueryValue::Null:
        OS << "null";
        break;
      case QueryValue::Real:
        if (std::isinf(V.Number))
          OS << '"' << numberText(V.Number) << '"';
        else
          OS << numberText(V.Number);
        break;
      case QueryValue::Integer:
        OS << V.Int;
        break;
      case QueryValue::Text:
      case QueryValue::Bytes:
        OS << text(valueText(V));
        break;
      }
    }
    OS << ']';
  }
}

} // namespace culprit
