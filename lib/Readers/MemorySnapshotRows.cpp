//===- MemorySnapshotRows.cpp -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The format is that of torch/csrc/cuda/Module.cpp and memory_snapshot.cpp:
//
//   segments       [{device, address, total_size, stream, segment_type,
//                    is_expandable, blocks [{address, size, requested_size,
//                    state, frames}]}]
//   device_traces  a list a device of [{action, addr, size, stream, frames,
//                    time_us}]; an oom has device_free for addr
//
// Before 2.1, blocks have no address and `history` [{real_size, frames}],
// newest first, for frames. The first snapshots are the segments alone.
//
//===----------------------------------------------------------------------===//

#include "Readers/MemorySnapshotRows.h"
#include "Readers/ScalarRows.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit {

using Kind = DataTree::Kind;

MemorySnapshotRows::MemorySnapshotRows(const DataTree &Tree, Source &Into)
    : Tree(Tree), S(Into), Frames(Tree, Into.pool()), Walk(Tree),
      Fields(Tree.numTexts(), Field::Unseen) {}

/// What the key \p Key means; a key is one text however often it is used.
MemorySnapshotRows::Field MemorySnapshotRows::fieldOf(DataValue Key) {
  if (!Tree.is(Key, Kind::String))
    return Field::Other;
  Field &Known = Fields[Tree.textIndex(Key)];
  if (Known == Field::Unseen)
    Known = StringSwitch<Field>(Tree.text(Key))
                .Case("action", Field::Action)
                .Cases("addr", "address", Field::Address)
                .Case("size", Field::Size)
                .Case("stream", Field::Stream)
                .Case("frames", Field::Frames)
                .Case("time_us", Field::TimeUs)
                .Case("requested_size", Field::Requested)
                .Case("state", Field::State)
                .Case("history", Field::History)
                .Case("device", Field::Device)
                .Case("total_size", Field::TotalSize)
                .Case("segment_type", Field::SegmentType)
                .Case("is_expandable", Field::Expandable)
                .Case("blocks", Field::Blocks)
                .Case("real_size", Field::RealSize)
                .Default(Field::Other);
  return Known;
}

MemorySnapshotRows::Record
MemorySnapshotRows::fields(ArrayRef<DataValue> Pairs) {
  Record Out;
  for (size_t I = 0; I + 1 < Pairs.size(); I += 2)
    Out.Values[static_cast<size_t>(fieldOf(Pairs[I]))] = Pairs[I + 1];
  return Out;
}

/// Adds the block at \p Address and returns the address behind it.
int64_t MemorySnapshotRows::addBlock(const Record &Block,
                                     const Record &Segment,
                                     StringId SegmentKind, int64_t Address) {
  TableBuilder &Row = S.table(TableId::memory_blocks);
  Row.addRow();
  auto set = [&](unsigned Column, std::optional<int64_t> Value) {
    if (Value)
      Row.set(Column, *Value);
  };
  StringRef Was = Tree.text(Block[Field::State]);
  StringRef State = StringSwitch<StringRef>(Was)
                        .Case("active_allocated", "allocated")
                        .Cases("active_awaiting_free", "active_pending_free",
                               "freeing")
                        .Case("inactive", "free")
                        .Default(Was);
  std::optional<int64_t> Size = Tree.integer(Block[Field::Size]),
                         Requested = Tree.integer(Block[Field::Requested]);
  DataValue Stack = Block[Field::Frames];
  ArrayRef<DataValue> History = Tree.items(Block[Field::History]);
  if (!History.empty() && State != "free") {
    Record Newest = fields(Tree.items(History.front()));
    Stack = Stack.isNone() ? Newest[Field::Frames] : Stack;
    Requested = Requested ? Requested : Tree.integer(Newest[Field::RealSize]);
  }
  std::optional<int64_t> Device = Tree.integer(Segment[Field::Device]);
  if (State == "allocated")
    Devices[Device.value_or(0)].Allocated +=
        Requested ? *Requested : Size.value_or(0);

  Row.set(memory_blocks::rank, Rank);
  set(memory_blocks::device, Device);
  set(memory_blocks::segment, Tree.integer(Segment[Field::Address]));
  set(memory_blocks::segment_bytes, Tree.integer(Segment[Field::TotalSize]));
  if (SegmentKind)
    Row.setId(memory_blocks::segment_kind, SegmentKind);
  set(memory_blocks::stream, Tree.integer(Segment[Field::Stream]));
  std::optional<int64_t> Told = Tree.integer(Block[Field::Address]);
  Address = Told ? *Told : Address;
  Row.set(memory_blocks::address, Address);
  set(memory_blocks::bytes, Size);
  if (State != "free")
    set(memory_blocks::requested, Requested);
  if (!State.empty())
    Row.set(memory_blocks::state, State);
  if (StringId Text = Frames.of(Stack))
    Row.setId(memory_blocks::frames, Text);
  Row.set(memory_blocks::place, BlockNumber++);
  return static_cast<int64_t>(static_cast<uint64_t>(Address) +
                              static_cast<uint64_t>(Size.value_or(0)));
}

