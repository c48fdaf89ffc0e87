//===- ExpressionLexer.h - Words of column expressions ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Cuts the text of an expression into words, numbers, quoted text and symbols.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_EXPRESSIONLEXER_H
#define CULPRIT_TABLE_EXPRESSIONLEXER_H

#include "Table/Expression.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

struct ExpressionToken {
  enum KindTy : uint8_t { End, Symbol, Word, Literal, Bad } Kind = End;
  size_t At = 0;        ///< Where it starts, counted from 1.
  llvm::StringRef Text; ///< Of a Symbol or an unquoted Word.
  bool Quoted = false;  ///< A Word in back quotes: never a keyword.
  std::string Name;     ///< Of a Word, without quotes.
  Argument Value;       ///< Of a Literal.
  // Of a Bad token, one that cannot be part of an expression:
  std::string Problem;
  llvm::StringRef Hint;
};

/// A token at a time, then End for ever. Refers to the text.
class ExpressionLexer {
public:
  explicit ExpressionLexer(llvm::StringRef Text) : Text(Text) {}

  ExpressionToken next();

private:
  void lexNumber(ExpressionToken &Result);
  void lexWord(ExpressionToken &Result);
  void lexQuoted(ExpressionToken &Result, char Quote);
  void lexSymbol(ExpressionToken &Result);
  bool isSign(size_t First) const;

  llvm::StringRef Text;
  size_t At = 0;
};

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSIONLEXER_H
