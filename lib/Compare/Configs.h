//===- Configs.h - Two configurations side by side --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares the settings and packages of two sides by what they mean: each
/// change with what it can bring about, and whether an effect seen between the
/// sides can be attributed to one change.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_CONFIGS_H
#define CULPRIT_COMPARE_CONFIGS_H

#include "Case/Case.h"
#include "Case/SettingChanges.h"
#include "Compare/Compare.h"

namespace culprit {

struct ConfigComparison {
  std::string A, B; ///< Names of the sides.
  std::vector<SettingChange> Changes; ///< See compareSettings().
  size_t Things = 0;                  ///< See countThings().
  Confounders Usual;
  std::string Says;

  /// Whether something that may change results differs.
  CompareVerdict verdict() const {
    return Things ? CompareVerdict::Different : CompareVerdict::Same;
  }
  /// same, attributable, not-attributable.
  llvm::StringRef attribution() const;
};

/// The settings of \p A and \p B, whole cases. Fails where a side has none.
llvm::Expected<ConfigComparison> compareConfigs(const Case &A,
                                                llvm::StringRef APath,
                                                const Case &B,
                                                llvm::StringRef BPath);

/// The two sides of one case, as those of a diff; none unless its settings are
/// of exactly two runs.
std::optional<ConfigComparison> compareSidesOf(const Case &C);

/// Changes that may change results by group, what costs only time and memory,
/// and bookkeeping in one line. \p Top changes a group are shown.
void printConfigs(llvm::raw_ostream &OS, const ConfigComparison &C,
                  unsigned Top);
void printConfigsMarkdown(llvm::raw_ostream &OS, const ConfigComparison &C,
                          unsigned Top);
llvm::json::Value configsJson(const ConfigComparison &C);

} // namespace culprit

#endif // CULPRIT_COMPARE_CONFIGS_H
