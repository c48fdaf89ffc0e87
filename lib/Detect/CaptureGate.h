//===- CaptureGate.h - How far a recording carries a verdict ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A profile that lost launch records, was taken a graph at a time, was cut
/// off or slowed by its own recording shows things that the run never did.
/// Detectors declare which aspects of a recording they rely on; the gate
/// compares that with `capture_quality` and lowers or withholds their reports,
/// with a sentence that says why and how to record better.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_DETECT_CAPTUREGATE_H
#define CULPRIT_DETECT_CAPTUREGATE_H

#include "Detect/Outcome.h"
#include "llvm/ADT/ArrayRef.h"

namespace culprit {

/// What a detector may rely on, by the word it is declared with.
enum class Reliance : uint8_t {
  Launches,    ///< "launches": device work is joined to its launch calls.
  Kernels,     ///< "kernels": every kernel is a record of its own.
  HostTimes,   ///< "host-times": recording did not slow the host.
  WholeRecord, ///< "whole-record": nothing was dropped or cut off.
  Clocks,      ///< "clocks": times of several ranks compare.
};

inline constexpr unsigned NumReliances = 5;

llvm::StringRef toString(Reliance R);
/// The reliance of the word \p Text, or none.
std::optional<Reliance> parseReliance(llvm::StringRef Text);

/// Lowers or withholds the reports of \p Into, whose detector relies on \p On.
/// A report is judged by the device it names; one that names none, by the
/// worst. When all devices fail, the outcome is skipped whether there were
/// reports or not: nothing was seen, and nothing could have been.
void applyCaptureGate(const Case &C, llvm::ArrayRef<Reliance> On,
                      Outcome &Into);

struct Needs;

/// Makes \p Into skipped where it is clear, its detector needs \p On of a
/// device's record, and no device did enough to be judged: fewer than 32
/// pieces of work, none of a millisecond. That nothing was found there says
/// nothing; what was found stays.
void withholdClearOfThinRecord(const Case &C, const Needs &On, Outcome &Into);

} // namespace culprit

#endif // CULPRIT_DETECT_CAPTUREGATE_H
