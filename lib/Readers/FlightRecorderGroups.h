//===- FlightRecorderGroups.h - Who takes part, and who wrote ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The process groups of a flight recorder dump, the rank that wrote it, and
/// which group an entry or a status is of. A dump says none of the last three
/// outright; they follow from its pg_config, its entries and its file name.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_FLIGHTRECORDERGROUPS_H
#define CULPRIT_READERS_FLIGHTRECORDERGROUPS_H

#include "Case/Source.h"
#include "Support/DataTree.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

/// A number, or the text of one: in JSON many figures are texts.
std::optional<int64_t> integerIn(const DataTree &Tree, DataValue V);

/// The ranks in "nccl:send 0->1" or "nccl:recv 3<-0", the writer's first. They
/// count the members of the group, see FlightRecorderGroup::member().
std::optional<std::pair<int64_t, int64_t>> peersOf(llvm::StringRef Operation);

/// A group of pg_config. Its members are in the order of the group's own
/// ranks, which is what "send 0->1" counts in.
struct FlightRecorderGroup {
  std::string Name, Purpose, Identity;
  std::vector<int64_t> Members, Sorted;

  /// The rank of the job that is rank \p Index of the group.
  std::optional<int64_t> member(int64_t Index) const;
};

/// Those of one dump, whose tree must outlive it.
class FlightRecorderGroups {
public:
  using Group = FlightRecorderGroup;

  /// Reads the pg_config of \p Tree, if it has one.
  explicit FlightRecorderGroups(const DataTree &Tree);

  /// Those of pg_config, in its order.
  llvm::ArrayRef<Group> all() const { return Groups; }
  /// The group of an entry; one of no members if pg_config has no such name.
  const Group &of(DataValue Entry);
  /// Which of all() each id of pg_status is, as far as that can be told.
  std::map<int64_t, size_t> byId(llvm::ArrayRef<DataValue> StatusPairs,
                                 llvm::ArrayRef<DataValue> Entries) const;
  /// The rank that wrote the dump. Warns in \p S when it is not known, or when
  /// the name of the file says another one.
  std::optional<int64_t> findRank(llvm::ArrayRef<DataValue> Entries,
                                  Source &S);

private:
  std::vector<int64_t> members(DataValue Ranks) const;
  std::optional<int64_t> rankFromPeers(llvm::ArrayRef<DataValue> Entries);
  std::optional<std::vector<int64_t>> commonMembers() const;

  const DataTree &Tree;
  std::vector<Group> Groups;
  std::map<std::string, size_t, std::less<>> GroupByName;
  std::map<std::string, Group, std::less<>> Unconfigured;
};

} // namespace culprit

#endif // CULPRIT_READERS_FLIGHTRECORDERGROUPS_H
