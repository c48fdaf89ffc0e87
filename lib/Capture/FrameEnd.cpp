//===- FrameEnd.cpp - How a capture ends ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/FrameWriter.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

namespace culprit::capture {

const char *errorText(int Error) {
  switch (Error) {
  case ENOSPC:
    return "no space left on device";
  case EDQUOT:
    return "disk quota exceeded";
  case EFBIG:
    return "file too large";
  case EIO:
    return "input/output error";
  case EROFS:
    return "read-only file system";
  case EBADF:
    return "the descriptor was closed";
  case EPERM:
    return "operation not permitted";
  case ENOMEM:
    return "out of memory";
  default:
    return nullptr;
  }
}

/// Remembers how to give up what was written since \p P. PerKind still is of
/// then.
void FrameWriter::markPlace(const Place &P) {
  Last = P;
  memcpy(LastPerKind, PerKind, sizeof(PerKind));
}

/// Gives up what was written since the last place. False when that is nothing.
bool FrameWriter::goBack() {
  if (At == Last.At)
    return false;
  At = Last.At;
  Sequence = Last.Sequence;
  FailedRecords += Written - Last.Written;
  Written = Last.Written;
  for (unsigned K = 1; K <= MaxRecordKind && isRing(); ++K)
    Segments[Current].Records[K] -= PerKind[K] - LastPerKind[K];
  memcpy(PerKind, LastPerKind, sizeof(PerKind));
  return true;
}

/// Adds what this writer could not write.
void FrameWriter::complete(Drops &Lost) const {
  Lost.Written = Written;
  Lost.FileCap = Capped;
  Lost.WriteError = FailedRecords;
  Lost.StringsFull = Names.refused();
}

/// Why records are lost by a failed write, if some are.
bool FrameWriter::tellError(uint64_t Time) {
  if (!FirstError)
    return true;
  char What[64] = "the capture could not be written: ";
  const char *Why = errorText(FirstError);
  strncat(What, Why ? Why : "a write failed", sizeof(What) - strlen(What) - 1);
  StateHead Head = {StateCode::FileFailed, static_cast<uint32_t>(FirstError),
                    Time};
  return writeSmall(FrameType::State, 0, 1, &Head, sizeof(Head), What,
                    strlen(What));
}

bool FrameWriter::writeEnd(EndReason Reason, uint64_t Time, const Drops &Lost,
                           const uint64_t *Seen) {
  EndHead Head = {};
  Head.Reason = Reason;
  Head.At = Time;
  Head.Lost = Lost;
  KindMore More[MaxRecordKind + 1];
  char Rows[sizeof(More) + (MaxRecordKind + 1) * sizeof(KindTotal) +
            sizeof(EndMore)];
  size_t Size = 0;
  auto Add = [&](const void *From, size_t Bytes) {
    memcpy(Rows + Size, From, Bytes);
    Size += Bytes;
  };
  for (unsigned K = 1; K <= MaxRecordKind; ++K) {
    uint64_t Came = Seen ? Seen[K] : PerKind[K];
    if (!PerKind[K] && !Came)
      continue;
    KindTotal Total = {K, 0, PerKind[K]};
    Add(&Total, sizeof(Total));
    More[Head.Kinds++] = {Came, Gone[K]};
  }
  Add(More, Head.Kinds * sizeof(KindMore));
  EndMore Rest = {keptFrom()};
  Add(&Rest, sizeof(Rest));
  return writeSmall(FrameType::End, 0, Head.Kinds, &Head, sizeof(Head), Rows,
                    Size);
}

EndReason FrameWriter::finish(EndReason Reason, uint64_t Time, Drops &Lost,
                              const uint64_t *Seen) {
  flush(Lost);
  if (Full)
    Reason = EndReason::FileFull;
  bool Done = tellError(Time) && writeEnd(Reason, Time, Lost, Seen);
  if (!Done && goBack()) {
    complete(Lost);
    tellError(Time);
    writeEnd(Reason, Time, Lost, Seen);
  }
  // Half a frame may be behind the end; where it stays it is told as damage.
  if (FirstError && !overwritten() && At > SuperblockSize)
    (void)!ftruncate(Descriptor, static_cast<off_t>(At));
  return Reason;
}

} // namespace culprit::capture
