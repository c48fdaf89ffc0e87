//===- ExpressionMath.cpp - Functions of column expressions -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// All give no value where an operand has none, but for `if` and `coalesce`,
// which look at the one they choose.
//
//===----------------------------------------------------------------------===//

#include "Table/ExpressionLoops.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

/// The remainder with the sign of the divisor, as in Lua and Python; of a
/// division by zero there is none.
static int64_t remainder(int64_t X, int64_t Y) {
  if (Y == 0)
    return NullInt;
  if (Y == -1) // the least integer less itself would trap
    return 0;
  int64_t Rest = X % Y;
  return Rest != 0 && (Rest < 0) != (Y < 0) ? Rest + Y : Rest;
}

static double remainder(double X, double Y) {
  double Rest = std::fmod(X, Y);
  return Rest != 0 && (Rest < 0) != (Y < 0) ? Rest + Y : Rest;
}

/// The smaller or the larger; a NaN where one is a NaN.
template <typename T> static T extreme(T X, T Y, bool Least) {
  if (X != X)
    return X;
  if (Y != Y)
    return Y;
  return (Least ? Y < X : X < Y) ? Y : X;
}

template <typename T>
static void twoNumbers(NodeKind Op, Operand<T> A, Operand<T> B, T *Out,
                       size_t N, T Null) {
  auto run = [&](auto F) {
    mapTwo(A, B, Out, N, [F, Null](T X, T Y) {
      return isNull(X) | isNull(Y) ? Null : F(X, Y);
    });
  };
  if (Op == NodeKind::Modulo)
    run([](T X, T Y) { return remainder(X, Y); });
  else if (Op == NodeKind::Min)
    run([](T X, T Y) { return extreme(X, Y, true); });
  else
    run([](T X, T Y) { return extreme(X, Y, false); });
}

static void oneNumber(NodeKind Op, const double *A, double *Out, size_t N) {
  auto run = [&](auto F) {
    mapOne(A, Out, N, [F](double X) { return isNull(X) ? X : F(X); });
  };
  switch (Op) {
  case NodeKind::Floor:
    return run([](double X) { return std::floor(X); });
  case NodeKind::Ceil:
    return run([](double X) { return std::ceil(X); });
  case NodeKind::Round:
    return run([](double X) { return std::round(X); });
  case NodeKind::Sqrt:
    return run([](double X) { return X < 0 ? nullDouble() : std::sqrt(X); });
  case NodeKind::Log:
    return run([](double X) { return X <= 0 ? nullDouble() : std::log(X); });
  default:
    return run([](double X) { return std::exp(X); });
  }
}

/// If and Coalesce over values of one type.
template <typename T>
void ExpressionProgram::choose(Instruction &I, T *Out, size_t N) {
  auto operand = [&](uint32_t K) {
    return Operand<T>{static_cast<const T *>(Results[K]), Code[K].Scalar};
  };
  if (I.Op == NodeKind::Coalesce) {
    mapTwo(operand(I.Left), operand(I.Right), Out, N,
           [](T X, T Y) { return isNull(X) ? Y : X; });
    return;
  }
  Operand<uint8_t> If = {static_cast<const uint8_t *>(Results[I.Left]),
                         Code[I.Left].Scalar};
  Operand<T> A = operand(I.Right), B = operand(I.Third);
  for (size_t R = 0; R != N; ++R)
    Out[R] = If[R] == 1 ? A[R] : B[R];
}

/// Whether each value is among \p Wanted, of which \p Of makes values.
template <typename T, typename Fn>
static void lookFor(const T *A, ArrayRef<int64_t> Wanted, uint8_t *Out,
                    size_t N, Fn Of) {
  // A pass a value is done by vectors; many values are searched.
  constexpr size_t FewValues = 16;
  if (Wanted.size() <= FewValues) {
    mapOne(A, Out, N,
           [](T X) { return isNull(X) ? NullBool : uint8_t(0); });
    for (int64_t Word : Wanted) {
      const T Value = Of(Word);
      for (size_t R = 0; R != N; ++R)
        Out[R] |= uint8_t(A[R] == Value);
    }
    return;
  }
  for (size_t R = 0; R != N; ++R) {
    auto At = std::lower_bound(
        Wanted.begin(), Wanted.end(), A[R],
        [&](int64_t Word, T Value) { return Of(Word) < Value; });
    Out[R] = isNull(A[R]) ? NullBool
                          : uint8_t(At != Wanted.end() && Of(*At) == A[R]);
  }
}

void ExpressionProgram::stepFunction(Instruction &I, std::byte *Out, size_t N) {
  auto *Ints = reinterpret_cast<int64_t *>(Out);
  auto *Doubles = reinterpret_cast<double *>(Out);
  auto *Bools = reinterpret_cast<uint8_t *>(Out);
  auto *Ids = reinterpret_cast<StringId *>(Out);
  const void *A = Results[I.Left], *B = Results[I.Right];
  bool ScalarA = Code[I.Left].Scalar, ScalarB = Code[I.Right].Scalar;
  auto ints = [](const void *P) { return static_cast<const int64_t *>(P); };
  auto doubles = [](const void *P) { return static_cast<const double *>(P); };
  auto ids = [](const void *P) { return static_cast<const StringId *>(P); };

  switch (I.Op) {
  case NodeKind::Modulo:
  case NodeKind::Min:
  case NodeKind::Max:
    if (I.Type == ColumnType::Int)
      twoNumbers<int64_t>(I.Op, {ints(A), ScalarA}, {ints(B), ScalarB}, Ints,
                          N, NullInt);
    else
      twoNumbers<double>(I.Op, {doubles(A), ScalarA}, {doubles(B), ScalarB},
                         Doubles, N, nullDouble());
    return;
  case NodeKind::If:
  case NodeKind::Coalesce:
    switch (I.Type) {
    case ColumnType::Int:
      return choose(I, Ints, N);
    case ColumnType::Double:
      return choose(I, Doubles, N);
    case ColumnType::Bool:
      return choose(I, Bools, N);
    default:
      return choose(I, Ids, N);
    }
  case NodeKind::Length:
    mapOne(ids(A), Ints, N, [&](StringId Id) {
      return isNull(Id) ? NullInt
                        : static_cast<int64_t>(Pool->text(Id).size());
    });
    return;
  case NodeKind::In:
    switch (I.In) {
    case ColumnType::Int:
      return lookFor(ints(A), I.Wanted, Bools, N,
                     [](int64_t Word) { return Word; });
    case ColumnType::Double:
      return lookFor(doubles(A), I.Wanted, Bools, N,
                     [](int64_t Word) { return llvm::bit_cast<double>(Word); });
    case ColumnType::Bool:
      return lookFor(static_cast<const uint8_t *>(A), I.Wanted, Bools, N,
                     [](int64_t Word) { return static_cast<uint8_t>(Word); });
    default:
      return lookFor(ids(A), I.Wanted, Bools, N,
                     [](int64_t Word) { return static_cast<StringId>(Word); });
    }
  default:
    return oneNumber(I.Op, doubles(A), Doubles, N);
  }
}

} // namespace culprit
