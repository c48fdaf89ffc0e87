//===- WhatIf.h - What faster work would win --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A kernel that gets shorter helps only as far as the host keeps up: before
/// a late launch it just makes the gap longer. This replays one device's work
/// with shorter pieces against the recorded launch calls.
///
/// Example: two kernels of 50 us in turn, each launched 10 us before it
/// begins. Halve the first of each pair: the second would begin 25 us
/// sooner, but its launch allows 10 us. The next pair gains nothing more, as
/// its launches are no earlier either; after any number of pairs the work
/// ends 10 us sooner. A host that waits for the device is different: its
/// waits get shorter too, and all that it launches after them comes sooner.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_WHATIF_H
#define CULPRIT_CASE_WHATIF_H

#include "Case/Case.h"

namespace culprit {

/// By how many ns the last row of \p Work would end sooner if each row were
/// shorter by the ns in its column \p Saving (none where it has no value).
/// \p Work is the work of one device, rows of `gpu_work`; \p Calls the calls
/// of its process, rows of `host_calls`. Work whose launch is not among them
/// is not held up by the host. Rows are taken one after the other in the
/// order of their starts, whatever their stream. Faster where the case is
/// given that the rows are of.
llvm::Expected<int64_t> endsSooner(const Table &Work, llvm::StringRef Saving,
                                   const Table &Calls,
                                   const Case *Of = nullptr);

} // namespace culprit

#endif // CULPRIT_CASE_WHATIF_H
