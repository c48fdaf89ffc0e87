//===- TensorsOrder.cpp - Where a difference begins -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Along the layers of a step: the first whose output is more than ten times as
// wrong as what went in. Along the steps of an iterative process: how its
// error develops.
//
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace culprit {

/// An output is that much more wrong than its input where a layer is to blame.
static constexpr double Amplified = 10;

/// The difference that went into the layer of number \p I: that of its own
/// input, else of the last activation before it.
static std::optional<size_t> inputOf(const TensorComparison &C, size_t I) {
  const TensorEntry &E = C.Differences[I].Pair.Ref;
  std::optional<size_t> Before;
  for (size_t J = I; J-- != 0;) {
    const TensorEntry &Other = C.Differences[J].Pair.Ref;
    // Weights that belong to no step may lie between the tensors of the first.
    if (Other.Role == "weight" || Other.Role == "state")
      continue;
    if (!samePlace(E, Other))
      break;
    if (!Before)
      Before = J;
    if (Other.Layer == E.Layer && Other.Role == "input" && E.Role != "input")
      return J;
  }
  return Before;
}

void findDivergence(TensorComparison &C) {
  std::optional<Divergence> Any;
  for (size_t I = 0; I != C.Differences.size(); ++I) {
    const TensorDifference &D = C.Differences[I];
    if (D.Verdict != CompareVerdict::Different)
      continue;
    Divergence Here{I, std::nullopt, "", ""};
    if (D.Pair.Ref.Role != "weight" && D.Pair.Ref.Role != "state")
      if (std::optional<size_t> In = inputOf(C, I)) {
        Here.InputRelL2 = C.Differences[*In].Sums.relL2();
        Here.Input = C.Differences[*In].Pair.Ref.Name;
      }
    const double Out = D.Sums.relL2();
    const bool NonFinite =
        D.Sums.OursNonFinite > 0 &&
        (!Here.InputRelL2 || std::isfinite(*Here.InputRelL2));
    if (!Here.InputRelL2 || NonFinite || Out > Amplified * *Here.InputRelL2) {
      C.First = Here;
      return;
    }
    if (!Any)
      Any = Here;
  }
  C.First = Any;
}

namespace {
/// The error of a step or token.
struct Point {
  int64_t At;
  double Error = 0, Noise = 0;
  bool Different = false;
};
} // namespace

/// One point a step, or a token where there is one step; empty for fewer than
/// three.
static std::vector<Point> pointsOf(const TensorComparison &C, bool &Tokens) {
  for (bool ByToken : {false, true}) {
    std::map<int64_t, Point> Points;
    for (const TensorDifference &D : C.Differences) {
      const TensorEntry &E = D.Pair.Ref;
      std::optional<int64_t> At = ByToken ? E.Token : E.Step;
      if (!At || E.Role == "weight")
        continue;
      Point &P = Points.try_emplace(*At, Point{*At}).first->second;
      double Error = D.Sums.relL2();
      if (D.Sums.OursNonFinite > 0)
        Error = std::numeric_limits<double>::infinity();
      P.Error = std::max(P.Error, Error);
      P.Noise = std::max(P.Noise, D.NoiseRelL2.value_or(0));
      P.Different |= D.Verdict == CompareVerdict::Different;
    }
    if (Points.size() < 3)
      continue;
    Tokens = ByToken;
    std::vector<Point> Out;
    for (const auto &Each : Points)
      Out.push_back(Each.second);
    return Out;
  }
  return {};
}

/// Slope of log10 of the error over the points from \p Begin on.
static double slopeOf(ArrayRef<Point> Points) {
  double N = 0, X = 0, Y = 0, XX = 0, XY = 0;
  for (const Point &P : Points) {
    if (!(P.Error > 0) || !std::isfinite(P.Error))
      continue;
    const double At = double(P.At), Log = std::log10(P.Error);
    N += 1;
    X += At;
    Y += Log;
    XX += At * At;
    XY += At * Log;
  }
  const double Bottom = N * XX - X * X;
  return N < 2 || Bottom == 0 ? 0 : (N * XY - X * Y) / Bottom;
}

void findStepPattern(TensorComparison &C) {
  bool Tokens = false;
  const std::vector<Point> Points = pointsOf(C, Tokens);
  if (Points.empty())
    return;
  auto First =
      find_if(Points, [](const Point &P) { return P.Different; });
  const std::string Unit = Tokens ? "token" : "step";
  StepPattern Out;

  // The reference does not agree with itself.
  size_t Restless = 0;
  for (const TensorDifference &D : C.Differences)
    if (D.NoiseRelL2 && D.Tolerance.Unit > 0 && *D.NoiseRelL2 > 1e-2 &&
        *D.NoiseRelL2 > 20 * D.Tolerance.Unit)
      ++Restless;
  if (Restless) {
    Out.Kind = "every-run";
    Out.Class = "race-in-state";
    Out.Step = Points.front().At;
    Out.Says = formatv("the two runs of the reference differ from each other "
                       "in {0} tensors beyond rounding: state is read and "
                       "written without order, or a seed is missing",
                       Restless);
    C.Steps = Out;
    return;
  }
  if (First == Points.end())
    return;

  // A jump tells more than where the tolerance is first passed, which rounding
  // that adds up may do before it.
  size_t At = size_t(First - Points.begin());
  if (At == 0 || !(Points[At].Error > 10 * Points[At - 1].Error))
    for (size_t I = At + 1; I != Points.size(); ++I)
      if (Points[I].Error > 10 * Points[I - 1].Error &&
          Points[I - 1].Error > 0) {
        At = I;
        break;
      }
  First = Points.begin() + ptrdiff_t(At);
  Out.Step = First->At;
  const ArrayRef<Point> Bad = ArrayRef(Points).drop_front(At);
  Out.Slope = slopeOf(Bad);
  const double Before = At ? Points[At - 1].Error : 0;
  const bool Jump = At != 0 && First->Error > 10 * Before;
  size_t Rises = 0;
  double Largest = 0;
  for (size_t I = 1; I < Points.size(); ++I) {
    Rises += Points[I].Error > Points[I - 1].Error;
    if (Points[I - 1].Error > 0)
      Largest = std::max(Largest, Points[I].Error / Points[I - 1].Error);
  }
  const bool Grows = Rises * 10 >= (Points.size() - 1) * 7 &&
                     Points.back().Error > 3 * Points.front().Error;
  if (Jump && At == 1 && !Tokens) {
    Out.Kind = "order-two";
    Out.Class = "multistep-history-bug";
    Out.Says = formatv("the first step is right and the next is wrong "
                       "(relative error {0}): a multi-step method is right at "
                       "order one, its history or coefficients of order two "
                       "are not",
                       formatNumber(First->Error, 3));
  } else if (Jump) {
    Out.Kind = "sudden";
    Out.Class = Tokens ? "kv-cache-append-index" : "state-corrupted-at-step";
    Out.Says = formatv("right up to {0} {1}, then the error jumps from {2} to "
                       "{3} at {0} {4}",
                       Unit, Points[At - 1].At, formatNumber(Before, 3),
                       formatNumber(First->Error, 3), First->At);
  } else if (Grows && Largest <= 10) {
    Out.Kind = "gradual";
    Out.Class = "accumulating-step-error";
    Out.Slope = slopeOf(Points);
    Out.Says = formatv("the error grows from {0} to {1} without a jump, by a "
                       "factor of {2} a {3}",
                       formatNumber(Points.front().Error, 3),
                       formatNumber(Points.back().Error, 3),
                       formatNumber(std::pow(10, Out.Slope), 3), Unit);
  } else if (At == 0) {
    Out.Kind = "from-start";
    Out.Says = formatv("the error is there from the first {0} on ({1})", Unit,
                       formatNumber(First->Error, 3));
  } else {
    Out.Kind = "gradual";
    Out.Class = "accumulating-step-error";
    Out.Says = formatv("the error passes the tolerance at {0} {1}, without a "
                       "jump",
                       Unit, First->At);
  }
  // A process that amplifies its own rounding parts as slowly.
  if (Out.Kind == "gradual" && !Points.front().Different) {
    Out.Class = "";
    Out.Says += "; rounding that a process amplifies does as much";
  }
  C.Steps = Out;
}

} // namespace culprit
