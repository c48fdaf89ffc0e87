//===- Recording.h - What to record -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables in the words of who has to record what fills them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_RECORDING_H
#define CULPRIT_REPORT_RECORDING_H

#include "Case/Case.h"

namespace culprit {

/// What to record so that \p Needs, a table with or without a column behind a
/// dot, has rows: "tensor dumps". What is said in words is given back.
llvm::StringRef recordingOf(llvm::StringRef Needs);

/// Whether a GPU profile would fill \p Id.
bool isOfProfile(TableId Id);

} // namespace culprit

#endif // CULPRIT_REPORT_RECORDING_H
