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

using namespace llvm;

namespace culprit {

void Source::addTensor(TensorRecord Record) {
  completeTensorRecord(Record, Path);
  const TensorView &Data = Record.Data;
  const int64_t Numel = Data.numel();
  const TensorStatistics S = statisticsOf(Data);

  TableBuilder &Rows = table(TableId::tensors);
  Rows.addRow();
  const auto SetKnown = [&](unsigned Column, std::optional<int64_t> Value) {
    if (Value)
      Rows.set(Column, *Value);
  };
  Rows.set(tensors::run, StringRef(Run));
  if (!Record.Variant.empty())
    Rows.set(tensors::variant, StringRef(Record.Variant));
  SetKnown(tensors::rank, Record.Rank);
  SetKnown(tensors::step, Record.Step);
  SetKnown(tensors::order, Record.Order);
  SetKnown(tensors::token, Record.Token);
  Rows.set(tensors::layer, StringRef(Record.Layer));
  Rows.set(tensors::role, StringRef(Record.Role));
  Rows.set(tensors::name, StringRef(Record.Name));
  Rows.set(tensors::dtype, toString(Data.Type));
  Rows.setList(tensors::shape, Data.Shape);
  Rows.set(tensors::numel, Numel);

  Rows.set(tensors::nan, S.NaN);
  Rows.set(tensors::inf, S.Inf);
  Rows.set(tensors::nonfinite, S.NaN + S.Inf);
  SetKnown(tensors::first_nonfinite, S.FirstNonFinite);
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
  Rows.set(tensors::place, int64_t(Rows.rows()));
  Tensors.push_back(std::move(Record));
}

} // namespace culprit
