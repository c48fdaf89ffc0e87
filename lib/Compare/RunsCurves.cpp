//===- RunsCurves.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/RunsCurves.h"
#include "Compare/RunsStatistics.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

std::optional<double> Curve::at(double At) const {
  auto It = llvm::lower_bound(X, At);
  if (It == X.end())
    return std::nullopt;
  const size_t I = size_t(It - X.begin());
  if (X[I] == At)
    return Y[I];
  if (I == 0)
    return std::nullopt;
  const double Share = (At - X[I - 1]) / (X[I] - X[I - 1]);
  return Y[I - 1] + Share * (Y[I] - Y[I - 1]);
}

namespace {

/// Where a run is at a step: itself, or its tokens.
class Axis {
public:
  Axis(const RunRecord &R, bool Tokens)
      : Of(Tokens ? R.series("tokens") : nullptr) {}

  /// None where tokens were not logged yet.
  std::optional<double> operator()(int64_t Step) {
    if (!Of)
      return double(Step);
    if (At >= Of->size() || Of->Steps[At] > Step)
      At = 0;
    while (At + 1 < Of->size() && Of->Steps[At + 1] <= Step)
      ++At;
    if (At >= Of->size() || Of->Steps[At] > Step)
      return std::nullopt;
    const double Here = Of->Values[At];
    if (Of->Steps[At] == Step || At + 1 == Of->size())
      return Here;
    const double Share = double(Step - Of->Steps[At]) /
                         double(Of->Steps[At + 1] - Of->Steps[At]);
    return Here + Share * (Of->Values[At + 1] - Here);
  }

private:
  const ScalarSeries *Of;
  size_t At = 0;
};

} // namespace

static Curve curveOf(const RunRecord &R, const ScalarSeries &S, bool Tokens) {
  Curve Out;
  Axis Where(R, Tokens);
  for (size_t I = 0; I != S.size(); ++I) {
    Out.EndsNonFinite = !std::isfinite(S.Values[I]);
    if (Out.EndsNonFinite) {
      ++Out.NonFinite;
      continue;
    }
    const std::optional<double> X = Where(S.Steps[I]);
    // Tokens that stand still or go back place nothing.
    if (!X || !std::isfinite(*X) || (!Out.X.empty() && *X <= Out.X.back()))
      continue;
    Out.X.push_back(*X);
    Out.Y.push_back(S.Values[I]);
  }
  return Out;
}

bool byTokens(ArrayRef<const RunRecord *> Runs) {
  return all_of(Runs, [](const RunRecord *R) {
    const ScalarSeries *T = R->series("tokens");
    return T && T->size() >= 2 && is_sorted(T->Values) &&
           T->Values.front() < T->Values.back();
  });
}

/// \p C between \p From and \p To.
static Curve within(const Curve &C, double From, double To) {
  Curve Out = C;
  Out.X.clear();
  Out.Y.clear();
  for (size_t I = 0; I != C.X.size(); ++I)
    if (C.X[I] >= From && C.X[I] <= To) {
      Out.X.push_back(C.X[I]);
      Out.Y.push_back(C.Y[I]);
    }
  return Out;
}

double levelOf(ArrayRef<double> Values) {
  const size_t Window =
      std::min(Values.size(), std::max<size_t>(lastTenth(Values.size()),
                                               Values.size() >= 20 ? 3 : 1));
  return quantile(Values.take_back(Window), 0.5)
      .value_or(std::numeric_limits<double>::quiet_NaN());
}

