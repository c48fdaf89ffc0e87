//===- ExpressionLoops.h - Loops over blocks of values ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the instructions of ExpressionProgram are made of.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_EXPRESSIONLOOPS_H
#define CULPRIT_TABLE_EXPRESSIONLOOPS_H

#include "Table/ExpressionProgram.h"

namespace culprit {

// "No value" of each type; the loops below must inline these.
inline bool isNull(int64_t Value) { return Value == NullInt; }
inline bool isNull(double Value) { return isNullDouble(Value); }
inline bool isNull(uint8_t Value) { return Value == NullBool; }
inline bool isNull(StringId Value) { return Value == NullString; }

/// \p Value, or nullDouble() where \p Null: by bits, as half of the rows of a
/// column may be null in no order, which a branch would mispredict.
inline double orNull(bool Null, double Value) {
  uint64_t Mask = 0 - static_cast<uint64_t>(Null);
  uint64_t Bits = std::bit_cast<uint64_t>(Value);
  return std::bit_cast<double>(
      (Bits & ~Mask) | (std::bit_cast<uint64_t>(nullDouble()) & Mask));
}

/// An operand of a loop: a block of values, or one for all rows.
template <typename T> struct Operand {
  const T *Data;
  bool Scalar;

  T operator[](size_t I) const { return Data[Scalar ? 0 : I]; }
};

template <typename In, typename Out, typename Fn>
void mapOne(const In *A, Out *__restrict Result, size_t N, Fn F) {
  for (size_t I = 0; I != N; ++I)
    Result[I] = F(A[I]);
}

/// Three loops, so that a constant stays in a register.
template <typename In, typename Out, typename Fn>
void mapTwo(Operand<In> A, Operand<In> B, Out *__restrict Result, size_t N,
            Fn F) {
  if (B.Scalar) {
    const In Y = *B.Data;
    for (size_t I = 0; I != N; ++I)
      Result[I] = F(A.Data[I], Y);
  } else if (A.Scalar) {
    const In X = *A.Data;
    for (size_t I = 0; I != N; ++I)
      Result[I] = F(X, B.Data[I]);
  } else {
    for (size_t I = 0; I != N; ++I)
      Result[I] = F(A.Data[I], B.Data[I]);
  }
}

} // namespace culprit

#endif // CULPRIT_TABLE_EXPRESSIONLOOPS_H
