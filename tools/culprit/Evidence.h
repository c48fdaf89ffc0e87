//===- Evidence.h - Reading what a run left behind --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the commands that read files have in common.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TOOLS_EVIDENCE_H
#define CULPRIT_TOOLS_EVIDENCE_H

#include "Case/Case.h"

namespace culprit {

/// The threads to work with when \p Jobs are asked for: one a core for 0.
unsigned threadCount(unsigned Jobs);

/// Reads \p Paths, with a line on stderr for who waits.
llvm::Expected<Case> readEvidence(llvm::ArrayRef<std::string> Paths,
                                  unsigned Jobs);

/// Tells what could not be read of \p C. False when every file failed.
bool reportUnread(const Case &C);

} // namespace culprit

#endif // CULPRIT_TOOLS_EVIDENCE_H
