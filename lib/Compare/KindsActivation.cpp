//===- KindsActivation.cpp - Another elementwise function -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One side applies an activation that the other does not, or another one.
// With the layer's input x, ref = f(x) and ours = g(x) are looked at directly.
// Without it x is found from ref, which most activations allow for x > 0; a
// negative output of GELU or SiLU has two, and the one that fits is taken.
//
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/StringExtras.h"
#include <numbers>

using namespace llvm;

namespace culprit {

static double identity(double X) { return X; }
static double relu(double X) { return std::max(X, 0.0); }
static double geluErf(double X) {
  return 0.5 * X * std::erfc(-X * std::numbers::sqrt2 / 2);
}
static double geluTanh(double X) {
  const double Inner = std::sqrt(2 / std::numbers::pi);
  return 0.5 * X * (1 + std::tanh(Inner * (X + 0.044715 * X * X * X)));
}
static double sigmoid(double X) { return 1 / (1 + std::exp(-X)); }
static double silu(double X) { return X * sigmoid(X); }
static double quickGelu(double X) { return X * sigmoid(1.702 * X); }
static double tanhOf(double X) { return std::tanh(X); }
static double leakyRelu(double X) { return X < 0 ? 0.01 * X : X; }
static double elu(double X) { return X < 0 ? std::expm1(X) : X; }
static double squaredRelu(double X) { return X > 0 ? X * X : 0; }
static double softplus(double X) {
  return X > 30 ? X : std::log1p(std::exp(X));
}
static double mish(double X) { return X * std::tanh(softplus(X)); }
static double hardSwish(double X) {
  return X * std::clamp(X + 3, 0.0, 6.0) / 6;
}

namespace {
struct Activation {
  double (*Apply)(double);
  StringLiteral Name;
  /// Where the branch that x > 0 belongs to begins, if there it grows without
  /// end; NaN if x cannot be found.
  double Turn;
};
} // namespace

static constexpr double Never = std::numeric_limits<double>::quiet_NaN();
static constexpr Activation Activations[] = {
    {identity, "no activation", Never},
    {relu, "ReLU", 0},
    {geluErf, "GELU", -0.75179},
    {geluTanh, "GELU with tanh", -0.75246},
    {silu, "SiLU", -1.27846},
    {quickGelu, "GELU with a sigmoid", -0.75117},
    {tanhOf, "tanh", Never},
    {sigmoid, "sigmoid", Never},
    {leakyRelu, "leaky ReLU", Never},
    {elu, "ELU", Never},
    {squaredRelu, "squared ReLU", Never},
    {mish, "Mish", Never},
    {hardSwish, "hard swish", Never},
    {softplus, "softplus", Never},
};

static DifferenceKind named(const Activation &Ref, const Activation &Ours,
                            const Fit &F) {
  const bool Missing = Ours.Apply == identity;
  DifferenceKind Out = explained(
      "activation",
      Missing ? "activation-missing" : "activation-variant-mismatch",
      Twine("ref is ") + Ref.Name + ", ours is " + Ours.Name +
          (Missing ? ": the activation is missing" : " of the same input"),
      F);
  Out.Parameters["ref"] = Ref.Name;
  Out.Parameters["ours"] = Ours.Name;
  return Out;
}

/// Whether \p A of \p Input is \p Out, on the sample.
static bool fits(const KindSearch &S, const TensorView &Input,
                 const TensorView &Out, const Activation &A) {
  int64_t Count = 0, Within = 0;
  for (int64_t I : S.sample().take_front(20'000)) {
    ++Count;
    Within += S.close(Out.at(I), A.Apply(Input.at(I)));
    if (Count >= 64 && Within * 10 < Count * 9)
      return false;
  }
  return Within * 1000 >= Count * 999;
}

/// Whether \p A makes ref of ours, rather than being nearly the identity on
/// values that are nearly equal.
static bool undoneBy(const KindSearch &S, const Activation &A) {
  double Left = 0, Before = 0;
  for (int64_t I : S.sample().take_front(20'000)) {
    const double R = S.ref(I), O = S.ours(I), Y = A.Apply(O);
    if (!std::isfinite(R) || !std::isfinite(Y))
      continue;
    Left += (R - Y) * (R - Y);
    Before += (R - O) * (R - O);
  }
  return Left < 0.5 * Before;
}

/// Where \p A takes the value \p Y above its turn; NaN if nowhere.
static double inverseAbove(const Activation &A, double Y) {
  double Low = A.Turn, High = std::max(1.0, 2 * std::fabs(Y) + 4);
  if (Y < A.Apply(Low))
    return Never;
  for (int Round = 0; Round != 60; ++Round) {
    const double Middle = (Low + High) / 2;
    (A.Apply(Middle) < Y ? Low : High) = Middle;
  }
  return (Low + High) / 2;
}

/// Likewise below it, where the function falls from 0.
static double inverseBelow(const Activation &A, double Y) {
  double Low = -40, High = A.Turn;
  if (Y >= 0 || Y < A.Apply(High))
    return Never;
  for (int Round = 0; Round != 60; ++Round) {
    const double Middle = (Low + High) / 2;
    (A.Apply(Middle) > Y ? Low : High) = Middle;
  }
  return (Low + High) / 2;
}

/// By the input that was dumped.
static MaybeKind byInput(const KindSearch &S, const TensorView &Input) {
  for (const Activation &Ref : Activations) {
    if (!fits(S, Input, S.query().Ref, Ref))
      continue;
    for (const Activation &Ours : Activations) {
      if (Ours.Apply == Ref.Apply)
        continue;
      Fit F = S.test([&](int64_t I) { return Ours.Apply(Input.at(I)); });
      if (F.Good)
        return named(Ref, Ours, F);
    }
  }
  return std::nullopt;
}

/// Another activation, or none where the reference has one.
MaybeKind findActivation(const KindSearch &S) {
  const KindQuery &Q = S.query();
  if (isWeight(Q) || !isFloating(Q.Ref.Type))
    return std::nullopt;
  if (Q.Input && Q.Input->numel() == S.numel())
    if (MaybeKind Found = byInput(S, *Q.Input))
      return Found;

  for (const Activation &A : Activations) {
    if (A.Apply == identity)
      continue;
    // Ours lacks it: ref is the activation of ours.
    if (fits(S, Q.Ours, Q.Ref, A) && undoneBy(S, A)) {
      Fit F;
      F.Share = F.Explained = 0.99;
      return named(A, Activations[0], F);
    }
    Fit F = S.test([&](int64_t I) { return A.Apply(S.ref(I)); });
    if (!F.Good)
      continue;
    DifferenceKind Out =
        explained("activation", "activation-variant-mismatch",
                  Twine("ours is ") + A.Name +
                      " of ref: it is applied once more",
                  F);
    Out.Parameters["ref"] = "no activation";
    Out.Parameters["ours"] = A.Name;
    return Out;
  }

  for (const Activation &Ref : Activations) {
    if (std::isnan(Ref.Turn))
      continue;
    for (const Activation &Ours : Activations) {
      if (Ours.Apply == Ref.Apply || Ours.Apply == identity)
        continue;
      // The inverse is slow, and the sample is enough for a function of one
      // variable.
      Fit F = S.judge([&](int64_t I) {
        const double Y = S.ref(I);
        // A ReLU keeps nothing of a negative input.
        if (Ref.Apply == relu)
          return Y > 0 ? Ours.Apply(Y) : Never;
        const double Above = inverseAbove(Ref, Y);
        if (std::isnan(Above))
          return Never;
        const double First = Ours.Apply(Above);
        const double Below = inverseBelow(Ref, Y);
        if (std::isnan(Below))
          return First;
        const double Second = Ours.Apply(Below), Is = S.ours(I);
        return std::fabs(Is - First) <= std::fabs(Is - Second) ? First : Second;
      });
      if (F.Good && F.Count * 4 >= int64_t(S.sample().size()))
        return named(Ref, Ours, F);
    }
  }
  return std::nullopt;
}

} // namespace culprit
