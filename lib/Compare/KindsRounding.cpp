//===- KindsRounding.cpp - Values of a coarser format -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

namespace {
struct Format {
  StringLiteral Name;
  int Digits;         ///< Of the significand, with the hidden one.
  int LeastExponent;  ///< Of normal numbers, as of ldexp(1.xxx, e).
  bool Benign;        ///< Training and inference run in it as a rule.
};
} // namespace

static constexpr Format Formats[] = {
    {"float32", 24, -126, true},  {"tf32", 11, -126, true},
    {"float16", 11, -14, true},   {"bfloat16", 8, -126, true},
    {"float8_e4m3", 4, -6, false}, {"float8_e5m2", 3, -14, false},
};

/// \p X rounded to \p F, to nearest even or towards zero. A number beyond the
/// format's range keeps its magnitude.
static double rounded(double X, const Format &F, bool Truncate) {
  if (X == 0 || !std::isfinite(X))
    return X;
  int Exponent;
  std::frexp(X, &Exponent); // x = f 2^e with 1/2 <= f < 1
  const int Last = std::max(Exponent - 1, F.LeastExponent) - (F.Digits - 1);
  const double Units = std::ldexp(X, -Last);
  return std::ldexp(Truncate ? std::trunc(Units) : std::nearbyint(Units), Last);
}

/// ours is ref rounded to a coarser format, to the last bit. Rounding to the
/// formats that models run in is what a correct run does.
MaybeKind findRounding(const KindSearch &S) {
  for (const Format &F : Formats)
    for (bool Truncate : {false, true}) {
      int64_t Count = 0, Exact = 0, Changed = 0;
      for (int64_t I : S.sample()) {
        const double R = S.ref(I), O = S.ours(I);
        if (!std::isfinite(R) || !std::isfinite(O))
          continue;
        ++Count;
        Exact += rounded(R, F, Truncate) == O;
        Changed += R != O;
        if (Count == 64 && Exact < 60)
          break;
      }
      if (Count < 4 || Changed == 0 || Exact * 1000 < Count * 999)
        continue;
      Fit Whole = S.test([&](int64_t I) {
        return rounded(S.ref(I), F, Truncate);
      });
      if (!Whole.Good)
        continue;
      DifferenceKind Out =
          explained("rounding", "",
                    Twine("ours is ref ") +
                        (Truncate ? "cut off" : "rounded") + " to " + F.Name,
                    Whole);
      Out.Parameters["format"] = F.Name;
      Out.Parameters["truncated"] = Truncate;
      Out.Benign = F.Benign;
      return Out;
    }
  return std::nullopt;
}

/// A float32 tensor whose error looks like noise, as large as products in a
/// narrower format make it: spread evenly, of both signs alike and unrelated
/// to the values.
MaybeKind findPrecision(const KindSearch &S) {
  const KindQuery &Q = S.query();
  const DifferenceSums &Sums = Q.Sums;
  const double N = double(Sums.Finite), Size = Sums.relL2();
  if (isWeight(Q) || Q.Tolerance.Unit > 0x1p-24 || N < 64 ||
      Sums.OursNonFinite + Sums.RefNonFinite != 0)
    return std::nullopt;
  const bool Halves = Size > 0x1p-14 && Size <= 0x1p-10;
  const bool Brains = Size > 0x1p-10 && Size <= 0x1p-6;
  const double Deviation = std::sqrt(Sums.DSquares / N);
  // The rounding of a weight is in many elements, so far fewer errors are
  // independent than there are elements.
  const double Chance = std::max(5 / std::sqrt(N), 0.3);
  if ((!Halves && !Brains) || Sums.MaxAbs > 8 * Deviation ||
      std::fabs(Sums.DSum) > Chance * Deviation * N ||
      std::fabs(Sums.Product) >
          Chance * std::sqrt(Sums.Squares * Sums.DSquares))
    return std::nullopt;
  Fit F;
  F.Share = 1;
  F.Explained = 0.5; // other noise may be as large
  DifferenceKind Out = explained(
      "precision", Halves ? "tf32-precision" : "",
      Twine("the error is noise as large as products in ") +
          (Halves ? "TF32 or float16" : "bfloat16") + " make it",
      F);
  Out.Residual = 1;
  Out.Parameters["format"] = Halves ? "tf32" : "bfloat16";
  return Out;
}

namespace {
/// Elements that share a scale: Count from Begin on, Stride apart.
struct Group {
  int64_t Begin, Count, Stride;
};
} // namespace

/// Whether ours, in \p G, lies on a grid of \p Levels steps to each side of
/// zero whose largest point is the largest magnitude, and ref within one step
/// of it.
static bool onGrid(const KindSearch &S, const Group &G, double Levels) {
  double Largest = 0;
  for (int64_t I = 0; I != G.Count; ++I)
    Largest = std::max(Largest, std::fabs(S.ours(G.Begin + I * G.Stride)));
  if (Largest == 0 || !std::isfinite(Largest))
    return Largest == 0;
  const double Step = Largest / Levels;
  const int64_t Stride = std::max<int64_t>(1, G.Count / 4096);
  for (int64_t I = 0; I < G.Count; I += Stride) {
    const double O = S.ours(G.Begin + I * G.Stride) / Step;
    const double R = S.ref(G.Begin + I * G.Stride) / Step;
    // Half of the last bit of the format that the grid is stored in.
    const double Most = std::max(1e-3, 2 * Levels * S.tolerance().Unit);
    if (!(std::fabs(O - std::nearbyint(O)) <= Most) ||
        !(std::fabs(O - R) <= 0.75))
      return false;
  }
  return true;
}

/// ours is ref on a grid of 8 or 4 bits: quantised and back, with a scale for
/// the tensor, for each row or for each column.
MaybeKind findGrid(const KindSearch &S) {
  if (!isFloating(S.query().Ours.Type) || S.numel() < 16)
    return std::nullopt;
  const int64_t Last = S.dims().back(), Rows = S.numel() / Last;
  // Values on few levels repeat; a tensor of as many levels as elements would
  // lie on any grid that is fine enough.
  struct Layout {
    StringLiteral Name;
    int64_t Groups;
  };
  for (const Layout &L : {Layout{"tensor", 1}, Layout{"row", Rows},
                          Layout{"column", Last}})
    for (double Levels : {127.0, 128.0, 7.0, 8.0}) {
      const int64_t Tries = std::min<int64_t>(L.Groups, 64);
      bool Right = true;
      for (int64_t I = 0; I != Tries && Right; ++I) {
        const int64_t At = I * L.Groups / Tries;
        const Group G = L.Groups == 1 ? Group{0, S.numel(), 1}
                        : L.Groups == Rows ? Group{At * Last, Last, 1}
                                           : Group{At, Rows, Last};
        Right = G.Count >= 8 && onGrid(S, G, Levels);
      }
      if (!Right)
        continue;
      Fit F;
      F.Share = 1;
      F.Explained = 0.95;
      const StringRef Name = Levels > 100 ? "int8" : "int4";
      DifferenceKind Out = explained(
          "quantized", "",
          "ours is ref on an " + Name + " grid, one scale a " + L.Name +
              "; the error is no larger than the grid makes it",
          F);
      Out.Parameters["format"] = Name;
      Out.Parameters["scale_per"] = L.Name;
      Out.Residual = 0;
      return Out;
    }
  return std::nullopt;
}

} // namespace culprit
