//===- GoodRun.h - What is other than in runs that worked -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A bad run beside runs that worked: which settings, packages, machines,
/// metrics, log lines and kernels are other than there, what stands out most
/// first, and what is the same, since that rules things out. Of several good
/// runs a change counts only where the bad run differs from all of them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_GOODRUN_H
#define CULPRIT_COMPARE_GOODRUN_H

#include "Case/Case.h"
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// A run that is compared; the case outlives the comparison.
struct ComparedRun {
  std::string Path;
  const Case *Evidence;
};

/// Something that is other in the bad run.
struct GoodChange {
  /// setting, package, environment, metric, log or work.
  std::string Kind;
  std::string Name;
  std::string Good, Bad; ///< Values; empty for none.
  std::string Says;      ///< All of it as a sentence part.
  /// How much it stands out, 0 to 1; comparable within a kind.
  double Standing = 0;
  /// Metrics: the first step outside the band, and whether it stays there.
  std::optional<int64_t> From;
  bool Stays = false;
  /// Settings and packages: whether another value may change results by
  /// itself; not so for a seed.
  bool MayMatter = true;
};

/// A cause that settings are about, and whether one of them was changed.
struct SettingOfCause {
  std::string Class; ///< Or a symptom: what another value can bring about.
  bool Changed = false;
  std::string Says; ///< "lr 0.003 -> 0.3"; of unchanged ones their names.
};

struct GoodComparison {
  std::vector<GoodChange> Changes; ///< By kind, the largest Standing first.
  std::vector<std::string> Same;    ///< Sentence parts: "12 packages".
  std::vector<std::string> Remarks; ///< What limits the comparison.
  /// By class, those with a key that both sides recorded.
  std::vector<SettingOfCause> Settings;
  /// Whether both sides recorded settings, and how many things that may change
  /// results were changed, seeds left out.
  bool HasSettings = false;
  size_t Things = 0;
  /// Whether both sides recorded packages.
  bool HasPackages = false;
};

/// \p Good has one element at least.
GoodComparison compareWithGood(llvm::ArrayRef<ComparedRun> Good,
                               const ComparedRun &Bad);

// The parts of compareWithGood(), one kind of evidence each.

void compareGoodSettings(llvm::ArrayRef<ComparedRun> Good,
                         const ComparedRun &Bad, GoodComparison &Into);
void compareGoodMetrics(llvm::ArrayRef<ComparedRun> Good,
                        const ComparedRun &Bad, GoodComparison &Into);
void compareGoodLogs(llvm::ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                     GoodComparison &Into);
void compareGoodWork(llvm::ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                     GoodComparison &Into);

} // namespace culprit

#endif // CULPRIT_COMPARE_GOODRUN_H