/// Both where both are: at common points, else at those of the sparser one.
static std::vector<std::pair<double, double>> pairsOf(const Curve &A,
                                                      const Curve &B) {
  std::vector<std::pair<double, double>> Out;
  size_t J = 0;
  for (size_t I = 0; I != A.X.size(); ++I) {
    while (J != B.X.size() && B.X[J] < A.X[I])
      ++J;
    if (J != B.X.size() && B.X[J] == A.X[I])
      Out.push_back({A.Y[I], B.Y[J]});
  }
  if (2 * Out.size() >= std::min(A.X.size(), B.X.size()))
    return Out;
  Out.clear();
  const bool Sparse = B.X.size() < A.X.size();
  const Curve &At = Sparse ? B : A, &Other = Sparse ? A : B;
  for (size_t I = 0; I != At.X.size(); ++I)
    if (std::optional<double> Y = Other.at(At.X[I]))
      Out.push_back(Sparse ? std::pair(*Y, At.Y[I]) : std::pair(At.Y[I], *Y));
  return Out;
}

/// Points farther than this from the median, in robust deviations, are left
/// out of a level: spikes, of whichever side.
static constexpr double Outlying = 5;

std::pair<double, double>
pairedLevels(ArrayRef<std::pair<double, double>> Pairs) {
  Pairs = Pairs.take_back(
      std::min(Pairs.size(), std::max<size_t>(lastTenth(Pairs.size()),
                                              Pairs.size() >= 20 ? 3 : 1)));
  std::vector<double> A, B;
  for (const auto &[X, Y] : Pairs) {
    A.push_back(X);
    B.push_back(Y);
  }
  const auto Usual = [](ArrayRef<double> Values) {
    return std::pair(quantile(Values, 0.5).value_or(0),
                     robustDeviation(Values).value_or(0));
  };
  const auto [MiddleA, SpreadA] = Usual(A);
  const auto [MiddleB, SpreadB] = Usual(B);
  double SumA = 0, SumB = 0;
  size_t Count = 0;
  for (const auto &[X, Y] : Pairs) {
    if ((SpreadA > 0 && std::fabs(X - MiddleA) > Outlying * SpreadA) ||
        (SpreadB > 0 && std::fabs(Y - MiddleB) > Outlying * SpreadB))
      continue;
    SumA += X;
    SumB += Y;
    ++Count;
  }
  if (Count == 0)
    return {MiddleA, MiddleB};
  return {SumA / double(Count), SumB / double(Count)};
}

Aligned align(ArrayRef<const RunRecord *> A, ArrayRef<const RunRecord *> B,
              StringRef Name, bool Tokens) {
  Aligned Out;
  for (const RunRecord *R : A)
    Out.A.push_back(curveOf(*R, *R->series(Name), Tokens));
  for (const RunRecord *R : B)
    Out.B.push_back(curveOf(*R, *R->series(Name), Tokens));
  bool Any = false;
  const auto Bound = [&](bool BlownUp) {
    for (const std::vector<Curve> *Side : {&Out.A, &Out.B})
      for (const Curve &C : *Side) {
        if (C.X.empty() || C.EndsNonFinite != BlownUp)
          continue;
        Out.From = Any ? std::max(Out.From, C.X.front()) : C.X.front();
        Out.To = Any ? std::min(Out.To, C.X.back()) : C.X.back();
        Any = true;
      }
  };
  // A run that blew up has no level. It does not cut the others short.
  Bound(false);
  if (!Any)
    Bound(true);
  Out.IsCommon = Out.From <= Out.To;
  for (std::vector<Curve> *Side : {&Out.A, &Out.B})
    for (Curve &C : *Side) {
      C = within(C, Out.From, Out.To);
      Out.IsCommon &= !C.X.empty() || C.EndsNonFinite;
    }
  if (!Out.A.empty() && !Out.B.empty())
    Out.Paired = pairsOf(Out.A[0], Out.B[0]);
  return Out;
}

std::vector<double> levelsOf(ArrayRef<Curve> Side) {
  std::vector<double> Out;
  for (const Curve &C : Side)
    Out.push_back(C.EndsNonFinite ? std::numeric_limits<double>::quiet_NaN()
                                  : levelOf(C.Y));
  return Out;
}

} // namespace culprit
