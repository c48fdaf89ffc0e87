//===- KindsSoftmax.cpp - Softmaxes and masks -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// One side applies a softmax along the last axis that the other does not, or
// with another temperature, or over other positions. Rows of probabilities are
// told by their sums, which few other tensors pass.
//
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

namespace {
/// A tensor as rows of its last axis.
struct Rows {
  const TensorView &View;
  int64_t Size, Count;

  double at(int64_t R, int64_t I) const { return View.at(R * Size + I); }

  /// Some rows, spread over all.
  template <class F> bool allOfSome(F Holds) const {
    const int64_t Some = std::min<int64_t>(Count, 8);
    for (int64_t I = 0; I != Some; ++I)
      if (!Holds(I * Count / Some))
        return false;
    return true;
  }

  /// log sum exp of \p Times the row; -inf is no term.
  double logSumExp(int64_t R, double Times = 1) const {
    double Largest = -std::numeric_limits<double>::infinity(), Sum = 0;
    for (int64_t I = 0; I != Size; ++I)
      Largest = std::max(Largest, Times * at(R, I));
    for (int64_t I = 0; I != Size; ++I)
      Sum += std::exp(Times * at(R, I) - Largest);
    return Largest + std::log(Sum);
  }
};
} // namespace

/// Whether rows are of numbers from 0 to 1 that add up to 1.
static bool areProbabilities(const KindSearch &S, const Rows &R) {
  // Each element is off by half a unit of itself or a subnormal.
  const double Most = 4 * S.tolerance().Unit + 1e-6 +
                      double(R.Size) * S.tolerance().Floor;
  return R.allOfSome([&](int64_t Row) {
    double Sum = 0;
    for (int64_t I = 0; I != R.Size; ++I) {
      const double P = R.at(Row, I);
      if (!(P >= 0 && P <= 1 + Most))
        return false;
      Sum += P;
    }
    return std::fabs(Sum - 1) <= Most;
  });
}

/// ours = softmax(ref), row by row.
static MaybeKind softmaxOfRef(const KindSearch &S, const Rows &Ref,
                              bool Doubled) {
  if (!Ref.allOfSome([&](int64_t R) {
        const double Lse = Ref.logSumExp(R);
        for (int64_t I = 0; I != std::min<int64_t>(Ref.Size, 64); ++I)
          if (!S.close(S.ours(R * Ref.Size + I), std::exp(Ref.at(R, I) - Lse)))
            return false;
        return true;
      }))
    return std::nullopt;
  std::vector<double> Lse(static_cast<size_t>(Ref.Count));
  for (int64_t R = 0; R != Ref.Count; ++R)
    Lse[size_t(R)] = Ref.logSumExp(R);
  Fit F = S.test([&](int64_t I) {
    return std::exp(S.ref(I) - Lse[size_t(I / Ref.Size)]);
  });
  if (!F.Good)
    return std::nullopt;
  DifferenceKind Out =
      explained("softmax", "double-softmax",
                Doubled ? "ours is the softmax of ref, which is one already: "
                          "it is applied twice"
                        : "ours is the softmax of ref: it is applied once more",
                F);
  Out.Parameters["ours"] = Doubled ? "twice" : "added";
  return Out;
}

/// ref = softmax(ours), row by row: ours are the scores.
static MaybeKind softmaxMissing(const KindSearch &S, const Rows &Ref,
                                const Rows &Ours) {
  int64_t Count = 0, Within = 0;
  double Left = 0, Before = 0;
  const int64_t Some = std::min<int64_t>(
      Ref.Count, std::max<int64_t>(8, 1'000'000 / Ref.Size));
  for (int64_t T = 0; T != Some; ++T) {
    const int64_t R = T * Ref.Count / Some;
    const double Lse = Ours.logSumExp(R);
    for (int64_t I = 0; I != Ref.Size; ++I) {
      const double Is = Ref.at(R, I), Want = std::exp(Ours.at(R, I) - Lse);
      ++Count;
      // What rounding the scores does to a probability is relative.
      Within += std::fabs(Is - Want) <=
                2 * S.tolerance().Floor +
                    Want * (4 * S.tolerance().Relative +
                            2 * S.absoluteTolerance());
      Left += (Is - Want) * (Is - Want);
      Before += Is * Is;
    }
    if (T >= 2 && Within * 10 < Count * 9)
      return std::nullopt;
  }
  if (Count < 8 || Within * 1000 < Count * 999 || Left > 1e-3 * Before)
    return std::nullopt;
  Fit F;
  F.Share = double(Within) / double(Count);
  F.Explained = 1 - Left / Before;
  DifferenceKind Out = explained(
      "softmax", "activation-missing",
      "ref is the softmax of ours: ours has scores where ref has probabilities",
      F);
  Out.Parameters["ours"] = "missing";
  return Out;
}

