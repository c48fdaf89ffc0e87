//===- MarkdownLines.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

static bool isBlank(char C) { return C == ' ' || C == '\t'; }

/// Whether nothing but \p Sign and blanks stand in \p Line.
static bool onlyOf(StringRef Line, char Sign) {
  return all_of(Line, [&](char C) { return C == Sign || isBlank(C); });
}

/// What a line is that begins with a sign and then \p Rest.
static LineStart itemOr(StringRef Rest, LineStart Item, LineStart Else) {
  if (!Rest.empty() && !isBlank(Rest.front()))
    return isSpace(Rest.front()) ? LineStart::Other : Else;
  return Rest.trim(" \t").empty() ? LineStart::Other : Item;
}

LineStart lineStart(StringRef Line) {
  char C = Line.front();
  size_t Run = 1;
  while (Run < Line.size() && Line[Run] == C)
    ++Run;
  StringRef Rest = Line.drop_front(Run);
  switch (C) {
  case '#':
    return Run <= 6 && (Rest.empty() || isBlank(Rest.front()))
               ? LineStart::Heading
               : LineStart::Text;
  case '>':
  case '<':
  case ' ':
  case '\t':
    return LineStart::Other;
  case '`':
    return Run >= 3 && !Rest.contains('`') ? LineStart::Fence : LineStart::Text;
  case '~':
    return Run >= 3 ? LineStart::Fence : LineStart::Text;
  case '=':
    return onlyOf(Rest, C) ? LineStart::Other : LineStart::Text;
  case '_':
  case '-':
  case '*':
    if (onlyOf(Rest, C))
      return Run >= 3 && Rest.empty() ? LineStart::Rule : LineStart::Other;
    if (C == '_' || Run > 1)
      return LineStart::Text;
    return itemOr(Rest, LineStart::Bullet, LineStart::Text);
  case '+':
    return itemOr(Line.drop_front(), LineStart::Bullet, LineStart::Text);
  default:
    break;
  }
  if (!isDigit(C))
    return LineStart::Text;
  Rest = Line.drop_while(isDigit);
  if (Line.size() - Rest.size() > 9 || Rest.empty() ||
      (Rest.front() != '.' && Rest.front() != ')'))
    return LineStart::Text;
  return itemOr(Rest.drop_front(), LineStart::Number, LineStart::Text);
}

ItemStart itemStart(StringRef Line) {
  ItemStart Out;
  StringRef Digits = Line.take_while(isDigit);
  Digits.getAsInteger(10, Out.Number);
  Out.Sign = Line[Digits.size()];
  StringRef Rest = Line.drop_front(Digits.size() + 1);
  StringRef Text = Rest.ltrim(' ');
  if (Rest.size() - Text.size() <= 4 && lineStart(Text) == LineStart::Text)
    Out.Text = Text;
  return Out;
}

/// Whether a definition may begin at the bracket that \p Text begins with.
static bool mayBeDefinition(StringRef Text) {
  size_t I = 1;
  for (size_t End = std::min<size_t>(Text.size(), 1100);; ++I) {
    if (I >= End || Text[I] == '[')
      return false;
    if (Text[I] == ']')
      break;
    I += Text[I] == '\\';
  }
  Text = Text.drop_front(I + 1);
  if (!Text.consume_front(":"))
    return false;
  StringRef Line = Text.take_until([](char C) { return C == '\n'; });
  Line = Line.trim(" \t");
  if (Line.empty() || Line.starts_with("<"))
    return true;
  StringRef Title = Line.drop_until(isBlank).ltrim(" \t");
  if (Title.empty() || Title.contains('\\'))
    return true;
  if (!StringRef("\"'(").contains(Title.front()))
    return false;
  size_t Close = Title.find(Title.front() == '(' ? ')' : Title.front(), 1);
  return Close == StringRef::npos || Close + 1 == Title.size();
}

bool mayDefineLinks(StringRef Text) {
  if (!Text.contains("]:"))
    return false;
  for (size_t At = Text.find('['); At != StringRef::npos;
       At = Text.find('[', At + 1)) {
    // Before it may stand what opens quotes and items.
    size_t Begin = At;
    while (Begin && (isDigit(Text[Begin - 1]) ||
                     StringRef(" \t>-*+.)").contains(Text[Begin - 1])))
      --Begin;
    if ((!Begin || Text[Begin - 1] == '\n') &&
        mayBeDefinition(Text.drop_front(At)))
      return true;
  }
  return false;
}

} // namespace culprit
