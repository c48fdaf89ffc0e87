//===- KinetoTraceDeviceRows.cpp - Kernels and copies -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KernelRoles.h"
#include "Readers/KinetoTraceRows.h"
#include "Readers/KinetoTraceValues.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace culprit::kineto {

std::optional<int64_t> looseNumber(StringRef Text) {
  if (std::optional<int64_t> Plain = scaledDecimal(Text, 0))
    return Plain;
  size_t First = Text.find_if(isDigit);
  if (First == StringRef::npos)
    return std::nullopt;
  if (First > 0 && Text[First - 1] == '-')
    --First;
  return scaledDecimal(Text.substr(First).take_while([](char C) {
    return isDigit(C) || C == '-' || C == '.';
  }),
                       0);
}

void setList(TableBuilder &Row, unsigned Column, StringRef Text) {
  int64_t Values[3];
  unsigned Count = 0;
  if (!Text.consume_front("[") || !Text.consume_back("]"))
    return;
  while (!Text.empty() && Count != 3) {
    auto [Item, Rest] = Text.split(',');
    std::optional<int64_t> Value = scaledDecimal(Item.trim(), 0);
    if (!Value)
      return;
    Values[Count++] = *Value;
    Text = Rest;
  }
  Row.setList(Column, ArrayRef(Values, Count));
}

std::optional<SmallVector<int64_t, 0>> numberList(StringRef Text) {
  SmallVector<int64_t, 0> Values;
  if (!Text.consume_front("[") || !Text.consume_back("]"))
    return std::nullopt;
  while (!Text.trim().empty()) {
    auto [Item, Rest] = Text.split(',');
    std::optional<int64_t> Value = scaledDecimal(Item.trim(), 0);
    if (!Value)
      return std::nullopt;
    Values.push_back(*Value);
    Text = Rest;
  }
  return Values;
}

TableBuilder &RowMaker::work(const Event &E, Span S, StringId Kind,
                             const NameInfo &N) {
  TableBuilder &Row = row(TableId::gpu_work, gpu_work::place);
  Row.setId(gpu_work::kind, Kind);
  Row.setId(gpu_work::name, N.Id);
  Row.set(gpu_work::start, S.Start);
  Row.set(gpu_work::stop, S.Stop);
  Row.set(gpu_work::dur, S.Stop - S.Start);
  std::optional<int64_t> Device = E.number(Field::Device);
  set(Row, gpu_work::device, Device ? Device : looseNumber(E.text(Field::Pid)));
  set(Row, gpu_work::context, E.number(Field::Context));
  std::optional<int64_t> Stream = E.number(Field::Stream);
  set(Row, gpu_work::stream, Stream ? Stream : looseNumber(E.text(Field::Tid)));
  set(Row, gpu_work::correlation, E.number(Field::Correlation));
  set(Row, gpu_work::external, E.number(Field::External));
  // 0 is "no graph" to CUPTI.
  std::optional<int64_t> Node = E.number(Field::GraphNode);
  if (Node && *Node != 0)
    Row.set(gpu_work::graph, *Node);
  return Row;
}

void RowMaker::kernel(const Event &E, Span S) {
  const NameInfo &Name = Names.kernel(E.text(Field::Name));
  TableBuilder &Row = work(E, S, KernelText, Name);
  setList(Row, gpu_work::grid, E.text(Field::Grid));
  setList(Row, gpu_work::block, E.text(Field::Block));
  set(Row, gpu_work::registers, E.number(Field::Registers));
  set(Row, gpu_work::shared_bytes, E.number(Field::SharedBytes));
  Row.setId(gpu_work::role, Name.Role);
  if (Name.Collective || E.has(Field::Collective))
    collective(E, S, Name);
}

void RowMaker::collective(const Event &E, Span S, const NameInfo &Name) {
  CollectiveRun Run;
  if (E.has(Field::Collective))
    Run.Facts = collectiveFacts(E);
  Run.NameOp = Name.Op;
  std::optional<int64_t> Device = E.number(Field::Device);
  Run.Device = (Device ? Device : looseNumber(E.text(Field::Pid)))
                   .value_or(NullInt);
  std::optional<int64_t> Stream = E.number(Field::Stream);
  Run.Stream = (Stream ? Stream : looseNumber(E.text(Field::Tid)))
                   .value_or(NullInt);
  Run.Start = S.Start;
  Run.Stop = S.Stop;
  Run.External = E.number(Field::External).value_or(NullInt);
  Run.Correlation = E.number(Field::Correlation).value_or(NullInt);
  Run.Place = Out.Events;
  Out.Runs.push_back(std::move(Run));
}

void RowMaker::copyOrSet(const Event &E, Span S, bool IsCopy) {
  const NameInfo &Name = Names.copy(E.text(Field::Name));
  TableBuilder &Row = work(E, S, IsCopy ? CopyText : SetText, Name);
  set(Row, gpu_work::bytes, E.number(Field::Bytes));
  Row.setId(gpu_work::role, IsCopy ? CopyText : SetText);
  setId(Row, gpu_work::dst_kind, Name.Target);
  if (!IsCopy)
    return;
  setId(Row, gpu_work::src_kind, Name.Source);
  // roctracer has the direction in an argument where the name lacks it.
  StringId Kind = Name.Kind;
  if (Kind == NullString && E.has(Field::Kind))
    Kind = Names.copy(E.text(Field::Kind)).Kind;
  setId(Row, gpu_work::copy_kind, Kind);
}

void RowMaker::sync(const Event &E, Span S) {
  StringRef Kind =
      E.has(Field::SyncKind) ? E.text(Field::SyncKind) : E.text(Field::Name);
  TableBuilder &Row = row(TableId::syncs, syncs::place);
  StringRef Known = StringSwitch<StringRef>(Kind)
                        .StartsWith("Event", "event")
                        .StartsWith("Stream Wait", "stream-wait")
                        .StartsWith("Stream", "stream")
                        .StartsWith("Context", "context")
                        .Default({});
  Row.setId(syncs::kind, Known.empty() ? Names.text(Kind) : Pool.intern(Known));
  Row.set(syncs::start, S.Start);
  Row.set(syncs::stop, S.Stop);
  Row.set(syncs::dur, S.Stop - S.Start);
  set(Row, syncs::device, E.number(Field::Device));
  // A wait for the whole context has no stream: -1, or 2^32 - 1.
  std::optional<int64_t> Stream = E.number(Field::Stream);
  if (Stream && *Stream >= 0 && *Stream < UINT32_MAX)
    Row.set(syncs::stream, *Stream);
  set(Row, syncs::correlation, E.number(Field::Correlation));
  // CUPTI knows neither when it missed the record call: -1.
  auto SetKnown = [&](unsigned Column, Field F) {
    std::optional<int64_t> Value = E.number(F);
    if (Value && *Value >= 0 && *Value < UINT32_MAX)
      Row.set(Column, *Value);
  };
  SetKnown(syncs::event, Field::WaitEvent);
  SetKnown(syncs::waits_for, Field::WaitRecord);
  SetKnown(syncs::recorded_on, Field::WaitStream);
}

} // namespace culprit::kineto
