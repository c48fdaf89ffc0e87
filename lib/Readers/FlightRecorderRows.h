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

#include "Readers/CallFrames.h"
#include "Readers/FlightRecorderGroups.h"
#include <string>
#include <vector>

namespace culprit {

/// Reads one dump. Used once; the tree and the source must outlive it.
class FlightRecorderRows {
public:
  FlightRecorderRows(const DataTree &Tree, Source &Into);

  llvm::Error read();

private:
  using Group = FlightRecorderGroup;
  /// The tensors of one side of a collective.
  struct Shapes {
    std::string Text; ///< As recorded: [[2048, 1], [4]].
    std::vector<int64_t> Elements;
  };

  std::optional<int64_t> integer(DataValue Dict, llvm::StringRef Key) const {
    return integerIn(Tree, Tree.find(Dict, Key));
  }

  void addEntry(DataValue Entry, int64_t Number);
  void addOperation(TableBuilder &Row, DataValue Entry, const Group &G);
  void addTimes(TableBuilder &Row, DataValue Entry);
  void addTensors(TableBuilder &Row, DataValue Entry);
  const Shapes &shapes(DataValue Sizes);
  std::optional<int64_t> bytes(const Shapes &S, DataValue Dtypes) const;

  void addGroups(DataValue Status, llvm::ArrayRef<DataValue> Entries);
  void addGroup(const Group *G, DataValue Status);
  void addRank(llvm::ArrayRef<DataValue> Entries);

  const DataTree &Tree;
  Source &S;
  CallFrames Frames;
  FlightRecorderGroups Groups;
  llvm::DenseMap<size_t, Shapes> KnownShapes;
  const Shapes NoShapes;
  std::optional<int64_t> Rank;
};

} // namespace culprit

#endif // CULPRIT_READERS_FLIGHTRECORDERROWS_H
