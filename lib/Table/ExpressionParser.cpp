//===- ExpressionParser.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/ExpressionParser.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "Support/Text.h"
#include "Table/ExpressionLexer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include <optional>

using namespace llvm;

namespace culprit {

/// \p Text as errors quote it: of a long one what stands around column \p At.
static std::string quotedText(StringRef Text, size_t At) {
  constexpr size_t Most = 300, Before = 100;
  if (Text.size() <= Most)
    return "\"" + Text.str() + "\"";
  size_t First = At > Before ? At - Before : 0;
  // Not in the middle of a character.
  for (int I = 0; First && I != 3 && (Text[First] & 0xC0) == 0x80; ++I)
    --First;
  return "\"" + std::string(First ? "..." : "") +
         shortened(Text.drop_front(First), Most) + "\"";
}

Error expressionFailure(StringRef Text, const Twine &What, size_t At,
                        const Twine &Hint) {
  return failure("in " + quotedText(Text, At) + ": " + What + " at column " +
                     Twine(At),
                 Hint);
}

namespace {

struct Function {
  StringLiteral Name;
  NodeKind Kind;
  unsigned Least, Most; ///< Arguments.
};

constexpr Function Functions[] = {
#define FUNCTION(NAME, KIND, LEAST, MOST) {NAME, NodeKind::KIND, LEAST, MOST},
#include "Table/ExpressionFunctions.def"
};

/// Recursive descent, one function a level of precedence. After the first
/// error the input looks ended, so every function just returns.
class Parser {
public:
  explicit Parser(StringRef Text) : Text(Text), Source(Text) {
    Current = Source.next();
  }

  Expected<ParsedExpression> parse() {
    parseOr();
    if (Current.Kind != ExpressionToken::End)
      fail("expected an operator");
    if (Problem)
      return expressionFailure(Text, *Problem, ProblemAt, Hint);
    return ParsedExpression{std::move(Nodes), NextArgument};
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
    while (isKeyword("is") || isKeyword("in") || isKeyword("not")) {
      if (!isKeyword("is")) {
        Left = parseIn(Left);
        continue;
      }
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

  /// `x in (1, 2)` and `x not in (1, 2)`.
  uint32_t parseIn(uint32_t Left) {
    bool Negated = isKeyword("not");
    size_t At = Negated ? advance() : Current.At;
    if (!isKeyword("in"))
      return fail("expected 'in'", "as in kind not in ('copy', 'set')");
    advance();
    expect("(");
    std::vector<uint32_t> List;
    while (!Problem) {
      size_t Before = Nodes.size();
      List.push_back(parseSign());
      if (Before + 1 != Nodes.size() ||
          Nodes[Before].Kind != NodeKind::Constant)
        fail("expected a constant or '?'",
             "a list after 'in' holds nothing else");
      if (!isSymbol(","))
        break;
      advance();
    }
    expect(")");
    Left = add(NodeKind::In, At, Left);
    Nodes.back().List = std::move(List);
    return Negated ? add(NodeKind::Not, At, Left) : Left;
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
    while (isSymbol("*") || isSymbol("/") || isSymbol("%"))
      Left = binary(isSymbol("*")   ? NodeKind::Multiply
                    : isSymbol("/") ? NodeKind::Divide
                                    : NodeKind::Modulo,
                    Left, &Parser::parseSign);
    return Left;
  }

  uint32_t parseSign() {
    if (!isSymbol("-"))
      return parsePrimary();
    size_t At = advance();
    uint32_t Operand = nested(&Parser::parseSign);
    // -5 is a constant, as 5 is.
    if (Operand + 1 == Nodes.size() &&
        Nodes.back().Kind == NodeKind::Constant && !Nodes.back().Parameter &&
        negate(Nodes.back().Value))
      return Operand;
    return add(NodeKind::Negate, At, Operand);
  }

  /// False for what is no number.
  static bool negate(Argument &Value) {
    if (auto *Int = std::get_if<int64_t>(&Value))
      *Int = -*Int; // read from digits, and so not the least integer
    else if (auto *Double = std::get_if<double>(&Value))
      *Double = -*Double;
    else
      return false;
    return true;
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
      uint32_t Number = constant(int64_t(0), advance());
      Nodes.back().Parameter = static_cast<uint32_t>(NextArgument++);
      return Number;
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
    const Function *F = llvm::find_if(
        Functions, [&](const Function &Known) { return Known.Name == Name; });
    if (F == std::end(Functions)) {
      std::vector<std::string> Names;
      for (const Function &Known : Functions)
        Names.push_back(Known.Name.str());
      std::string Close = closestName(Name, Names);
      return failAt("unknown function '" + Name.str() + "'", At,
                    (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                        "functions: " + llvm::join(Names, ", "));
    }
    advance();
    SmallVector<uint32_t, 4> Operands = {nested(&Parser::parseOr)};
    while (Operands.size() < F->Least ||
           (Operands.size() < F->Most && isSymbol(","))) {
      expect(",");
      Operands.push_back(nested(&Parser::parseOr));
    }
    expect(")");
    if (Operands.size() == 1)
      return add(F->Kind, At, Operands[0]);
    uint32_t Result = add(F->Kind, At, Operands[0], Operands[1]);
    if (F->Kind == NodeKind::If)
      Nodes.back().Third = Operands[2];
    else
      for (size_t I = 2; I < Operands.size(); ++I)
        Result = add(F->Kind, At, Result, Operands[I]);
    return Result;
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

Expected<ParsedExpression> parseExpression(StringRef Text) {
  return Parser(Text).parse();
}

Expected<std::shared_ptr<const ParsedExpression>>
parsedExpression(StringRef Text, size_t Arguments) {
  // Detectors have some dozens. One that writes values into the text would
  // fill memory.
  constexpr size_t Most = 256;
  thread_local StringMap<std::shared_ptr<const ParsedExpression>> Known;
  std::shared_ptr<const ParsedExpression> Parsed = Known.lookup(Text);
  if (!Parsed) {
    Expected<ParsedExpression> New = parseExpression(Text);
    if (!New)
      return New.takeError();
    Parsed = std::make_shared<const ParsedExpression>(std::move(*New));
    if (Known.size() == Most)
      Known.clear();
    Known[Text] = Parsed;
  }
  if (size_t Wanted = Parsed->Parameters; Wanted != Arguments)
    return failure("in " + quotedText(Text, 0) + ": " + Twine(Wanted) +
                       " '?' but " +
                       Twine(Arguments) +
                       (Arguments == 1 ? " argument" : " arguments"),
                   "each '?' takes the next argument");
  return Parsed;
}

} // namespace culprit
