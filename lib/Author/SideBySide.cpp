//===- SideBySide.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/SideBySide.h"
#include "Support/PlainText.h"
#include "Support/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

/// The longest begin of \p Text that is at most \p Width columns wide, and one
/// character at least.
static StringRef fitting(StringRef Text, size_t Width) {
  StringRef Best = wholeCharacters(Text, std::min(Text.size(), Width));
  while (widthOf(Best) > Width && Best.size() > 1)
    Best = wholeCharacters(Text, Best.size() - 1);
  for (size_t Most = Best.size() + 1; Most <= Text.size(); ++Most) {
    StringRef More = wholeCharacters(Text, Most);
    if (widthOf(More) > Width)
      break;
    Best = More;
  }
  return Best.empty() ? Text.take_front(1) : Best;
}

std::vector<std::string> brokenLines(StringRef Text, size_t Width) {
  std::vector<std::string> Out;
  size_t Indent = Text.size() - Text.ltrim(' ').size();
  std::string First(std::min(Indent, Width / 2), ' ');
  std::string Next(std::min(Indent + 2, Width / 2), ' ');
  Text = Text.trim(' ');
  do {
    const std::string &Begin = Out.empty() ? First : Next;
    size_t Room = std::max<size_t>(1, Width - Begin.size());
    StringRef Part = fitting(Text, Room);
    if (Part.size() < Text.size() && Text[Part.size()] != ' ')
      if (size_t Space = Part.rfind(' ');
          Space != StringRef::npos && Space >= Part.size() / 3)
        Part = Part.take_front(Space);
    Text = Text.drop_front(Part.size()).ltrim(' ');
    Out.push_back(Begin + Part.rtrim(' ').str());
  } while (!Text.empty());
  return Out;
}

static void put(raw_ostream &OS, StringRef Text, size_t Width, bool Pad,
                bool Colored, raw_ostream::Colors Color) {
  if (Colored && !Text.trim(' ').empty())
    OS.changeColor(Color);
  OS << Text;
  if (Colored && !Text.trim(' ').empty())
    OS.resetColor();
  size_t Wide = widthOf(Text);
  if (Pad && Wide < Width)
    OS.indent(static_cast<unsigned>(Width - Wide));
}

void printSideBySide(raw_ostream &OS, ArrayRef<SideRow> Rows,
                     const SideStyle &Style) {
  constexpr size_t Mark = 2, Gap = 2;
  size_t Used = Style.Indent + Mark + Gap;
  size_t Room = Style.Width > Used + 20 ? Style.Width - Used : 20;
  // Each side gets what it needs if both fit, else half or what the other
  // leaves.
  size_t Left = 8, Right = 6;
  std::vector<SideRow> Clean;
  for (const SideRow &R : Rows) {
    Clean.push_back({printable(R.Left), printable(R.Right), R.Differs});
    Left = std::max(Left, widthOf(Clean.back().Left));
    Right = std::max(Right, widthOf(Clean.back().Right));
  }
  if (Left + Right > Room) {
    size_t Half = Room / 2;
    Left = std::min(Left, std::max(Half, Room - std::min(Room, Right)));
    Right = std::min(Right, Room - Left);
  }
  auto Line = [&](StringRef A, StringRef B, bool Marked, bool Colored) {
    std::string Buffer;
    raw_string_ostream Text(Buffer);
    Text.enable_colors(Colored);
    Text.indent(Style.Indent) << (Marked ? "! " : "  ");
    put(Text, A, Left + Gap, !B.empty(), Colored, raw_ostream::GREEN);
    put(Text, B, Right, false, Colored, raw_ostream::RED);
    OS << StringRef(Buffer).rtrim(' ') << '\n';
  };
  Line("expected", "actual", false, false);
  for (const SideRow &R : Clean) {
    std::vector<std::string> A = brokenLines(R.Left, Left),
                             B = brokenLines(R.Right, Right);
    for (size_t I = 0; I != std::max(A.size(), B.size()); ++I)
      Line(I < A.size() ? A[I] : "", I < B.size() ? B[I] : "",
           R.Differs && I == 0, R.Differs && Style.Color);
  }
}

} // namespace culprit
