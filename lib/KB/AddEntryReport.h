//===- AddEntryReport.h - The draft of an entry from a diagnosis *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb add --from report.json`: what culprit saw goes in as the symptom; what
/// it believes goes in as questions, since only people know what was confirmed
/// and what they changed.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ADDENTRYREPORT_H
#define CULPRIT_KB_ADDENTRYREPORT_H

#include "KB/Entry.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace culprit {

/// Fills what \p E does not say yet from \p Json, the output of `diagnose
/// --format json` in file \p Name: title, symptom with the evidence behind it,
/// signals and log fragments; cause, fix and prevention as questions that
/// name what culprit would answer. Texts of \p E are markdown.
llvm::Error fillFromReport(llvm::StringRef Json, llvm::StringRef Name,
                           Entry &E);

} // namespace culprit

#endif // CULPRIT_KB_ADDENTRYREPORT_H
