//===- RunsMetrics.h - What a metric is and when it is better ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What comparing runs must know of a metric: whether it is an outcome, a
/// cost, or a sign of what happens inside; whether less of it is better; and
/// at which point of a training step it is made.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_RUNSMETRICS_H
#define CULPRIT_COMPARE_RUNSMETRICS_H

#include "llvm/ADT/StringRef.h"

namespace culprit {

enum class MetricRole {
  Quality,  ///< What the run is for: loss, accuracy, an evaluation.
  Cost,     ///< Time, throughput, memory.
  Signal,   ///< Gradients, weights, activations: neither good nor bad.
  Setting,  ///< Told to the run or counted by it: lr, tokens, batch_hash.
};

enum class MetricBetter { Unknown, Lower, Higher };

/// When in a step a metric is made. A difference at one step began with the
/// earliest of those that differ.
enum class MetricPhase {
  Input,    ///< Of the batch.
  Schedule, ///< Learning rate, batch size.
  Forward,
  Backward,
  Update,
  Evaluation,
  None, ///< Clocks, memory, and names that nobody knows.
};

struct MetricKind {
  MetricRole Role = MetricRole::Quality;
  MetricBetter Better = MetricBetter::Unknown;
  MetricPhase Phase = MetricPhase::None;
};

/// Of the metric \p Name, canonical or a logger's own: "hellaswag/acc_norm" is
/// an accuracy by its last words.
MetricKind metricKind(llvm::StringRef Name);

llvm::StringRef toString(MetricRole Role);
/// "lower", "higher", "unknown".
llvm::StringRef toString(MetricBetter Better);

} // namespace culprit

#endif // CULPRIT_COMPARE_RUNSMETRICS_H
