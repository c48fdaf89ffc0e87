//===- ExpressionParser.h - Syntax of column expressions --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// From the text of an expression to a flat tree. Knows no tables and no
/// types; ExpressionProgram checks those.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_EXPRESSIONPARSER_H
#define CULPRIT_TABLE_EXPRESSIONPARSER_H

#include "Table/Expression.h"

namespace culprit {

enum class NodeKind : uint8_t {
  Column,
  Constant,
  Add,
  Subtract,
  Multiply,
  Divide,
  Negate,
  Abs,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  And,
  Or,
  Not,
  IsNull,
  IsNotNull,
  Match,
  Contains,
  Finite,
  Product,
  Widen, ///< Int to Double; never written, the checker puts it in.
};

struct Node {
  NodeKind Kind = NodeKind::Constant;
  size_t At = 0;      ///< Where it stands in the text, counted from 1.
  uint32_t Left = 0;  ///< Number of the first or only operand.
  uint32_t Right = 0; ///< Number of the second operand.
  std::string Name;   ///< Of a Column.
  Argument Value;     ///< Of a Constant.
};

/// The nodes of \p Text, operands before what uses them and the root last, so
/// that passes over the tree are loops. Each node is used once.
llvm::Expected<std::vector<Node>>
parseExpression(llvm::StringRef Text, llvm::ArrayRef<Argument> Arguments);

/// `in "TEXT": WHAT at column AT`.
llvm::Error expressionFailure(llvm::StringRef Text, const llvm::Twine &What,
                              size_t At, const llvm::Twine &Hint = "");

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSIONPARSER_H
