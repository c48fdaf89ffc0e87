//===- Helper.h - Work that outlives us -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tracing is done by a child of its own process group. A user who kills
/// culprit, or its group, does not kill the tracer in the middle of something:
/// it sees that its parent is gone, puts right what it has begun and ends.
/// That matters for a thread that waits at a hardware breakpoint, which the
/// kernel does not take away with the tracer, and for calls that a bare stop
/// ends.
///
/// Not a session of its own: Linux shares the processors out by sessions, and
/// a new one waits on a busy machine, measured up to two seconds, with a
/// thread stopped.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_HELPER_H
#define CULPRIT_ATTACH_HELPER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <cstddef>
#include <sys/types.h>

namespace culprit::attach {

/// What the work in the child knows of its parent.
class HelperSide {
public:
  HelperSide(pid_t Parent, int Pipe, const void *Report, size_t Size)
      : Parent(Parent), Pipe(Pipe), Report(Report), Size(Size) {}

  /// Does the parent still live and wait for the report?
  bool isWanted() const;
  /// Gives the report to the parent, which goes on at once; the work may stay
  /// to put something right. Without a call it is given at the end.
  void publish();

private:
  pid_t Parent;
  int Pipe; ///< -1 when the report was given.
  const void *Report;
  size_t Size;
};

/// Runs \p Work in a child that fills the \p Size bytes at \p Report, and
/// returns when they have come. Plain bytes only: nothing else of the child
/// comes back. When \p GivenUp, asked ten times a second, says so, the child is
/// left to put things right by itself: an error.
llvm::Error runInHelper(llvm::function_ref<void(HelperSide &)> Work,
                        void *Report, size_t Size,
                        llvm::function_ref<bool()> GivenUp);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_HELPER_H
