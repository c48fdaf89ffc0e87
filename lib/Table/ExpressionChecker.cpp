//===- ExpressionChecker.cpp - Types of column expressions ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/ExpressionChecker.h"
#include "Support/Error.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// An id no string has: equal to no value, and not null.
static constexpr StringId AbsentString = UINT32_MAX;

std::string describe(const Instruction &I) {
  if (I.Op == NodeKind::Column)
    return toString(I.Type).str() + " column '" + I.View->Name + "'";
  return I.Type == ColumnType::Bool ? "a condition" : toString(I.Type).str();
}

/// `a < b` as `b > a`.
static NodeKind mirrored(NodeKind Kind) {
  switch (Kind) {
  case NodeKind::Less:
    return NodeKind::Greater;
  case NodeKind::LessEqual:
    return NodeKind::GreaterEqual;
  case NodeKind::Greater:
    return NodeKind::Less;
  case NodeKind::GreaterEqual:
    return NodeKind::LessEqual;
  default:
    return Kind;
  }
}

static bool isBinary(NodeKind Kind) {
  switch (Kind) {
  case NodeKind::Add:
  case NodeKind::Subtract:
  case NodeKind::Multiply:
  case NodeKind::Divide:
  case NodeKind::Modulo:
  case NodeKind::Equal:
  case NodeKind::NotEqual:
  case NodeKind::Less:
  case NodeKind::LessEqual:
  case NodeKind::Greater:
  case NodeKind::GreaterEqual:
  case NodeKind::And:
  case NodeKind::Or:
  case NodeKind::Match:
  case NodeKind::Contains:
  case NodeKind::StartsWith:
  case NodeKind::EndsWith:
  case NodeKind::Min:
  case NodeKind::Max:
    return true;
  default:
    return false;
  }
}

Expected<ExpressionProgram> ExpressionChecker::check(ArrayRef<Node> Nodes) {
  SmallVector<uint32_t, 16> Emitted; // by node, the instruction of its value
  Out.Code.reserve(Nodes.size() + Nodes.size() / 2);
  for (const Node &N : Nodes) {
    At = N.At;
    if (N.Kind == NodeKind::Column) {
      if (Error E = column(N))
        return E;
    } else if (N.Kind == NodeKind::Constant) {
      constant(N);
    } else if (N.Kind == NodeKind::If || N.Kind == NodeKind::Coalesce) {
      bool IsIf = N.Kind == NodeKind::If;
      if (Error E = choice(N.Kind, Emitted[N.Left],
                           Emitted[IsIf ? N.Right : N.Left],
                           Emitted[IsIf ? N.Third : N.Right]))
        return E;
    } else if (N.Kind == NodeKind::In) {
      SmallVector<uint32_t, 8> Constants;
      for (uint32_t K : N.List)
        Constants.push_back(Emitted[K]);
      if (Error E = membership(Emitted[N.Left], Constants))
        return E;
    } else {
      uint32_t Right = isBinary(N.Kind) ? Emitted[N.Right] : 0;
      if (Error E = operation(N.Kind, Emitted[N.Left], Right))
        return E;
    }
    Emitted.push_back(static_cast<uint32_t>(Out.Code.size() - 1));
  }
  Out.Buffers.reset(
      new std::byte[NumBuffers * ExpressionProgram::BlockRows * 8]);
  Out.Results.resize(Out.Code.size());
  // What does not depend on the row is computed now.
  for (size_t K = 0; K != Out.Code.size(); ++K) {
    Instruction &I = Out.Code[K];
    if (!I.Scalar)
      continue;
    if (I.Op != NodeKind::Constant)
      Out.step(I, I.Value, 0, 1);
    Out.Results[K] = I.Value; // stays when Out moves: on the heap
  }
  return std::move(Out);
}

Error ExpressionChecker::column(const Node &N) {
  Expected<const ColumnView *> View = T.column(N.Name);
  if (!View)
    return View.takeError();
  Instruction I;
  I.Op = NodeKind::Column;
  I.Type = (*View)->type();
  I.View = *View;
  I.Buffer = I.View->Rows ? takeBuffer() : NoBuffer;
  Out.Code.push_back(std::move(I));
  return Error::success();
}

void ExpressionChecker::constant(const Node &N) {
  const Argument &Value = N.Parameter ? Arguments[*N.Parameter] : N.Value;
  Instruction I;
  I.Scalar = true;
  if (const auto *Int = std::get_if<int64_t>(&Value)) {
    setValue(I, *Int);
  } else if (const auto *Double = std::get_if<double>(&Value)) {
    I.Type = ColumnType::Double;
    setValue(I, *Double);
  } else if (const auto *Bool = std::get_if<bool>(&Value)) {
    I.Type = ColumnType::Bool;
    setValue<uint8_t>(I, *Bool);
  } else {
    I.Type = ColumnType::String;
    I.Text = *std::get_if<std::string>(&Value);
    // Not interned: a text that no row holds need not enter the pool.
    StringId Id = T.pool()->lookup(I.Text);
    setValue(I, Id == NullString ? AbsentString : Id);
  }
  Out.Code.push_back(std::move(I));
}

