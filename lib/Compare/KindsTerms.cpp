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
    DifferenceKind Out = explained(C < 0 ? "missing-term" : "extra-term",
                                   "bias-missing", Says, F);
    Out.Parameters["term"] = T.Name;
    Out.Parameters["times"] = C;
    return Out;
  }
  return std::nullopt;
}

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

  const std::string Where = "each row has a factor of its own";
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

namespace {
/// Pairs of elements that a rotary embedding turns, in heads of Width.
struct Pairing {
  int64_t Width;
  bool Halves; ///< (i, i + Width/2), else (2i, 2i + 1).

  int64_t pair(int64_t I) const {
    const int64_t At = I % Width;
    return Halves ? At % (Width / 2) : At / 2;
  }
  bool isFirst(int64_t I) const {
    return Halves ? I % Width < Width / 2 : I % 2 == 0;
  }
  int64_t partner(int64_t I) const {
    const int64_t By = Halves ? Width / 2 : 1;
    return isFirst(I) ? I + By : I - By;
  }
};
} // namespace

/// The length of each pair is kept, in the first elements of the sample.
static bool keepsLengths(const KindSearch &S, const Pairing &P) {
  for (int64_t I : S.sample().take_front(256)) {
    const int64_t J = P.partner(I);
    const double R = std::hypot(S.ref(I), S.ref(J));
    const double O = std::hypot(S.ours(I), S.ours(J));
    if (!S.close(O, R))
      return false;
  }
  return true;
}

/// The number of positions and the base by which the angles of pairs are
/// those of a rotary embedding further on; nothing if there is none.
static std::optional<std::pair<int64_t, double>>
positionsOf(ArrayRef<double> Angles, double Precision) {
  for (double Base : {1e4, 5e5, 1e6, 1e5, 1e7})
    for (int64_t Step = 2; Step <= 65; ++Step) {
      const int64_t K = Step / 2 * (Step % 2 ? -1 : 1);
      bool Right = true;
      for (size_t I = 0; I != Angles.size() && Right; ++I) {
        const double Want =
            double(K) *
            std::pow(Base, -double(I) / double(Angles.size()));
        Right = std::fabs(std::remainder(Angles[I] - Want,
                                         2 * std::numbers::pi)) <= Precision;
      }
      if (Right)
        return std::pair(K, Base);
    }
  return std::nullopt;
}

/// Pairs of elements are turned: by one angle a pair, as of queries or keys
/// at another position of a rotary embedding, or by any angle, as of another
/// base.
MaybeKind findRotation(const KindSearch &S) {
  if (S.dims().empty() || isWeight(S.query()))
    return std::nullopt;
  const int64_t Last = S.dims().back();
  for (int64_t Width = Last; Width >= 4; --Width) {
    if (Last % Width || Width % 2 || S.numel() < 4 * Width ||
        (Width != Last && Width > 512))
      continue;
    for (bool Halves : {true, false}) {
      const Pairing P{Width, Halves};
      if (!keepsLengths(S, P))
        continue;
      std::vector<double> Dot(size_t(Width / 2)), Cross(size_t(Width / 2));
      for (int64_t I : S.sample()) {
        if (!P.isFirst(I))
          continue;
        const int64_t J = P.partner(I);
        const size_t At = size_t(P.pair(I));
        Dot[At] += S.ref(I) * S.ours(I) + S.ref(J) * S.ours(J);
        Cross[At] += S.ref(I) * S.ours(J) - S.ref(J) * S.ours(I);
      }
      std::vector<double> Angles, Cos, Sin;
      for (size_t I = 0; I != Dot.size(); ++I) {
        Angles.push_back(std::atan2(Cross[I], Dot[I]));
        Cos.push_back(std::cos(Angles[I]));
        Sin.push_back(std::sin(Angles[I]));
      }
      Fit F = S.test(
          [&](int64_t I) {
            const size_t At = size_t(P.pair(I));
            const double X = S.ref(I), Y = S.ref(P.partner(I));
            return Cos[At] * X + (P.isFirst(I) ? -Sin[At] : Sin[At]) * Y;
          },
          Width / 2);
      if (F.Good) {
        auto Turned = positionsOf(Angles, 1e-3 + 8 * S.tolerance().RelL2);
        DifferenceKind Out = explained(
            "rotation", Turned ? "off-by-one-position" : "",
            Turned
                ? formatv("each pair of elements is turned as by {0} {1} of a "
                          "rotary embedding (base {2}): positions are off by "
                          "{0}",
                          Turned->first,
                          Turned->first == 1 ? "position" : "positions",
                          shortNumber(Turned->second))
                      .str()
                : "each pair of elements is turned by an angle of its own",
            F);
        if (Turned) {
          Out.Parameters["positions"] = Turned->first;
          Out.Parameters["base"] = Turned->second;
        }
        Out.Parameters["width"] = Width;
        return Out;
      }
      F = Fit();
      F.Share = 1;
      F.Explained = 0.7; // lengths agree; the angles are not modelled
      DifferenceKind Out = explained(
          "rotary-angles", "rope-theta-default-fallback",
          formatv("pairs of elements keep their length but are turned "
                  "differently at every position, as of rotary embeddings "
                  "with another base (heads of {0}, {1})",
                  Width, Halves ? "halves" : "interleaved")
              .str(),
          F);
      Out.Residual = 0.5;
      Out.Parameters["width"] = Width;
      return Out;
    }
  }
  return std::nullopt;
}

} // namespace culprit
