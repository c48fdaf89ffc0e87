//===- RunCurves.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/RunCurves.h"
#include "Case/Schema.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <optional>

using namespace llvm;

namespace culprit {

/// The metrics that figures are made of.
static constexpr StringLiteral Metrics[] = {
    "loss", "rl_loss", "val_loss", "grad_norm",
    "lr", "step_time", "data_time",
    "unchanged_share", "update_ratio", "weight_norm",
    "activation_mean", "exp_avg_sq_rms", "activation_rms",
    "zero_share", "saturated_share", "activation_max",
    "grad_cosine", "max_attention_logit", "attention_entropy_share",
    "nonfinite"};

static bool isPrimary(ArrayRef<ColumnView> V, size_t Row) {
  const ColumnView &Primary = V[scalars::primary];
  return Primary.Data->bools()[Primary.row(Row)] == 1;
}

/// The first run by name among primary rows; one without a name before all.
static StringId firstRun(const Table &T, const StringPool &Pool) {
  ArrayRef<ColumnView> V = T.columns();
  std::optional<StringId> First;
  for (size_t I = 0; I != T.rows(); ++I) {
    const StringId Run = V[scalars::run].getString(I);
    if (Run == First || !isPrimary(V, I))
      continue;
    if (!First || Run == NullString ||
        (*First != NullString && Pool.text(Run) < Pool.text(*First)))
      First = Run;
  }
  return First.value_or(NullString);
}

RunCurves::RunCurves(const Case &C) : Pool(*C.pool()) {
  const Table &T = C.table(TableId::scalars);
  if (T.empty())
    return;
  ArrayRef<ColumnView> V = T.columns();
  DenseSet<StringId> Wanted;
  for (StringRef Metric : Metrics)
    if (StringId Id = Pool.lookup(Metric))
      Wanted.insert(Id);
  const StringId Run = firstRun(T, Pool);
  for (size_t I = 0; I != T.rows(); ++I) {
    const StringId Metric = V[scalars::metric].getString(I);
    if (V[scalars::run].getString(I) != Run || !Wanted.contains(Metric) ||
        !isPrimary(V, I) || V[scalars::step].isNull(I) ||
        V[scalars::value].isNull(I))
      continue;
    Curve &To = All[{Metric, V[scalars::layer].getString(I)}];
    ++To.Logged;
    if (double Value = V[scalars::value].getDouble(I); !std::isnan(Value))
      To.Rows.push_back({V[scalars::step].getInt(I), Value});
  }
  for (auto &[Key, One] : All)
    if (!is_sorted(One.Rows, less_first()))
      stable_sort(One.Rows, less_first());
}

const Curve &RunCurves::whole(StringRef Metric) const {
  auto It = All.find({Pool.lookup(Metric), NullString});
  return It == All.end() ? None : It->second;
}

std::vector<std::pair<StringId, const Curve *>>
RunCurves::layers(StringRef Metric) const {
  const StringId Id = Pool.lookup(Metric);
  std::vector<std::pair<StringId, const Curve *>> Out;
  for (const auto &[Key, One] : All)
    if (Key.first == Id && Key.second != NullString && !One.Rows.empty())
      Out.push_back({Key.second, &One});
  return Out;
}

} // namespace culprit
