//===- ExpressionChecker.h - Types of column expressions --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Turns the nodes of an expression into instructions over one table, one pass
/// in their order.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_EXPRESSIONCHECKER_H
#define CULPRIT_TABLE_EXPRESSIONCHECKER_H

#include "Table/ExpressionProgram.h"
#include "llvm/ADT/SmallVector.h"
#include <cstring>

namespace culprit {

template <typename T> void setValue(Instruction &I, T Value) {
  static_assert(sizeof(T) <= sizeof(I.Value));
  std::memcpy(I.Value, &Value, sizeof(T));
}

template <typename T> T getValue(const Instruction &I) {
  T Value;
  std::memcpy(&Value, I.Value, sizeof(T));
  return Value;
}

/// For an error: `string column 'kind'`, or the type of what is computed.
std::string describe(const Instruction &I);

class ExpressionChecker {
public:
  ExpressionChecker(const Table &T, llvm::StringRef Text,
                    llvm::ArrayRef<Argument> Arguments)
      : T(T), Text(Text), Arguments(Arguments) {
    Out.Pool = T.pool();
  }

  llvm::Expected<ExpressionProgram> check(llvm::ArrayRef<Node> Nodes);

private:
  llvm::Error column(const Node &N);
  void constant(const Node &N);
  llvm::Error operation(NodeKind Kind, uint32_t Left, uint32_t Right);
  llvm::Error arithmetic(NodeKind Kind, uint32_t Left, uint32_t Right);
  llvm::Error comparison(NodeKind Kind, uint32_t Left, uint32_t Right);
  llvm::Error textComparison(NodeKind Kind, bool Ordered, uint32_t Left,
                             uint32_t Right);
  llvm::Error pattern(NodeKind Kind, uint32_t Left, uint32_t Right);
  llvm::Error textTest(NodeKind Kind, uint32_t Column, uint32_t Constant);
  void foldTexts(NodeKind Kind, uint32_t Left, uint32_t Right);

  // Functions; see ExpressionFunctions.cpp ---------------------------------//
  llvm::Error oneNumber(NodeKind Kind, uint32_t Operand);
  llvm::Error length(uint32_t Operand);
  llvm::Error choice(NodeKind Kind, uint32_t Condition, uint32_t Left,
                     uint32_t Right);
  llvm::Error membership(uint32_t Operand, llvm::ArrayRef<uint32_t> Constants);
  /// Adds the value of the constant \p K, looked for among those of \p X, to
  /// \p Wanted.
  llvm::Error addWanted(const Instruction &X, const Instruction &K,
                        std::vector<int64_t> &Wanted);
  void internConstant(uint32_t Operand);

  llvm::Error wantCondition(NodeKind Kind, uint32_t Operand);
  llvm::Error noNumber(uint32_t Operand);
  llvm::Error problem(const llvm::Twine &What, const llvm::Twine &Hint = "") {
    return expressionFailure(Text, What, At, Hint);
  }

  /// The instruction that has the value of \p Operand as a Double.
  uint32_t widen(uint32_t Operand);
  /// Makes two numbers of one type.
  void alike(uint32_t &Left, uint32_t &Right);
  void narrow(uint32_t Operand, ColumnType Other);
  void emit(NodeKind Kind, ColumnType Type, uint32_t Left) {
    emit(Kind, Type, Left, Left, Left);
  }
  void emit(NodeKind Kind, ColumnType Type, uint32_t Left, uint32_t Right) {
    emit(Kind, Type, Left, Right, Left);
  }
  void emit(NodeKind Kind, ColumnType Type, uint32_t Left, uint32_t Right,
            uint32_t Third);
  uint32_t takeBuffer();
  void release(uint32_t Operand);

  static constexpr uint32_t NoBuffer = Instruction::NoBuffer;

  const Table &T;
  llvm::StringRef Text;
  llvm::ArrayRef<Argument> Arguments;
  ExpressionProgram Out;
  llvm::SmallVector<uint32_t, 8> FreeBuffers;
  uint32_t NumBuffers = 0;
  size_t At = 0; ///< Of the node in hand.
};

inline bool isNumber(const Instruction &I) {
  return I.Type == ColumnType::Int || I.Type == ColumnType::Double;
}

inline bool isTextConstant(const Instruction &I) {
  return I.Op == NodeKind::Constant && I.Type == ColumnType::String;
}

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSIONCHECKER_H
