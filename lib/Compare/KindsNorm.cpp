//===- KindsNorm.cpp - Normalisations of rows -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

namespace {
/// Mean and variance of a row.
struct RowMoments {
  double Mean = 0, Variance = 0, Square = 0;
};
} // namespace

static RowMoments momentsOf(const TensorView &V, int64_t Row, int64_t Size) {
  RowMoments Out;
  for (int64_t I = 0; I != Size; ++I) {
    const double X = V.at(Row * Size + I);
    Out.Mean += X;
    Out.Square += X * X;
  }
  Out.Mean /= double(Size);
  Out.Square /= double(Size);
  for (int64_t I = 0; I != Size; ++I) {
    const double X = V.at(Row * Size + I) - Out.Mean;
    Out.Variance += X * X;
  }
  Out.Variance /= double(Size);
  return Out;
}

/// The value that \p Values agree on to 10 %, their median; 0 if they do not.
static double agreed(std::vector<double> Values) {
  if (Values.size() < 4)
    return 0;
  llvm::sort(Values);
  const double Middle = Values[Values.size() / 2];
  const double Low = Values[Values.size() / 10];
  const double High = Values[Values.size() - 1 - Values.size() / 10];
  return Middle > 0 && Low > 0.9 * Middle && High < 1.1 * Middle ? Middle : 0;
}

/// The epsilons of two normalisations whose outputs differ by the factor
/// \p Factors[r] in row r, from the variances of their inputs: with e1 of the
/// reference, (v + e1) / s^2 - v is e2 in every row.
static std::optional<std::pair<double, double>>
epsilonsOf(const KindSearch &S, ArrayRef<double> Factors, int64_t Size) {
  const KindQuery &Q = S.query();
  if (!Q.Input || Q.Input->numel() != S.numel())
    return std::nullopt;
  const int64_t Rows = std::min<int64_t>(int64_t(Factors.size()), 256);
  for (bool Centred : {true, false})
    for (double E1 : {1e-5, 1e-6, 1e-12, 1e-8, 1e-7, 1e-3, 1e-4}) {
      std::vector<double> E2;
      for (int64_t R = 0; R != Rows; ++R) {
        const RowMoments M = momentsOf(*Q.Input, R, Size);
        const double V = Centred ? M.Variance : M.Square;
        // Rows whose variance hides the epsilon tell nothing.
        const double Shift = 1 / (Factors[size_t(R)] * Factors[size_t(R)]) - 1;
        if (std::fabs(Shift) > 20 * Q.Tolerance.Unit)
          E2.push_back((V + E1) * (1 + Shift) - V);
      }
      if (double Found = agreed(std::move(E2)))
        return std::pair(E1, Found);
    }
  return std::nullopt;
}

/// e2/e1 without the inputs, for norms without a gain: a row with the variance
/// q = v/(v + e1) had v = e1 q/(1 - q), so that q/(1 - q) of both sides have
/// the same ratio in every row.
static double epsilonRatio(const KindSearch &S, int64_t Rows, int64_t Size) {
  std::vector<double> Ratios;
  for (int64_t R = 0; R != std::min<int64_t>(Rows, 256); ++R) {
    const RowMoments A = momentsOf(S.query().Ref, R, Size);
    const RowMoments B = momentsOf(S.query().Ours, R, Size);
    const double Least = 50 * S.tolerance().Unit;
    if (1 - A.Square > Least && 1 - B.Square > Least && A.Square > 0 &&
        B.Square > 0)
      Ratios.push_back(A.Square / (1 - A.Square) / (B.Square / (1 - B.Square)));
  }
  return agreed(std::move(Ratios));
}

/// The factors of all rows are as far from 1 as n/(n-1) or its root makes
/// them, to a twentieth: an epsilon beside another estimator of the variance
/// moves them by less than that, and alone it would not move all alike.
static MaybeKind varianceOf(ArrayRef<double> Factors, int64_t Size,
                            const Fit &F, const std::string &Where) {
  std::vector<double> Apart;
  for (double Factor : Factors.take_front(4096))
    Apart.push_back(std::fabs(Factor - 1));
  const double Middle = agreed(Apart);
  const double Root = std::sqrt(double(Size) / double(Size - 1));
  const bool Up = Factors[Factors.size() / 2] > 1;
  const double Wanted = Up ? Root - 1 : 1 - 1 / Root;
  if (Size < 3 || !(std::fabs(Middle / Wanted - 1) <= 0.05))
    return std::nullopt;
  const std::string N = std::to_string(Size), Less = std::to_string(Size - 1);
  const std::string Constant =
      Up ? "sqrt(" + N + "/" + Less + ")" : "sqrt(" + Less + "/" + N + ")";
  DifferenceKind Out = explained(
      "scale", "variance-estimator-mismatch",
      Where + ", all about " + shortNumber(Up ? 1 + Middle : 1 - Middle) +
          " = " + Constant + ": the variance over " + N +
          " values is divided by n on one side and by n - 1 on the other",
      F);
  Out.Parameters["factor"] = Up ? 1 + Middle : 1 - Middle;
  Out.Parameters["constant"] = Constant;
  return Out;
}

