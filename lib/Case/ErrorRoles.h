//===- ErrorRoles.h - What part an error has in a failure -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One rank fails, and a thousand lines follow: peers whose connection closes,
/// watchdogs that run out, launchers that report a dead child. This sets
/// `errors.role` and `errors.aftermath` over all logs of a run, so that
/// detectors can blame the first one. What cannot be told stays null.
///
/// The nature of an error, by its own text:
///
///   root    anything that needs no other error to happen
///   sign    a collective that timed out, a network error under one: they
///           come of a fault elsewhere, unless there is none on record
///   report  a peer closed its connection, a launcher found a dead child, a
///           Ray actor died: never the cause, for they speak of another process
///   stop    SIGTERM, a broken pipe, destructors at exit: the run is ending
///   note    warnings, and what the driver did after an event: may be anything
///   advice  deprecations, "consider setting": no fault at all
///
/// Errors are put into failures. Two errors are of different failures if the
/// run made two new steps between them, since a run that fails makes none, or
/// was started again. In a failure
///
///   1. The first root is *initiating*. Order is that of time where all logs
///      are stamped with a date, else of lines in a single log. Logs that can
///      be compared by neither have an initiator only if all roots are in one.
///   2. None is, if another root of another kind follows in the same process
///      that the first does not explain: Python ends at an uncaught exception,
///      so the first was caught, and which of the two matters is not told.
///   3. A timeout long before the first root is *initiating* itself: its cause
///      lies a timeout before it, and the root came of the abort.
///   4. Without a root, the first sign is *initiating*; reports alone have no
///      role, since what they report is not on record.
///   5. After an initiator, signs and reports are *cascade*, and roots that it
///      explains: the same kind again (another rank, the same storm), and any
///      CUDA error after a fault of the kernel or device, which a context never
///      loses. Devices fail one by one: an event of one explains that of
///      another only across a link.
///   6. Stops are *teardown* where something else failed.
///   7. The reader knows exceptions that came of another one; they stay
///      *cascade*, and the first of the chain is the root.
///   8. Xid 43, 45 and 154 tell what the driver did; after another event of
///      the same device in the same log they are *cascade*.
///   9. Where a scheduler or a signal ended the run before anything failed,
///      that is *initiating*, and all that follows comes of it.
///
/// What came after:
///
///   progressed  two steps that were not reached before, or five requests
///               answered: whatever it was did not end the run
///   recovered   the run was started again or tried again, and did not say
///               that it gave up; with or without progress since
///   terminal    nothing of these, although the run had made steps before, or
///               a launcher tells of its end, or the traceback is the log's
///               last word
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_ERRORROLES_H
#define CULPRIT_CASE_ERRORROLES_H

#include "Case/RunTrail.h"

namespace culprit {

/// Tables that roles are told from, and where their inputs begin.
struct ErrorContext {
  const Table &Lines, &Scalars, &Requests;
  RunTrails::Segments LineParts, ScalarParts, RequestParts;
};

/// Sets errors.role, but for rows that have one, and errors.aftermath. Returns
/// whether any role or aftermath is known.
std::pair<bool, bool> markErrorRoles(Table &Errors,
                                     RunTrails::Segments ErrorParts,
                                     const ErrorContext &Context,
                                     llvm::ArrayRef<InputSummary> Inputs,
                                     StringPool &Pool);

} // namespace culprit

#endif // CULPRIT_CASE_ERRORROLES_H
