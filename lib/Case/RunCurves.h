//===- RunCurves.h - What a run logged, curve by curve ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The scalars that a run's shape is made of (RunShape.h), as curves.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_RUNCURVES_H
#define CULPRIT_CASE_RUNCURVES_H

#include "Case/Case.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"
#include <utility>
#include <vector>

namespace culprit {

/// What was logged of one metric, of one layer or of the whole model.
struct Curve {
  std::vector<std::pair<int64_t, double>> Rows; ///< Steps rising; no NaN.
  size_t Logged = 0;                            ///< Rows, those of NaN too.
};

/// The curves of a case's first run, of primary rows.
class RunCurves {
public:
  explicit RunCurves(const Case &C);

  /// That of the whole model; without rows where there is none.
  const Curve &whole(llvm::StringRef Metric) const;
  /// Those of the layers by name, of which each has a row.
  std::vector<std::pair<StringId, const Curve *>>
  layers(llvm::StringRef Metric) const;

private:
  const StringPool &Pool;
  Curve None;
  /// By metric and layer, NullString for the whole model.
  llvm::MapVector<std::pair<StringId, StringId>, Curve> All;
};

} // namespace culprit

#endif // CULPRIT_CASE_RUNCURVES_H
