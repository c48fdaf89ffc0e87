//===- Series.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Series.h"
#include "Table/RunSort.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

ColumnRef shifted(const ColumnView &View, size_t Rows, int64_t By) {
  RowIndex From(Rows, NoRow);
  for (size_t I = 0; I != Rows; ++I)
    if (By >= 0 ? I >= static_cast<uint64_t>(By)
                : Rows - I > 0 - static_cast<uint64_t>(By))
      From[I] = static_cast<uint32_t>(I - static_cast<uint64_t>(By));
  return View.taken(From);
}

std::vector<int64_t> runningSums(ArrayRef<int64_t> Values) {
  std::vector<int64_t> Out(Values.size(), NullInt);
  uint64_t Sum = 0;
  for (size_t I = 0; I != Values.size(); ++I)
    if (Values[I] != NullInt)
      Out[I] = static_cast<int64_t>(Sum += static_cast<uint64_t>(Values[I]));
  return Out;
}

std::vector<double> runningSums(ArrayRef<double> Values) {
  std::vector<double> Out(Values.size(), nullDouble());
  double Sum = 0;
  for (size_t I = 0; I != Values.size(); ++I)
    if (std::isfinite(Values[I]))
      Out[I] = Sum += Values[I];
  return Out;
}

std::vector<double> ranksOf(ArrayRef<double> Values) {
  std::vector<std::pair<double, size_t>> Sorted;
  for (size_t I = 0; I != Values.size(); ++I)
    if (std::isfinite(Values[I]))
      Sorted.push_back({Values[I], I});
  sortInPieces(Sorted, std::less<>());
  std::vector<double> Out(Values.size(), nullDouble());
  for (size_t I = 0; I != Sorted.size();) {
    size_t First = I;
    while (I != Sorted.size() && Sorted[I].first == Sorted[First].first)
      ++I;
    // Places First + 1 to I.
    for (size_t K = First; K != I; ++K)
      Out[Sorted[K].second] = static_cast<double>(First + 1 + I) / 2;
  }
  return Out;
}

/// Sets to null what is not finite on both sides.
static void keepPairs(std::vector<double> &X, std::vector<double> &Y) {
  size_t Rows = std::min(X.size(), Y.size());
  X.resize(Rows);
  Y.resize(Rows);
  for (size_t I = 0; I != Rows; ++I)
    if (!std::isfinite(X[I]) || !std::isfinite(Y[I]))
      X[I] = Y[I] = nullDouble();
}

std::optional<double> correlation(ArrayRef<double> X, ArrayRef<double> Y) {
  size_t Rows = std::min(X.size(), Y.size());
  double Count = 0, MeanX = 0, MeanY = 0;
  auto each = [&](auto Visit) {
    for (size_t I = 0; I != Rows; ++I)
      if (std::isfinite(X[I]) && std::isfinite(Y[I]))
        Visit(X[I], Y[I]);
  };
  each([&](double A, double B) {
    ++Count;
    MeanX += A;
    MeanY += B;
  });
  if (Count < 2)
    return std::nullopt;
  MeanX /= Count;
  MeanY /= Count;
  double XX = 0, YY = 0, XY = 0;
  each([&](double A, double B) {
    XX += (A - MeanX) * (A - MeanX);
    YY += (B - MeanY) * (B - MeanY);
    XY += (A - MeanX) * (B - MeanY);
  });
  if (XX == 0 || YY == 0)
    return std::nullopt;
  return std::clamp(XY / (std::sqrt(XX) * std::sqrt(YY)), -1.0, 1.0);
}

std::optional<double> rankCorrelation(ArrayRef<double> X, ArrayRef<double> Y) {
  std::vector<double> A = X.vec(), B = Y.vec();
  keepPairs(A, B);
  return correlation(ranksOf(A), ranksOf(B));
}

std::vector<double> evenEdges(ArrayRef<double> Values, size_t Bins) {
  std::optional<double> Least, Most;
  for (double Value : Values)
    if (std::isfinite(Value)) {
      Least = Least ? std::min(*Least, Value) : Value;
      Most = Most ? std::max(*Most, Value) : Value;
    }
  if (!Least)
    return {};
  if (*Least == *Most)
    return {*Least, *Most};
  std::vector<double> Out(Bins + 1);
  for (size_t I = 0; I <= Bins; ++I)
    Out[I] = std::lerp(*Least, *Most,
                       static_cast<double>(I) / static_cast<double>(Bins));
  return Out;
}

std::vector<int64_t> histogram(ArrayRef<double> Values,
                               ArrayRef<double> Edges) {
  if (Edges.size() < 2)
    return {};
  std::vector<int64_t> Out(Edges.size() - 1);
  for (double Value : Values) {
    if (!std::isfinite(Value) || Value < Edges.front() || Value > Edges.back())
      continue;
    size_t Bin = std::upper_bound(Edges.begin(), Edges.end(), Value) -
                 Edges.begin();
    ++Out[std::min(Bin, Out.size()) - 1];
  }
  return Out;
}

} // namespace culprit