Error ExpressionChecker::operation(NodeKind Kind, uint32_t Left,
                                   uint32_t Right) {
  switch (Kind) {
  case NodeKind::Add:
  case NodeKind::Subtract:
  case NodeKind::Multiply:
  case NodeKind::Divide:
  case NodeKind::Modulo:
  case NodeKind::Min:
  case NodeKind::Max:
    return arithmetic(Kind, Left, Right);
  case NodeKind::Negate:
  case NodeKind::Abs:
  case NodeKind::Finite:
    if (!isNumber(Out.Code[Left]))
      return noNumber(Left);
    emit(Kind,
         Kind == NodeKind::Finite ? ColumnType::Bool : Out.Code[Left].Type,
         Left);
    return Error::success();
  case NodeKind::And:
  case NodeKind::Or:
    if (Error E = wantCondition(Kind, Left))
      return E;
    if (Error E = wantCondition(Kind, Right))
      return E;
    emit(Kind, ColumnType::Bool, Left, Right);
    return Error::success();
  case NodeKind::Not:
    if (Error E = wantCondition(Kind, Left))
      return E;
    emit(Kind, ColumnType::Bool, Left);
    return Error::success();
  case NodeKind::IsNull:
  case NodeKind::IsNotNull:
    emit(Kind, ColumnType::Bool, Left);
    Out.Code.back().View = Out.Code[Left].View; // how a list column is read
    return Error::success();
  case NodeKind::Product:
    if (Out.Code[Left].Type != ColumnType::IntList)
      return problem("'product' takes an int list, not " +
                     describe(Out.Code[Left]));
    emit(Kind, ColumnType::Int, Left);
    Out.Code.back().View = Out.Code[Left].View;
    return Error::success();
  case NodeKind::Match:
  case NodeKind::Contains:
  case NodeKind::StartsWith:
  case NodeKind::EndsWith:
    return pattern(Kind, Left, Right);
  case NodeKind::Floor:
  case NodeKind::Ceil:
  case NodeKind::Round:
  case NodeKind::Sqrt:
  case NodeKind::Log:
  case NodeKind::Exp:
    return oneNumber(Kind, Left);
  case NodeKind::Length:
    return length(Left);
  default:
    return comparison(Kind, Left, Right);
  }
}

Error ExpressionChecker::arithmetic(NodeKind Kind, uint32_t Left,
                                    uint32_t Right) {
  if (!isNumber(Out.Code[Left]))
    return noNumber(Left);
  if (!isNumber(Out.Code[Right]))
    return noNumber(Right);
  if (Kind == NodeKind::Divide) {
    Left = widen(Left);
    Right = widen(Right);
  } else {
    alike(Left, Right);
  }
  emit(Kind, Out.Code[Left].Type, Left, Right);
  return Error::success();
}

Error ExpressionChecker::comparison(NodeKind Kind, uint32_t Left,
                                    uint32_t Right) {
  ColumnType A = Out.Code[Left].Type, B = Out.Code[Right].Type;
  bool Ordered = Kind != NodeKind::Equal && Kind != NodeKind::NotEqual;
  bool Numbers = isNumber(Out.Code[Left]) && isNumber(Out.Code[Right]);
  if ((A != B && !Numbers) || A == ColumnType::IntList) {
    bool Text = A == ColumnType::String || B == ColumnType::String;
    bool Bool = A == ColumnType::Bool || B == ColumnType::Bool;
    return problem("cannot compare " + describe(Out.Code[Left]) + " with " +
                       describe(Out.Code[Right]),
                   A == ColumnType::IntList || B == ColumnType::IntList
                       ? "a list can only be tested by 'is null'"
                   : Text ? "text is quoted, as in kind == 'kernel'"
                   : Bool ? "a condition stands alone or equals true or false"
                          : "");
  }
  if (A == ColumnType::Bool && Ordered)
    return problem("conditions have no order",
                   "use '==' or '!=', 'and' or 'or'");
  if (A == ColumnType::String)
    return textComparison(Kind, Ordered, Left, Right);
  if (A != B) {
    narrow(Left, Out.Code[Right].Type);
    narrow(Right, Out.Code[Left].Type);
  }
  alike(Left, Right);
  emit(Kind, ColumnType::Bool, Left, Right);
  return Error::success();
}

