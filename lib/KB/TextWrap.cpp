//===- TextWrap.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "Support/PlainText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

/// Prints the words of \p Line from column \p At on.
static void wrapLine(raw_ostream &OS, StringRef Line, StringRef Next,
                     unsigned At, unsigned Columns) {
  // Items keep their indent in the lines that follow.
  StringRef Indent = Line.take_while([](char C) { return C == ' '; });
  std::string Hang = Next.str() + Indent.str();
  if (Line.ltrim().starts_with("- "))
    Hang += "  ";
  OS << Indent;
  At += Indent.size();
  bool First = true;
  Line = Line.ltrim();
  while (!Line.empty()) {
    StringRef Word;
    std::tie(Word, Line) = Line.split(' ');
    Line = Line.ltrim();
    unsigned Size = widthOf(Word);
    if (!First && At + 1 + Size > Columns) {
      OS << '\n' << Hang;
      At = widthOf(Hang);
    } else if (!First) {
      OS << ' ';
      ++At;
    }
    OS << Word;
    At += Size;
    First = false;
  }
  OS << '\n';
}

/// Whether \p Line, without its indent, begins an item: "- ", "* ", "3. ".
static bool beginsItem(StringRef Line) {
  if (Line.starts_with("- ") || Line.starts_with("* "))
    return true;
  StringRef Rest = Line.drop_while(isDigit);
  return Rest.size() != Line.size() && Rest.starts_with(". ");
}

std::string joinLines(StringRef Text) {
  std::string Out;
  bool InFence = false, Open = false, InItem = false;
  while (!Text.empty()) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    StringRef Words = Line.trim();
    bool Fence = Words.starts_with("```"), Item = beginsItem(Words);
    bool Code = !Open && !InItem && Line.starts_with("    ");
    bool Whole = InFence || Fence || Code || Words.empty() ||
                 Words.starts_with("|") || Words.starts_with("#");
    if (!Whole && !Item && Open) {
      Out += ' ';
      Out += Words;
    } else {
      if (!Out.empty())
        Out += '\n';
      Out += Whole ? Line : Line.rtrim();
    }
    Open = !Whole;
    InItem = !Whole && (Item || InItem);
    InFence ^= Fence;
  }
  return Out;
}

void printWrapped(raw_ostream &OS, StringRef Text, StringRef First,
                  StringRef Next, unsigned Columns) {
  bool InFence = false, Begins = true;
  Text = Text.trim("\n");
  do {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    StringRef Prefix = Begins ? First : Next;
    bool Fence = Line.ltrim().starts_with("```");
    if (Line.trim().empty() && !Begins) {
      OS << '\n';
    } else if (InFence || Fence || Line.ltrim().starts_with("|")) {
      OS << Prefix << Line << '\n';
    } else {
      OS << Prefix;
      wrapLine(OS, Line, Next, widthOf(Prefix), Columns);
    }
    InFence ^= Fence;
    Begins = false;
  } while (!Text.empty());
}

} // namespace culprit
