//===- ExpressionFunctions.cpp - Types of functions -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/ExpressionChecker.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

Error ExpressionChecker::pattern(NodeKind Kind, uint32_t Left, uint32_t Right) {
  StringRef Name = Kind == NodeKind::Match        ? "match"
                   : Kind == NodeKind::Contains   ? "contains"
                   : Kind == NodeKind::StartsWith ? "starts_with"
                                                  : "ends_with";
  if (Out.Code[Left].Type != ColumnType::String)
    return problem("'" + Name + "' takes text, not " +
                   describe(Out.Code[Left]));
  if (!isTextConstant(Out.Code[Right]))
    return problem("the second part of '" + Name +
                       "' is not text in quotes or a '?'",
                   "as in " + Name +
                       (Kind == NodeKind::Match ? "(name, '*gemm*')"
                                                : "(name, 'gemm')"));
  if (isTextConstant(Out.Code[Left])) {
    foldTexts(Kind, Left, Right);
    return Error::success();
  }
  return textTest(Kind, Left, Right);
}

/// A test of each text of \p Column against a constant.
Error ExpressionChecker::textTest(NodeKind Kind, uint32_t Column,
                                  uint32_t Constant) {
  std::string Wanted = Out.Code[Constant].Text;
  emit(Kind, ColumnType::Bool, Column);
  Instruction &I = Out.Code.back();
  I.TestsText = true;
  I.Text = std::move(Wanted);
  if (T.rows() >= T.pool()->size() / 8)
    I.Verdicts.resize(T.pool()->size(), UINT8_MAX);
  return Error::success();
}

void ExpressionChecker::foldTexts(NodeKind Kind, uint32_t Left,
                                  uint32_t Right) {
  Instruction I;
  I.Scalar = true;
  I.Type = ColumnType::Bool;
  setValue<uint8_t>(
      I, textHolds(Kind, Out.Code[Left].Text, Out.Code[Right].Text));
  Out.Code.push_back(std::move(I));
}

Error ExpressionChecker::oneNumber(NodeKind Kind, uint32_t Operand) {
  if (!isNumber(Out.Code[Operand]))
    return noNumber(Operand);
  bool Rounds = Kind == NodeKind::Floor || Kind == NodeKind::Ceil ||
                Kind == NodeKind::Round;
  if (Rounds && Out.Code[Operand].Type == ColumnType::Int)
    return Error::success(); // whole already, and the last instruction
  Operand = widen(Operand);
  emit(Kind, ColumnType::Double, Operand);
  return Error::success();
}

Error ExpressionChecker::length(uint32_t Operand) {
  if (Out.Code[Operand].Type != ColumnType::String)
    return problem("'length' takes text, not " + describe(Out.Code[Operand]));
  internConstant(Operand);
  emit(NodeKind::Length, ColumnType::Int, Operand);
  return Error::success();
}

/// A text constant is a value here, and no longer only compared with.
void ExpressionChecker::internConstant(uint32_t Operand) {
  Instruction &I = Out.Code[Operand];
  if (isTextConstant(I))
    setValue(I, T.pool()->intern(I.Text));
}

/// `if(Condition, Left, Right)` or `coalesce(Left, Right)`.
Error ExpressionChecker::choice(NodeKind Kind, uint32_t Condition,
                                uint32_t Left, uint32_t Right) {
  bool IsIf = Kind == NodeKind::If;
  if (IsIf)
    if (Error E = wantCondition(Kind, Condition))
      return E;
  ColumnType A = Out.Code[Left].Type, B = Out.Code[Right].Type;
  bool Numbers = isNumber(Out.Code[Left]) && isNumber(Out.Code[Right]);
  if ((A != B && !Numbers) || A == ColumnType::IntList)
    return problem(Twine("'") + (IsIf ? "if" : "coalesce") +
                   "' cannot choose between " + describe(Out.Code[Left]) +
                   " and " + describe(Out.Code[Right]));
  alike(Left, Right);
  internConstant(Left);
  internConstant(Right);
  ColumnType Type = Out.Code[Left].Type;
  if (IsIf)
    emit(Kind, Type, Condition, Left, Right);
  else
    emit(Kind, Type, Left, Right);
  return Error::success();
}

Error ExpressionChecker::addWanted(const Instruction &X, const Instruction &K,
                                   std::vector<int64_t> &Wanted) {
  bool Comparable = X.Type == K.Type || (isNumber(X) && isNumber(K));
  if (!Comparable || X.Type == ColumnType::IntList)
    return problem("cannot look for " + describe(K) + " in " + describe(X),
                   X.Type == ColumnType::String
                       ? "text is quoted, as in kind in ('copy', 'set')"
                       : "");
  if (X.Type == ColumnType::String) {
    // A text that no row holds is equal to none.
    if (StringId Id = T.pool()->lookup(K.Text))
      Wanted.push_back(Id);
  } else if (X.Type == ColumnType::Bool) {
    Wanted.push_back(getValue<uint8_t>(K));
  } else if (X.Type == ColumnType::Double) {
    double Value = K.Type == ColumnType::Double
                       ? getValue<double>(K)
                       : static_cast<double>(getValue<int64_t>(K));
    if (!std::isnan(Value)) // equal to none
      Wanted.push_back(llvm::bit_cast<int64_t>(Value));
  } else if (K.Type == ColumnType::Int) {
    Wanted.push_back(getValue<int64_t>(K));
  } else if (double Value = getValue<double>(K);
             std::fabs(Value) < 0x1p63 && Value == std::trunc(Value)) {
    Wanted.push_back(static_cast<int64_t>(Value));
  }
  return Error::success();
}

Error ExpressionChecker::membership(uint32_t Operand,
                                    ArrayRef<uint32_t> Constants) {
  if (isTextConstant(Out.Code[Operand]))
    internConstant(Operand);
  std::vector<int64_t> Wanted;
  for (uint32_t K : Constants)
    if (Error E = addWanted(Out.Code[Operand], Out.Code[K], Wanted))
      return E;
  if (Out.Code[Operand].Type == ColumnType::Double)
    std::sort(Wanted.begin(), Wanted.end(), [](int64_t A, int64_t B) {
      return llvm::bit_cast<double>(A) < llvm::bit_cast<double>(B);
    });
  else
    std::sort(Wanted.begin(), Wanted.end());
  emit(NodeKind::In, ColumnType::Bool, Operand);
  Out.Code.back().Wanted = std::move(Wanted);
  return Error::success();
}

} // namespace culprit
