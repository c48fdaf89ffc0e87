//===- ExpressionParser.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/ExpressionParser.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "Table/ExpressionLexer.h"
#include "llvm/ADT/StringSwitch.h"
#include <optional>

using namespace llvm;

namespace culprit {

Error expressionFailure(StringRef Text, const Twine &What, size_t At,
                        const Twine &Hint) {
  return failure("in \"" + Text + "\": " + What + " at column " + Twine(At),
                 Hint);
}

namespace {

/// Recursive descent, one function a level of precedence. After the first
/// error the input looks ended, so every function just returns.
class Parser {
public:
  Parser(StringRef Text, ArrayRef<Argument> Arguments)
      : Text(Text), Arguments(Arguments), Source(Text) {
    Current = Source.next();
  }

  Expected<std::vector<Node>> parse() {
    parseOr();
    if (Current.Kind != ExpressionToken::End)
      fail("expected an operator");
    if (Problem)
      return expressionFailure(Text, *Problem, ProblemAt, Hint);
    if (NextArgument != Arguments.size())
      return failure("in \"" + Text + "\": " + Twine(NextArgument) +
                         " '?' but " + Twine(Arguments.size()) +
                         (Arguments.size() == 1 ? " argument" : " arguments"),
                     "each '?' takes the next argument");
    return std::move(Nodes);
  }

private:
  static constexpr unsigned MaxDepth = 64;

  uint32_t parseOr() {
    uint32_t Left = parseAnd();
    while (isKeyword("or"))
      Left = binary(NodeKind::Or, Left, &Parser::parseAnd);
    return Left;
  }

  uint32_t parseAnd() {
    uint32_t Left = parseNot();
    while (isKeyword("and"))
      Left = binary(NodeKind::And, Left, &Parser::parseNot);
    return Left;
  }

  uint32_t parseNot() {
    if (!isKeyword("not"))
      return parseComparison();
    size_t At = advance();
    return add(NodeKind::Not, At, nested(&Parser::parseNot));
  }

  uint32_t parseComparison() {
    uint32_t Left = parseSum();
    if (std::optional<NodeKind> Kind = comparison()) {
      Left = binary(*Kind, Left, &Parser::parseSum);
      if (comparison())
        fail("comparisons do not chain: unexpected '" + Current.Text.str() +
                 "'",
             "join them with 'and', as in 1 < x and x < 5");
      return Left;
    }
    while (isKeyword("is")) {
      size_t At = advance();
      bool Negated = isKeyword("not");
      if (Negated)
        advance();
      if (!isKeyword("null"))
        return fail("expected 'null'");
      advance();
      Left = add(Negated ? NodeKind::IsNotNull : NodeKind::IsNull, At, Left);
    }
    return Left;
  }

  uint32_t parseSum() {
    uint32_t Left = parseProduct();
    while (isSymbol("+") || isSymbol("-"))
      Left = binary(isSymbol("+") ? NodeKind::Add : NodeKind::Subtract, Left,
                    &Parser::parseProduct);
    return Left;
  }

  uint32_t parseProduct() {
    uint32_t Left = parseSign();
    while (isSymbol("*") || isSymbol("/"))
      Left = binary(isSymbol("*") ? NodeKind::Multiply : NodeKind::Divide, Left,
                    &Parser::parseSign);
    return Left;
  }

  uint32_t parseSign() {
    if (!isSymbol("-"))
      return parsePrimary();
    size_t At = advance();
    return add(NodeKind::Negate, At, nested(&Parser::parseSign));
  }

  uint32_t parsePrimary() {
    if (Current.Kind == ExpressionToken::Literal) {
      Argument Value = std::move(Current.Value);
      return constant(std::move(Value), advance());
    }
    if (isKeyword("true") || isKeyword("false")) {
      bool Value = isKeyword("true");
      return constant(Value, advance());
    }
    if (isSymbol("?")) {
      size_t At = advance();
      size_t Number = NextArgument++;
      // Too few are counted at the end, when the number wanted is known.
      return constant(
          Number < Arguments.size() ? Arguments[Number] : int64_t(0), At);
    }
    if (isSymbol("(")) {
      advance();
      uint32_t Inner = nested(&Parser::parseOr);
      expect(")");
      return Inner;
    }
    if (Current.Kind != ExpressionToken::Word || isReserved())
      return fail("expected a value");
    std::string Name = std::move(Current.Name);
    bool MayCall = !Current.Quoted;
    size_t At = advance();
    if (MayCall && isSymbol("("))
      return parseCall(Name, At);
    uint32_t Number = add(NodeKind::Column, At);
    Nodes.back().Name = std::move(Name);
    return Number;
  }

