//===- FlightRecorderRows.cpp -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The format is that of FlightRecorderDetail.hpp in PyTorch: a dictionary of
// version, pg_config (name -> name, desc, ranks as text), pg_status (id ->
// last_enqueued_collective, ...), entries and, sometimes, nccl_comm_state. In
// JSON the figures of pg_status are texts and a time that is not known is 0.
//
//===----------------------------------------------------------------------===//

#include "Readers/FlightRecorderRows.h"
#include "Readers/KernelRoles.h"
#include "Readers/ProcessGroups.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

using Kind = DataTree::Kind;

/// Tensors of one collective whose shapes are written out.
static constexpr size_t MaxShapes = 16;
/// Tensors of one collective that are counted: many entries may share one
/// list, and no program hands that many to a collective.
static constexpr size_t MaxTensors = 4096;
/// Members that each row of a collective repeats; of larger groups
/// process_groups alone has them.
static constexpr size_t MaxMembersListed = 256;

FlightRecorderRows::FlightRecorderRows(const DataTree &Tree, Source &Into)
    : Tree(Tree), S(Into), Frames(Tree, Into.pool()), Groups(Tree) {}

/// The text and the numbers of elements of a list of shapes. Many entries may
/// share one, so each is read once.
const FlightRecorderRows::Shapes &
FlightRecorderRows::shapes(DataValue Sizes) {
  ArrayRef<DataValue> Tensors = Tree.items(Sizes);
  if (Tensors.empty())
    return NoShapes;
  auto [It, New] = KnownShapes.try_emplace(Tree.containerIndex(Sizes));
  Shapes &Out = It->second;
  if (!New)
    return Out;
  Out.Text = "[";
  bool Whole = Tensors.size() <= MaxTensors;
  Tensors = Tensors.take_front(MaxTensors);
  for (size_t I = 0; I != Tensors.size(); ++I) {
    bool Written = I < MaxShapes;
    if (I == MaxShapes)
      Out.Text += ", ...";
    if (Written)
      Out.Text += I ? ", [" : "[";
    int64_t Elements = 1;
    // More dimensions than a tensor can have are broken bytes.
    ArrayRef<DataValue> Dims = Tree.items(Tensors[I]).take_front(64);
    for (size_t D = 0; D != Dims.size(); ++D) {
      int64_t Size = integerIn(Tree, Dims[D]).value_or(-1);
      if (Written)
        Out.Text += (D ? ", " : "") + std::to_string(Size);
      if (Size < 0 || Elements < 0 ||
          __builtin_mul_overflow(Elements, Size, &Elements))
        Elements = -1;
    }
    if (Written)
      Out.Text += "]";
    Out.Elements.push_back(Elements);
  }
  Out.Text += "]";
  if (!Whole)
    Out.Elements.clear();
  return Out;
}

/// Bytes of the tensors of \p S; none when a dtype is not known.
std::optional<int64_t> FlightRecorderRows::bytes(const Shapes &S,
                                                 DataValue Dtypes) const {
  ArrayRef<DataValue> Names = Tree.items(Dtypes);
  if (S.Elements.empty() || Names.empty())
    return std::nullopt;
  int64_t Sum = 0;
  std::optional<std::pair<StringRef, unsigned>> Last;
  for (size_t I = 0; I != S.Elements.size(); ++I) {
    StringRef Name = Tree.text(Names[std::min(I, Names.size() - 1)]);
    if (!Last || Last->first != Name)
      Last = {Name, dtypeBytes(canonicalDtype(Name))};
    int64_t Size = 0;
    if (!Last->second || S.Elements[I] < 0 ||
        __builtin_mul_overflow(S.Elements[I], int64_t(Last->second), &Size) ||
        __builtin_add_overflow(Sum, Size, &Sum))
      return std::nullopt;
  }
  return Sum;
}

void FlightRecorderRows::addOperation(TableBuilder &Row, DataValue Entry,
                                      const Group &G) {
  StringRef Name = Tree.text(Tree.find(Entry, "profiling_name"));
  StringRef Plain = Name.contains(':') ? Name.split(':').second : Name;
  Row.set(collectives::op, StringRef(collectiveName(Plain.split(' ').first)));
  auto Peers = peersOf(Plain);
  if (Peers)
    if (std::optional<int64_t> Peer = G.member(Peers->second))
      Row.set(collectives::peer, *Peer);

  // A group counts its collectives and its sends and receives apart.
  std::optional<int64_t> P2p = Tree.integer(Tree.find(Entry, "is_p2p"));
  bool Pair = P2p ? *P2p != 0 : Peers.has_value();
  std::optional<int64_t> Seq =
      integer(Entry, Pair ? "p2p_seq_id" : "collective_seq_id");
  if (!Seq)
    Seq = integer(Entry, "seq_id");
  if (!Seq)
    Seq = integer(Entry, "collective_seq_id");
  if (Seq)
    Row.set(collectives::seq, *Seq);
  StringRef State = Tree.text(Tree.find(Entry, "state"));
  if (State == "completed" || State == "started" || State == "scheduled")
    Row.set(collectives::state, State);
}

