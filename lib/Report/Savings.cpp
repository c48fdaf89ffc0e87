//===- Savings.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Savings.h"
#include "Support/Units.h"
#include <algorithm>

namespace culprit {

std::optional<StepBasis> stepBasis(const Case &C) {
  const Table &Windows = C.table(TableId::windows);
  std::optional<StepBasis> Best;
  for (size_t I = 0; I != Windows.rows(); ++I) {
    int64_t Steps = Windows.columns()[windows::steps].getInt(I);
    int64_t Window = Windows.columns()[windows::dur].getInt(I);
    if (Best && Steps <= Best->Steps)
      continue;
    Best = StepBasis{Steps, Steps > 0 ? Window / Steps : 0, Window};
  }
  return Best;
}

std::string savingsText(const Case &C, int64_t RecoverableNs) {
  std::optional<StepBasis> Basis = stepBasis(C);
  if (!Basis || Basis->WindowNs <= 0)
    return "up to " + formatDuration(RecoverableNs) + " of the recorded time";
  // A cause may be priced over a longer record than the steps shown beside it.
  RecoverableNs = std::min(RecoverableNs, Basis->WindowNs);
  double Share = static_cast<double>(RecoverableNs) /
                 static_cast<double>(Basis->WindowNs);
  std::string Percent = " (" + formatNumber(100 * Share, 2) + " %)";
  if (Basis->Steps == 0)
    return "up to " + formatDuration(RecoverableNs) + " of the recorded " +
           formatDuration(Basis->WindowNs) + Percent;
  return "up to " + formatDuration(RecoverableNs / Basis->Steps) +
         " of each step of " + formatDuration(Basis->StepNs) + Percent;
}

} // namespace culprit