  uint32_t parseCall(StringRef Name, size_t At) {
    std::optional<NodeKind> Kind = StringSwitch<std::optional<NodeKind>>(Name)
                                       .Case("match", NodeKind::Match)
                                       .Case("contains", NodeKind::Contains)
                                       .Case("finite", NodeKind::Finite)
                                       .Case("abs", NodeKind::Abs)
                                       .Case("product", NodeKind::Product)
                                       .Default(std::nullopt);
    if (!Kind) {
      std::string Close = closestName(
          Name, {"match", "contains", "finite", "abs", "product"});
      return failAt("unknown function '" + Name.str() + "'", At,
                    (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                        "functions: match, contains, finite, abs, product");
    }
    advance();
    uint32_t First = nested(&Parser::parseOr), Second = 0;
    if (*Kind == NodeKind::Match || *Kind == NodeKind::Contains) {
      expect(",");
      Second = nested(&Parser::parseOr);
    }
    expect(")");
    return add(*Kind, At, First, Second);
  }

  std::optional<NodeKind> comparison() const {
    if (Current.Kind != ExpressionToken::Symbol)
      return std::nullopt;
    return StringSwitch<std::optional<NodeKind>>(Current.Text)
        .Case("==", NodeKind::Equal)
        .Case("!=", NodeKind::NotEqual)
        .Case("<", NodeKind::Less)
        .Case("<=", NodeKind::LessEqual)
        .Case(">", NodeKind::Greater)
        .Case(">=", NodeKind::GreaterEqual)
        .Default(std::nullopt);
  }

  bool isSymbol(StringRef Wanted) const {
    return Current.Kind == ExpressionToken::Symbol && Current.Text == Wanted;
  }
  bool isKeyword(StringRef Wanted) const {
    return Current.Kind == ExpressionToken::Word && !Current.Quoted &&
           Current.Text == Wanted;
  }
  bool isReserved() const {
    return isKeyword("and") || isKeyword("or") || isKeyword("not") ||
           isKeyword("is") || isKeyword("null");
  }

  /// Steps over the current token and returns where it stood.
  size_t advance() {
    size_t At = Current.At;
    if (!Problem)
      Current = Source.next();
    return At;
  }

  void expect(StringRef Symbol) {
    if (isSymbol(Symbol))
      advance();
    else
      fail("expected '" + Symbol.str() + "'");
  }

  uint32_t binary(NodeKind Kind, uint32_t Left, uint32_t (Parser::*Operand)()) {
    size_t At = advance();
    uint32_t Right = (this->*Operand)();
    return add(Kind, At, Left, Right);
  }

  /// Only what nests can exhaust the stack; chains of one level are loops.
  uint32_t nested(uint32_t (Parser::*Inner)()) {
    if (Depth == MaxDepth)
      return fail("nested deeper than " + std::to_string(MaxDepth) + " levels");
    ++Depth;
    uint32_t Result = (this->*Inner)();
    --Depth;
    return Result;
  }

  uint32_t add(NodeKind Kind, size_t At, uint32_t Left = 0,
               uint32_t Right = 0) {
    Node New;
    New.Kind = Kind;
    New.At = At;
    New.Left = Left;
    New.Right = Right;
    Nodes.push_back(std::move(New));
    return static_cast<uint32_t>(Nodes.size() - 1);
  }

  uint32_t constant(Argument Value, size_t At) {
    uint32_t Number = add(NodeKind::Constant, At);
    Nodes.back().Value = std::move(Value);
    return Number;
  }

  uint32_t fail(std::string What, std::string Remedy = "") {
    if (Current.Kind == ExpressionToken::Bad)
      return failAt(std::move(Current.Problem), Current.At, Current.Hint.str());
    return failAt(std::move(What), Current.At, std::move(Remedy));
  }

  uint32_t failAt(std::string What, size_t At, std::string Remedy) {
    if (!Problem) {
      Problem = std::move(What);
      ProblemAt = At;
      Hint = std::move(Remedy);
    }
    Current = ExpressionToken();
    return 0;
  }

  StringRef Text;
  ArrayRef<Argument> Arguments;
  ExpressionLexer Source;
  ExpressionToken Current;
  std::vector<Node> Nodes;
  size_t NextArgument = 0;
  unsigned Depth = 0;
  std::optional<std::string> Problem;
  size_t ProblemAt = 0;
  std::string Hint;
};

} // namespace

Expected<std::vector<Node>> parseExpression(StringRef Text,
                                            ArrayRef<Argument> Arguments) {
  return Parser(Text, Arguments).parse();
}

} // namespace culprit
