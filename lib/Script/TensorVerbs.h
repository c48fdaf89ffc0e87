//===- TensorVerbs.h - The values behind tensor rows ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// How the verbs of tensor rows come to the values of a row.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_TENSORVERBS_H
#define CULPRIT_SCRIPT_TENSORVERBS_H

#include "Script/Binding.h"
#include "Tensor/Tensor.h"

namespace culprit {

/// Longest list that a verb makes of a tensor.
inline constexpr int64_t MaxEntries = 100000;

/// The tensor of \p Row, whose values are there. An error for a row of another
/// table, and for a dump of statistics alone.
llvm::Expected<const TensorView *> tensorOf(Call &C, const RowValue &Row);

/// Two tensors whose values are there.
struct TensorPair {
  const TensorView *Own, *Other;
};

/// The tensors of the receiver and of \p Other, as tensorOf() has them.
llvm::Expected<TensorPair> tensorsOf(Call &C, const RowValue &Other);

/// Fails unless \p Axis, counted from 0, is one of \p View.
llvm::Error checkAxis(const TensorView &View, int64_t Axis);

} // namespace culprit

#endif // CULPRIT_SCRIPT_TENSORVERBS_H
