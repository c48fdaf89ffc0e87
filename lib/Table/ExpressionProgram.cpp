//===- ExpressionProgram.cpp - Evaluates column expressions -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Deadline.h"
#include "Support/FindText.h"
#include "Support/Glob.h"
#include "Table/ExpressionLoops.h"
#include "llvm/Support/ErrorHandling.h"
#include <cmath>

using namespace llvm;

namespace culprit {

bool textHolds(NodeKind Kind, StringRef Text, StringRef Wanted) {
  switch (Kind) {
  case NodeKind::Equal:
    return Text == Wanted;
  case NodeKind::NotEqual:
    return Text != Wanted;
  case NodeKind::Less:
    return Text < Wanted;
  case NodeKind::LessEqual:
    return Text <= Wanted;
  case NodeKind::Greater:
    return Text > Wanted;
  case NodeKind::GreaterEqual:
    return Text >= Wanted;
  case NodeKind::Contains:
    return Wanted.empty() || containsText(Text, Wanted);
  case NodeKind::StartsWith:
    return Text.starts_with(Wanted);
  case NodeKind::EndsWith:
    return Text.ends_with(Wanted);
  case NodeKind::Match:
    for (;;) {
      auto [Glob, Rest] = Wanted.split('|');
      if (globMatch(Glob, Text))
        return true;
      if (Glob.size() == Wanted.size())
        return false;
      Wanted = Rest;
    }
  default:
    llvm_unreachable("not a test of text");
  }
}

/// Asks for the values of the next block: blocks are too short for the
/// processor to foresee more than a few lines of each column.
template <typename T> static void prefetch(ArrayRef<T> Values) {
  constexpr size_t PerLine = 64 / sizeof(T);
  for (size_t I = 0; I < Values.size(); I += PerLine)
    __builtin_prefetch(Values.data() + I);
}

template <typename T>
static const T *gather(ArrayRef<T> Values, const ColumnView &View, T *Result,
                       size_t First, size_t Count) {
  if (!View.Rows) {
    prefetch(Values.drop_front(First + Count).take_front(Count));
    return Values.data() + First;
  }
  const uint32_t *Rows = View.Rows->data() + First;
  for (size_t I = 0; I != Count; ++I)
    Result[I] = Values[Rows[I]];
  return Result;
}

/// Integers wrap: two's complement, through unsigned, where C++ defines it.
static void arithmetic(NodeKind Op, Operand<int64_t> A, Operand<int64_t> B,
                       int64_t *Out, size_t N) {
  auto run = [&](auto F) {
    mapTwo(A, B, Out, N, [F](int64_t X, int64_t Y) {
      return isNull(X) | isNull(Y)
                 ? NullInt
                 : static_cast<int64_t>(
                       F(static_cast<uint64_t>(X), static_cast<uint64_t>(Y)));
    });
  };
  if (Op == NodeKind::Add)
    run([](uint64_t X, uint64_t Y) { return X + Y; });
  else if (Op == NodeKind::Subtract)
    run([](uint64_t X, uint64_t Y) { return X - Y; });
  else
    run([](uint64_t X, uint64_t Y) { return X * Y; });
}

static void arithmetic(NodeKind Op, Operand<double> A, Operand<double> B,
                       double *Out, size_t N) {
  auto run = [&](auto F) {
    mapTwo(A, B, Out, N, [F](double X, double Y) {
      return orNull(isNull(X) | isNull(Y), F(X, Y));
    });
  };
  if (Op == NodeKind::Add)
    run([](double X, double Y) { return X + Y; });
  else if (Op == NodeKind::Subtract)
    run([](double X, double Y) { return X - Y; });
  else if (Op == NodeKind::Multiply)
    run([](double X, double Y) { return X * Y; });
  else
    run([](double X, double Y) { return X / Y; });
}

/// Operators of one number.
static void sign(NodeKind Op, const int64_t *A, int64_t *Out, size_t N) {
  // Nulls and the smallest integer negate to themselves.
  bool Abs = Op == NodeKind::Abs;
  mapOne(A, Out, N, [Abs](int64_t X) {
    return Abs && X >= 0 ? X : static_cast<int64_t>(0 - uint64_t(X));
  });
}

static void sign(NodeKind Op, const double *A, double *Out, size_t N) {
  bool Abs = Op == NodeKind::Abs;
  mapOne(A, Out, N, [Abs](double X) {
    return isNull(X) ? X : Abs ? std::fabs(X) : -X;
  });
}

/// Of the numbers of each list; wraps, as all integers do. No list, no value.
static void product(const ColumnView &View, int64_t *Out, size_t First,
                    size_t N) {
  for (size_t R = 0; R != N; ++R) {
    uint64_t Result = 1;
    ArrayRef<int64_t> List = View.Data->list(View.row(First + R));
    for (int64_t Value : List)
      Result *= static_cast<uint64_t>(Value);
    Out[R] = List.empty() ? NullInt : static_cast<int64_t>(Result);
  }
}

/// F over a condition: 0, 1, or NullBool for unknown (Kleene's logic).
static void logic(NodeKind Op, Operand<uint8_t> A, Operand<uint8_t> B,
                  uint8_t *Out, size_t N) {
  if (Op == NodeKind::And)
    // 0 absorbs; otherwise 2 absorbs, and 2 * 2 is still unknown.
    mapTwo(A, B, Out, N, [](uint8_t X, uint8_t Y) {
      uint8_t Product = X * Y;
      return Product > NullBool ? NullBool : Product;
    });
  else
    // 1 absorbs; what is left are 0s and 2s.
    mapTwo(A, B, Out, N, [](uint8_t X, uint8_t Y) {
      return (X == 1) | (Y == 1) ? uint8_t(1) : uint8_t(X | Y);
    });
}

template <typename T>
void ExpressionProgram::compare(Instruction &I, uint8_t *Out, size_t N) {
  Operand<T> A = {static_cast<const T *>(Results[I.Left]), Code[I.Left].Scalar};
  Operand<T> B = {static_cast<const T *>(Results[I.Right]),
                  Code[I.Right].Scalar};
  auto run = [&](auto F) {
    mapTwo(A, B, Out, N, [F](T X, T Y) {
      return isNull(X) | isNull(Y) ? NullBool : uint8_t(F(X, Y));
    });
  };
  switch (I.Op) {
  case NodeKind::Equal:
    return run([](T X, T Y) { return X == Y; });
  case NodeKind::NotEqual:
    return run([](T X, T Y) { return X != Y; });
  case NodeKind::Less:
    return run([](T X, T Y) { return X < Y; });
  case NodeKind::LessEqual:
    return run([](T X, T Y) { return X <= Y; });
  case NodeKind::Greater:
    return run([](T X, T Y) { return X > Y; });
  default:
    return run([](T X, T Y) { return X >= Y; });
  }
}

void ExpressionProgram::testText(Instruction &I, uint8_t *Out, size_t N) {
  const auto *Ids = static_cast<const StringId *>(Results[I.Left]);
  constexpr uint8_t Unseen = UINT8_MAX;
  TimeCheck Late; // one text may be a document
  auto holds = [&](StringId Id) -> uint8_t {
    StringRef Text = Pool->text(Id);
    return Late(Text.size()) ? NullBool : textHolds(I.Op, Text, I.Text);
  };
  for (size_t R = 0; R != N; ++R) {
    StringId Id = Ids[R];
    if (isNull(Id)) {
      Out[R] = NullBool;
    } else if (I.Verdicts.empty()) {
      Out[R] = holds(Id);
    } else {
      uint8_t &Verdict = I.Verdicts[Id];
      if (Verdict == Unseen)
        Verdict = holds(Id);
      Out[R] = Verdict;
    }
  }
}

void ExpressionProgram::compareTexts(Instruction &I, uint8_t *Out, size_t N) {
  // Both sides are columns: the checker turns constants into tests.
  const auto *A = static_cast<const StringId *>(Results[I.Left]);
  const auto *B = static_cast<const StringId *>(Results[I.Right]);
  for (size_t R = 0; R != N; ++R)
    Out[R] = isNull(A[R]) || isNull(B[R])
                 ? NullBool
                 : textHolds(I.Op, Pool->text(A[R]), Pool->text(B[R]));
}

const void *ExpressionProgram::runAll(size_t First, size_t Count) {
  for (size_t K = 0; K != Code.size(); ++K) {
    Instruction &I = Code[K];
    if (I.Scalar)
      continue; // computed when compiled
    std::byte *Out = I.Buffer == Instruction::NoBuffer
                         ? nullptr
                         : Buffers.get() + I.Buffer * BlockRows * 8;
    Results[K] = step(I, Out, First, Count);
  }
  return Results.back();
}

const void *ExpressionProgram::step(Instruction &I, std::byte *Out,
                                    size_t First, size_t N) {
  auto *Ints = reinterpret_cast<int64_t *>(Out);
  auto *Doubles = reinterpret_cast<double *>(Out);
  auto *Bools = reinterpret_cast<uint8_t *>(Out);
  auto *Ids = reinterpret_cast<StringId *>(Out);

  if (I.Op == NodeKind::Column) {
    const Column &Data = *I.View->Data;
    switch (I.Type) {
    case ColumnType::Int:
      return gather(Data.ints(), *I.View, Ints, First, N);
    case ColumnType::Double:
      return gather(Data.doubles(), *I.View, Doubles, First, N);
    case ColumnType::Bool:
      return gather(Data.bools(), *I.View, Bools, First, N);
    case ColumnType::String:
      return gather(Data.strings(), *I.View, Ids, First, N);
    case ColumnType::IntList:
      return nullptr; // `is null` and `product` ask the column themselves
    }
  }

  const void *A = Results[I.Left], *B = Results[I.Right];
  bool ScalarA = Code[I.Left].Scalar, ScalarB = Code[I.Right].Scalar;
  auto ints = [](const void *P) { return static_cast<const int64_t *>(P); };
  auto doubles = [](const void *P) { return static_cast<const double *>(P); };
  auto bools = [](const void *P) { return static_cast<const uint8_t *>(P); };

  switch (I.Op) {
  case NodeKind::Widen:
    mapOne(ints(A), Doubles, N, [](int64_t X) {
      return orNull(isNull(X), static_cast<double>(X));
    });
    return Out;
  case NodeKind::Add:
  case NodeKind::Subtract:
  case NodeKind::Multiply:
  case NodeKind::Divide:
    if (I.In == ColumnType::Int)
      arithmetic(I.Op, {ints(A), ScalarA}, {ints(B), ScalarB}, Ints, N);
    else
      arithmetic(I.Op, {doubles(A), ScalarA}, {doubles(B), ScalarB}, Doubles,
                 N);
    return Out;
  case NodeKind::Negate:
  case NodeKind::Abs:
    if (I.In == ColumnType::Int)
      sign(I.Op, ints(A), Ints, N);
    else
      sign(I.Op, doubles(A), Doubles, N);
    return Out;
  case NodeKind::Finite:
    if (I.In == ColumnType::Int)
      mapOne(ints(A), Bools, N, [](int64_t X) { return !isNull(X); });
    else
      mapOne(doubles(A), Bools, N, [](double X) { return std::isfinite(X); });
    return Out;
  case NodeKind::Product:
    product(*I.View, Ints, First, N);
    return Out;
  case NodeKind::And:
  case NodeKind::Or:
    logic(I.Op, {bools(A), ScalarA}, {bools(B), ScalarB}, Bools, N);
    return Out;
  case NodeKind::Not:
    mapOne(bools(A), Bools, N,
           [](uint8_t X) { return isNull(X) ? X : uint8_t(1 - X); });
    return Out;
  case NodeKind::IsNull:
  case NodeKind::IsNotNull: {
    bool Wanted = I.Op == NodeKind::IsNull;
    auto test = [&](const auto *Values) {
      mapOne(Values, Bools, N,
             [Wanted](auto X) { return isNull(X) == Wanted; });
    };
    switch (I.In) {
    case ColumnType::Int:
      test(ints(A));
      break;
    case ColumnType::Double:
      test(doubles(A));
      break;
    case ColumnType::Bool:
      test(bools(A));
      break;
    case ColumnType::String:
      test(static_cast<const StringId *>(A));
      break;
    case ColumnType::IntList:
      for (size_t R = 0; R != N; ++R)
        Bools[R] = I.View->isNull(First + R) == Wanted;
      break;
    }
    return Out;
  }
  case NodeKind::Modulo:
  case NodeKind::Floor:
  case NodeKind::Ceil:
  case NodeKind::Round:
  case NodeKind::Sqrt:
  case NodeKind::Log:
  case NodeKind::Exp:
  case NodeKind::Min:
  case NodeKind::Max:
  case NodeKind::If:
  case NodeKind::Coalesce:
  case NodeKind::Length:
  case NodeKind::In:
    stepFunction(I, Out, N);
    return Out;
  default:
    break;
  }

  if (I.TestsText)
    testText(I, Bools, N);
  else if (I.In == ColumnType::Int)
    compare<int64_t>(I, Bools, N);
  else if (I.In == ColumnType::Double)
    compare<double>(I, Bools, N);
  else if (I.In == ColumnType::Bool)
    compare<uint8_t>(I, Bools, N);
  else if (I.Op == NodeKind::Equal || I.Op == NodeKind::NotEqual)
    compare<StringId>(I, Bools, N);
  else
    compareTexts(I, Bools, N);
  return Out;
}

} // namespace culprit
