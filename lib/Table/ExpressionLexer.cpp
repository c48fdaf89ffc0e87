//===- ExpressionLexer.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/ExpressionLexer.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

static bool isNameStart(char C) { return isAlpha(C) || C == '_'; }
static bool isNamePart(char C) { return isAlnum(C) || C == '_' || C == '.'; }

static void bad(ExpressionToken &Result, std::string Problem, StringRef Hint) {
  Result.Kind = ExpressionToken::Bad;
  Result.Problem = std::move(Problem);
  Result.Hint = Hint;
}

ExpressionToken ExpressionLexer::next() {
  while (At != Text.size() && isSpace(Text[At]))
    ++At;
  ExpressionToken Result;
  Result.At = At + 1;
  if (At == Text.size())
    return Result;
  char C = Text[At];
  if (isDigit(C) ||
      (C == '.' && At + 1 != Text.size() && isDigit(Text[At + 1])))
    lexNumber(Result);
  else if (isNameStart(C))
    lexWord(Result);
  else if (C == '\'' || C == '"' || C == '`')
    lexQuoted(Result, C);
  else
    lexSymbol(Result);
  return Result;
}

void ExpressionLexer::lexNumber(ExpressionToken &Result) {
  size_t First = At;
  bool IsInt = true;
  while (At != Text.size() && (isNamePart(Text[At]) || isSign(First))) {
    IsInt &= isDigit(Text[At]);
    ++At;
  }
  StringRef Word = Text.slice(First, At);
  Result.Kind = ExpressionToken::Literal;
  int64_t Int;
  double Double;
  if (IsInt && !Word.getAsInteger(10, Int))
    Result.Value = Int;
  else if (IsInt)
    bad(Result, "the number " + Word.str() + " does not fit 64 bits",
        "write it with an exponent, as in 1e20");
  else if (Word.find_first_not_of("0123456789.eE+-") == StringRef::npos &&
           !Word.getAsDouble(Double))
    Result.Value = Double;
  else
    bad(Result, "malformed number '" + Word.str() + "'",
        "numbers have no units; times are in nanoseconds, as in 5e6");
}

/// The sign of an exponent belongs to its number: 1e-9.
bool ExpressionLexer::isSign(size_t First) const {
  return (Text[At] == '+' || Text[At] == '-') && At > First &&
         (Text[At - 1] == 'e' || Text[At - 1] == 'E');
}

void ExpressionLexer::lexWord(ExpressionToken &Result) {
  size_t First = At;
  while (At != Text.size() && isNamePart(Text[At]))
    ++At;
  Result.Kind = ExpressionToken::Word;
  Result.Text = Text.slice(First, At);
  Result.Name = Result.Text.str();
}

/// As in SQL, a doubled quote stands for itself.
void ExpressionLexer::lexQuoted(ExpressionToken &Result, char Quote) {
  std::string Value;
  for (++At;; ++At) {
    if (At == Text.size())
      return bad(Result, "unclosed quote", "");
    if (Text[At] == Quote) {
      ++At;
      if (At == Text.size() || Text[At] != Quote)
        break;
    }
    Value += Text[At];
  }
  if (Quote == '`') {
    Result.Kind = ExpressionToken::Word;
    Result.Quoted = true;
    Result.Name = std::move(Value);
    return;
  }
  Result.Kind = ExpressionToken::Literal;
  Result.Value = std::move(Value);
}

void ExpressionLexer::lexSymbol(ExpressionToken &Result) {
  // What other languages write, with what to write here. The longest first.
  static constexpr struct {
    StringLiteral Text, Use;
  } Symbols[] = {{"==", ""},
                 {"!=", ""},
                 {"<=", ""},
                 {">=", ""},
                 {"<>", "use '!='"},
                 {"~=", "use '!='"},
                 {"&&", "use 'and'"},
                 {"||", "use 'or'"},
                 {"=", "use '==' to compare"},
                 {"!", "use 'not'"},
                 {"&", "use 'and'"},
                 {"|", "use 'or'"},
                 {"<", ""},
                 {">", ""},
                 {"+", ""},
                 {"-", ""},
                 {"*", ""},
                 {"/", ""},
                 {"%", ""},
                 {"(", ""},
                 {")", ""},
                 {",", ""},
                 {"?", ""}};
  StringRef Rest = Text.drop_front(At);
  for (const auto &Symbol : Symbols) {
    if (!Rest.starts_with(Symbol.Text))
      continue;
    At += Symbol.Text.size();
    if (!Symbol.Use.empty())
      return bad(Result, "unexpected '" + Symbol.Text.str() + "'", Symbol.Use);
    Result.Kind = ExpressionToken::Symbol;
    Result.Text = Symbol.Text;
    return;
  }
  // A character outside ASCII is several bytes; name it whole.
  StringRef Odd = Rest.take_while([](char C) { return !isASCII(C); });
  if (Odd.empty())
    Odd = Rest.take_front(1);
  bad(Result, "unexpected '" + Odd.str() + "'", "");
}

} // namespace culprit
