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
#include <optional>

namespace culprit {

enum class NodeKind : uint8_t {
  Column,
  Constant,
  Add,
  Subtract,
  Multiply,
  Divide,
  Modulo,
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
  StartsWith,
  EndsWith,
  In,
  Finite,
  Product,
  Floor,
  Ceil,
  Round,
  Sqrt,
  Log,
  Exp,
  Min,
  Max,
  If,
  Coalesce,
  Length,
  Widen, ///< Int to Double; never written, the checker puts it in.
};

struct Node {
  NodeKind Kind = NodeKind::Constant;
  size_t At = 0;      ///< Where it stands in the text, counted from 1.
  uint32_t Left = 0;  ///< Number of the first or only operand.
  uint32_t Right = 0; ///< Number of the second operand.
  uint32_t Third = 0; ///< Number of the third operand, of If alone.
  std::string Name;   ///< Of a Column.
  Argument Value;     ///< Of a Constant.
  /// Of a Constant that is a `?`: which argument it stands for.
  std::optional<uint32_t> Parameter;
  std::vector<uint32_t> List; ///< Of In: the constants looked for.
};

/// An expression without the values of its `?`.
struct ParsedExpression {
  /// Operands before what uses them and the root last, so that passes over the
  /// tree are loops. Each node is used once.
  std::vector<Node> Nodes;
  size_t Parameters = 0; ///< How many `?` there are.
};

/// Parses \p Text.
llvm::Expected<ParsedExpression> parseExpression(llvm::StringRef Text);

/// The same, out of a cache of this thread where it was parsed before: a
/// detector asks one question of many groups. Fails too when there are not
/// \p Arguments `?`.
llvm::Expected<std::shared_ptr<const ParsedExpression>>
parsedExpression(llvm::StringRef Text, size_t Arguments);

/// `in "TEXT": WHAT at column AT`.
llvm::Error expressionFailure(llvm::StringRef Text, const llvm::Twine &What,
                              size_t At, const llvm::Twine &Hint = "");

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSIONPARSER_H
