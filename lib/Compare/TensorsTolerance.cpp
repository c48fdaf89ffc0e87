//===- TensorsTolerance.cpp - What a correct run may differ by --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// With the unit roundoff u of the coarser format, an output of sums over n
// terms differs between two correct programs by about
//
//   e = (u + u32 sqrt(n)) sqrt(depth)
//
// of its root mean square: inputs and outputs are rounded to the format, the
// sums are carried in float32 at best, and the errors of the layers before add
// up as independent ones do. A tensor of N elements has a largest error of
// about sqrt(2 ln N) of these. Weights are copied or rounded once and have
// neither sums nor depth.
//
// A float32 tensor may hold values that were computed in bfloat16, as dumps
// made with .float() do. What counts is the format the values have.
//
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Smallest positive number of a floating type.
static double smallestOf(DType Type) {
  return smallestNormal(Type) * 2 * unitRoundoff(Type);
}

namespace {
struct ValueFormat {
  double Unit;
  double Smallest;
  std::string Name;
};
} // namespace

/// True if \p X has at most \p Digits significant binary digits; \p Full says
/// whether it has that many.
static bool hasDigits(double X, int Digits, bool &Full) {
  int Exponent;
  const double Units = std::ldexp(std::frexp(X, &Exponent), Digits);
  Full = std::fmod(Units, 2) != 0;
  return Units == std::nearbyint(Units);
}

/// The format that the values of \p View have, at most that of its type. Wants
/// 64 numbers that are not whole and spread over several binades.
static ValueFormat formatOf(const TensorView &View) {
  ValueFormat Own = {unitRoundoff(View.Type), smallestOf(View.Type),
                     toString(View.Type).str()};
  if (View.Type != DType::Float32 && View.Type != DType::Float64)
    return Own;
  struct Narrow {
    int Digits;
    DType Type;
  };
  for (const Narrow &N : {Narrow{8, DType::BFloat16}, {11, DType::Float16},
                          {24, DType::Float32}}) {
    if (N.Type == View.Type)
      break;
    const int64_t Numel = View.numel();
    const int64_t Step = std::max<int64_t>(1, Numel / 4096);
    int64_t Count = 0, Full = 0, Fractions = 0;
    int Least = 0, Most = 0;
    bool All = true;
    for (int64_t I = 0; I < Numel && All; I += Step) {
      const double X = View.at(I);
      if (X == 0 || !std::isfinite(X))
        continue;
      bool Whole;
      All = hasDigits(X, N.Digits, Whole);
      Full += Whole;
      Fractions += X != std::nearbyint(X);
      const int Exponent = std::ilogb(X);
      Least = Count ? std::min(Least, Exponent) : Exponent;
      Most = Count ? std::max(Most, Exponent) : Exponent;
      ++Count;
    }
    // Of full significands every second is odd; few numbers of few digits
    // would be on any grid.
    if (All && Count >= 64 && Full * 4 >= Count && Fractions * 2 >= Count &&
        Most - Least >= 3)
      return {unitRoundoff(N.Type), N.Type == DType::Float16 ? 0x1p-24 : 0,
              (toString(N.Type) + " values in " + toString(View.Type)).str()};
  }
  return Own;
}

TensorTolerance toleranceOf(const TensorPair &Pair, int64_t Terms,
                            int64_t Depth) {
  const TensorView &Ref = *Pair.Ref.View, &Ours = *Pair.Ours.View;
  TensorTolerance Out;
  if (!isFloating(Ref.Type) && !isFloating(Ours.Type)) {
    Out.Basis = "integers, exact";
    return Out;
  }
  const ValueFormat A = formatOf(Ref), B = formatOf(Ours);
  const ValueFormat &Coarser = B.Unit > A.Unit ? B : A;
  Out.Unit = Coarser.Unit;
  Out.Relative = 2 * Out.Unit;
  Out.Floor = Coarser.Smallest;
  Out.Basis = Coarser.Name;
  if (Pair.Ref.Role == "weight" || Pair.Ref.Role == "state") {
    Out.RelL2 = Out.Unit;
    Out.Basis += ", rounded once";
    return Out;
  }
  const double Carried = std::min(Out.Unit, 0x1p-24);
  const double Error = (Out.Unit + Carried * std::sqrt(double(Terms))) *
                       std::sqrt(double(std::max<int64_t>(1, Depth)));
  const double Largest =
      std::sqrt(2 * std::log(double(std::max<int64_t>(2, Ref.numel()))));
  Out.OfRms = (1 + Largest) * Error;
  Out.RelL2 = 2 * Error;
  Out.Basis += ", sums over " + formatCount(Terms) + " terms, depth " +
               std::to_string(std::max<int64_t>(1, Depth));
  return Out;
}

} // namespace culprit
