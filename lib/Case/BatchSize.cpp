//===- BatchSize.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/BatchSize.h"
#include "Case/SettingValue.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

BatchPart batchPart(StringRef Key) {
  const KeyFacts Facts = aboutKey(Key);
  if (!Facts.Row)
    return BatchPart::None;
  const std::string Plain = plainKey(Key);
  const StringRef Leaf = StringRef(Plain).substr(Plain.rfind('.') + 1);
  static constexpr StringRef Ranks[] = {
      "world_size", "num_gpus", "n_gpus",  "n_gpu", "num_processes",
      "dp_size",    "dp",       "devices", "gpus",  "data_parallel_size"};
  if (Facts.Row->name() == "per_device_train_batch_size")
    return BatchPart::Micro;
  if (Facts.Row->name() == "gradient_accumulation_steps")
    return BatchPart::Accumulation;
  if (Facts.Row->name() == "global_batch_size" || Leaf == "train_batch_size")
    return BatchPart::Global;
  if (Leaf == "batch_size")
    return BatchPart::Micro;
  return is_contained(Ranks, Leaf) ? BatchPart::Ranks : BatchPart::None;
}

namespace {
/// The factors of a side's batch; those that it does not tell stay empty.
struct BatchSize {
  std::optional<double> Micro, Accumulation, Ranks, Global;
  bool Unclear = false;

  explicit BatchSize(const Settings &S);
  /// Rows of one step, on one rank where the number of ranks is unknown.
  std::optional<double> product() const {
    if (Unclear || !Micro)
      return std::nullopt;
    return *Micro * Accumulation.value_or(1) * Ranks.value_or(1);
  }
};
} // namespace

/// Whether \p Key counts all ranks, those of one model too.
static bool isWorld(StringRef Key) {
  const std::string Plain = plainKey(Key);
  return !is_contained({"dp_size", "dp", "data_parallel_size"},
                       StringRef(Plain).substr(Plain.rfind('.') + 1));
}

BatchSize::BatchSize(const Settings &S) {
  const bool HasReplicas = any_of(S, [](const auto &Each) {
    return batchPart(Each.first) == BatchPart::Ranks &&
           !isWorld(Each.first) && !Each.second.isUnset();
  });
  for (const auto &[Key, Value] : S) {
    const BatchPart Part = batchPart(Key);
    if (Part == BatchPart::None || Value.isUnset())
      continue;
    std::optional<double> &Into = Part == BatchPart::Micro   ? Micro
                                  : Part == BatchPart::Global ? Global
                                  : Part == BatchPart::Ranks  ? Ranks
                                                              : Accumulation;
    // Ranks that hold parts of one model share their rows: of 64 with tensors
    // in 4 parts 16 count.
    if (Part == BatchPart::Ranks && isWorld(Key) && HasReplicas)
      continue;
    const std::optional<double> Number =
        Value.Values.size() == 1 ? settingNumber(*Value.Values.begin())
                                 : std::nullopt;
    // "auto", or two sizes: training.batch_size and a generic one.
    Unclear |= !Number || (Into && *Into != *Number);
    Into = Number;
  }
}

std::string unchangedBatch(const Settings &A, const Settings &B) {
  const BatchSize X(A), Y(B);
  const std::optional<double> InA = X.product(), InB = Y.product();
  const bool SameProduct = InA && InB && *InA == *InB &&
                           X.Ranks.has_value() == Y.Ranks.has_value();
  // Megatron is told the batch as a whole and accumulates what it must.
  const bool SameGlobal = !X.Unclear && !Y.Unclear && X.Global && Y.Global &&
                          *X.Global == *Y.Global && !X.Accumulation &&
                          !Y.Accumulation;
  if (!SameProduct && !SameGlobal)
    return "";
  return "the batch stays at " +
         formatNumber(SameGlobal ? *X.Global : *InA, 6) +
         (SameGlobal || X.Ranks ? " rows" : " rows a rank");
}

} // namespace culprit