/// A time of the last centuries, in ns since 1970.
static bool isTime(std::optional<int64_t> Ns) {
  return Ns && *Ns > 0 && *Ns < int64_t(4) * 1000000000 * 1000000000;
}

void FlightRecorderRows::addTimes(TableBuilder &Row, DataValue Entry) {
  std::optional<int64_t> Created = integer(Entry, "time_created_ns"),
                         Start = integer(Entry, "time_discovered_started_ns"),
                         Stop = integer(Entry, "time_discovered_completed_ns");
  if (isTime(Start))
    Row.set(collectives::start, *Start);
  if (isTime(Stop))
    Row.set(collectives::stop, *Stop);
  if (isTime(Created))
    Row.set(collectives::enqueued, *Created);
  // The two discoveries are a poll of the watchdog apart, whatever the kernel
  // took, so their distance is no duration.
  if (std::optional<double> Ms = Tree.number(Tree.find(Entry, "duration_ms"));
      Ms && *Ms >= 0 && *Ms < 1e12)
    Row.set(collectives::dur, static_cast<int64_t>(*Ms * 1e6));
  if (std::optional<int64_t> Ms = integer(Entry, "timeout_ms");
      Ms && *Ms > 0 && *Ms < int64_t(1) << 40)
    Row.set(collectives::timeout, *Ms * 1000000);
}

void FlightRecorderRows::addTensors(TableBuilder &Row, DataValue Entry) {
  DataValue InTypes = Tree.find(Entry, "input_dtypes"),
            OutTypes = Tree.find(Entry, "output_dtypes");
  // Finding the second may move the first.
  Shapes In = shapes(Tree.find(Entry, "input_sizes"));
  Shapes Out = shapes(Tree.find(Entry, "output_sizes"));
  if (!In.Text.empty())
    Row.set(collectives::input_shapes, StringRef(In.Text));
  if (!Out.Text.empty())
    Row.set(collectives::output_shapes, StringRef(Out.Text));
  ArrayRef<DataValue> Types = Tree.items(InTypes);
  if (Types.empty())
    Types = Tree.items(OutTypes);
  if (!Types.empty() && !Tree.text(Types[0]).empty())
    Row.set(collectives::dtype, canonicalDtype(Tree.text(Types[0])));
  // The larger side is the payload: a gather's output, a scatter's input.
  std::optional<int64_t> Sent = bytes(In, InTypes), Got = bytes(Out, OutTypes);
  if (Sent || Got)
    Row.set(collectives::bytes, std::max(Sent.value_or(-1), Got.value_or(-1)));
}

void FlightRecorderRows::addEntry(DataValue Entry, int64_t Number) {
  const Group &G = Groups.of(Entry);
  TableBuilder &Row = S.table(TableId::collectives);
  Row.addRow();
  addOperation(Row, Entry, G);
  addTimes(Row, Entry);
  addTensors(Row, Entry);
  if (!G.Identity.empty())
    Row.set(collectives::group, StringRef(G.Identity));
  if (!G.Purpose.empty())
    Row.set(collectives::group_name, StringRef(G.Purpose));
  if (!G.Members.empty())
    Row.set(collectives::group_size, int64_t(G.Members.size()));
  if (!G.Members.empty() && G.Members.size() <= MaxMembersListed)
    Row.setList(collectives::members, G.Sorted);
  if (Rank)
    Row.set(collectives::rank, *Rank);
  Row.set(collectives::record, integer(Entry, "record_id").value_or(Number));
  if (StringId Stack = Frames.of(Tree.find(Entry, "frames")))
    Row.setId(collectives::frames, Stack);
  Row.set(collectives::place, Number);
}

