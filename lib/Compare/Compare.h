//===- Compare.h - What accounts for another step time ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares two profiles of one program: by how much the step changed, and a
/// sum of contributions that adds up exactly to that change. A contribution is
/// a kernel (matched by its name, else by its family), a copy, a collective or
/// a kind of idle time on the critical path.
///
/// A change is split in two: more or fewer calls, and longer or shorter ones.
/// With n calls of mean time d,
///
///   n_B d_B - n_A d_A = (n_B - n_A) (d_A + d_B)/2 + (d_B - d_A) (n_A + n_B)/2
///
/// which treats A and B alike. What only one side has is all count.
///
/// Noise: steps vary from one to the next. With robust deviations s (MAD) over
/// n steps each, a difference below 3 sqrt(s_A^2/n_A + s_B^2/n_B) is noise, and
/// so is one below 3 % of the step; from 8 % on it is material.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_COMPARE_H
#define CULPRIT_COMPARE_COMPARE_H

#include "Compare/Profile.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace culprit {

enum class CompareVerdict { Same, WithinNoise, Different };
/// "same", "within-noise", "different".
llvm::StringRef toString(CompareVerdict V);

struct Contribution {
  std::string Kind; ///< As critical_path.kind.
  std::string Name; ///< Exact, or of the family; empty for waits.
  /// Exact names; several where a family was matched. Empty for waits.
  std::vector<std::string> ANames, BNames;
  int64_t ANs = 0, BNs = 0;     ///< A step.
  double ACount = 0, BCount = 0; ///< A step.
  int64_t FromCountNs = 0, FromDurationNs = 0; ///< Add up to differenceNs().
  /// Whether the steps vary by as much; none where steps are not known.
  std::optional<bool> WithinNoise;

  int64_t differenceNs() const { return BNs - ANs; }
  bool isNew() const { return ACount == 0 && ANs == 0; }
  bool isGone() const { return BCount == 0 && BNs == 0; }
};

/// Something else that the two records do not have in common.
struct SetupDifference {
  std::string What, A, B;
};

struct SideSummary {
  std::string Path;
  int64_t Rank = 0, Device = 0, Steps = 0;
  size_t Ranks = 0;
  int64_t StepNs = 0; ///< Mean; of the window where there are no steps.
  std::optional<int64_t> MedianNs, SpreadNs; ///< Over steps.
};

struct ProfileComparison {
  CompareVerdict Verdict = CompareVerdict::Same;
  bool PerStep = true; ///< False: over the whole windows.
  SideSummary A, B;
  int64_t NoiseNs = 0; ///< Differences of the step below it are noise.
  bool Material = false;
  /// The largest change first.
  std::vector<Contribution> Contributions;
  std::vector<SetupDifference> Setup;
  std::vector<std::string> Remarks;

  int64_t differenceNs() const { return B.StepNs - A.StepNs; }
  /// Of all contributions; equals differenceNs().
  int64_t sumNs() const;
};

ProfileComparison compareProfiles(const ProfileSide &A, const ProfileSide &B);

/// What else differs: devices, ranks, input shapes, settings, packages.
std::vector<SetupDifference> compareSetups(const Case &A, const Case &B);

/// Both of the above on the cases of \p APath and \p BPath.
llvm::Expected<ProfileComparison> compareCases(const Case &A,
                                               llvm::StringRef APath,
                                               const Case &B,
                                               llvm::StringRef BPath);

/// \p Top contributions are shown; JSON has all.
void printComparison(llvm::raw_ostream &OS, const ProfileComparison &C,
                     unsigned Top);
void printComparisonMarkdown(llvm::raw_ostream &OS, const ProfileComparison &C,
                             unsigned Top);
llvm::json::Value comparisonJson(const ProfileComparison &C);

} // namespace culprit

#endif // CULPRIT_COMPARE_COMPARE_H
