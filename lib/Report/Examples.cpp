//===- Examples.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Examples.h"
#include "Report/ExampleRows.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// Longer rows are shown without their middle.
static constexpr int64_t MaxShown = 1024;
/// So many equal tokens in a row are counted instead.
static constexpr size_t MinRun = 4;

namespace {

class Printer {
public:
  Printer(raw_ostream &OS, const Case &C, const TokenVocabulary &Words,
          const ExampleStyle &Style)
      : OS(OS), C(C), Tensors(C.table(TableId::tensors)), Words(Words),
        Style(Style), Rows(C, Words) {}

  size_t run();

private:
  void print(const Batch &B, int64_t Line, int64_t Lines);
  void printTokens(const Example &E);
  std::string shown(int64_t Id) const;

  raw_ostream &OS;
  const Case &C;
  const Table &Tensors;
  const TokenVocabulary &Words;
  const ExampleStyle &Style;
  ExampleRows Rows;
};

/// The text of a token; an id that the tokenizer lacks in <5?>.
std::string Printer::shown(int64_t Id) const {
  if (!Words.has(Id))
    return "<" + itostr(Id) + "?>";
  return Words.text(Id);
}

/// Prints text fit for a terminal: a line break is one, other control
/// characters are escaped.
static void printText(raw_ostream &OS, StringRef Text) {
  std::string Clean = json::fixUTF8(Text);
  for (char Char : Clean) {
    if (Char == '\n')
      OS << "\n    ";
    else if (static_cast<unsigned char>(Char) < 0x20 || Char == 0x7F)
      OS << formatv("\\x{0}", toHex(StringRef(&Char, 1)));
    else
      OS << Char;
  }
}

void Printer::printTokens(const Example &E) {
  const StringRef Open = Style.Color ? "\x1b[4m" : "⟦";
  const StringRef Close = Style.Color ? "\x1b[24m" : "⟧";
  const size_t Size = E.Ids.size();
  const size_t Cut = Size > MaxShown ? MaxShown / 2 : Size;
  bool Inside = false;
  // A character may be spread over tokens, so text is put out where the mark
  // changes.
  std::string Pending;
  const auto Flush = [&] {
    printText(OS, Pending);
    Pending.clear();
  };
  OS << "    ";
  for (size_t I = 0; I < Size;) {
    if (I == Cut && Size > MaxShown) {
      Flush();
      if (Inside)
        OS << Close;
      Inside = false;
      I = Size - MaxShown / 2;
      OS << " ... " << formatCount(static_cast<int64_t>(I - Cut))
         << " tokens ... ";
    }
    size_t End = I + 1;
    while (End < Size && (I >= Cut || End < Cut) && E.Ids[End] == E.Ids[I] &&
           E.Counted[End] == E.Counted[I])
      ++End;
    if (E.Counted[I] != Inside) {
      Flush();
      OS << (E.Counted[I] ? Open : Close);
      Inside = E.Counted[I];
    }
    std::string Text = shown(E.Ids[I]);
    if (End - I >= MinRun) {
      Pending += Text + " x " + utostr(End - I) + " ";
    } else {
      for (size_t J = I; J != End; ++J)
        Pending += Text;
    }
    I = End;
  }
  Flush();
  if (Inside)
    OS << Close;
  OS << '\n';
}

void Printer::print(const Batch &B, int64_t Line, int64_t Lines) {
  Example E = Rows.example(B, Line);
  OS << "  "
     << Tensors.cell(B.Ids, Tensors.columns()[tensors::name]).String;
  const ColumnView &Step = Tensors.columns()[tensors::step];
  if (int64_t At = Step.getInt(B.Ids); At != NullInt)
    OS << ", step " << At;
  OS << ", row " << Line + 1 << " of " << Lines << ": " << E.Ids.size()
     << (E.Ids.size() == 1 ? " token" : " tokens");
  if (size_t Padding = llvm::count(E.Padding, true))
    OS << ", " << Padding << " of them padding";
  if (E.HasLoss)
    OS << ", " << llvm::count(E.Counted, true) << " in the loss";
  OS << '\n';
  printTokens(E);
  for (const std::string &Odd : Rows.oddities(E))
    OS << "    ! " << Odd << '\n';
}

size_t Printer::run() {
  std::vector<Batch> All = Rows.batches(Style.Most);
  if (All.empty())
    return 0;
  OS << "\nexamples, with what the loss counts "
     << (Style.Color ? "underlined" : "in ⟦ ⟧") << '\n';
  // One row of each batch in turn, so that a few show different ones.
  size_t Printed = 0;
  for (int64_t Line = 0; Printed < Style.Most; ++Line) {
    bool Any = false;
    for (const Batch &B : All) {
      const TensorView &Ids = C.tensor(B.Ids);
      const int64_t Lines = Ids.Shape.size() == 1 ? 1 : Ids.Shape[0];
      if (Line >= Lines || Printed == Style.Most)
        continue;
      Any = true;
      print(B, Line, Lines);
      ++Printed;
    }
    if (!Any)
      break;
  }
  return Printed;
}

} // namespace

size_t printExamples(raw_ostream &OS, const Case &C,
                     const TokenVocabulary &Words, const ExampleStyle &Style) {
  return Printer(OS, C, Words, Style).run();
}

} // namespace culprit
