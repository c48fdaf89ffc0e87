//===- LooseJson.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include <charconv>
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

static std::optional<double> namedNumber(StringRef Text) {
  bool Negative = Text.consume_front("-");
  if (!Negative)
    Text.consume_front("+");
  if (Text.equals_insensitive("nan"))
    return std::numeric_limits<double>::quiet_NaN();
  if (Text.equals_insensitive("inf") || Text.equals_insensitive("infinity")) {
    double Inf = std::numeric_limits<double>::infinity();
    return Negative ? -Inf : Inf;
  }
  return std::nullopt;
}

/// Parses plain digits; from_chars takes no leading plus.
static std::optional<double> plainNumber(StringRef Text) {
  Text.consume_front("+");
  // from_chars knows "inf" and "nan(...)"; those are namedNumber's.
  if (Text.empty() || !(isDigit(Text[0]) || Text[0] == '-' || Text[0] == '.'))
    return std::nullopt;
  if (Text.size() > 1 && Text[0] == '-' && !isDigit(Text[1]) && Text[1] != '.')
    return std::nullopt;
  double Value = 0;
  auto [Stop, Code] = std::from_chars(Text.begin(), Text.end(), Value);
  if (Stop != Text.end())
    return std::nullopt;
  if (Code == std::errc::result_out_of_range) {
    // 1e999 is infinite and 1e-999 is zero to everybody who prints them.
    bool Small = Text.contains("e-") || Text.contains("E-");
    double Limit = Small ? 0 : std::numeric_limits<double>::infinity();
    return Text[0] == '-' ? -Limit : Limit;
  }
  return Code == std::errc() ? std::optional<double>(Value) : std::nullopt;
}

std::optional<double> parseNumber(StringRef Text) {
  Text = Text.trim();
  if (std::optional<double> Value = plainNumber(Text))
    return Value;
  if (std::optional<double> Value = namedNumber(Text))
    return Value;
  if (Text.empty() || (!Text.contains(',') && !Text.contains('_')))
    return std::nullopt;
  // Groups of thousands: 1,234,567 or 1_000.
  std::string Joined;
  StringRef Whole = Text.take_until([](char C) { return C == '.'; });
  size_t SinceMark = 0;
  bool Marked = false;
  for (char C : Whole) {
    if (C == ',' || C == '_') {
      if (Joined.empty() || (Marked && SinceMark != 3) || SinceMark == 0)
        return std::nullopt;
      Marked = true;
      SinceMark = 0;
      continue;
    }
    SinceMark += isDigit(C);
    Joined += C;
  }
  if (Marked && SinceMark != 3)
    return std::nullopt;
  Joined += Text.drop_front(Whole.size());
  return plainNumber(Joined);
}

LooseJson::Token LooseJson::fail(const char *Message) {
  Problem = Message;
  return Token::Error;
}

void LooseJson::skipBlanks() {
  while (Position < Text.size() &&
         (Text[Position] == ' ' || Text[Position] == '\t' ||
          Text[Position] == '\n' || Text[Position] == '\r'))
    ++Position;
}

void LooseJson::afterValue() {
  Wanted = Stack.empty() ? Expect::Done : Expect::CommaOrEnd;
}

LooseJson::Token LooseJson::open(char Kind) {
  if (Stack.size() == MaxDepth)
    return fail("nested too deeply");
  Stack.push_back(Kind);
  ++Position;
  Wanted = Kind == '{' ? Expect::KeyOrEnd : Expect::Value;
  return Kind == '{' ? Token::Object : Token::Array;
}

LooseJson::Token LooseJson::close(char Kind) {
  char Opened = Kind == '}' ? '{' : Kind == ']' ? '[' : '(';
  if (Stack.empty() || Stack.back() != Opened)
    return fail("a bracket closes what was not opened");
  Stack.pop_back();
  ++Position;
  afterValue();
  return Kind == '}' ? Token::EndObject : Token::EndArray;
}

/// Reads \p Digits hexadecimal digits behind the escaped letter \p Kind.
void LooseJson::readCodePoint(char Kind, unsigned Digits) {
  unsigned Code = 0, Low = 0;
  StringRef Hex = Text.substr(Position, Digits);
  if (Hex.size() < Digits || !all_of(Hex, isHexDigit)) {
    // A path of Windows, or a text that breaks off.
    if (Kind != 'u')
      Unescaped += Kind;
    return;
  }
  Hex.getAsInteger(16, Code);
  Position += Digits;
  // What is beyond 16 bits is a pair of surrogates.
  if (Kind == 'u' && Code >= 0xD800 && Code < 0xDC00) {
    StringRef Next = Text.substr(Position, 6);
    if (Next.consume_front("\\u") && !Next.getAsInteger(16, Low) &&
        Low >= 0xDC00 && Low < 0xE000) {
      Code = 0x10000 + ((Code - 0xD800) << 10) + (Low - 0xDC00);
      Position += 6;
    }
  }
  char Buffer[UNI_MAX_UTF8_BYTES_PER_CODE_POINT];
  char *Out = Buffer;
  // Half a pair has no UTF-8 form: a text was cut between them.
  if (ConvertCodePointToUTF8(Code, Out))
    Unescaped.append(Buffer, Out);
  else
    Unescaped += "\xEF\xBF\xBD";
}

void LooseJson::readEscape() {
  char C = Text[Position++];
  switch (C) {
  case 'n':
    Unescaped += '\n';
    return;
  case 't':
    Unescaped += '\t';
    return;
  case 'r':
    Unescaped += '\r';
    return;
  case 'b':
    Unescaped += '\b';
    return;
  case 'f':
    Unescaped += '\f';
    return;
  case 'x': // Python's repr, as U
    return readCodePoint(C, 2);
  case 'u':
    return readCodePoint(C, 4);
  case 'U':
    return readCodePoint(C, 8);
  default:
    Unescaped += C; // quotes, backslash, slash; Python's \' too
  }
}

