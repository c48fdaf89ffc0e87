//===- LuaTokens.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/LuaTokens.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ConvertUTF.h"

using namespace llvm;

namespace culprit {

namespace {

class Scanner {
public:
  explicit Scanner(StringRef Source) : All(Source) {}

  std::vector<LuaToken> run();

private:
  StringRef rest() const { return All.substr(At); }
  char peek(size_t Ahead = 0) const {
    return At + Ahead < All.size() ? All[At + Ahead] : '\0';
  }
  void skipBlanks();
  /// The length of `[`, `=`s and `[` at the place; 0 where there is none.
  size_t longOpening() const;
  /// Goes beyond a long bracket and returns what it holds.
  StringRef longBracket(size_t Opening);
  std::string quoted();
  void escape(std::string &Into);
  size_t symbolLength() const;

  StringRef All;
  size_t At = 0;
  unsigned Line = 1;
};

} // namespace

static bool isKeyword(StringRef Word) {
  return StringSwitch<bool>(Word)
      .Cases("and", "break", "do", "else", "elseif", "end", "false", "for",
             true)
      .Cases("function", "goto", "if", "in", "local", "nil", "not", "or", true)
      .Cases("repeat", "return", "then", "true", "until", "while", true)
      .Default(false);
}

static bool isWordPart(char C) { return isAlnum(C) || C == '_'; }

size_t Scanner::longOpening() const {
  if (peek() != '[')
    return 0;
  size_t N = 1;
  while (peek(N) == '=')
    ++N;
  return peek(N) == '[' ? N + 1 : 0;
}

StringRef Scanner::longBracket(size_t Opening) {
  std::string Close = "]" + std::string(Opening - 2, '=') + "]";
  size_t First = At + Opening;
  size_t Last = std::min(All.find(Close, First), All.size());
  Line += All.slice(At, Last).count('\n');
  At = std::min(Last + Close.size(), All.size());
  StringRef Held = All.slice(First, Last);
  if (!Held.consume_front("\r\n"))
    Held.consume_front("\n"); // Lua drops the first line break
  return Held;
}

void Scanner::skipBlanks() {
  while (At < All.size()) {
    if (peek() == '\n') {
      ++Line;
      ++At;
    } else if (isSpace(peek())) {
      ++At;
    } else if (rest().starts_with("--")) {
      At += 2;
      if (size_t Opening = longOpening())
        longBracket(Opening);
      else
        At = std::min(All.find('\n', At), All.size());
    } else {
      return;
    }
  }
}

/// Behind a backslash.
void Scanner::escape(std::string &Into) {
  char C = peek();
  ++At;
  if (isDigit(C)) {
    unsigned Code = C - '0';
    for (int N = 0; N != 2 && isDigit(peek()); ++N, ++At)
      Code = Code * 10 + (peek() - '0');
    Into += static_cast<char>(Code);
  } else if (C == 'x') {
    unsigned Code = 0;
    for (int N = 0; N != 2 && isHexDigit(peek()); ++N, ++At)
      Code = Code * 16 + hexDigitValue(peek());
    Into += static_cast<char>(Code);
  } else if (C == 'u' && peek() == '{') {
    unsigned Code = 0;
    for (++At; isHexDigit(peek()); ++At)
      Code = (Code * 16 + hexDigitValue(peek())) & 0x1fffff;
    At += peek() == '}';
    char Bytes[UNI_MAX_UTF8_BYTES_PER_CODE_POINT];
    char *End = Bytes;
    if (ConvertCodePointToUTF8(Code, End))
      Into.append(Bytes, End);
  } else if (C == 'z') {
    for (; At < All.size() && isSpace(peek()); ++At)
      Line += peek() == '\n';
  } else {
    Line += C == '\n';
    static constexpr StringLiteral Letters = "abfnrtv", Meant = "\a\b\f\n\r\t\v";
    size_t N = Letters.find(C);
    Into += N == StringRef::npos ? C : Meant[N];
  }
}

std::string Scanner::quoted() {
  std::string Value;
  char Quote = All[At++];
  while (At < All.size() && peek() != Quote && peek() != '\n') {
    char C = All[At++];
    if (C == '\\')
      escape(Value);
    else
      Value += C;
  }
  At = std::min(At + (peek() == Quote), All.size());
  return Value;
}

size_t Scanner::symbolLength() const {
  for (StringRef Long : {"...", "..", "::", "==", "~=", "<=", ">=", "<<", ">>",
                         "//"})
    if (rest().starts_with(Long))
      return Long.size();
  return 1;
}

std::vector<LuaToken> Scanner::run() {
  std::vector<LuaToken> Tokens;
  if (All.starts_with("#"))
    At = std::min(All.find('\n'), All.size()); // a shebang line
  for (skipBlanks(); At < All.size(); skipBlanks()) {
    LuaToken T;
    T.Line = Line;
    size_t First = At;
    char C = peek();
    if (isAlpha(C) || C == '_') {
      while (isWordPart(peek()))
        ++At;
      T.Kind = isKeyword(All.slice(First, At)) ? LuaToken::Keyword
                                               : LuaToken::Name;
    } else if (isDigit(C) || (C == '.' && isDigit(peek(1)))) {
      // Loosely: 0x1p-3, 1e+9 and 3..2, which Lua refuses too.
      while (isWordPart(peek()) || peek() == '.' ||
             ((peek() == '+' || peek() == '-') && At > First &&
              StringRef("eEpP").contains(All[At - 1])))
        ++At;
      T.Kind = LuaToken::Number;
    } else if (C == '"' || C == '\'') {
      T.Kind = LuaToken::Text;
      T.Value = quoted();
    } else if (size_t Opening = longOpening()) {
      T.Kind = LuaToken::Text;
      T.Value = longBracket(Opening).str();
    } else {
      At += symbolLength();
      T.Kind = LuaToken::Symbol;
    }
    T.Source = All.slice(First, At);
    Tokens.push_back(std::move(T));
  }
  LuaToken End;
  End.Line = Line;
  Tokens.insert(Tokens.end(), LookAhead, End);
  return Tokens;
}

std::vector<LuaToken> scanLua(StringRef Source) {
  return Scanner(Source).run();
}

size_t closingBracket(ArrayRef<LuaToken> Tokens, size_t Open) {
  size_t Depth = 0;
  for (size_t I = Open; I + 1 < Tokens.size(); ++I) {
    if (Tokens[I].is("(") || Tokens[I].is("{") || Tokens[I].is("["))
      ++Depth;
    else if ((Tokens[I].is(")") || Tokens[I].is("}") || Tokens[I].is("]")) &&
             --Depth == 0)
      return I;
  }
  return Tokens.size() - 1;
}

} // namespace culprit
