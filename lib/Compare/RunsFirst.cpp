//===- RunsFirst.cpp - Where two runs stop being the same -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A step makes its metrics in an order: batch, forward pass, gradients,
// update. The earliest that differs at the first step that differs says what
// is not the same: the data, the weights it began with, a kernel, a gradient,
// or what a checkpoint did not hold. How large the difference is, and how it
// grows, tells rounding from a change: rounding begins at 1e-7 and doubles
// every few steps, as training is chaotic; a change is there at once.
//
//===----------------------------------------------------------------------===//

#include "Compare/RunsParting.h"
#include "Compare/RunsStatistics.h"
#include "Support/Units.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace culprit {

/// Relative differences of a loss that rounding makes in float32 and with
/// activations in float16 and bfloat16: 100 unit roundoffs of float32, as a
/// loss is a sum over many terms; one of the narrow format.
static constexpr double Rounding32 = 100 * 0x1p-24;
static constexpr double Rounding16 = 0x1p-11, RoundingBf16 = 0x1p-8;

static Resolution resolutionOf(const ScalarSeries &S) {
  Resolution Out{0, true};
  std::set<double> Distinct;
  const size_t Stride = std::max<size_t>(1, S.size() / 256);
  for (size_t I = 0; I < S.size(); I += Stride) {
    const double V = S.Values[I];
    if (!std::isfinite(V))
      continue;
    Distinct.insert(V);
    Out.Single &= double(float(V)) == V;
    while (Out.Decimals) {
      const double Scaled = V * std::pow(10.0, *Out.Decimals);
      if (std::fabs(Scaled - std::round(Scaled)) <=
          1e-9 * std::max(1.0, std::fabs(Scaled)))
        break;
      if (++*Out.Decimals > 7)
        Out.Decimals.reset();
    }
  }
  // A constant of 1.0 is no log of whole numbers.
  if (Distinct.size() < 8)
    Out.Decimals.reset();
  return Out;
}

bool equalValues(double A, double B, const Resolution &OfA,
                 const Resolution &OfB) {
  if (A == B || (std::isnan(A) && std::isnan(B)))
    return true;
  if (OfA.Single != OfB.Single && float(A) == float(B))
    return true;
  if (OfA.Decimals == OfB.Decimals || (!OfA.Decimals && !OfB.Decimals))
    return false;
  const int Coarse = std::min(OfA.Decimals.value_or(99),
                              OfB.Decimals.value_or(99));
  return std::fabs(A - B) <= 0.5000001 * std::pow(10.0, -Coarse);
}

static double relative(double A, double B) {
  if (!std::isfinite(A) || !std::isfinite(B))
    return std::numeric_limits<double>::infinity();
  const double Larger = std::max(std::fabs(A), std::fabs(B));
  return Larger > 0 ? std::fabs(A - B) / Larger : 0;
}

static Meeting meet(StringRef Name, const ScalarSeries &A,
                    const ScalarSeries &B) {
  const StringRef Metric = A.Metric.empty() ? Name : StringRef(A.Metric);
  Meeting M{Name.str(),      metricKind(Metric), &A, &B, resolutionOf(A),
            resolutionOf(B), std::nullopt,       0};
  size_t J = 0;
  for (size_t I = 0; I != A.size(); ++I) {
    while (J != B.size() && B.Steps[J] < A.Steps[I])
      ++J;
    if (J == B.size())
      break;
    if (B.Steps[J] != A.Steps[I])
      continue;
    ++M.Common;
    if (!M.Step && !equalValues(A.Values[I], B.Values[J], M.OfA, M.OfB))
      M.Step = A.Steps[I];
  }
  return M;
}

static std::vector<Meeting> meetings(const RunRecord &A, const RunRecord &B) {
  std::vector<Meeting> Out;
  for (const auto &[Name, S] : A.Series)
    if (const ScalarSeries *Other = B.series(Name))
      if (Meeting M = meet(Name, S, *Other);
          M.Common && M.Kind.Phase != MetricPhase::None)
        Out.push_back(std::move(M));
  return Out;
}

/// How the relative difference of \p M grows from \p Step on.
static void measureGrowth(const Meeting &M, int64_t Step,
                          FirstDifference &Out) {
  std::vector<double> Steps, Sizes;
  for (size_t I = 0; I != M.A->size(); ++I)
    if (M.A->Steps[I] >= Step)
      if (std::optional<size_t> J = M.B->find(M.A->Steps[I])) {
        if (std::isnan(M.A->Values[I]) && std::isnan(M.B->Values[*J]))
          continue;
        Steps.push_back(double(M.A->Steps[I]));
        Sizes.push_back(relative(M.A->Values[I], M.B->Values[*J]));
      }
  if (Sizes.empty())
    return;
  ArrayRef<double> End = ArrayRef(Sizes).take_back(lastTenth(Sizes.size()));
  const size_t Infinite = size_t(
      count_if(End, [](double Size) { return std::isinf(Size); }));
  Out.LastRelative = 2 * Infinite > End.size()
                         ? std::numeric_limits<double>::infinity()
                         : quantile(End, 0.5).value_or(0);
  const double First = Sizes[0], Last = Out.LastRelative;
  if (!Out.Rounding || Sizes.size() < 8 || !(First > 0) ||
      !(Last > 30 * First) || !std::isfinite(Last))
    return;
  // Up to where it first comes near its last size. A jump is no growth.
  size_t Near = 0;
  while (Near != Sizes.size() && Sizes[Near] < Last / 3)
    ++Near;
  if (Near == Sizes.size() || Near < 4 || std::isinf(Sizes[Near]))
    return;
  double Largest = First, LargestJump = 1;
  for (size_t I = 1; I <= Near; ++I) {
    LargestJump = std::max(LargestJump, Sizes[I] / Largest);
    Largest = std::max(Largest, Sizes[I]);
  }
  if (std::log(LargestJump) > 0.7 * std::log(Largest / First))
    return;
  Out.TenfoldSteps =
      (Steps[Near] - Steps[0]) / std::log10(Sizes[Near] / First);
}