bool LooseJson::readString(char Quote) {
  size_t Begin = ++Position;
  // Most strings have no escape and need no copy.
  while (Position < Text.size() && Text[Position] != Quote &&
         Text[Position] != '\\')
    ++Position;
  if (Position < Text.size() && Text[Position] == Quote) {
    Value = Text.slice(Begin, Position++);
    return true;
  }
  Unescaped = Text.slice(Begin, Position).str();
  while (Position < Text.size() && Text[Position] != Quote) {
    if (Text[Position] != '\\') {
      size_t Run = Position;
      while (Position < Text.size() && Text[Position] != Quote &&
             Text[Position] != '\\')
        ++Position;
      Unescaped.append(Text.data() + Run, Position - Run);
      continue;
    }
    if (++Position == Text.size())
      return false;
    readEscape();
  }
  if (Position >= Text.size())
    return false;
  ++Position;
  Value = Unescaped;
  return true;
}

LooseJson::Token LooseJson::readWord() {
  size_t Begin = Position;
  while (Position < Text.size() &&
         (isAlnum(Text[Position]) || Text[Position] == '+' ||
          Text[Position] == '-' || Text[Position] == '.' ||
          Text[Position] == '_'))
    ++Position;
  StringRef Word = Text.slice(Begin, Position);
  Value = Word;
  if (std::optional<double> Number = plainNumber(Word)) {
    NumberValue = *Number;
    afterValue();
    return Token::Number;
  }
  afterValue();
  if (Word == "null" || Word == "None")
    return Token::Null;
  if (Word == "true" || Word == "false" || Word == "True" || Word == "False") {
    NumberValue = Word[0] == 't' || Word[0] == 'T';
    return Token::Bool;
  }
  if (std::optional<double> Number = namedNumber(Word)) {
    NumberValue = *Number;
    return Token::Number;
  }
  if (readWrapped()) {
    afterValue();
    return Token::Number;
  }
  Position = Begin;
  return fail("neither a value nor a quoted string");
}

/// Reads what a scalar type prints around its number: np.float64(2.5),
/// tensor(2.5, device='cuda:0').
bool LooseJson::readWrapped() {
  if (Position >= Text.size() || Text[Position] != '(')
    return false;
  StringRef Inner = Text.substr(Position + 1, 256);
  size_t Close = Inner.find(')');
  if (Close == StringRef::npos)
    return false;
  Value = Inner.take_front(Close).split(',').first.trim("' ");
  std::optional<double> Number = parseNumber(Value);
  if (!Number)
    return false;
  NumberValue = *Number;
  Position += Close + 2;
  return true;
}

LooseJson::Token LooseJson::readValue() {
  switch (Text[Position]) {
  case '{':
    return open('{');
  case '[':
    return open('[');
  case '(':
    return open('(');
  case ']':
  case ')':
    return close(Text[Position]); // an empty list or a trailing comma
  case '"':
  case '\'':
    if (!readString(Text[Position]))
      return fail("a string without an end");
    afterValue();
    return Token::String;
  default:
    return readWord();
  }
}

LooseJson::Token LooseJson::readKey() {
  char C = Text[Position];
  if (C == '}')
    return close('}');
  if (C == '"' || C == '\'') {
    if (!readString(C))
      return fail("a string without an end");
  } else {
    // Python's repr has integer keys.
    size_t Begin = Position;
    while (Position < Text.size() &&
           (isAlnum(Text[Position]) || Text[Position] == '_'))
      ++Position;
    if (Position == Begin)
      return fail("a key is missing");
    Value = Text.slice(Begin, Position);
  }
  Wanted = Expect::Colon;
  return Token::Key;
}

LooseJson::Token LooseJson::next() {
  if (Problem)
    return Token::Error;
  for (;;) {
    if (Wanted == Expect::Done)
      return Token::End;
    skipBlanks();
    Start = Position;
    if (Position >= Text.size())
      return fail("the text ends inside a value");
    char C = Text[Position];
    switch (Wanted) {
    case Expect::Value:
      return readValue();
    case Expect::KeyOrEnd:
      return readKey();
    case Expect::Colon:
      if (C != ':')
        return fail("a colon is missing after a key");
      ++Position;
      Wanted = Expect::Value;
      break;
    case Expect::CommaOrEnd:
      if (C == '}' || C == ']' || C == ')')
        return close(C);
      if (C != ',')
        return fail("a comma is missing");
      ++Position;
      Wanted = Stack.back() == '{' ? Expect::KeyOrEnd : Expect::Value;
      break;
    case Expect::Done:
      break;
    }
  }
}

bool LooseJson::skip(Token Begun) {
  if (Begun != Token::Object && Begun != Token::Array)
    return Begun != Token::Error;
  unsigned Outside = depth() - 1;
  // A list of plain numbers is passed over: ids and bytes are half of some
  // files.
  if (Begun == Token::Array && Wanted == Expect::Value && !Problem) {
    size_t At = Position;
    while (At < Text.size() &&
           (isDigit(Text[At]) || StringRef(", .-+eE").contains(Text[At])))
      ++At;
    if (At < Text.size() && Text[At] == ']' && Stack.back() == '[') {
      Position = At;
      close(']');
      return true;
    }
  }
  while (depth() > Outside)
    if (Token T = next(); T == Token::Error || T == Token::End)
      return false;
  return true;
}

} // namespace culprit
