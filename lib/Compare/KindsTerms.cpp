//===- KindsTerms.cpp - Terms, norms and rotations --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numbers>

using namespace llvm;

namespace culprit {

/// ours is another dumped tensor of the reference: two that were swapped, or
/// a layer further up or down.
MaybeKind findOtherTensor(const KindSearch &S) {
  for (const NamedTensor &T : S.query().Others) {
    if (T.View.numel() != S.numel())
      continue;
    Fit F = S.test([&](int64_t I) { return T.View.at(I); });
    if (!F.Good)
      continue;
    // One of two summands alone: the other one was not added.
    const ElementTolerance Rounding =
        S.tolerance().elements(S.query().Sums.refRms());
    for (const NamedTensor &U : S.query().Others) {
      if (U.View.numel() != S.numel() || U.Name == T.Name)
        continue;
      // The sum was rounded at its own size, which may be far above ours.
      if (!all_of(S.sample().take_front(20'000), [&](int64_t I) {
            const double Sum = T.View.at(I) + U.View.at(I);
            return std::fabs(S.ref(I) - Sum) <=
                   2 * (Rounding.Absolute + Rounding.Relative * std::fabs(Sum));
          }))
        continue;
      DifferenceKind Out = explained(
          "missing-term", "bias-missing",
          "ref is " + Twine(T.Name) + " + " + U.Name + ", ours is " + T.Name +
              " alone: ours does not add the other",
          F);
      Out.Parameters["term"] = U.Name;
      Out.Parameters["times"] = -1;
      return Out;
    }
    DifferenceKind Out = explained(
        "other-tensor", "", "ours is the reference's " + Twine(T.Name), F);
    Out.Parameters["tensor"] = T.Name;
    return Out;
  }
  return std::nullopt;
}

/// ours = ref + c T with T another dumped tensor: c = -1 is a term that ours
/// does not add, such as a residual; c = 1 one that it adds once more.
MaybeKind findMissingTerm(const KindSearch &S) {
  for (const NamedTensor &T : S.query().Others) {
    if (T.View.numel() != S.numel())
      continue;
    double Top = 0, Bottom = 0;
    for (int64_t I : S.sample().take_front(4096)) {
      const double X = T.View.at(I), D = S.ours(I) - S.ref(I);
      Top += X * D;
      Bottom += X * X;
    }
    if (!(Bottom > 0) || !std::isfinite(Top))
      continue;
    double C = Top / Bottom;
    // Nearly a whole number is meant to be one.
    if (std::fabs(C - std::round(C)) < 0.01 && std::round(C) != 0)
      C = std::round(C);
    Fit F =
        S.test([&](int64_t I) { return S.ref(I) + C * T.View.at(I); }, 1);
    if (!F.Good)
      continue;
    std::string Says =
        C == -1 ? "ref - ours is " + T.Name + ": ours does not add it"
        : C == 1
            ? "ours - ref is " + T.Name + ": ours adds it once more"
            : "ours - ref is " + shortNumber(C) + " x " + T.Name;
    // A term counts a whole number of times; else its coefficient is off.
    DifferenceKind Out =
        explained(C < 0 ? "missing-term" : "extra-term",
                  C == std::round(C) ? "bias-missing" : "", Says, F);
    Out.Parameters["term"] = T.Name;
    Out.Parameters["times"] = C;
    return Out;
  }
  return std::nullopt;
}

} // namespace culprit
