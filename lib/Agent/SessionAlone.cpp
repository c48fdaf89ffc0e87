//===- SessionAlone.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A session of a recorded process that cannot reach culprit: how it begins, and
// how it ends without being told.
//
//===----------------------------------------------------------------------===//

#include "Agent/Describe.h"
#include "Agent/Session.h"
#include <fcntl.h>

namespace culprit::agent {

using namespace capture;

bool Session::begunByFallback(const Origin &From) {
  if (!From.Fallback[0])
    return false;
  Asked = startFromOptions(From.Options);
  char Path[600];
  capturePath(Path, sizeof(Path), From.Fallback);
  File = open(Path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  Alone = &From;
  return File >= 0;
}

/// Whether the end has come of a session that nobody can tell so.
bool Session::isOver(EndReason &Why) const {
  if (!Alone)
    return false;
  Why = EndReason::Duration;
  if (uint64_t Length = option(Alone->Options, "duration", 0))
    if (ticks() - Began >= Length * 1000000u)
      return true;
  Why = EndReason::ControlLost;
  return !isAwaited(Alone->Fallback, Alone->Options);
}

} // namespace culprit::agent