/// The rounding that the settings of \p R make likely, that of the narrowest
/// format they name; none where they name none.
static std::optional<double> roundingOf(const RunRecord &R) {
  std::optional<double> Out;
  const auto Name = [&](double Rounding) {
    Out = std::max(Out.value_or(0), Rounding);
  };
  for (const auto &[Key, Value] : R.Config) {
    if (changeKind(Key) != "precision")
      continue;
    const std::string Lower = StringRef(Value).lower();
    const StringRef V = Lower, K = Key;
    const bool On = V == "true" || V == "1" || V == "yes";
    if (V.contains("bf16") || V.contains("bfloat16") ||
        (On && K.contains("bf16")))
      Name(RoundingBf16);
    else if (V.contains("fp16") || V.contains("float16") || V == "16-mixed" ||
             V.contains("tf32") ||
             (On && (K.contains("fp16") || K.contains("tf32") || K == "amp")))
      Name(Rounding16);
    else if (V.contains("fp32") || V.contains("float32") || V == "32" ||
             V == "32-true")
      Name(Rounding32);
  }
  return Out;
}

/// Decimals of the coarser of two logs of the loss, where they are few enough
/// to hide a difference.
static std::optional<int> decimalsOf(const Meeting &Loss) {
  const int Fewest =
      std::min(Loss.OfA.Decimals.value_or(99), Loss.OfB.Decimals.value_or(99));
  if (Fewest > 6)
    return std::nullopt;
  return Fewest;
}

/// The first step that both log anything at.
static int64_t firstCommon(ArrayRef<Meeting> All) {
  std::optional<int64_t> Out;
  for (const Meeting &M : All)
    for (int64_t Step : M.A->Steps)
      if (M.B->find(Step)) {
        Out = std::min(Out.value_or(Step), Step);
        break;
      }
  return Out.value_or(0);
}

/// The last step before \p Step that both log anything at.
static std::optional<int64_t> lastBefore(ArrayRef<Meeting> All, int64_t Step) {
  std::optional<int64_t> Out;
  for (const Meeting &M : All)
    for (auto It = llvm::lower_bound(M.A->Steps, Step);
         It != M.A->Steps.begin();)
      if (--It; M.B->find(*It)) {
        Out = std::max(Out.value_or(*It), *It);
        break;
      }
  return Out;
}

/// How large the difference is that \p M begins with, what rounding may make
/// of it, and how it grows.
static void measureSize(const Parting &P, const Meeting &M,
                        FirstDifference &Out) {
  Out.Relative = relative(M.A->Values[*M.A->find(*M.Step)],
                          M.B->Values[*M.B->find(*M.Step)]);
  double Allowed = Rounding32;
  bool Known = false;
  for (const RunRecord *R : {&P.A, &P.B})
    if (std::optional<double> Of = roundingOf(*R)) {
      Allowed = std::max(Allowed, *Of);
      Known = true;
    }
  Out.Rounding = Out.Relative <= Allowed;
  Out.Narrow = !Known && !Out.Rounding && Out.Relative <= RoundingBf16;
  measureGrowth(M, *M.Step, Out);
  Out.StaysSmall = Out.Rounding && Out.LastRelative <= Allowed;
}

std::optional<FirstDifference> firstDifference(const RunRecord &A,
                                               const RunRecord &B) {
  Parting P{A, B, meetings(A, B), 0, 0, {}};
  if (P.All.empty())
    return std::nullopt;
  FirstDifference Out;
  std::optional<int64_t> First;
  for (const Meeting &M : P.All) {
    Out.Common = std::max(Out.Common, M.Common);
    if (M.Step && (!First || *M.Step < *First))
      First = M.Step;
  }
  P.FirstCommon = firstCommon(P.All);
  const Meeting *Loss = P.find("loss");
  if (Loss)
    Out.Decimals = decimalsOf(*Loss);
  if (!First) {
    Out.Kind = "none";
    Out.Says = formatv("equal at all {0} common steps{1}", Out.Common,
                       Out.Decimals
                           ? formatv(", to the {0} decimals of the log",
                                     *Out.Decimals)
                                 .str()
                           : std::string());
    return Out;
  }
  P.Step = *First;
  Out.Step = First;
  const Meeting *Earliest = nullptr;
  for (const Meeting &M : P.All) {
    if (!M.differsAt(P.Step))
      continue;
    P.Phases.insert(M.Kind.Phase);
    if (!Earliest || M.Kind.Phase < Earliest->Kind.Phase ||
        (M.Kind.Phase == Earliest->Kind.Phase && M.Name == "loss"))
      Earliest = &M;
  }
  Out.LastEqual = lastBefore(P.All, P.Step);
  Out.Metric = Earliest->Name;
  Out.A = Earliest->A->Values[*Earliest->A->find(P.Step)];
  Out.B = Earliest->B->Values[*Earliest->B->find(P.Step)];

  // The size is that of the loss where that first differs: hashes have none,
  // and the norm of weights hides an update among what did not change.
  measureSize(P, Loss && Loss->Step ? *Loss : *Earliest, Out);
  sayParting(P, Out);
  return Out;
}

} // namespace culprit
