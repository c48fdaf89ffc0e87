//===- LogTemplate.cpp - What lines that say the same share -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogLine.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Characters of a path.
static bool isPathChar(char C) {
  return isAlnum(C) || StringRef("_-./~+@%").contains(C);
}

/// The end of the path that begins at \p I, or \p I. A path begins with a
/// slash, ./ or ~/ and names at least one folder. No path begins before
/// \p None: a run of characters without the slashes that make a path has none
/// further inside, and is looked at once.
static size_t endOfPath(StringRef Text, size_t I, size_t &None) {
  char C = Text[I];
  if (I < None || (C != '/' && C != '.' && C != '~') ||
      (I && (isWordChar(Text[I - 1]) || Text[I - 1] == '/')))
    return I;
  size_t End = I;
  unsigned Slashes = 0;
  while (End < Text.size() && isPathChar(Text[End]))
    Slashes += Text[End++] == '/';
  if (Slashes < (C == '/' ? 2u : 1u)) {
    None = End;
    return I;
  }
  while (End > I && (Text[End - 1] == '.' || Text[End - 1] == '-'))
    --End;
  return End;
}

/// The end of a word of hexadecimal digits and hyphens that is no number and
/// no word of a language: a hash, a uuid, 0x7f3a. None but the last kind begins
/// before \p None: the rest of a run that is no hash is none either.
static size_t endOfHex(StringRef Text, size_t I, size_t &None) {
  if (I && isWordChar(Text[I - 1]))
    return I;
  size_t Begin = Text.substr(I).starts_with("0x") ? I + 2 : I, End = Begin;
  if (Begin == I && I < None)
    return I;
  unsigned Digits = 0, Letters = 0;
  while (End < Text.size() && (isHexDigit(Text[End]) || Text[End] == '-')) {
    Digits += isDigit(Text[End]);
    Letters += isAlpha(Text[End]);
    ++End;
  }
  bool Inside = End < Text.size() && isWordChar(Text[End]);
  if (Begin != I)
    return !Inside && End > Begin ? End : I;
  if (!Inside && Digits >= 2 && Letters >= 1 && Digits + Letters >= 8)
    return End;
  None = End;
  return I;
}

/// The end of the number that begins at \p I: digits, and what joins digits
/// in numbers, dates, shapes and versions.
static size_t endOfNumber(StringRef Text, size_t I) {
  size_t End = I;
  while (End < Text.size()) {
    if (isDigit(Text[End])) {
      ++End;
      continue;
    }
    bool Next = End + 1 < Text.size() && isDigit(Text[End + 1]);
    bool Exponent =
        (Text[End] == 'e' || Text[End] == 'E') && End + 2 < Text.size() &&
        (Next ||
         (StringRef("+-").contains(Text[End + 1]) && isDigit(Text[End + 2])));
    if (Exponent)
      End += 2;
    else if (Next && StringRef(".,:-/xT").contains(Text[End]))
      ++End;
    else
      break;
  }
  return End;
}

void makeTemplate(StringRef Text, std::string &Out) {
  Out.clear();
  Out.reserve(Text.size());
  size_t NoPath = 0, NoHex = 0;
  for (size_t I = 0; I < Text.size();) {
    char C = Text[I];
    size_t End = I;
    if (C == '/' || C == '.' || C == '~')
      End = endOfPath(Text, I, NoPath);
    if (End == I && isHexDigit(C))
      End = endOfHex(Text, I, NoHex);
    if (End == I && isDigit(C))
      End = endOfNumber(Text, I);
    if (End == I) {
      Out += C;
      ++I;
      continue;
    }
    // A sign belongs to its number.
    if (isDigit(C) && Out.size() > 1 && Out.back() == '-' &&
        StringRef(" =:[(,").contains(Out[Out.size() - 2]))
      Out.pop_back();
    Out += "<*>";
    I = End;
  }
}

} // namespace culprit
