//===- PrimaryScalars.h - Which of several logs counts ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The same loss is often logged to a metrics file and printed to a log; a
/// detector that saw both would see each step twice.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_PRIMARYSCALARS_H
#define CULPRIT_CASE_PRIMARYSCALARS_H

#include "Case/Case.h"
#include "Table/Table.h"
#include "llvm/ADT/ArrayRef.h"

namespace culprit {

/// Sets scalars.primary: one row a run, rank, name and step. \p Segments are
/// the first row of each input and its place in \p Inputs.
void markPrimaryScalars(Table &Scalars,
                        llvm::ArrayRef<std::pair<size_t, size_t>> Segments,
                        llvm::ArrayRef<InputSummary> Inputs);

} // namespace culprit

#endif // CULPRIT_CASE_PRIMARYSCALARS_H