/// Names the epsilons of a difference that is a factor for each row, \p Where.
static DifferenceKind namedEpsilon(const KindSearch &S,
                                   ArrayRef<double> Factors, int64_t Size,
                                   const Fit &F, const std::string &Where) {
  const int64_t Rows = int64_t(Factors.size());
  if (MaybeKind Found = varianceOf(Factors, Size, F, Where))
    return std::move(*Found);
  if (auto Both = epsilonsOf(S, Factors, Size)) {
    DifferenceKind Out = explained(
        "epsilon", "norm-epsilon-mismatch",
        Where + ", as of a normalisation with epsilon " +
            shortNumber(Both->second) + " in ours and " +
            shortNumber(Both->first) + " in ref",
        F);
    Out.Parameters["ref_epsilon"] = Both->first;
    Out.Parameters["ours_epsilon"] = Both->second;
    return Out;
  }
  if (double Ratio = epsilonRatio(S, Rows, Size)) {
    DifferenceKind Out = explained(
        "epsilon", "norm-epsilon-mismatch",
        Where + ", as of a normalisation whose epsilon is " +
            shortNumber(Ratio) + " times that of ref",
        F);
    Out.Parameters["ratio"] = Ratio;
    return Out;
  }
  // Rows in the order of their size: their factors should move one way.
  std::vector<std::pair<double, double>> BySize;
  for (int64_t R = 0; R != std::min<int64_t>(Rows, 256); ++R)
    BySize.push_back({momentsOf(S.query().Ref, R, Size).Square,
                      std::fabs(Factors[size_t(R)] - 1)});
  llvm::sort(BySize);
  int64_t Down = 0;
  for (size_t I = 1; I != BySize.size(); ++I)
    Down += BySize[I].second <= BySize[I - 1].second;
  const bool Monotone = Down * 10 >= int64_t(BySize.size() - 1) * 9;
  DifferenceKind Out =
      explained("row-factor", Monotone ? "norm-epsilon-mismatch" : "",
                Monotone ? Where + ", nearer to 1 the larger the row, as of a "
                                   "normalisation with another epsilon"
                         : Where,
                F);
  if (Monotone)
    Out.Confidence *= 0.8;
  return Out;
}

/// ours = s[r] ref in row r of the last axis. A normalisation with another
/// epsilon does that: the smaller the variance of a row, the farther is its
/// factor from 1. The epsilons are told where the input was dumped, their
/// ratio where the norm has no gain.
MaybeKind findEpsilon(const KindSearch &S) {
  if (S.dims().empty())
    return std::nullopt;
  const int64_t Size = S.dims().back(), Rows = S.numel() / Size;
  if (Size < 4 || Rows < 4 || Rows > 4'000'000)
    return std::nullopt;
  const auto FactorOf = [&](int64_t R) {
    double Top = 0, Bottom = 0;
    for (int64_t I = R * Size; I != (R + 1) * Size; ++I) {
      Top += S.ref(I) * S.ours(I);
      Bottom += S.ref(I) * S.ref(I);
    }
    return Bottom > 0 ? Top / Bottom : 1;
  };
  // Three rows tell whether it is worth looking at all of them.
  for (int64_t R : {int64_t(0), Rows / 2, Rows - 1}) {
    const double Factor = FactorOf(R);
    for (int64_t I = R * Size; I != R * Size + std::min<int64_t>(Size, 32); ++I)
      if (!S.close(S.ours(I), Factor * S.ref(I)))
        return std::nullopt;
  }
  std::vector<double> Factors(static_cast<size_t>(Rows));
  for (int64_t R = 0; R != Rows; ++R)
    Factors[size_t(R)] = FactorOf(R);
  Fit F = S.test(
      [&](int64_t I) { return Factors[size_t(I / Size)] * S.ref(I); }, Rows);
  if (!F.Good)
    return std::nullopt;

  return namedEpsilon(S, Factors, Size, F, "each row has a factor of its own");
}

