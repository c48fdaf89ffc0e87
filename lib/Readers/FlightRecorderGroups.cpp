//===- FlightRecorderGroups.cpp ---------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/FlightRecorderGroups.h"
#include "Readers/ProcessGroups.h"
#include "Readers/ScalarRows.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

using Kind = DataTree::Kind;

/// Ranks beyond this are broken bytes.
static constexpr int64_t MaxRank = 1 << 24;

/// The rank at the end of a dump's name, or behind the word "rank" in it.
static std::optional<int64_t> rankOfDumpName(StringRef Path) {
  if (std::optional<int64_t> Rank = rankOfPath(Path))
    return Rank;
  StringRef Name = sys::path::filename(Path);
  for (bool Cut = true; Cut;) {
    Cut = false;
    for (StringRef End : {".json", ".pickle", ".pkl", ".gz", ".zst", ".bin"})
      Cut |= Name.consume_back(End);
  }
  StringRef Rest = Name.rtrim("0123456789");
  int64_t Rank = 0;
  if (Name.drop_front(Rest.size()).getAsInteger(10, Rank) || Rank > MaxRank)
    return std::nullopt;
  return Rank;
}

std::optional<int64_t> integerIn(const DataTree &Tree, DataValue V) {
  if (std::optional<int64_t> Value = Tree.integer(V))
    return Value;
  int64_t Value = 0;
  if (Tree.text(V).getAsInteger(10, Value))
    return std::nullopt;
  return Value;
}

/// Global ranks out of a list, or of its text "[0, 1, 2]".
std::vector<int64_t> FlightRecorderGroups::members(DataValue Ranks) const {
  std::vector<int64_t> Out;
  auto add = [&](std::optional<int64_t> Rank) {
    if (Rank && *Rank >= 0 && *Rank <= MaxRank)
      Out.push_back(*Rank);
  };
  for (DataValue V : Tree.items(Ranks))
    add(integerIn(Tree, V));
  StringRef Text = Tree.text(Ranks).trim("[]() ");
  while (!Text.empty()) {
    auto [Number, Rest] = Text.split(',');
    int64_t Rank = -1;
    if (Number.trim().getAsInteger(10, Rank))
      return {}; // shortened: nobody knows who else is in it
    add(Rank);
    Text = Rest;
  }
  return Out;
}

FlightRecorderGroups::FlightRecorderGroups(const DataTree &Tree) : Tree(Tree) {
  DataValue Config = Tree.find(Tree.root(), "pg_config");
  ArrayRef<DataValue> Pairs = Tree.items(Config);
  if (!Tree.is(Config, Kind::Dict))
    return;
  for (size_t I = 0; I + 1 < Pairs.size(); I += 2) {
    Group G;
    DataValue Info = Pairs[I + 1];
    G.Name = Tree.text(Pairs[I]).str();
    if (std::optional<int64_t> Id = Tree.integer(Pairs[I]))
      G.Name = std::to_string(*Id);
    if (Tree.is(Info, Kind::Dict)) {
      if (StringRef Name = Tree.text(Tree.find(Info, "name")); !Name.empty())
        G.Name = Name.str();
      StringRef Purpose = Tree.text(Tree.find(Info, "desc"));
      G.Purpose = Purpose == "undefined" ? "" : Purpose.str();
      G.Members = members(Tree.find(Info, "ranks"));
    } else {
      G.Members = members(Info);
    }
    G.Sorted = G.Members;
    llvm::sort(G.Sorted);
    G.Identity = groupIdentity(G.Name, G.Sorted);
    GroupByName.try_emplace(G.Name, Groups.size());
    Groups.push_back(std::move(G));
  }
}

/// The name of the group of \p Entry: process_group is (name, purpose), in
/// version 1 only its number is told.
static std::pair<std::string, std::string> groupName(const DataTree &Tree,
                                                     DataValue Entry) {
  DataValue Named = Tree.find(Entry, "process_group");
  ArrayRef<DataValue> Parts = Tree.items(Named);
  if (!Parts.empty())
    return {Tree.text(Parts[0]).str(),
            Parts.size() > 1 ? Tree.text(Parts[1]).str() : std::string()};
  if (StringRef Name = Tree.text(Named); !Name.empty())
    return {Name.str(), ""};
  std::optional<int64_t> Id = Tree.integer(Tree.find(Entry, "pg_id"));
  return {Id ? std::to_string(*Id) : std::string(), ""};
}

const FlightRecorderGroup &FlightRecorderGroups::of(DataValue Entry) {
  auto [Name, Purpose] = groupName(Tree, Entry);
  if (auto It = GroupByName.find(Name); It != GroupByName.end())
    return Groups[It->second];
  Group &G = Unconfigured[Name];
  G.Name = G.Identity = Name;
  G.Purpose = Purpose == "undefined" ? "" : Purpose;
  return G;
}

