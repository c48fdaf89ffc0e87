//===- MemorySnapshotRows.h - Rows of a memory snapshot ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// From the tree of a snapshot to `memory_blocks` and `memory_events`.
///
/// The events are a ring buffer: what was allocated before it began is not in
/// it. So totals are counted backwards from the blocks that are there at the
/// end, which makes them right at every event that is left.
///
/// They are counted in bytes that the program asked for, which is what events
/// have; blocks are rounded up. free_requested takes memory from the program;
/// free_completed, once no stream uses it any more, changes no total.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_MEMORYSNAPSHOTROWS_H
#define CULPRIT_READERS_MEMORYSNAPSHOTROWS_H

#include "Case/Source.h"
#include "Readers/CallFrames.h"
#include "Support/DataTree.h"
#include <map>
#include <vector>

namespace culprit {

/// Reads one snapshot. Used once; the tree and the source must outlive it.
class MemorySnapshotRows {
public:
  MemorySnapshotRows(const DataTree &Tree, Source &Into);

  llvm::Error read();

private:
  enum class Field : uint8_t {
    Unseen, ///< The key was not looked at yet.
    Other,
    Action,
    Address,
    Size,
    Stream,
    Frames,
    TimeUs,
    Requested,
    State,
    History,
    Device,
    TotalSize,
    SegmentType,
    Expandable,
    Blocks,
    RealSize,
    Count
  };
  /// The fields of one dictionary.
  struct Record {
    DataValue Values[static_cast<size_t>(Field::Count)];
    DataValue operator[](Field F) const {
      return Values[static_cast<size_t>(F)];
    }
  };
  /// What an event does to the totals.
  struct Event {
    int64_t At, Address, Bytes, Stream;
    int64_t Allocated, Reserved; ///< Changes; then totals after it.
    StringId Action, Frames;
  };
  struct Totals {
    uint64_t Allocated = 0, Reserved = 0;
  };

  Record fields(llvm::ArrayRef<DataValue> Pairs);
  Field fieldOf(DataValue Key);
  void addSegment(const Record &Segment);
  int64_t addBlock(const Record &Block, const Record &Segment,
                   StringId SegmentKind, int64_t Address);
  Event event(const Record &R);
  void addTrace(llvm::ArrayRef<DataValue> Trace, int64_t Device);
  void addSettings(DataValue Settings);

  const DataTree &Tree;
  Source &S;
  CallFrames Frames;
  DataTree::Once Walk;
  std::vector<Field> Fields; ///< By the number of the key's text.
  std::map<int64_t, Totals> Devices;
  int64_t Rank = 0;
  int64_t BlockNumber = 0, EventNumber = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_MEMORYSNAPSHOTROWS_H
