//===- FileClock.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/FileClock.h"
#include <cmath>

using namespace llvm;

namespace culprit {

int64_t FileClock::toFileNs(int64_t Time) const {
  int64_t Since = Time - CaseNs[0];
  int64_t InFile = FileNs[1] - FileNs[0], InCase = CaseNs[1] - CaseNs[0];
  if (InFile != InCase && InCase > 0) // stretched
    Since = std::llround(static_cast<double>(Since) *
                         (static_cast<double>(InFile) /
                          static_cast<double>(InCase)));
  return FileNs[0] + Since;
}

ClockAnchor anchorClock(Source &S) {
  ClockAnchor Out;
  if (!S.FileTime)
    return Out;
  // One column is enough: all times of a file move together.
  constexpr std::pair<TableId, unsigned> Columns[] = {
      {TableId::gpu_work, gpu_work::start},
      {TableId::host_calls, host_calls::start},
      {TableId::host_ops, host_ops::start},
      {TableId::ranges, ranges::start},
      {TableId::memory_events, memory_events::at}};
  for (auto [Id, Column] : Columns) {
    TableBuilder *B = S.existing(Id);
    if (!B || !B->touched(Column))
      continue;
    ArrayRef<int64_t> Times = B->finished(Column).ints();
    std::optional<size_t> First, Last;
    for (size_t I = 0; I != Times.size(); ++I) {
      if (Times[I] == NullInt)
        continue;
      if (!First || Times[I] < Times[*First])
        First = I;
      if (!Last || Times[I] > Times[*Last])
        Last = I;
    }
    if (!First)
      continue;
    Out.Table = Id;
    Out.Column = Column;
    Out.Rows[0] = *First;
    Out.Rows[1] = *Last;
    Out.Clock.Unit = S.FileTime->Unit.str();
    for (unsigned I : {0, 1})
      Out.Clock.FileNs[I] = S.FileTime->BaseNs + Times[Out.Rows[I]];
    return Out;
  }
  return Out;
}

FileClock fileClock(Source &S, ClockAnchor Anchor) {
  if (Anchor.Clock.known()) {
    ArrayRef<int64_t> Times =
        S.existing(Anchor.Table)->finished(Anchor.Column).ints();
    for (unsigned I : {0, 1})
      Anchor.Clock.CaseNs[I] = Times[Anchor.Rows[I]];
  }
  return Anchor.Clock;
}

} // namespace culprit
