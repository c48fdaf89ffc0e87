//===- CurveFigures.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/CurveFigures.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

Number logOf(Number V) {
  if (!V || *V < 0 || !std::isfinite(*V))
    return std::nullopt;
  return *V > 0 ? std::log10(*V) : LogOfZero;
}

Number ratio(Number A, Number B) {
  if (!A || !B || *A < 0 || *B <= 0)
    return std::nullopt;
  return logOf(*A / *B);
}

Number median(Values V) {
  if (V.empty())
    return std::nullopt;
  auto Middle = V.begin() + ptrdiff_t(V.size() / 2);
  std::nth_element(V.begin(), Middle, V.end());
  return *Middle;
}

Number highest(ArrayRef<double> V) {
  return V.empty() ? Number() : *llvm::max_element(V);
}

Number lowest(ArrayRef<double> V) {
  return V.empty() ? Number() : *llvm::min_element(V);
}

Number last(ArrayRef<double> V) { return V.empty() ? Number() : V.back(); }

Number first(ArrayRef<double> V) { return V.empty() ? Number() : V.front(); }

Number deviation(ArrayRef<double> V) {
  if (V.empty())
    return std::nullopt;
  const double Mean =
      std::accumulate(V.begin(), V.end(), 0.0) / double(V.size());
  double Squares = 0;
  for (double X : V)
    Squares += (X - Mean) * (X - Mean);
  return std::sqrt(Squares / double(V.size()));
}

static double shareBefore(ArrayRef<double> V, const double *At) {
  return double(At - V.begin()) / double(V.size());
}

Number placeOfHighest(ArrayRef<double> V) {
  return V.empty() ? Number() : shareBefore(V, llvm::max_element(V));
}

Number placeOfLowest(ArrayRef<double> V) {
  return V.empty() ? Number() : shareBefore(V, llvm::min_element(V));
}

ArrayRef<double> endOf(ArrayRef<double> V) {
  return V.take_back(std::max<size_t>(1, V.size() / 10));
}

Values finite(const Curve &C) {
  Values Out;
  Out.reserve(C.Rows.size());
  for (const auto &[Step, Value] : C.Rows)
    if (std::isfinite(Value))
      Out.push_back(Value);
  return Out;
}

} // namespace culprit
