//===- LockScanner.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/LockScanner.h"
#include "Support/Error.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

using namespace llvm;

namespace culprit {

/// In place: a text of many lines is trimmed at each of them.
static void trimEnd(std::string &Text) {
  while (!Text.empty() && isSpace(Text.back()))
    Text.pop_back();
}

bool LockScanner::fail(const Twine &Message, const Twine &Hint) {
  if (!Problem)
    Problem.emplace(failure(Path + ":" + Twine(Line) + ": " + Message,
                            Hint.isTriviallyEmpty()
                                ? "docs/golden.md shows the form; culprit "
                                  "golden record writes the file anew"
                                : Hint));
  return false;
}

bool LockScanner::endLine() {
  skipSpaces();
  if (peek() == '#')
    while (!atEnd() && peek() != '\n')
      ++At;
  if (!atLineEnd())
    return fail("something stands behind a complete value",
                "put the value in quotes if it belongs to it");
  while (!atEnd() && peek() != '\n')
    ++At;
  if (!atEnd())
    advance();
  return true;
}

bool LockScanner::nextContent() {
  while (!atEnd()) {
    const size_t Begin = At;
    skipSpaces();
    if (atLineEnd() || peek() == '#') {
      while (!atEnd() && peek() != '\n')
        ++At;
      if (!atEnd())
        advance();
      continue;
    }
    if (peek() == '\t')
      return fail("a tab indents the line", "indent with spaces");
    Indent = At - Begin;
    LastLine = Line;
    return true;
  }
  return false;
}

/// The line break in a quoted text: one is a space, more are one less.
void LockScanner::fold(std::string &Out, bool Escaped) {
  while (!Escaped && !Out.empty() && (Out.back() == ' ' || Out.back() == '\r'))
    Out.pop_back();
  unsigned Breaks = 0;
  while (peek() == '\n' || peek() == ' ' || peek() == '\r') {
    Breaks += peek() == '\n';
    advance();
  }
  LastLine = Line;
  if (Breaks > 1)
    Out.append(Breaks - 1, '\n');
  else if (!Escaped)
    Out += ' ';
}

bool LockScanner::escape(std::string &Out) {
  static constexpr StringLiteral From = "0abtnvfre\"/\\ N_LP";
  static constexpr StringLiteral To[] = {
      StringLiteral::withInnerNUL("\0"), "\a", "\b", "\t", "\n", "\v", "\f",
      "\r", "\x1b", "\"", "/", "\\", " ", "\xC2\x85", "\xC2\xA0",
      "\xE2\x80\xA8", "\xE2\x80\xA9"};
  const char C = peek();
  if (const size_t I = From.find(C); I != StringRef::npos && C != '\0') {
    Out += To[I];
    ++At;
    return true;
  }
  if (atLineEnd()) {
    fold(Out, /*Escaped=*/true);
    return true;
  }
  const unsigned Digits = C == 'x' ? 2 : C == 'u' ? 4 : C == 'U' ? 8 : 0;
  unsigned Code = 0;
  if (!Digits || At + 1 + Digits > Text.size() ||
      Text.substr(At + 1, Digits).getAsInteger(16, Code))
    return fail("a quoted text has an escape that is none");
  At += 1 + Digits;
  char Buffer[4], *Behind = Buffer;
  if (!ConvertCodePointToUTF8(Code, Behind))
    return fail("a quoted text has an escape that is no character");
  Out.append(Buffer, Behind);
  return true;
}

bool LockScanner::quoted(std::string &Out) {
  const char Quote = peek();
  const unsigned First = Line;
  ++At;
  while (!atEnd()) {
    const char C = peek();
    if (C == Quote && Quote == '\'' && peek(1) == '\'') {
      Out += '\'';
      At += 2;
    } else if (C == Quote) {
      ++At;
      return true;
    } else if (C == '\\' && Quote == '"') {
      ++At;
      if (!escape(Out))
        return false;
    } else if (C == '\n') {
      fold(Out, false);
    } else {
      Out += C;
      ++At;
    }
  }
  Line = First;
  return fail("a quoted text does not end");
}

bool LockScanner::key(std::string &Out) {
  if (peek() == '"' || peek() == '\'') {
    if (!quoted(Out))
      return false;
    skipSpaces();
  } else {
    while (!atLineEnd() &&
           !(peek() == ':' && (peek(1) == ' ' || peek(1) == '\n' ||
                               peek(1) == '\r' || At + 1 == Text.size())))
      Out += Text[At++];
    trimEnd(Out);
  }
  if (peek() != ':' || Out.empty())
    return fail("no key with a colon behind it");
  ++At;
  skipSpaces();
  return true;
}

/// A word without quotes, and its lines that stand deeper than \p Column.
bool LockScanner::plain(std::string &Out, size_t Column) {
  if (StringRef("|>&*!%@`").contains(peek()))
    return fail(Twine("a value begins with '") + Twine(peek()) +
                    "', which this file does not use",
                "write the value plainly or in quotes");
  while (true) {
    while (!atLineEnd() && !(peek() == '#' && At && Text[At - 1] == ' '))
      Out += Text[At++];
    trimEnd(Out);
    if (!endLine())
      return false;
    const Mark Before = mark();
    if (nextContent() && Indent > Column) {
      Out += ' ';
      continue;
    }
    backTo(Before);
    return !Problem;
  }
}

void LockScanner::skipFlowBlanks() {
  while (!atEnd() && (isSpace(peek()) || peek() == '#')) {
    if (peek() == '#')
      while (!atEnd() && peek() != '\n')
        ++At;
    else
      advance();
  }
  LastLine = Line;
}

bool LockScanner::flowWord(std::string &Out) {
  if (peek() == '"' || peek() == '\'')
    return quoted(Out);
  if (peek() == '[' || peek() == '{')
    return fail("a list or mapping is within another",
                "items have words, lists of words and mappings of words");
  while (!atEnd() && !StringRef(",]}[{\n").contains(peek()) &&
         !(peek() == ':' && (isSpace(peek(1)) || peek(1) == ',' ||
                             peek(1) == '}')))
    Out += Text[At++];
  Out = StringRef(Out).trim().str();
  return true;
}

bool LockScanner::flow(GoldenValue &Out) {
  const bool Map = peek() == '{';
  const char Close = Map ? '}' : ']';
  const unsigned First = Line;
  Out.Is = Map ? GoldenValue::Form::Map : GoldenValue::Form::List;
  ++At;
  for (skipFlowBlanks(); !atEnd() && peek() != Close; skipFlowBlanks()) {
    std::string Word, Value;
    if (!flowWord(Word))
      return false;
    skipFlowBlanks();
    if (Map) {
      if (peek() != ':')
        return fail("a mapping in braces has a key without a value");
      ++At;
      skipFlowBlanks();
      if (!flowWord(Value))
        return false;
      skipFlowBlanks();
      Out.Map.push_back({std::move(Word), std::move(Value)});
    } else {
      Out.List.push_back(std::move(Word));
    }
    if (peek() == ',')
      ++At;
    else if (peek() != Close)
      break;
  }
  if (peek() != Close || atEnd()) {
    Line = atEnd() ? First : Line;
    return fail(Twine(Map ? "a mapping" : "a list") + " has no '" +
                Twine(Close) + "' at its end");
  }
  ++At;
  return endLine();
}

bool LockScanner::word(std::string &Out, size_t Column) {
  if (peek() == '"' || peek() == '\'')
    return quoted(Out) && endLine();
  if (peek() == '[' || peek() == '{')
    return fail("a list or mapping is within another",
                "items have words, lists of words and mappings of words");
  if (atLineEnd() || peek() == '#')
    return endLine();
  return plain(Out, Column);
}

} // namespace culprit
