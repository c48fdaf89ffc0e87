//===- RunsParting.h - What the step where runs part tells ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What is known of two runs at the first step at which they differ, and the
/// kind and sentence that follow from it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_RUNSPARTING_H
#define CULPRIT_COMPARE_RUNSPARTING_H

#include "Compare/Runs.h"
#include <set>

namespace culprit {

/// How finely a series is logged.
struct Resolution {
  /// None: all that a double has, or too few values to tell.
  std::optional<int> Decimals;
  bool Single = false;         ///< All values are float32.
};

/// Equal as far as both logs tell.
bool equalValues(double A, double B, const Resolution &OfA,
                 const Resolution &OfB);

/// One metric that both runs log, and where it first differs.
struct Meeting {
  std::string Name;
  MetricKind Kind;
  const ScalarSeries *A, *B;
  Resolution OfA, OfB;
  std::optional<int64_t> Step;
  size_t Common = 0;

  bool differsAt(int64_t At) const;
  bool loggedAt(int64_t At) const { return A->find(At) && B->find(At); }
};

/// What is known at the step where the runs part.
struct Parting {
  const RunRecord &A, &B;
  std::vector<Meeting> All;
  int64_t Step = 0, FirstCommon = 0;
  std::set<MetricPhase> Phases; ///< That differ there.

  const Meeting *find(llvm::StringRef Name) const;
  /// Logged by both at the step; and whether it differs there.
  std::optional<bool> differs(llvm::StringRef Name) const;
  bool only(MetricPhase P) const {
    return Phases.size() == 1 && Phases.count(P);
  }
  /// The step of a resume near here, in either run.
  std::optional<std::string> resumed() const;
};

/// Sets Kind and Says of \p Out, whose figures are known.
void sayParting(const Parting &P, FirstDifference &Out);

} // namespace culprit

#endif // CULPRIT_COMPARE_RUNSPARTING_H
