//===- KinetoTraceCollectives.h - Collectives from two sides ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What a collective carried stands on its host record, record_param_comms,
/// and only in newer traces on its kernel too; when it ran stands on the kernel
/// alone. Both are collected while chunks are parsed and joined at the end.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACECOLLECTIVES_H
#define CULPRIT_READERS_KINETOTRACECOLLECTIVES_H

#include "Case/Source.h"
#include "llvm/ADT/SmallVector.h"

namespace culprit::kineto {

/// What an event says of the collective it belongs to. A number that is not
/// known is NullInt.
struct CollectiveFacts {
  StringId Op = NullString, Dtype = NullString, Shapes = NullString;
  StringId Group = NullString, GroupName = NullString;
  unsigned ElementBytes = 0;
  int64_t In = NullInt, Out = NullInt; ///< Elements.
  int64_t GroupSize = NullInt, Sequence = NullInt, Peer = NullInt;
  llvm::SmallVector<int64_t, 0> Members;
};

/// A communication kernel, or the host span of a backend without kernels.
struct CollectiveRun {
  CollectiveFacts Facts;
  StringId NameOp = NullString; ///< What the name says.
  int64_t Device = NullInt, Stream = NullInt, Start = 0, Stop = 0;
  int64_t External = NullInt, Correlation = NullInt;
  int64_t Pid = NullInt, Tid = NullInt; ///< Of a host span.
  int64_t Place = 0;
};

/// A host record that says what was called for.
struct CollectiveCall {
  CollectiveFacts Facts;
  int64_t External = NullInt, Pid = NullInt, Tid = NullInt;
  int64_t Start = 0, Stop = 0;
};

/// A process group as the header lists it.
struct ProcessGroup {
  std::string Id, Name;
  int64_t Size = NullInt;
  std::vector<int64_t> Members;
};

/// Adds rows of `collectives`, joined with \p Calls, and of `process_groups`:
/// those of the header, and what collectives say of others.
void addCollectives(std::vector<CollectiveRun> Runs,
                    std::vector<CollectiveCall> Calls,
                    llvm::ArrayRef<ProcessGroup> Groups, int64_t Rank,
                    Source &Into);

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACECOLLECTIVES_H
