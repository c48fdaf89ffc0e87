//===- TextHypothesis.h - One cause in the report for a terminal *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A hypothesis in full, and how the whole report words what it has in common
/// with one:
///
///  1  The device waits for the next batch: ...          performance   97 %
///     dataloader-bound: the device idles while the host prepares a batch
///
///     for      +5.1  input-stall
///                    GPU 0 waits 235 ms of 709 ms (33 %) for a batch, ...
///                    in run.json.gz gpu_work 5, 17, 29
///     against  -2.2  ...
///     odds     prior -2.9, evidence +6.5: +3.6, 97 %
///     unknown        ...
///     wins     up to 59.0 ms of each step of 178 ms (33 %)
///     cause    ...
///     fix      ...
///
/// One column of labels, one of what they say, so that the eye finds its place
/// at 3 a.m. Nothing is cut that a line break can save.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_TEXTHYPOTHESIS_H
#define CULPRIT_REPORT_TEXTHYPOTHESIS_H

#include "Report/Report.h"
#include "Report/Selection.h"

namespace culprit {

/// Probability as people read it: 97 %, or "> 99 %" rather than 100.
std::string percentText(double P);

/// Log-odds in nats: "+2.3", "-0.7".
std::string natsText(double LogOdds);

/// "frozen-parameters 97 %, detached-graph 2 %".
std::string shiftsText(llvm::ArrayRef<Shift> Shifts);

/// The first \p Count sentences of \p Text on one line.
std::string firstSentences(llvm::StringRef Text, size_t Count);

/// \p Path without the one folder that was asked about.
llvm::StringRef shortPath(const RunReport &R, llvm::StringRef Path);

/// Prints \p Shown, the \p Rank th of \p R, with a blank line behind it.
void printHypothesis(llvm::raw_ostream &OS, const RunReport &R,
                     const TextStyle &Style, const ShownHypothesis &Shown,
                     size_t Rank);

} // namespace culprit

#endif // CULPRIT_REPORT_TEXTHYPOTHESIS_H
