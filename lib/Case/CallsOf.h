//===- CallsOf.h - The calls that launched device work ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_CALLSOF_H
#define CULPRIT_CASE_CALLSOF_H

#include "Case/Case.h"

namespace culprit {

/// For each row of \p Work the first row of \p Calls with its rank and
/// correlation id, or NoRow; none at all where a table lacks those columns.
/// Rows of the tables of \p Of, where it is given, are looked up in what the
/// derived tables share instead of indexed once more.
llvm::Expected<RowIndex> callsOf(const Table &Work, const Table &Calls,
                                 const Case *Of = nullptr);

} // namespace culprit

#endif // CULPRIT_CASE_CALLSOF_H
