//===- LaunchedBy.h - The host code above device work -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Which operator or range launched a piece of device work. A profiler's own
/// operator ids are not enough: PyTorch before 2.0 writes the correlation id
/// in their place, and an id names the innermost operator only, not the
/// `aten::contiguous` or the optimizer step around it.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_LAUNCHEDBY_H
#define CULPRIT_CASE_LAUNCHEDBY_H

#include "Case/Case.h"

namespace culprit {

/// For each row of \p Work the row number in \p Spans of the innermost span
/// that was open on the launching thread when the launch call began, or null.
/// \p Work are rows of `gpu_work`, \p Calls of `host_calls`, \p Spans of
/// `host_ops` or `ranges`, of which only those count that are given. Where the
/// launch call is not recorded, the span with the work's operator id. Faster
/// where the case is given that the rows are of.
llvm::Expected<ColumnRef> launchedBy(const Table &Work, const Table &Calls,
                                     const Table &Spans,
                                     const Case *Of = nullptr);

} // namespace culprit

#endif // CULPRIT_CASE_LAUNCHEDBY_H
