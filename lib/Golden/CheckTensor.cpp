//===- CheckTensor.cpp - Values of a tensor ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Check.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static std::string listText(ArrayRef<int64_t> Values) {
  std::string Out;
  for (int64_t V : Values)
    Out += (Out.empty() ? "" : ", ") + std::to_string(V);
  return "[" + Out + "]";
}

static std::string indexText(int64_t Flat, ArrayRef<int64_t> Shape) {
  TensorView V;
  V.Shape.assign(Shape.begin(), Shape.end());
  return listText(V.unravel(Flat));
}

static std::string statsText(const GoldenItem &I) {
  std::string Out;
  for (StringRef Name : {"mean", "sd", "l2", "absmax"})
    if (std::optional<double> V = I.number("stats", Name))
      Out += (Out.empty() ? "" : ", ") + Name.str() + " " + formatNumber(*V, 6);
  return Out;
}

namespace {
/// How far two sketches are apart.
struct SketchGap {
  double L2 = 0;
  size_t Worst = 0;  ///< Part of the largest difference.
  double Share = 0;  ///< Of the squared difference that is in it.
};
} // namespace

static SketchGap gapOf(ArrayRef<double> A, ArrayRef<double> B) {
  SketchGap Out;
  double Sum = 0, Most = 0;
  for (size_t I = 0; I != A.size(); ++I) {
    double D = A[I] - B[I];
    // Not finite on both sides: counted elsewhere. On one: as far as can be.
    if (std::isnan(D))
      D = std::isfinite(A[I]) == std::isfinite(B[I]) ? 0 : HUGE_VAL;
    Sum += D * D;
    if (std::fabs(D) > Most) {
      Most = std::fabs(D);
      Out.Worst = I;
    }
  }
  Out.L2 = std::sqrt(Sum);
  Out.Share = Sum > 0 && std::isfinite(Sum) ? Most * Most / Sum : 1;
  return Out;
}

void checkTensor(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F) {
  const GoldenItem &New = Seen.Item;
  const auto Fail = [&](std::string What, StringRef Next) {
    F.Is = GoldenFinding::Outcome::Failed;
    F.What = std::move(What);
    F.Next = Next.str();
  };
  const std::vector<int64_t> Shape = Locked.integers("shape"),
                             NewShape = New.integers("shape");
  if (Locked.text("dtype") != New.text("dtype") || Shape != NewShape) {
    F.Expected = Locked.text("dtype").str() + " " + listText(Shape);
    F.Found = New.text("dtype").str() + " " + listText(NewShape);
    return Fail("the tensor has another type or shape",
                "see the items of layout and settings first");
  }
  if (Locked.Kind == GoldenKind::Structural)
    return;
  if (Locked.Kind == GoldenKind::Exact && Locked.find("hash") &&
      Locked.text("hash") == New.text("hash"))
    return;
  for (StringRef What : {"nan", "inf"}) {
    const double Before = Locked.number("stats", What).value_or(0);
    const double Now = New.number("stats", What).value_or(0);
    if (Before != Now) {
      F.Expected = formatCount(int64_t(Before));
      F.Found = formatCount(int64_t(Now));
      return Fail("it has " + formatCount(int64_t(Now)) +
                      " elements that are " +
                      What.str() + ", not " + formatCount(int64_t(Before)),
                  "culprit diagnose finds where the first one was born");
    }
  }
  F.Expected = statsText(Locked);
  F.Found = statsText(New);
  double Numel = 1;
  for (int64_t D : Shape)
    Numel *= double(D);
  const double Norm = Locked.number("stats", "l2").value_or(0);
  const double Rtol = Locked.tolerance("rtol"), Atol = Locked.tolerance("atol");
  const std::vector<double> A = Locked.numbers("sketch"),
                            B = New.numbers("sketch");
  const StringRef Next = "culprit compare OLD_RUN NEW_RUN tells the first "
                         "tensor in execution order that differs, and how";
  if (A.size() == B.size() && !A.empty()) {
    const SketchGap Gap = gapOf(A, B);
    const double Allowed = Rtol * Norm + Atol * std::sqrt(Numel);
    if (Locked.Kind != GoldenKind::Exact && !(Gap.L2 > Allowed))
      return;
    const bool Elements = double(A.size()) == Numel;
    const int64_t Count = int64_t(Numel), Parts = int64_t(A.size());
    const int64_t Worst = int64_t(Gap.Worst);
    if (Elements) {
      F.First = "largest at " + indexText(Worst, Shape) + ": " +
                formatNumber(B[Gap.Worst], 8) + " instead of " +
                formatNumber(A[Gap.Worst], 8) + ", off by " +
                formatNumber(std::fabs(B[Gap.Worst] - A[Gap.Worst]), 3);
    } else if (Gap.L2 > 0) {
      const int64_t Begin = Count * Worst / Parts,
                    Last = Count * (Worst + 1) / Parts - 1;
      F.First = "largest in elements " + formatCount(Begin) + " to " +
                formatCount(Last) + ", " + indexText(Begin, Shape) + " to " +
                indexText(Last, Shape) + ", by about " +
                formatNumber(std::fabs(B[Gap.Worst] - A[Gap.Worst]), 3) +
                (Gap.Share > 0.99 ? "; the others agree" : "");
    }
    if (Gap.L2 == 0)
      return Fail("its bits differ by less than a lock can tell", Next);
    std::string What =
        Elements ? "it differs by " : "it differs by about "; // a sketch
    What += Norm > 0 ? formatNumber(Gap.L2 / Norm, 2) + " of its norm"
                     : formatNumber(Gap.L2, 2) + " from all zeros";
    if (Locked.Kind != GoldenKind::Exact && Allowed > 0)
      What += ", " + formatNumber(Gap.L2 / Allowed, 3) +
              " times the tolerance";
    return Fail(What, Next);
  }
  if (!A.empty() && !B.empty())
    return Fail("the lock's sketch has " + formatCount(int64_t(A.size())) +
                    " numbers, not " + formatCount(int64_t(B.size())),
                "it was edited by hand: accept the item");
  // Statistics alone. A difference of |d| moves the mean by |d| / sqrt(n) at
  // most, the norm by |d| and the largest by |d|.
  const double Rms = Numel > 0 ? Norm / std::sqrt(Numel) : 0;
  for (StringRef What : {"mean", "l2", "absmax"}) {
    const std::optional<double> Before = Locked.number("stats", What),
                                Now = New.number("stats", What);
    if (!Before || !Now)
      continue;
    const double Scale = What == "mean" ? std::max(Rms, std::fabs(*Before))
                                        : std::fabs(*Before);
    const double Allowed =
        Rtol * Scale + Atol * (What == "l2" ? std::sqrt(Numel) : 1);
    if (std::fabs(*Now - *Before) <= Allowed &&
        Locked.Kind != GoldenKind::Exact)
      continue;
    if (*Now == *Before)
      continue;
    return Fail("its " + What.str() + " is " + formatNumber(*Now, 6) +
                    " instead of " + formatNumber(*Before, 6) + ", where " +
                    formatNumber(Allowed, 3) + " is allowed",
                Next);
  }
}

} // namespace culprit
