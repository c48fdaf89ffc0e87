//===- GoodWork.cpp - Device work other than in good runs -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Contributions to the step time, as `culprit compare` finds them.
//
//===----------------------------------------------------------------------===//

#include "Compare/Compare.h"
#include "Compare/GoodRun.h"
#include "Compare/KernelNames.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// A contribution is told from this share of the step on.
static constexpr double WorthTelling = 0.01;

static bool isSame(const Contribution &C, int64_t StepNs) {
  return C.WithinNoise.value_or(false) ||
         static_cast<double>(std::llabs(C.differenceNs())) <
             WorthTelling * static_cast<double>(StepNs);
}

static std::string nameOf(const Contribution &C) {
  return C.Name.empty() ? C.Kind : shortKernelName(C.Name, 60);
}

static GoodChange changeOf(const Contribution &C, int64_t StepNs) {
  GoodChange Out{"work", C.Name.empty() ? C.Kind : C.Name,
                 formatDuration(C.ANs), formatDuration(C.BNs), "", 0,
                 std::nullopt, false, true};
  Out.Standing =
      std::min(1.0, static_cast<double>(std::llabs(C.differenceNs())) /
                        static_cast<double>(std::max<int64_t>(StepNs, 1)));
  const std::string Name = nameOf(C);
  if (C.isNew())
    Out.Says = formatv("new: {0}, {1} a step", Name, Out.Bad);
  else if (C.isGone())
    Out.Says = formatv("gone: {0}, {1} a step", Name, Out.Good);
  else
    Out.Says = formatv("{0} {1} -> {2} a step", Name, Out.Good, Out.Bad);
  return Out;
}

void compareGoodWork(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                     GoodComparison &Into) {
  auto isProfile = [](const ComparedRun &R) {
    return R.Evidence->has(TableId::gpu_work);
  };
  if (!isProfile(Bad) || !all_of(Good, isProfile))
    return;
  std::vector<ProfileComparison> All;
  for (const ComparedRun &G : Good) {
    Expected<ProfileComparison> C =
        compareCases(*G.Evidence, G.Path, *Bad.Evidence, Bad.Path);
    if (!C) {
      for (const Diagnostic &D : toDiagnostics(C.takeError()))
        Into.Remarks.push_back("device work is not compared: " + D.Message);
      return;
    }
    All.push_back(std::move(*C));
  }
  const ProfileComparison &First = All.front();
  const int64_t StepNs = std::max(First.A.StepNs, First.B.StepNs);
  if (all_of(All, [](const ProfileComparison &C) {
        return C.Verdict == CompareVerdict::Different;
      }))
    Into.Changes.push_back(
        {"work", First.PerStep ? "step" : "window",
         formatDuration(First.A.StepNs), formatDuration(First.B.StepNs),
         formatv("{0} {1} -> {2}", First.PerStep ? "step" : "window",
                 formatDuration(First.A.StepNs),
                 formatDuration(First.B.StepNs)),
         1, std::nullopt, false, true});
  size_t Kept = 0;
  for (const Contribution &C : First.Contributions) {
    // Beside each good run the same way: among themselves these differ too.
    const bool Everywhere = all_of(All, [&](const ProfileComparison &P) {
      auto It = find_if(P.Contributions, [&](const Contribution &O) {
        return O.Kind == C.Kind && O.Name == C.Name;
      });
      return It != P.Contributions.end() && !isSame(*It, StepNs) &&
             (It->differenceNs() > 0) == (C.differenceNs() > 0);
    });
    if (Everywhere)
      Into.Changes.push_back(changeOf(C, StepNs));
    else
      ++Kept;
  }
  if (Kept)
    Into.Same.push_back(formatv("{0} kind{1} of device work", Kept,
                                Kept == 1 ? "" : "s"));
  for (const std::string &R : First.Remarks)
    Into.Remarks.push_back(R);
}

} // namespace culprit