Error ExpressionChecker::textComparison(NodeKind Kind, bool Ordered,
                                        uint32_t Left, uint32_t Right) {
  bool LeftConstant = isTextConstant(Out.Code[Left]);
  if (LeftConstant && isTextConstant(Out.Code[Right])) {
    // Two texts that no row holds have one id between them.
    foldTexts(Kind, Left, Right);
    return Error::success();
  }
  // An `if` may have brought the text into the pool since.
  if (LeftConstant || isTextConstant(Out.Code[Right])) {
    Instruction &Constant = Out.Code[LeftConstant ? Left : Right];
    if (StringId Id = T.pool()->lookup(Constant.Text))
      setValue(Constant, Id);
  }
  if (!Ordered || (!LeftConstant && !isTextConstant(Out.Code[Right]))) {
    emit(Kind, ColumnType::Bool, Left, Right);
    return Error::success();
  }
  if (LeftConstant) {
    std::swap(Left, Right);
    Kind = mirrored(Kind);
  }
  return textTest(Kind, Left, Right);
}

Error ExpressionChecker::wantCondition(NodeKind Kind, uint32_t Operand) {
  const Instruction &I = Out.Code[Operand];
  if (I.Type == ColumnType::Bool)
    return Error::success();
  StringRef Name = Kind == NodeKind::And  ? "and"
                   : Kind == NodeKind::Or ? "or"
                   : Kind == NodeKind::If ? "if"
                                          : "not";
  return problem("'" + Name + "' takes a condition, not " + describe(I),
                 "compare it, as in dur > 0");
}

Error ExpressionChecker::noNumber(uint32_t Operand) {
  return problem("expected a number, not " + describe(Out.Code[Operand]));
}

uint32_t ExpressionChecker::widen(uint32_t Operand) {
  Instruction &I = Out.Code[Operand];
  if (I.Type == ColumnType::Double)
    return Operand;
  if (I.Op != NodeKind::Constant) {
    emit(NodeKind::Widen, ColumnType::Double, Operand);
    return static_cast<uint32_t>(Out.Code.size() - 1);
  }
  I.Type = ColumnType::Double;
  int64_t Value = getValue<int64_t>(I);
  setValue(I, Value == NullInt ? nullDouble() : static_cast<double>(Value));
  return Operand;
}

void ExpressionChecker::alike(uint32_t &Left, uint32_t &Right) {
  if (Out.Code[Left].Type == Out.Code[Right].Type)
    return;
  Left = widen(Left);
  Right = widen(Right);
}

/// Makes a constant such as 1e6 an Int where it is compared with one: Lua
/// and people write whole numbers as doubles, and Int compares exactly.
void ExpressionChecker::narrow(uint32_t Operand, ColumnType Other) {
  Instruction &I = Out.Code[Operand];
  if (Other != ColumnType::Int || I.Op != NodeKind::Constant)
    return;
  double Value = getValue<double>(I);
  if (!(std::fabs(Value) < 0x1p63) || Value != std::trunc(Value))
    return;
  I.Type = ColumnType::Int;
  setValue(I, static_cast<int64_t>(Value));
}

void ExpressionChecker::emit(NodeKind Kind, ColumnType Type, uint32_t Left,
                             uint32_t Right, uint32_t Third) {
  Instruction I;
  I.Op = Kind;
  I.In = Out.Code[Left].Type;
  I.Type = Type;
  I.Left = Left;
  I.Right = Right;
  I.Third = Third;
  I.Scalar = Out.Code[Left].Scalar && Out.Code[Right].Scalar &&
             Out.Code[Third].Scalar;
  I.Buffer = I.Scalar ? NoBuffer : takeBuffer();
  // A value is used once: its buffer is free after this, not during it.
  release(Left);
  if (Right != Left)
    release(Right);
  if (Third != Left && Third != Right)
    release(Third);
  Out.Code.push_back(std::move(I));
}

uint32_t ExpressionChecker::takeBuffer() {
  if (FreeBuffers.empty())
    return NumBuffers++;
  return FreeBuffers.pop_back_val();
}

void ExpressionChecker::release(uint32_t Operand) {
  uint32_t Buffer = Out.Code[Operand].Buffer;
  if (Buffer != NoBuffer)
    FreeBuffers.push_back(Buffer);
}

Expected<ExpressionProgram>
ExpressionProgram::compile(const Table &T, StringRef Text, ArrayRef<Node> Nodes,
                           ArrayRef<Argument> Arguments) {
  return ExpressionChecker(T, Text, Arguments).check(Nodes);
}

Expected<ExpressionProgram>
ExpressionProgram::compile(const Table &T, StringRef Text,
                           ArrayRef<Argument> Arguments) {
  auto Parsed = parsedExpression(Text, Arguments.size());
  if (!Parsed)
    return Parsed.takeError();
  return compile(T, Text, (*Parsed)->Nodes, Arguments);
}

} // namespace culprit