void MemorySnapshotRows::addSegment(const Record &Segment) {
  std::optional<int64_t> Expandable = Tree.integer(Segment[Field::Expandable]);
  StringRef SegmentKind = Expandable && *Expandable
                              ? "expandable"
                              : Tree.text(Segment[Field::SegmentType]);
  StringId KindText = SegmentKind.empty()
                          ? NullString
                          : S.table(TableId::memory_blocks).intern(SegmentKind);
  int64_t Device = Tree.integer(Segment[Field::Device]).value_or(0);
  Devices[Device].Reserved +=
      Tree.integer(Segment[Field::TotalSize]).value_or(0);
  int64_t Address = Tree.integer(Segment[Field::Address]).value_or(0);
  for (DataValue Block : Walk.items(Segment[Field::Blocks]))
    if (Tree.is(Block, Kind::Dict))
      Address = addBlock(fields(Tree.items(Block)), Segment, KindText, Address);
}

MemorySnapshotRows::Event MemorySnapshotRows::event(const Record &R) {
  Event E = {NullInt, NullInt, NullInt, NullInt, 0, 0, NullString, NullString};
  StringRef Action = Tree.text(R[Field::Action]);
  std::optional<int64_t> Size = Tree.integer(R[Field::Size]);
  // Sizes that are no sizes would overflow the totals.
  if (Size && (*Size < 0 || *Size > int64_t(1) << 50))
    Size = std::nullopt;
  int64_t Bytes = Size.value_or(0);
  if (!Action.empty())
    E.Action = S.table(TableId::memory_events).intern(Action);
  if (Action == "alloc")
    E.Allocated = Bytes;
  else if (Action == "free_requested")
    E.Allocated = -Bytes;
  else if (Action == "segment_alloc" || Action == "segment_map")
    E.Reserved = Bytes;
  else if (Action == "segment_free" || Action == "segment_unmap")
    E.Reserved = -Bytes;
  bool Frees = E.Allocated < 0 || E.Reserved < 0 || Action == "free_completed";
  if (Size && Action != "snapshot")
    E.Bytes = Frees ? -Bytes : Bytes;
  if (std::optional<int64_t> Address = Tree.integer(R[Field::Address]);
      Address && Action != "snapshot")
    E.Address = *Address;
  if (std::optional<int64_t> Stream = Tree.integer(R[Field::Stream]))
    E.Stream = *Stream;
  if (std::optional<int64_t> Us = Tree.integer(R[Field::TimeUs]);
      Us && *Us > 0 && *Us < int64_t(4) * 1000000000000000)
    E.At = *Us * 1000;
  E.Frames = Frames.of(R[Field::Frames]);
  return E;
}

