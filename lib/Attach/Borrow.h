//===- Borrow.h - Finding a thread for a call -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The part of an injection that traces: runs in the helper process and fills
/// a report of plain bytes.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_BORROW_H
#define CULPRIT_ATTACH_BORROW_H

#include "Attach/Helper.h"
#include "Attach/Injection.h"
#include "Attach/RemoteCall.h"

namespace culprit::attach {

struct BorrowReport {
  enum class End : uint32_t {
    NoSafePoint, ///< No call was made; Text says what was tried.
    Refused,     ///< Tracing itself was refused; Text says why.
    Abandoned,   ///< The parent ended first.
    Returned,
    Unfinished, ///< The call was made and has not returned in time.
    NoStack,    ///< The stub could not map its stack; Value is the errno.
  };
  End How = End::NoSafePoint;
  pid_t Thread = 0;
  uint32_t ByBreakpoint = 0;
  uint32_t Tried = 0;
  uint64_t Value = 0;
  int64_t StoppedFor = 0, CalledFor = 0; ///< ns.
  char ThreadName[32] = {};
  char Text[512] = {}; ///< dlerror's, or the reasons.
};

/// Makes the call of \p Request in process \p T, as Injection.h tells. May
/// publish \p Report before it returns.
void borrowThread(const Target &T, CallRequest Request,
                  const InjectionOptions &Options,
                  HelperSide &Side, BorrowReport &Report);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_BORROW_H