/// ours = softmax(a log ref) with one a: the scores had another factor.
static MaybeKind softmaxScale(const KindSearch &S, const Rows &Ref,
                              const Rows &Ours) {
  double Top = 0, Bottom = 0;
  const int64_t Some = std::min<int64_t>(Ref.Count, 4096);
  const double Least = 64 * S.tolerance().Floor;
  for (int64_t T = 0; T != Some; ++T) {
    const int64_t R = T * Ref.Count / Some;
    double X0 = 0, Y0 = 0;
    bool First = true;
    for (int64_t I = 0; I != Ref.Size; ++I) {
      const double X = Ref.at(R, I), Y = S.ours(R * Ref.Size + I);
      if (!(X > Least) || !(Y > Least))
        continue;
      if (First) {
        X0 = std::log(X);
        Y0 = std::log(Y);
        First = false;
        continue;
      }
      const double DX = std::log(X) - X0, DY = std::log(Y) - Y0;
      Top += DX * DY;
      Bottom += DX * DX;
    }
  }
  if (!(Bottom > 0))
    return std::nullopt;
  const double A = Top / Bottom;
  if (!(A > 0) || std::fabs(A - 1) < 1e-3)
    return std::nullopt;
  // A power above 1 multiplies the rounding of what it is taken of, so the
  // sharper side is the one to start from.
  const Rows &From = A > 1 ? Ours : Ref, &To = A > 1 ? Ref : Ours;
  const double Power = A > 1 ? 1 / A : A;
  Fit F;
  double Left = 0, Before = 0, Within = 0;
  for (int64_t T = 0; T != Some; ++T) {
    const int64_t R = T * Ref.Count / Some;
    double Sum = 0;
    // What is below the format's range on one side has no power.
    double Known = 0;
    for (int64_t I = 0; I != Ref.Size; ++I)
      if (From.at(R, I) > Least) {
        Sum += std::pow(From.at(R, I), Power);
        Known += To.at(R, I);
      }
    for (int64_t I = 0; I != Ref.Size; ++I) {
      if (!(From.at(R, I) > Least))
        continue;
      const double Is = To.at(R, I);
      const double Want = std::pow(From.at(R, I), Power) / Sum * Known;
      ++F.Count;
      Within += S.close(Is, Want);
      Left += (Is - Want) * (Is - Want);
      Before += (Is - From.at(R, I)) * (Is - From.at(R, I));
    }
  }
  if (F.Count < 16 || Within < 0.999 * double(F.Count) || Left > 0.01 * Before)
    return std::nullopt;
  F.Share = Within / double(F.Count);
  F.Explained = 1 - Left / Before;
  std::vector<NamedConstant> Names = nameConstant(S.query(), A);
  std::string Says = "ours is the softmax of " + shortNumber(A) +
                     " x the scores of ref";
  StringRef Class = "";
  if (!Names.empty()) {
    if (Names[0].Text != shortNumber(A))
      Says += ", " + shortNumber(A) + " = " + Names[0].Text;
    if (!Names[0].About.empty())
      Says += ", " + Names[0].About;
    Class = Names[0].Class;
  }
  DifferenceKind Out = explained("softmax-scale", Class, Says, F);
  Out.Parameters["factor"] = A;
  if (!Names.empty())
    Out.Parameters["constant"] = Names[0].Text;
  return Out;
}

/// A softmax that one side lacks or applies twice, or whose scores have
/// another factor.
MaybeKind findSoftmax(const KindSearch &S) {
  const KindQuery &Q = S.query();
  if (isWeight(Q) || !isFloating(Q.Ref.Type) || S.dims().empty() ||
      S.dims().back() < 2)
    return std::nullopt;
  const int64_t Size = S.dims().back(), Count = S.numel() / Size;
  const Rows Ref{Q.Ref, Size, Count}, Ours{Q.Ours, Size, Count};
  const bool InRef = areProbabilities(S, Ref);
  if (!areProbabilities(S, Ours))
    return InRef ? softmaxMissing(S, Ref, Ours) : std::nullopt;
  if (MaybeKind Found = softmaxOfRef(S, Ref, InRef))
    return Found;
  return InRef ? softmaxScale(S, Ref, Ours) : std::nullopt;
}

namespace {
/// Positions that one side sees and the other does not.
struct Seen {
  int64_t Later = 0, Other = 0;
  int64_t First = -1; ///< Flat index of the first.