void MemorySnapshotRows::addTrace(ArrayRef<DataValue> Trace, int64_t Device) {
  std::vector<Event> Events;
  Events.reserve(Trace.size());
  for (DataValue V : Trace)
    if (Tree.is(V, Kind::Dict))
      Events.push_back(event(fields(Tree.items(V))));
  Totals After = Devices[Device];
  for (Event &E : reverse(Events)) {
    Totals Before = {After.Allocated - static_cast<uint64_t>(E.Allocated),
                     After.Reserved - static_cast<uint64_t>(E.Reserved)};
    E.Allocated = static_cast<int64_t>(After.Allocated);
    E.Reserved = static_cast<int64_t>(After.Reserved);
    After = Before;
  }
  TableBuilder &Row = S.table(TableId::memory_events);
  for (const Event &E : Events) {
    Row.addRow();
    Row.set(memory_events::at, E.At); // NullInt is null
    Row.set(memory_events::address, E.Address);
    Row.set(memory_events::bytes, E.Bytes);
    Row.set(memory_events::rank, Rank);
    Row.set(memory_events::device, Device);
    Row.set(memory_events::allocated, E.Allocated);
    Row.set(memory_events::reserved, E.Reserved);
    Row.set(memory_events::place, EventNumber++);
    Row.setId(memory_events::action, E.Action);
    Row.set(memory_events::stream, E.Stream);
    Row.setId(memory_events::frames, E.Frames);
  }
}

/// The allocator's settings: max_split_size, expandable_segments, ...
void MemorySnapshotRows::addSettings(DataValue Settings) {
  ArrayRef<DataValue> Pairs = Tree.items(Settings);
  if (!Tree.is(Settings, Kind::Dict))
    return;
  int64_t Place = 0;
  for (size_t I = 0; I + 1 < Pairs.size(); I += 2) {
    DataValue Value = Pairs[I + 1];
    std::string Text = Tree.text(Value).str();
    std::optional<double> Number = Tree.number(Value);
    if (Tree.is(Value, Kind::Bool))
      Text = *Number != 0 ? "true" : "false";
    else if (std::optional<int64_t> Whole = Tree.integer(Value))
      Text = std::to_string(*Whole);
    else if (Number)
      Text = std::to_string(*Number);
    if (Text.empty())
      continue;
    TableBuilder &Row = S.table(TableId::config);
    Row.addRow();
    Row.set(config::source, StringRef(S.path()));
    Row.set(config::run, StringRef(S.Run));
    Row.set(config::key, "allocator_settings." + Tree.text(Pairs[I]).str());
    Row.set(config::value, StringRef(Text));
    if (Number && !Tree.is(Value, Kind::Bool))
      Row.set(config::number, *Number);
    Row.set(config::place, Place++);
  }
}

Error MemorySnapshotRows::read() {
  DataValue Root = Tree.root();
  bool Whole = Tree.is(Root, Kind::Dict);
  if (!Whole && !Tree.is(Root, Kind::List))
    return failure(S.path() + ": holds no memory snapshot",
                   "write it with torch.cuda.memory._dump_snapshot");
  if (std::optional<int64_t> Named = rankOfPath(S.path())) {
    Rank = *Named;
    S.KeepRanks = true;
  }
  for (DataValue Segment :
       Walk.items(Whole ? Tree.find(Root, "segments") : Root))
    if (Tree.is(Segment, Kind::Dict))
      if (ArrayRef<DataValue> Pairs = Walk.items(Segment); !Pairs.empty())
        addSegment(fields(Pairs));
  int64_t Device = 0;
  for (DataValue Trace : Walk.items(Tree.find(Root, "device_traces")))
    addTrace(Walk.items(Trace), Device++);
  if (EventNumber)
    S.EpochNs = 0; // its times are Unix times
  addSettings(Tree.find(Root, "allocator_settings"));
  return Error::success();
}

} // namespace culprit
