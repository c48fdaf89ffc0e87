//===- ExpressionChecker.cpp - Types of column expressions ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Error.h"
#include "Table/ExpressionProgram.h"
#include <cmath>
#include <cstring>

using namespace llvm;

namespace culprit {

/// An id no string has: equal to no value, and not null.
static constexpr StringId AbsentString = UINT32_MAX;

template <typename T> static void setValue(Instruction &I, T Value) {
  static_assert(sizeof(T) <= sizeof(I.Value));
  std::memcpy(I.Value, &Value, sizeof(T));
}

template <typename T> static T getValue(const Instruction &I) {
  T Value;
  std::memcpy(&Value, I.Value, sizeof(T));
  return Value;
}

static bool isNumber(const Instruction &I) {
  return I.Type == ColumnType::Int || I.Type == ColumnType::Double;
}

static bool isTextConstant(const Instruction &I) {
  return I.Op == NodeKind::Constant && I.Type == ColumnType::String;
}

/// For an error: `string column 'kind'`, or the type of what is computed.
static std::string describe(const Instruction &I) {
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

/// Turns nodes into instructions, one pass in their order.
class ExpressionChecker {
public:
  ExpressionChecker(const Table &T, StringRef Text) : T(T), Text(Text) {
    Out.Pool = T.pool();
  }

  Expected<ExpressionProgram> check(std::vector<Node> Nodes) {
    std::vector<uint32_t> Emitted; // by node, the instruction of its value
    for (Node &N : Nodes) {
      At = N.At;
      if (N.Kind == NodeKind::Column) {
        if (Error E = column(N))
          return E;
      } else if (N.Kind == NodeKind::Constant) {
        constant(N);
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

private:
  static bool isBinary(NodeKind Kind) {
    switch (Kind) {
    case NodeKind::Negate:
    case NodeKind::Abs:
    case NodeKind::Not:
    case NodeKind::IsNull:
    case NodeKind::IsNotNull:
    case NodeKind::Finite:
    case NodeKind::Product:
      return false;
    default:
      return true;
    }
  }

  Error column(const Node &N) {
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

  void constant(Node &N) {
    Instruction I;
    I.Scalar = true;
    if (const auto *Int = std::get_if<int64_t>(&N.Value)) {
      setValue(I, *Int);
    } else if (const auto *Double = std::get_if<double>(&N.Value)) {
      I.Type = ColumnType::Double;
      setValue(I, *Double);
    } else if (const auto *Bool = std::get_if<bool>(&N.Value)) {
      I.Type = ColumnType::Bool;
      setValue<uint8_t>(I, *Bool);
    } else {
      I.Type = ColumnType::String;
      I.Text = std::move(*std::get_if<std::string>(&N.Value));
      // Not interned: a text that no row holds need not enter the pool.
      StringId Id = T.pool()->lookup(I.Text);
      setValue(I, Id == NullString ? AbsentString : Id);
    }
    Out.Code.push_back(std::move(I));
  }

  Error operation(NodeKind Kind, uint32_t Left, uint32_t Right) {
    switch (Kind) {
    case NodeKind::Add:
    case NodeKind::Subtract:
    case NodeKind::Multiply:
    case NodeKind::Divide:
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
      return pattern(Kind, Left, Right);
    default:
      return comparison(Kind, Left, Right);
    }
  }

  Error arithmetic(NodeKind Kind, uint32_t Left, uint32_t Right) {
    if (!isNumber(Out.Code[Left]))
      return noNumber(Left);
    if (!isNumber(Out.Code[Right]))
      return noNumber(Right);
    if (Kind == NodeKind::Divide ||
        Out.Code[Left].Type != Out.Code[Right].Type) {
      Left = widen(Left);
      Right = widen(Right);
    }
    emit(Kind, Out.Code[Left].Type, Left, Right);
    return Error::success();
  }

  Error comparison(NodeKind Kind, uint32_t Left, uint32_t Right) {
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
    if (Out.Code[Left].Type != Out.Code[Right].Type) {
      Left = widen(Left);
      Right = widen(Right);
    }
    emit(Kind, ColumnType::Bool, Left, Right);
    return Error::success();
  }

  Error textComparison(NodeKind Kind, bool Ordered, uint32_t Left,
                       uint32_t Right) {
    bool LeftConstant = isTextConstant(Out.Code[Left]);
    if (LeftConstant && isTextConstant(Out.Code[Right])) {
      // Two texts that no row holds have one id between them.
      foldTexts(Kind, Left, Right);
      return Error::success();
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

  Error pattern(NodeKind Kind, uint32_t Left, uint32_t Right) {
    StringRef Name = Kind == NodeKind::Match ? "match" : "contains";
    if (Out.Code[Left].Type != ColumnType::String)
      return problem("'" + Name + "' takes text, not " +
                     describe(Out.Code[Left]));
    if (!isTextConstant(Out.Code[Right]))
      return problem("the second part of '" + Name +
                         "' is not text in quotes or a '?'",
                     Kind == NodeKind::Match ? "as in match(name, '*gemm*')"
                                             : "as in contains(name, 'gemm')");
    if (isTextConstant(Out.Code[Left])) {
      foldTexts(Kind, Left, Right);
      return Error::success();
    }
    return textTest(Kind, Left, Right);
  }

  /// A test of each text of \p Column against a constant.
  Error textTest(NodeKind Kind, uint32_t Column, uint32_t Constant) {
    std::string Wanted = Out.Code[Constant].Text;
    emit(Kind, ColumnType::Bool, Column);
    Instruction &I = Out.Code.back();
    I.TestsText = true;
    I.Text = std::move(Wanted);
    if (T.rows() >= T.pool()->size() / 8)
      I.Verdicts.resize(T.pool()->size(), UINT8_MAX);
    return Error::success();
  }

  void foldTexts(NodeKind Kind, uint32_t Left, uint32_t Right) {
    Instruction I;
    I.Scalar = true;
    I.Type = ColumnType::Bool;
    setValue<uint8_t>(
        I, textHolds(Kind, Out.Code[Left].Text, Out.Code[Right].Text));
    Out.Code.push_back(std::move(I));
  }

  Error wantCondition(NodeKind Kind, uint32_t Operand) {
    const Instruction &I = Out.Code[Operand];
    if (I.Type == ColumnType::Bool)
      return Error::success();
    StringRef Name = Kind == NodeKind::And  ? "and"
                     : Kind == NodeKind::Or ? "or"
                                            : "not";
    return problem("'" + Name + "' takes a condition, not " + describe(I),
                   "compare it, as in dur > 0");
  }

  Error noNumber(uint32_t Operand) {
    return problem("expected a number, not " + describe(Out.Code[Operand]));
  }

  Error problem(const Twine &What, const Twine &Hint = "") {
    return expressionFailure(Text, What, At, Hint);
  }

  /// The instruction that has the value of \p Operand as a Double.
  uint32_t widen(uint32_t Operand) {
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

  /// Makes a constant such as 1e6 an Int where it is compared with one: Lua
  /// and people write whole numbers as doubles, and Int compares exactly.
  void narrow(uint32_t Operand, ColumnType Other) {
    Instruction &I = Out.Code[Operand];
    if (Other != ColumnType::Int || I.Op != NodeKind::Constant)
      return;
    double Value = getValue<double>(I);
    if (!(std::fabs(Value) < 0x1p63) || Value != std::trunc(Value))
      return;
    I.Type = ColumnType::Int;
    setValue(I, static_cast<int64_t>(Value));
  }

  void emit(NodeKind Kind, ColumnType Type, uint32_t Left) {
    emit(Kind, Type, Left, Left);
  }

  void emit(NodeKind Kind, ColumnType Type, uint32_t Left, uint32_t Right) {
    Instruction I;
    I.Op = Kind;
    I.In = Out.Code[Left].Type;
    I.Type = Type;
    I.Left = Left;
    I.Right = Right;
    I.Scalar = Out.Code[Left].Scalar && Out.Code[Right].Scalar;
    I.Buffer = I.Scalar ? NoBuffer : takeBuffer();
    // A value is used once: its buffer is free after this, not during it.
    release(Left);
    if (Right != Left)
      release(Right);
    Out.Code.push_back(std::move(I));
  }

  uint32_t takeBuffer() {
    if (FreeBuffers.empty())
      return NumBuffers++;
    return FreeBuffers.pop_back_val();
  }

  void release(uint32_t Operand) {
    uint32_t Buffer = Out.Code[Operand].Buffer;
    if (Buffer != NoBuffer)
      FreeBuffers.push_back(Buffer);
  }

  static constexpr uint32_t NoBuffer = Instruction::NoBuffer;

  const Table &T;
  StringRef Text;
  ExpressionProgram Out;
  SmallVector<uint32_t, 8> FreeBuffers;
  uint32_t NumBuffers = 0;
  size_t At = 0; ///< Of the node in hand.
};

Expected<ExpressionProgram>
ExpressionProgram::compile(const Table &T, StringRef Text,
                           ArrayRef<Argument> Arguments) {
  Expected<std::vector<Node>> Nodes = parseExpression(Text, Arguments);
  if (!Nodes)
    return Nodes.takeError();
  return ExpressionChecker(T, Text).check(std::move(*Nodes));
}

} // namespace culprit