/// ours = b + s[r] (ref - b) in row r of the last axis, with one b for each
/// index: as before with the bias of the norm, which no epsilon changes. With
/// D = ours - ref and u = 1/(s - 1), b = ref - u D in every row, so two rows
/// give ref1 - ref2 = u1 D1 - u2 D2: least squares for two unknowns.
MaybeKind findEpsilonWithBias(const KindSearch &S) {
  if (S.dims().empty() || isWeight(S.query()))
    return std::nullopt;
  const int64_t Size = S.dims().back(), Rows = S.numel() / Size;
  if (Size < 8 || Rows < 6 || Rows > 4'000'000)
    return std::nullopt;
  const auto Delta = [&](int64_t I) { return S.ours(I) - S.ref(I); };
  // Of some rows, those that changed most tell most.
  const int64_t Some = std::min<int64_t>(Rows, 256);
  std::vector<std::pair<double, int64_t>> Changes;
  for (int64_t T = 0; T != Some; ++T) {
    const int64_t R = T * Rows / Some;
    double Change = 0;
    for (int64_t I = R * Size; I != (R + 1) * Size; ++I)
      Change += Delta(I) * Delta(I);
    if (!std::isfinite(Change))
      return std::nullopt;
    Changes.push_back({-Change, R});
  }
  llvm::sort(Changes);
  const int64_t A = Changes[0].second;
  std::vector<double> Bias(static_cast<size_t>(Size));
  bool Found = false;
  for (size_t T = 1; T != Changes.size() && T != 16 && !Found; ++T) {
    const int64_t B = Changes[T].second;
    double AA = 0, AB = 0, BB = 0, AX = 0, BX = 0;
    for (int64_t I = 0; I != Size; ++I) {
      const double DA = Delta(A * Size + I), DB = -Delta(B * Size + I);
      const double X = S.ref(A * Size + I) - S.ref(B * Size + I);
      AA += DA * DA;
      AB += DA * DB;
      BB += DB * DB;
      AX += DA * X;
      BX += DB * X;
    }
    const double Det = AA * BB - AB * AB;
    // Rows that change alike are those of an offset.
    if (!(Det > 0.05 * AA * BB))
      continue;
    const double U = (AX * BB - BX * AB) / Det;
    for (int64_t I = 0; I != Size; ++I)
      Bias[size_t(I)] = S.ref(A * Size + I) - U * Delta(A * Size + I);
    Found = true;
  }
  if (!Found)
    return std::nullopt;
  std::vector<double> Factors(static_cast<size_t>(Rows));
  const auto Refactor = [&](int64_t R) {
    double Top = 0, Bottom = 0;
    for (int64_t I = 0; I != Size; ++I) {
      const double X = S.ref(R * Size + I) - Bias[size_t(I)];
      Top += X * Delta(R * Size + I);
      Bottom += X * X;
    }
    return Bottom > 0 ? 1 + Top / Bottom : 1;
  };
  // The bias from all of the rows rather than from one, twice.
  for (int Round = 0; Round != 3; ++Round) {
    std::vector<double> Top(Bias.size()), Bottom(Bias.size());
    for (const auto &[Change, R] : Changes) {
      const double Less = Refactor(R) - 1;
      for (int64_t I = 0; I != Size; ++I) {
        Top[size_t(I)] +=
            Less * (Less * S.ref(R * Size + I) - Delta(R * Size + I));
        Bottom[size_t(I)] += Less * Less;
      }
    }
    for (size_t I = 0; I != Bias.size(); ++I)
      if (Bottom[I] > 0)
        Bias[I] = Top[I] / Bottom[I];
  }
  for (int64_t R = 0; R != Rows; ++R)
    Factors[size_t(R)] = Refactor(R);
  Fit F = S.test(
      [&](int64_t I) {
        const double B = Bias[size_t(I % Size)];
        return B + Factors[size_t(I / Size)] * (S.ref(I) - B);
      },
      Rows + Size);
  if (!F.Good)
    return std::nullopt;
  DifferenceKind Out =
      namedEpsilon(S, Factors, Size, F,
                   "each row has a factor of its own beside a bias");
  // With a bias the size of a row tells nothing. An epsilon moves all factors
  // to one side of 1.
  const auto [Low, High] = std::minmax_element(Factors.begin(), Factors.end());
  const double Most = S.tolerance().RelL2;
  if (Out.Class.empty() && (*Low > 1 - Most || *High < 1 + Most)) {
    Out.Class = "norm-epsilon-mismatch";
    Out.Says += ", all on one side of 1, as of a normalisation with another "
                "epsilon";
    Out.Confidence *= 0.8;
  }
  return Out;
}

} // namespace culprit
