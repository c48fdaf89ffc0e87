//===- FlightRecorderRows.h - Rows of a flight recorder dump ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// From the tree of a dump to `collectives`, `process_groups` and `ranks`.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_FLIGHTRECORDERROWS_H
#define CULPRIT_READERS_FLIGHTRECORDERROWS_H

#include "Case/Source.h"
#include "Readers/CallFrames.h"
#include "Support/DataTree.h"
#include <map>
#include <string>
#include <vector>

namespace culprit {

/// The rank at the end of a dump's name, or behind the word "rank" in it.
std::optional<int64_t> rankOfDumpName(llvm::StringRef Path);

/// Reads one dump. Used once; the tree and the source must outlive it.
class FlightRecorderRows {
public:
  FlightRecorderRows(const DataTree &Tree, Source &Into);

  llvm::Error read();

private:
  /// A group of pg_config. Its members are in the order of the group's own
  /// ranks, which is what "send 0->1" counts in.
  struct Group {
    std::string Name, Purpose, Identity;
    std::vector<int64_t> Members, Sorted;
  };
  /// The tensors of one side of a collective.
  struct Shapes {
    std::string Text; ///< As recorded: [[2048, 1], [4]].
    std::vector<int64_t> Elements;
  };

  std::optional<int64_t> integer(DataValue V) const;
  std::optional<int64_t> integer(DataValue Dict, llvm::StringRef Key) const {
    return integer(Tree.find(Dict, Key));
  }

  void readGroups(DataValue Config);
  std::vector<int64_t> members(DataValue Ranks) const;
  const Group &groupOf(DataValue Entry);
  void findRank(llvm::ArrayRef<DataValue> Entries);
  std::optional<int64_t> rankFromPeers(llvm::ArrayRef<DataValue> Entries);

  void addEntry(DataValue Entry, int64_t Number);
  void addOperation(TableBuilder &Row, DataValue Entry, const Group &G);
  void addTimes(TableBuilder &Row, DataValue Entry);
  void addTensors(TableBuilder &Row, DataValue Entry);
  const Shapes &shapes(DataValue Sizes);
  std::optional<int64_t> bytes(const Shapes &S, DataValue Dtypes) const;

  void addGroups(DataValue Status, llvm::ArrayRef<DataValue> Entries);
  std::map<int64_t, size_t>
  groupsOfIds(llvm::ArrayRef<DataValue> StatusPairs,
              llvm::ArrayRef<DataValue> Entries) const;
  void addGroup(const Group *G, DataValue Status);
  void addRank(llvm::ArrayRef<DataValue> Entries);

  const DataTree &Tree;
  Source &S;
  CallFrames Frames;
  std::vector<Group> Groups;
  std::map<std::string, size_t, std::less<>> GroupByName;
  std::map<std::string, Group, std::less<>> Unconfigured;
  llvm::DenseMap<size_t, Shapes> KnownShapes;
  const Shapes NoShapes;
  std::optional<int64_t> Rank;
};

} // namespace culprit

#endif // CULPRIT_READERS_FLIGHTRECORDERROWS_H
