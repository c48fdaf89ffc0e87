//===- SourceTensors.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The rows of `tensors`. A statistic over no values is null, not zero, and so
// is a share that means nothing for the type.
//
//===----------------------------------------------------------------------===//

#include "Case/Source.h"
#include "Case/TensorNames.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Begins a row with everything but statistics and type.
static TableBuilder &beginRow(Source &S, const TensorRecord &Record) {
  TableBuilder &Rows = S.table(TableId::tensors);
  Rows.addRow();
  const auto SetKnown = [&](unsigned Column, std::optional<int64_t> Value) {
    if (Value)
      Rows.set(Column, *Value);
  };
  Rows.set(tensors::run, StringRef(S.Run));
  if (!Record.Variant.empty())
    Rows.set(tensors::variant, StringRef(Record.Variant));
  SetKnown(tensors::rank, Record.Rank);
  SetKnown(tensors::step, Record.Step);
  SetKnown(tensors::order, Record.Order);
  SetKnown(tensors::token, Record.Token);
  Rows.set(tensors::layer, StringRef(Record.Layer));
  Rows.set(tensors::role, StringRef(Record.Role));
  Rows.set(tensors::name, StringRef(Record.Name));
  Rows.set(tensors::source, StringRef(S.path()));
  Rows.set(tensors::place, int64_t(Rows.rows()));
  return Rows;
}

void Source::setStep(int64_t Step) {
  TableBuilder &Rows = table(TableId::tensors);
  for (TensorRecord &T : Tensors)
    T.Step = Step;
  Rows.fill(tensors::step, std::vector<int64_t>(Rows.rows(), Step));
}

TensorStatistics Source::addTensor(TensorRecord Record) {
  const std::optional<int64_t> Own = Record.Step;
  completeTensorRecord(Record, Path);
  if (NamedByEpoch)
    Record.Step = Own;
  const TensorView &Data = Record.Data;
  const int64_t Numel = Data.numel();
  const TensorStatistics S =
      Summarize ? statisticsOf(Data, Threads) : TensorStatistics();

  TableBuilder &Rows = beginRow(*this, Record);
  Rows.set(tensors::dtype, toString(Data.Type));
  Rows.setList(tensors::shape, Data.Shape);
  Rows.set(tensors::numel, Numel);
  if (!Summarize) {
    Tensors.push_back(std::move(Record));
    return S;
  }

  Rows.set(tensors::nan, S.NaN);
  Rows.set(tensors::inf, S.Inf);
  Rows.set(tensors::nonfinite, S.NaN + S.Inf);
  if (S.FirstNonFinite)
    Rows.set(tensors::first_nonfinite, *S.FirstNonFinite);
  if (Numel != 0)
    Rows.set(tensors::zero_share, double(S.Zero) / double(Numel));
  if (S.Finite != 0) {
    Rows.set(tensors::min, S.Min);
    Rows.set(tensors::max, S.Max);
    Rows.set(tensors::mean, S.Mean);
    Rows.set(tensors::std, S.StdDev);
    Rows.set(tensors::rms, S.Rms);
    Rows.set(tensors::l2, S.L2);
    Rows.set(tensors::absmax, S.AbsMax);
    if (isFloating(Data.Type)) {
      double Finite = double(S.Finite);
      Rows.set(tensors::subnormal_share, double(S.Subnormal) / Finite);
      Rows.set(tensors::near_max_share, double(S.NearMax) / Finite);
    }
  }
  Tensors.push_back(std::move(Record));
  return S;
}

void Source::addTensor(TensorRecord Record, const TensorSummary &Given,
                       bool Known) {
  completeTensorRecord(Record, Path);
  TableBuilder &Rows = beginRow(*this, Record);
  if (!Given.Type.empty())
    Rows.set(tensors::dtype, StringRef(Given.Type));
  std::optional<int64_t> Numel;
  if (Known) {
    Numel = Record.Data.numel();
    Rows.setList(tensors::shape, Record.Data.Shape);
    Rows.set(tensors::numel, *Numel);
  }
  if (!Given.Hash.empty())
    Rows.set(tensors::hash, StringRef(Given.Hash));

  // The extremes of a tensor with NaN are NaN. A mean or a norm may overflow
  // where no value does, so an infinite one proves nothing.
  using Number = std::optional<double>;
  const auto IsNaN = [](Number X) { return X && std::isnan(*X); };
  const auto IsInf = [](Number X) { return X && std::isinf(*X); };
  const bool Extremes = Given.Min && Given.Max;
  const bool NaN = IsNaN(Given.Min) || IsNaN(Given.Max) ||
                   (!Extremes && (IsNaN(Given.L2) || IsNaN(Given.Mean))) ||
                   IsNaN(Given.L1);
  const bool Inf = IsInf(Given.Min) || IsInf(Given.Max) || IsInf(Given.L1);
  if (Extremes || Given.L1 || NaN || Inf) {
    Rows.set(tensors::nan, int64_t(NaN));
    Rows.set(tensors::inf, int64_t(Inf));
    Rows.set(tensors::nonfinite, int64_t(NaN) + int64_t(Inf));
  }
  const auto Set = [&](unsigned Column, std::optional<double> Value) {
    if (Value && std::isfinite(*Value))
      Rows.set(Column, *Value);
  };
  Set(tensors::min, Given.Min);
  Set(tensors::max, Given.Max);
  if (!NaN && !Inf) {
    Set(tensors::mean, Given.Mean);
    Set(tensors::l2, Given.L2);
    if (Given.L2 && Numel.value_or(0) > 0)
      Set(tensors::rms, *Given.L2 / std::sqrt(double(*Numel)));
    if (Extremes)
      Set(tensors::absmax,
          std::max(std::fabs(*Given.Min), std::fabs(*Given.Max)));
  }
  Tensors.push_back(std::move(Record));
}

} // namespace culprit