  /// \p Queries and \p Keys are the last two axes; the last query sees all.
  /// A single query, as of a cache with free slots, sees up to key \p Last.
  void add(int64_t I, int64_t Queries, int64_t Keys, int64_t Last) {
    if (First < 0)
      First = I;
    const int64_t Key = I % Keys, Query = I / Keys % Queries;
    ++(Key > (Queries == 1 ? Last : Query + Keys - Queries) ? Later : Other);
  }
  int64_t count() const { return Later + Other; }
};
} // namespace

static DifferenceKind maskKind(const Seen &Extra, const Seen &Lost,
                               const Fit &F) {
  const bool Leak = Extra.Later > 0 && Extra.Other == 0 && Lost.count() == 0;
  std::string Says;
  if (Leak)
    Says = "ours sees later positions that ref masks: the causal mask is "
           "missing or off by one";
  else if (Lost.count() == 0)
    Says = "ours sees positions that ref masks";
  else if (Extra.count() == 0)
    Says = "ours masks positions that ref sees";
  else
    Says = "ours sees positions that ref masks, and masks others";
  Says += formatv(": {0} more, {1} fewer", Extra.count(), Lost.count()).str();
  DifferenceKind Out =
      explained("mask", Leak ? "causal-mask-leak" : "", Says, F);
  Out.Parameters["seen"] = Extra.count();
  Out.Parameters["masked"] = Lost.count();
  return Out;
}

/// Probabilities over other positions, the rest in the same proportions; or
/// scores that are -inf at other positions.
MaybeKind findMask(const KindSearch &S) {
  const KindQuery &Q = S.query();
  if (isWeight(Q) || !isFloating(Q.Ref.Type) || S.dims().size() < 2 ||
      S.numel() > (int64_t(1) << 26))
    return std::nullopt;
  const int64_t Size = S.dims().back(), Count = S.numel() / Size;
  // Axes of size 1 count here: a decoded token is one query.
  const ArrayRef<int64_t> Shape = Q.Ref.Shape;
  const int64_t Queries = Shape.back() == Size
                              ? Shape[Shape.size() - 2]
                              : S.dims()[S.dims().size() - 2];
  /// The last key of a row that ref sees.
  const auto LastSeen = [&](int64_t R, double Hidden) {
    int64_t Out = Size - 1;
    while (Out > 0 && S.ref(R * Size + Out) == Hidden)
      --Out;
    return Out;
  };
  Seen Extra, Lost;
  const DifferenceSums &Sums = Q.Sums;
  const int64_t OneSided = Sums.OursNonFinite + Sums.RefNonFinite;
  if (OneSided) {
    if (Sums.Above != OneSided)
      return std::nullopt;
    for (int64_t I = 0; I != S.numel(); ++I) {
      const double R = S.ref(I), O = S.ours(I);
      if (std::isfinite(R) == std::isfinite(O))
        continue;
      if (!(std::isinf(R) ? R < 0 : O < 0))
        return std::nullopt; // NaN, or an overflow
      (std::isinf(R) ? Extra : Lost)
          .add(I, Queries, Size,
               LastSeen(I / Size, -std::numeric_limits<double>::infinity()));
    }
    Fit F;
    F.Share = F.Explained = 0.95;
    return maskKind(Extra, Lost, F);
  }
  const Rows Ref{Q.Ref, Size, Count}, Ours{Q.Ours, Size, Count};
  if (!areProbabilities(S, Ref) || !areProbabilities(S, Ours))
    return std::nullopt;
  // What rounds to nothing is not masked.
  const double Least = std::max(16 * S.tolerance().Floor, 1e-12);
  std::vector<double> Factors(static_cast<size_t>(Count));
  for (int64_t R = 0; R != Count; ++R) {
    double Top = 0, Bottom = 0;
    const int64_t Last = LastSeen(R, 0);
    for (int64_t I = R * Size; I != (R + 1) * Size; ++I) {
      const double X = S.ref(I), Y = S.ours(I);
      if (X == 0 && Y > Least)
        Extra.add(I, Queries, Size, Last);
      else if (Y == 0 && X > Least)
        Lost.add(I, Queries, Size, Last);
      else {
        Top += Y;
        Bottom += X;
      }
    }
    Factors[size_t(R)] = Bottom > 0 ? Top / Bottom : 0;
  }
  if (Extra.count() + Lost.count() == 0)
    return std::nullopt;
  int64_t Both = 0;
  Fit F = S.test([&](int64_t I) {
    const double X = S.ref(I), Y = S.ours(I);
    return X == 0 && Y > Least   ? Y
           : Y == 0 && X > Least ? 0.0
                                 : Factors[size_t(I / Size)] * X;
  });
  // The positions that both see must bear it out.
  for (int64_t I : S.sample().take_front(4096))
    Both += S.ref(I) > Least && S.ours(I) > Least;
  if (!F.Good || Both < 4)
    return std::nullopt;
  return maskKind(Extra, Lost, F);
}

} // namespace culprit
