//===- Strangers.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Strangers.h"
#include "Support/Units.h"
#include <cstdlib>

using namespace llvm;

namespace culprit {

/// Ranks of one job are recorded within minutes; hosts' clocks are within
/// seconds of each other. ns.
static constexpr int64_t OneJob = int64_t(3600) * 1'000'000'000;

/// The model of the first device that \p S names, or empty.
static StringRef modelOf(Source &S) {
  TableBuilder *B = S.existing(TableId::devices);
  if (!B || B->rows() == 0 || !B->touched(devices::model))
    return "";
  StringId Id = B->finished(devices::model).strings()[0];
  return Id == NullString ? "" : S.pool().text(Id);
}

/// Unix time of the first device work of \p S, where it is known.
static std::optional<int64_t> beginOf(Source &S) {
  TableBuilder *B = S.existing(TableId::gpu_work);
  if (!S.EpochNs || !B || !B->touched(gpu_work::start))
    return std::nullopt;
  std::optional<int64_t> First;
  for (int64_t Start : B->finished(gpu_work::start).ints())
    if (Start != NullInt && (!First || Start < *First))
      First = Start;
  return First ? std::optional(*S.EpochNs + *First) : std::nullopt;
}

void remarkStrangers(ArrayRef<std::unique_ptr<Source>> Sources) {
  constexpr const char *Hint =
      "figures that span both mean nothing; diagnose them one at a time, or "
      "compare them with `culprit compare A B`";
  Source *First = nullptr;
  for (const std::unique_ptr<Source> &S : Sources) {
    TableBuilder *Work = S->existing(TableId::gpu_work);
    if (!Work || Work->rows() == 0)
      continue;
    if (!First) {
      First = S.get();
      continue;
    }
    StringRef A = modelOf(*First), B = modelOf(*S);
    if (!A.empty() && !B.empty() && A != B) {
      S->warn(Twine(S->path()) + ": ran on " + B + " and " + First->path() +
                  " on " + A + ": hardly one job",
              Hint);
      continue;
    }
    std::optional<int64_t> T0 = beginOf(*First), T1 = beginOf(*S);
    if (T0 && T1 && std::abs(*T1 - *T0) > OneJob)
      S->warn(Twine(S->path()) + ": was recorded " +
                  formatDuration(std::abs(*T1 - *T0)) +
                  (*T1 > *T0 ? " after " : " before ") + First->path() +
                  ": hardly one job",
              Hint);
  }
}

} // namespace culprit
