//===- Waits.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A rank tells of its calls twice: by records, of which only the last few
// thousand are kept, and by counters of each group, which reach as far as the
// job does. A counter of a group that also carries sends and receives counts
// those too, so counters serve only where they agree with the records.
//
// A large job has millions of records and few calls that hang: one pass finds
// those, a second one what concerns them.
//
//===----------------------------------------------------------------------===//

#include "Case/Waits.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace llvm;

namespace culprit {

namespace {

/// Every rank of a large job may hang in a call of its own.
constexpr size_t MaxRows = 1 << 22;

/// A row of collectives.
struct Call {
  int64_t Rank, Record, Seq;
  int64_t Peer, GroupSize; ///< NullInt where they are not known.
  StringId Group;
  ArrayRef<int64_t> Members;
  uint32_t Row;
  bool PointToPoint, Started, Completed;
  bool Pending; ///< Scheduled or started.

  std::pair<StringId, int64_t> id() const { return {Group, Seq}; }
};

/// A row of process_groups.
struct Counter {
  ArrayRef<int64_t> Members;
  int64_t Enqueued, Completed; ///< NullInt where they are not known.
};

/// What is known of one group.
struct Group {
  std::map<int64_t, Counter> Counters; ///< By rank.
  std::map<int64_t, int64_t> Last;     ///< By rank: its last collective.
  std::map<int64_t, int64_t> LastOfAll; ///< The same with sends and receives.
  bool PointToPoint = false;            ///< Some calls are sends or receives.
  bool Collectives = false;             ///< Some are not.
  bool Counted = false; ///< Counters count collectives alone.

  /// To be called when all calls and counters are there.
  void finish() {
    Counted = !PointToPoint;
    for (const auto &[Rank, Seq] : Last)
      if (const Counter *C = counter(Rank); C && C->Enqueued != NullInt)
        Counted &= C->Enqueued == Seq;
    if (!Counted)
      return;
    for (const auto &[Rank, C] : Counters)
      if (C.Enqueued != NullInt)
        Last.try_emplace(Rank, C.Enqueued);
  }

  const Counter *counter(int64_t Rank) const {
    auto It = Counters.find(Rank);
    return It == Counters.end() ? nullptr : &It->second;
  }
};

/// All calls of one number in a group.
struct SameCalls {
  struct Pending {
    int64_t Record;
    bool Started;
  };
  std::map<int64_t, Pending> Here;  ///< Collectives, by rank: the first.
  std::set<int64_t> Done;           ///< Ranks that completed the collective.
  std::set<int64_t> Exchanged;      ///< Those that completed a send or receive.
};

using Ranks = std::vector<int64_t>;

/// A call that hangs, with the ranks whose oldest it is.
struct Hanging {
  const Call *First;    ///< That of the lowest rank.
  Ranks Owners;         ///< In ascending order.
  const Ranks *Members; ///< Of a collective, in ascending order.
};

class Finder {
public:
  Finder(const Case &C, TableBuilder &Into) : Into(Into) {
    readCalls(C);
    readCounters(C);
    for (auto &[Id, G] : Groups)
      G.finish();
  }

  void run() {
    for (const Hanging &H : hanging()) {
      if (Into.rows() >= MaxRows)
        return;
      if (H.First->PointToPoint)
        addExchange(H);
      else
        addCollective(H);
      ++Number;
    }
  }

private:
  void readCalls(const Case &C);
  void readCounters(const Case &C);
  const Ranks *sorted(ArrayRef<int64_t> List);
  const Ranks *membersOf(const Call &Of);
  std::vector<Hanging> hanging();
  bool isPair(const Call &Of);
  bool exchanged(const Call &Of, int64_t Peer);
  StringRef peerState(const Call &Of, int64_t Peer);
  StringRef memberState(const Call &Of, int64_t Rank);
  void addCollective(const Hanging &H);
  void addExchange(const Hanging &H);
  void addRow(const Hanging &H, int64_t Rank, StringRef State);

  const Call *oldest(int64_t Rank) const {
    auto It = Oldest.find(Rank);
    return It == Oldest.end() ? nullptr : &It->second;
  }