std::optional<std::pair<int64_t, int64_t>> peersOf(StringRef Operation) {
  StringRef Pair = Operation.rsplit(' ').second;
  for (StringRef Arrow : {"->", "<-"}) {
    auto [Own, Other] = Pair.split(Arrow);
    int64_t From = 0, To = 0;
    if (!Own.getAsInteger(10, From) && !Other.getAsInteger(10, To))
      return std::make_pair(From, To);
  }
  return std::nullopt;
}

std::optional<int64_t> FlightRecorderGroup::member(int64_t Index) const {
  if (Index < 0 || Index >= int64_t(Members.size()))
    return std::nullopt;
  return Members[Index];
}

std::optional<int64_t>
FlightRecorderGroups::rankFromPeers(ArrayRef<DataValue> Entries) {
  for (DataValue Entry : Entries)
    if (auto Peers = peersOf(Tree.text(Tree.find(Entry, "profiling_name"))))
      if (std::optional<int64_t> Own = of(Entry).member(Peers->first))
        return Own;
  return std::nullopt;
}

/// Who is in all groups; none when no group's members are known. In most jobs
/// with several kinds of parallelism that is one rank.
std::optional<std::vector<int64_t>>
FlightRecorderGroups::commonMembers() const {
  std::optional<std::vector<int64_t>> Common;
  for (const Group &G : Groups) {
    if (G.Members.empty())
      continue;
    std::vector<int64_t> Both;
    if (Common)
      std::set_intersection(Common->begin(), Common->end(), G.Sorted.begin(),
                            G.Sorted.end(), std::back_inserter(Both));
    Common = Common ? Both : G.Sorted;
  }
  return Common;
}

std::optional<int64_t>
FlightRecorderGroups::findRank(ArrayRef<DataValue> Entries, Source &S) {
  if (std::optional<int64_t> Told =
          integerIn(Tree, Tree.find(Tree.root(), "rank"));
      Told && *Told >= 0 && *Told <= MaxRank)
    return Told;
  std::optional<std::vector<int64_t>> Common = commonMembers();
  std::optional<int64_t> Named = rankOfDumpName(S.path());
  std::optional<int64_t> Found = rankFromPeers(Entries);
  if (!Found && Common && Common->size() == 1)
    Found = Common->front();
  std::optional<int64_t> Rank = Found ? Found : Named;
  if (!Rank)
    S.warn(S.path() + ": it is not known which rank wrote it",
           "let its name end in the rank, as in nccl_trace_rank_9");
  else if (Named && Found && *Named != *Found)
    S.warn(S.path() + ": its name says rank " + Twine(*Named) +
               ", but its process groups are those of rank " + Twine(*Found) +
               "; taken as rank " + Twine(*Found),
           "give the file its own name back");
  else if (Named && !Found && Common && !is_contained(*Common, *Named))
    S.warn(S.path() + ": its name says rank " + Twine(*Named) +
               ", which is not in its process groups",
           "give the file its own name back");
  return Rank;
}

/// Which group of pg_config each id of pg_status is. The two sections have no
/// key in common: pg_status counts the groups of this process, pg_config has
/// names. Entries hold both. For the others: both count up in the order in
/// which the groups were made, so where there are as many ids as names, and
/// no entry speaks against it, the n-th is the n-th.
std::map<int64_t, size_t>
FlightRecorderGroups::byId(ArrayRef<DataValue> StatusPairs,
                           ArrayRef<DataValue> Entries) const {
  std::map<int64_t, size_t> Out;
  for (DataValue Entry : Entries)
    if (std::optional<int64_t> Id = integerIn(Tree, Tree.find(Entry, "pg_id")))
      if (auto It = GroupByName.find(groupName(Tree, Entry).first);
          It != GroupByName.end())
        Out.try_emplace(*Id, It->second);
  std::vector<int64_t> Ids;
  for (size_t I = 0; I + 1 < StatusPairs.size(); I += 2)
    if (std::optional<int64_t> Id = integerIn(Tree, StatusPairs[I]))
      Ids.push_back(*Id);
  std::vector<std::pair<int64_t, size_t>> Names;
  for (size_t I = 0; I != Groups.size(); ++I) {
    int64_t Number = 0;
    if (StringRef(Groups[I].Name).getAsInteger(10, Number))
      return Out;
    Names.push_back({Number, I});
  }
  if (Ids.size() != Names.size())
    return Out;
  llvm::sort(Ids);
  llvm::sort(Names);
  std::map<int64_t, size_t> Counted;
  for (size_t I = 0; I != Ids.size(); ++I)
    Counted.try_emplace(Ids[I], Names[I].second);
  for (auto [Id, Index] : Out)
    if (auto It = Counted.find(Id); It == Counted.end() || It->second != Index)
      return Out;
  return Counted;
}

} // namespace culprit