void FlightRecorderRows::addGroup(const Group *G, DataValue Status) {
  TableBuilder &Row = S.table(TableId::process_groups);
  Row.addRow();
  if (Rank)
    Row.set(process_groups::rank, *Rank);
  if (G) {
    Row.set(process_groups::group, StringRef(G->Identity));
    if (!G->Purpose.empty())
      Row.set(process_groups::name, StringRef(G->Purpose));
    if (!G->Members.empty()) {
      Row.set(process_groups::size, int64_t(G->Members.size()));
      Row.setList(process_groups::members, G->Sorted);
    }
  }
  std::optional<int64_t> Enqueued = integer(Status, "last_enqueued_collective"),
                         Started = integer(Status, "last_started_collective"),
                         Completed =
                             integer(Status, "last_completed_collective");
  if (Enqueued)
    Row.set(process_groups::last_enqueued, *Enqueued);
  // Without timing the recorder does not look for starts and says -1, behind
  // which completed work cannot be.
  if (Started && (!Completed || *Started >= *Completed))
    Row.set(process_groups::last_started, *Started);
  if (Completed)
    Row.set(process_groups::last_completed, *Completed);
  Row.set(process_groups::place, int64_t(Row.rows() - 1));
}

void FlightRecorderRows::addGroups(DataValue Status,
                                   ArrayRef<DataValue> Entries) {
  ArrayRef<DataValue> Pairs;
  if (Tree.is(Status, Kind::Dict))
    Pairs = Tree.items(Status);
  std::map<int64_t, size_t> Known = Groups.byId(Pairs, Entries);
  std::vector<DataValue> OfGroup(Groups.all().size());
  std::vector<DataValue> Others;
  for (size_t I = 0; I + 1 < Pairs.size(); I += 2) {
    auto It = Known.end();
    if (std::optional<int64_t> Id = integerIn(Tree, Pairs[I]))
      It = Known.find(*Id);
    if (It != Known.end())
      OfGroup[It->second] = Pairs[I + 1];
    else
      Others.push_back(Pairs[I + 1]);
  }
  for (size_t I = 0; I != OfGroup.size(); ++I)
    addGroup(&Groups.all()[I], OfGroup[I]);
  // A group nobody can name still says that the rank is behind in one.
  for (DataValue Other : Others)
    addGroup(nullptr, Other);
}

void FlightRecorderRows::addRank(ArrayRef<DataValue> Entries) {
  if (!Rank)
    return;
  TableBuilder &Row = S.table(TableId::ranks);
  Row.addRow();
  Row.set(ranks::rank, *Rank);
  for (const Group &G : Groups.all())
    if (G.Purpose == "default_pg" && !G.Members.empty()) {
      Row.set(ranks::world_size, int64_t(G.Members.size()));
      break;
    }
  StringRef Backend;
  if (!Entries.empty()) {
    auto [Prefix, Op] =
        Tree.text(Tree.find(Entries[0], "profiling_name")).split(':');
    if (!Op.empty())
      Backend = Prefix;
  }
  if (Backend.empty() &&
      !Tree.text(Tree.find(Tree.root(), "nccl_version")).empty())
    Backend = "nccl";
  if (!Backend.empty())
    Row.set(ranks::backend, Backend);
  Row.set(ranks::place, int64_t(0));
}

Error FlightRecorderRows::read() {
  DataValue Root = Tree.root();
  DataValue Listed = Tree.is(Root, Kind::Dict) ? Tree.find(Root, "entries")
                                               : Root; // the earliest dumps
  if (!Tree.is(Root, Kind::Dict) && !Tree.is(Root, Kind::List))
    return failure(S.path() + ": holds no flight recorder dump",
                   "give the file that TORCH_NCCL_DEBUG_INFO_TEMP_FILE names");
  std::vector<DataValue> Entries;
  DataTree::Once Walk(Tree);
  size_t Skipped = 0;
  for (DataValue Entry : Tree.items(Listed)) {
    if (Tree.is(Entry, Kind::Dict) && !Walk.items(Entry).empty())
      Entries.push_back(Entry);
    else
      ++Skipped;
  }
  if (Skipped)
    S.warn(S.path() + ": " + Twine(Skipped) +
               (Skipped == 1 ? " entry is" : " entries are") +
               " no record of a collective and left out",
           "copy the file again");
  Rank = Groups.findRank(Entries, S);
  S.EpochNs = 0; // its times are Unix times
  S.KeepRanks = Rank.has_value();
  addRank(Entries);
  for (size_t I = 0; I != Entries.size(); ++I)
    addEntry(Entries[I], I);
  addGroups(Tree.find(Root, "pg_status"), Entries);
  return Error::success();
}

} // namespace culprit