  TableBuilder &Into;
  int64_t Number = 0;
  std::set<int64_t> Known;        ///< Ranks that left anything.
  std::map<int64_t, Call> Oldest; ///< By rank, of those pending.
  std::map<StringId, Group> Groups;
  std::map<std::pair<StringId, int64_t>, SameCalls> Same; ///< Of Oldest.
  /// Numbers of the pending sends and receives by group, rank and peer.
  std::map<std::tuple<StringId, int64_t, int64_t>, std::vector<int64_t>> Toward;
  std::set<Ranks> Lists; ///< Each list of members once.
  std::map<StringId, const Ranks *> SeenIn; ///< By group that has no list.
};

/// Calls \p Visit with each call of a flight recorder.
void eachCall(const Case &C, function_ref<void(const Call &)> Visit) {
  const Table &T = C.table(TableId::collectives);
  ArrayRef<ColumnView> Columns = T.columns();
  const StringPool &Pool = *C.pool();
  StringId Send = Pool.lookup("send"), Recv = Pool.lookup("recv"),
           Scheduled = Pool.lookup("scheduled"),
           Started = Pool.lookup("started"),
           Completed = Pool.lookup("completed");
  const ColumnView &Members = Columns[collectives::members];
  for (size_t I = 0; I != T.rows(); ++I) {
    StringId Op = Columns[collectives::op].getString(I),
             State = Columns[collectives::state].getString(I);
    Call Of;
    Of.Rank = Columns[collectives::rank].getInt(I);
    Of.Record = Columns[collectives::record].getInt(I);
    Of.Seq = Columns[collectives::seq].getInt(I);
    Of.Peer = Columns[collectives::peer].getInt(I);
    Of.GroupSize = Columns[collectives::group_size].getInt(I);
    Of.Group = Columns[collectives::group].getString(I);
    Of.Members = Members.Data->list(Members.row(I));
    Of.Row = static_cast<uint32_t>(I);
    Of.PointToPoint = Op != NullString && (Op == Send || Op == Recv);
    Of.Started = State != NullString && State == Started;
    Of.Completed = State != NullString && State == Completed;
    Of.Pending = Of.Started || (State != NullString && State == Scheduled);
    if (Of.Rank != NullInt && Of.Record != NullInt && Of.Seq != NullInt &&
        Of.Group != NullString)
      Visit(Of);
  }
}

/// Raises what \p Of has for \p Rank to at least \p Seq.
void raise(std::map<int64_t, int64_t> &Of, int64_t Rank, int64_t Seq) {
  int64_t &Last = Of.try_emplace(Rank, Seq).first->second;
  Last = std::max(Last, Seq);
}

} // namespace

void Finder::readCalls(const Case &C) {
  eachCall(C, [&](const Call &Of) {
    Known.insert(Of.Rank);
    Group &G = Groups[Of.Group];
    (Of.PointToPoint ? G.PointToPoint : G.Collectives) = true;
    raise(G.LastOfAll, Of.Rank, Of.Seq);
    if (!Of.PointToPoint)
      raise(G.Last, Of.Rank, Of.Seq);
    if (!Of.Pending)
      return;
    auto [It, New] = Oldest.try_emplace(Of.Rank, Of);
    if (Of.Record < It->second.Record)
      It->second = Of;
    if (Of.Peer != NullInt)
      Toward[{Of.Group, Of.Rank, Of.Peer}].push_back(Of.Seq);
  });
  for (const auto &[Rank, Of] : Oldest)
    Same.try_emplace(Of.id());
  eachCall(C, [&](const Call &Of) {
    auto It = Same.find(Of.id());
    if (It == Same.end())
      return;
    SameCalls &All = It->second;
    if (Of.Completed)
      (Of.PointToPoint ? All.Exchanged : All.Done).insert(Of.Rank);
    if (!Of.Pending || Of.PointToPoint)
      return;
    SameCalls::Pending &First =
        All.Here.try_emplace(Of.Rank, SameCalls::Pending{Of.Record, Of.Started})
            .first->second;
    if (Of.Record < First.Record)
      First = {Of.Record, Of.Started};
  });
}

void Finder::readCounters(const Case &C) {
  const Table &T = C.table(TableId::process_groups);
  const ColumnView &Members = T.columns()[process_groups::members];
  for (size_t I = 0; I != T.rows(); ++I) {
    int64_t Rank = T.columns()[process_groups::rank].getInt(I);
    StringId Id = T.columns()[process_groups::group].getString(I);
    // Lines of a log give counters too, but no members: a rank that only spoke
    // in a log left no dump.
    if (Rank == NullInt || Id == NullString || Members.isNull(I))
      continue;
    Known.insert(Rank);
    Groups[Id].Counters[Rank] = {
        Members.Data->list(Members.row(I)),
        T.columns()[process_groups::last_enqueued].getInt(I),
        T.columns()[process_groups::last_completed].getInt(I)};
  }
}

/// \p List in ascending order, each rank once.
const Ranks *Finder::sorted(ArrayRef<int64_t> List) {
  Ranks Out(List.begin(), List.end());
  llvm::sort(Out);
  Out.erase(std::unique(Out.begin(), Out.end()), Out.end());
  return &*Lists.insert(std::move(Out)).first;
}

/// The members of the group of a call as its rank knows them, for groups of
/// one name need not have the same; those that were seen in it where no list
/// is recorded.
const Ranks *Finder::membersOf(const Call &Of) {
  const Group &G = Groups[Of.Group];
  if (!Of.Members.empty())
    return sorted(Of.Members);
  if (const Counter *Own = G.counter(Of.Rank))
    return sorted(Own->Members);
  const Ranks *&Seen = SeenIn[Of.Group];
  if (!Seen) {
    Ranks All;
    for (const auto &[Rank, Last] : G.LastOfAll)
      All.push_back(Rank);
    for (const auto &[Rank, Own] : G.Counters)
      All.push_back(Rank);
    Seen = sorted(All);
  }
  return Seen;
}

std::vector<Hanging> Finder::hanging() {
  std::vector<Hanging> Out;
  // Only looked up, so that the order of addresses does not matter.
  std::map<std::tuple<StringId, int64_t, const Ranks *>, size_t> Made;
  for (const auto &[Rank, First] : Oldest) {
    if (First.PointToPoint) {
      Out.push_back({&First, {Rank}, nullptr});
      continue;
    }
    auto [It, New] = Made.try_emplace(
        {First.Group, First.Seq, sorted(First.Members)}, Out.size());
    if (New)
      Out.push_back({&First, {}, membersOf(First)});
    Out[It->second].Owners.push_back(Rank);
  }
  return Out;
}

void Finder::addRow(const Hanging &H, int64_t Rank, StringRef State) {
  Into.addRow();
  Into.set(waits::call, Number);
  Into.set(waits::row, static_cast<int64_t>(H.First->Row));
  Into.set(waits::rank, Rank);
  Into.set(waits::state, State);
  if (llvm::binary_search(H.Owners, Rank))
    Into.set(waits::own, static_cast<int64_t>(oldest(Rank)->Row));
}

StringRef Finder::memberState(const Call &Of, int64_t Rank) {
  const SameCalls &All = Same[Of.id()];
  const Group &G = Groups[Of.Group];
  if (!Known.count(Rank))
    return "unknown";
  if (All.Here.count(Rank)) {
    const Call *Own = oldest(Rank);
    return Own->id() == Of.id() && !Own->PointToPoint ? "waits" : "before";
  }
  const Counter *Own = G.Counted ? G.counter(Rank) : nullptr;
  if (All.Done.count(Rank) ||
      (Own && Own->Completed != NullInt && Own->Completed >= Of.Seq))
    return "done";
  // One that was called and fell out of the ring buffer says nothing.
  auto Last = G.Last.find(Rank);
  return Last != G.Last.end() && Last->second >= Of.Seq ? "called" : "absent";
}

void Finder::addCollective(const Hanging &H) {
  const Call &Of = *H.First;
  const SameCalls &All = Same[Of.id()];
  Ranks Parts; // a caller takes part, whatever its list says
  std::set_union(H.Members->begin(), H.Members->end(), H.Owners.begin(),
                 H.Owners.end(), std::back_inserter(Parts));
  for (int64_t Rank : Parts) {
    addRow(H, Rank, memberState(Of, Rank));
    Into.setBool(waits::counted, Groups[Of.Group].Counted);
    if (auto It = All.Here.find(Rank); It != All.Here.end())
      Into.setBool(waits::started, It->second.Started);
  }
}

/// Whether a group has two ranks and no collectives: both ends of a send then
/// count alike.
bool Finder::isPair(const Call &Of) {
  size_t Size = Of.GroupSize != NullInt ? static_cast<size_t>(Of.GroupSize)
                                        : membersOf(Of)->size();
  return Size == 2 && !Groups[Of.Group].Collectives;
}

/// Whether the other end of a send or receive is known to be over.
bool Finder::exchanged(const Call &Of, int64_t Peer) {
  if (!isPair(Of))
    return false;
  if (Same[Of.id()].Exchanged.count(Peer))
    return true;
  const Group &G = Groups[Of.Group];
  const Counter *Mine = G.counter(Of.Rank), *Theirs = G.counter(Peer);
  // The counter serves where it counts what the records count.
  return Mine && Theirs && Mine->Enqueued == G.LastOfAll.at(Of.Rank) &&
         Theirs->Completed != NullInt && Theirs->Completed >= Of.Seq;
}

StringRef Finder::peerState(const Call &Of, int64_t Peer) {
  if (!Known.count(Peer))
    return "unknown";
  if (exchanged(Of, Peer))
    return "done";
  auto Theirs = Toward.find({Of.Group, Peer, Of.Rank});
  if (Theirs == Toward.end())
    return "absent";
  const Call *First = oldest(Peer);
  bool Meets = First->Group == Of.Group &&
               is_contained(Theirs->second, First->Seq) &&
               (!isPair(Of) || First->Seq == Of.Seq);
  return Meets ? "waits" : "before";
}

/// Sends and receives of one sequence number run together, as a batch.
void Finder::addExchange(const Hanging &H) {
  const Call &Of = *H.First;
  std::set<int64_t> Parts{Of.Rank};
  auto It = Toward.lower_bound({Of.Group, Of.Rank, NullInt});
  for (; It != Toward.end(); ++It) {
    auto [Group, Rank, Peer] = It->first;
    if (Group != Of.Group || Rank != Of.Rank)
      break;
    if (is_contained(It->second, Of.Seq))
      Parts.insert(Peer);
  }
  for (int64_t Rank : Parts)
    addRow(H, Rank, Rank == Of.Rank ? "waits" : peerState(Of, Rank));
}

void deriveWaits(const Case &C, TableBuilder &Into) { Finder(C, Into).run(); }

} // namespace culprit
