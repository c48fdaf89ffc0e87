//===- NsightSystemsParts.h - The parts of an export ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// An export is read in parts, each with its own connection and perhaps its
/// own thread. Every part fills tables that no other part fills, so that
/// nothing is shared and the outcome does not depend on timing. What needs
/// several parts is done when all have ended, in finishExport().
///
/// One export may hold several processes, as when nsys ran torchrun. Each that
/// used a device becomes a rank of its own, in the order of pids: correlation
/// ids are only unique within a process, and ranks are what joins keep apart.
/// Which processes these are is only known at the end, so that parts write the
/// pid into columns of ranks and finishExport() puts the rank there.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_NSIGHTSYSTEMSPARTS_H
#define CULPRIT_READERS_NSIGHTSYSTEMSPARTS_H

#include "Case/Source.h"
#include "Readers/NsightSystemsDatabase.h"
#include <set>

namespace culprit::nsys {

/// A call of NCCL as its NVTX range records it. Without a payload, when
/// Message is NullInt and Communicator 0.
struct NcclCall {
  int64_t Pid = NullInt, Tid = NullInt, Start = 0, Stop = 0;
  StringId Op = NullString; ///< As collectives.op; null for group calls.
  bool GroupStart = false, GroupEnd = false;
  uint64_t Communicator = 0;
  int64_t Message = NullInt; ///< Bytes that one rank gives, or takes.
  int64_t Peer = NullInt;    ///< Rank in the communicator.
};

/// What a rank said of a communicator when it was made.
struct Communicator {
  int64_t Ranks = NullInt;
  std::map<int64_t, int64_t> RankOfPid;
};

/// What parts leave for the end. Each member is written by one part.
struct Findings {
  /// Processes with work on a device. By readDeviceWork.
  std::set<int64_t> Pids;
  /// Per row of collectives, the row of gpu_work that is its kernel. Likewise.
  std::vector<size_t> KernelOfCollective;
  /// By readNvtx.
  std::vector<NcclCall> NcclCalls;
  std::map<uint64_t, Communicator> Communicators;
};

/// What one part is given, and what it says.
struct Part {
  Database &DB;
  Source &Into;
  Findings &Found;
  int64_t Skipped = 0; ///< Rows without a usable time.
};

void readDeviceWork(Part &P);   ///< gpu_work, collectives.
void readCalls(Part &P);        ///< host_calls.
void readSyncs(Part &P);        ///< syncs.
void readHostRanges(Part &P);   ///< host_ops, ranges: OS calls, then NVTX.
void readNvtx(Part &P);         ///< The second half of readHostRanges.
void readThreadStates(Part &P); ///< thread_states.
void readMemory(Part &P);       ///< memory_events, counters.
void readProfilerEvents(Part &P);

/// Ranks, devices, sizes of collectives, the clock. \p P has the first
/// connection.
void finishExport(Part &P);

/// Sizes and groups of `collectives` from the calls of NCCL that launched
/// their kernels. Ranks are still pids.
void joinNcclCalls(Source &Into, Findings &Found);

/// Names of kinds of memory, by the file's own enumeration, or else by nsys'
/// numbers. nsys counts from 0 = pageable, one less than CUPTI does: read with
/// CUPTI's numbers, pinned copies become pageable ones.
class MemoryKinds {
public:
  MemoryKinds(Database &DB, Source &Into);
  /// NullString when unknown.
  StringId operator()(std::optional<int64_t> Kind) const {
    return Kind && *Kind >= 0 && *Kind < 16 ? Kinds[*Kind] : NullString;
  }
  bool isHost(std::optional<int64_t> Kind) const {
    StringId Id = (*this)(Kind);
    return Id != NullString && (Id == Pageable || Id == Pinned);
  }

private:
  StringId Kinds[16] = {};
  StringId Pageable, Pinned;
};

} // namespace culprit::nsys

#endif // CULPRIT_READERS_NSIGHTSYSTEMSPARTS_H
