//===- TextParts.h - The parts of the report for a terminal -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What printText() prints above and below the hypotheses, part by part, each
/// with a blank line behind it; a part that has nothing to say prints nothing.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_TEXTPARTS_H
#define CULPRIT_REPORT_TEXTPARTS_H

#include "Report/Report.h"
#include "Report/Selection.h"

namespace culprit {

/// "1 file", "2,000 files".
std::string plural(size_t Count, llvm::StringRef Noun);

/// What was read, and how many detectors matched.
void printHeader(llvm::raw_ostream &OS, const RunReport &R, unsigned Width);

/// Files that took no part: unknown formats are listed, never guessed.
void printNotRead(llvm::raw_ostream &OS, const RunReport &R, unsigned Width);

/// Detectors that failed, which no verdict rests on.
void printFailures(llvm::raw_ostream &OS, const RunReport &R);

/// Where no cause stands out, a part of the system still may.
void printLayers(llvm::raw_ostream &OS, const RunReport &R, unsigned Width);

/// The hypothesis that the knowledge base does not know this fault.
void printUnknownCause(llvm::raw_ostream &OS, const RunReport &R,
                       unsigned Width);

/// The sentence of a run of which no hypothesis is told.
void printNothingFound(llvm::raw_ostream &OS, const RunReport &R,
                       unsigned Width);

/// Where to look if what stands above does not settle it.
void printLeads(llvm::raw_ostream &OS, const RunReport &R, unsigned Width);

/// Idle time and the like that no hypothesis accounts for, and what to
/// record to find out.
void printUnexplained(llvm::raw_ostream &OS, const RunReport &R,
                      unsigned Width);

/// What was not checked, by what would have to be recorded for it; what
/// would decide most first.
void printNotChecked(llvm::raw_ostream &OS, const RunReport &R, unsigned Width);

/// Reports that no shown hypothesis uses: nothing that was found is lost.
void printAlsoSeen(llvm::raw_ostream &OS, const RunReport &R,
                   const Selection &Shown, unsigned Width);

} // namespace culprit

#endif // CULPRIT_REPORT_TEXTPARTS_H
