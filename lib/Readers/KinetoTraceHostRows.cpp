//===- KinetoTraceHostRows.cpp - Calls, operators, ranges -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceRows.h"
#include "Readers/KinetoTraceValues.h"

using namespace llvm;

namespace culprit::kineto {

void RowMaker::call(const Event &E, Span S) {
  const NameInfo &Name = Names.call(E.text(Field::Name));
  TableBuilder &Row = row(TableId::host_calls, host_calls::place);
  Row.setId(host_calls::name, Name.Id);
  Row.setId(host_calls::role, Name.Role);
  Row.set(host_calls::start, S.Start);
  Row.set(host_calls::stop, S.Stop);
  Row.set(host_calls::dur, S.Stop - S.Start);
  set(Row, host_calls::pid, looseNumber(E.text(Field::Pid)));
  set(Row, host_calls::tid, looseNumber(E.text(Field::Tid)));
  set(Row, host_calls::correlation, E.number(Field::Correlation));
  set(Row, host_calls::external, E.number(Field::External));
}

void RowMaker::hostOp(const Event &E, Span S, bool IsPython) {
  const NameInfo &Name = Names.host(E.text(Field::Name));
  if (!IsPython && E.has(Field::Collective))
    collectiveCall(E, S);
  if (!IsPython && Name.Category != NullString)
    range(E, S, Name);
  if (!IsPython && Name.RangeOnly)
    return;
  TableBuilder &Row = row(TableId::host_ops, host_ops::place);
  Row.setId(host_ops::name, Name.Id);
  Row.setId(host_ops::category, IsPython ? PythonText : OperatorText);
  Row.set(host_ops::start, S.Start);
  Row.set(host_ops::stop, S.Stop);
  Row.set(host_ops::dur, S.Stop - S.Start);
  std::optional<int64_t> Pid = looseNumber(E.text(Field::Pid));
  std::optional<int64_t> Tid = looseNumber(E.text(Field::Tid));
  set(Row, host_ops::pid, Pid);
  set(Row, host_ops::tid, Tid);
  if (IsPython) {
    if (Name.Loader)
      Out.Frames.push_back({Name.Id, S.Start, S.Stop, Pid.value_or(NullInt),
                            Tid.value_or(NullInt), Out.Events});
    return;
  }
  set(Row, host_ops::external, E.number(Field::External));
  if (E.has(Field::Shapes))
    Row.setId(host_ops::shapes, Names.list(E.text(Field::Shapes)));
  if (E.has(Field::Types))
    Row.setId(host_ops::dtypes, Names.list(E.text(Field::Types)));
}

void RowMaker::range(const Event &E, Span S, const NameInfo &Name) {
  TableBuilder &Row = row(TableId::ranges, ranges::place);
  Row.setId(ranges::name, Name.Id);
  Row.setId(ranges::category,
            Name.Category != NullString ? Name.Category : AnnotationText);
  Row.set(ranges::start, S.Start);
  Row.set(ranges::stop, S.Stop);
  Row.set(ranges::dur, S.Stop - S.Start);
  set(Row, ranges::pid, looseNumber(E.text(Field::Pid)));
  set(Row, ranges::tid, looseNumber(E.text(Field::Tid)));
  if (Name.Step != NullInt)
    Row.set(ranges::step, Name.Step);
  if (Name.OnHost)
    hostCollective(E, S, Name);
}

void RowMaker::collectiveCall(const Event &E, Span S) {
  CollectiveCall Call;
  Call.Facts = collectiveFacts(E);
  Call.External = E.number(Field::External).value_or(NullInt);
  Call.Pid = looseNumber(E.text(Field::Pid)).value_or(NullInt);
  Call.Tid = looseNumber(E.text(Field::Tid)).value_or(NullInt);
  Call.Start = S.Start;
  Call.Stop = S.Stop;
  Out.Calls.push_back(std::move(Call));
}

void RowMaker::hostCollective(const Event &E, Span S, const NameInfo &Name) {
  CollectiveRun Run;
  if (E.has(Field::Collective))
    Run.Facts = collectiveFacts(E);
  else if (E.has(Field::Shapes))
    Run.Facts.Shapes = Names.list(E.text(Field::Shapes));
  Run.NameOp = Name.Op;
  Run.Device = -1; // the host, as in memory_events
  Run.Pid = looseNumber(E.text(Field::Pid)).value_or(NullInt);
  Run.Tid = looseNumber(E.text(Field::Tid)).value_or(NullInt);
  Run.Start = S.Start;
  Run.Stop = S.Stop;
  Run.Place = Out.Events;
  Out.Runs.push_back(std::move(Run));
}

void RowMaker::overhead(const Event &E, Span S) {
  TableBuilder &Row = row(TableId::profiler_events, profiler_events::place);
  Row.setId(profiler_events::kind, OverheadText);
  Row.setId(profiler_events::name, Names.host(E.text(Field::Name)).Id);
  Row.set(profiler_events::start, S.Start);
  Row.set(profiler_events::stop, S.Stop);
  Row.set(profiler_events::dur, S.Stop - S.Start);
  // Process -1 stands for the profiler's own line in the picture.
  std::optional<int64_t> Pid = looseNumber(E.text(Field::Pid));
  if (Pid && *Pid >= 0) {
    Row.set(profiler_events::pid, *Pid);
    set(Row, profiler_events::tid, looseNumber(E.text(Field::Tid)));
  }
}

void RowMaker::memory(const Event &E) {
  std::optional<int64_t> At = instant(E);
  std::optional<int64_t> Bytes = E.number(Field::MemoryBytes);
  if (!At)
    return skip("its time is no number");
  if (!Bytes)
    return skip("it has no number of bytes");
  TableBuilder &Row = row(TableId::memory_events, memory_events::place);
  Row.set(memory_events::at, *At);
  Row.set(memory_events::bytes, *Bytes);
  set(Row, memory_events::address, E.number(Field::Address));
  // Device type 0 is the host, whatever its id says.
  std::optional<int64_t> Device = E.number(Field::DeviceId);
  if (E.number(Field::DeviceType) == 0)
    Device = -1;
  set(Row, memory_events::device, Device);
  set(Row, memory_events::allocated, E.number(Field::Allocated));
  set(Row, memory_events::reserved, E.number(Field::Reserved));
}

void RowMaker::counter(const Event &E) {
  std::optional<int64_t> At = instant(E);
  if (!At)
    return skip("its time is no number");
  if (!E.has(Field::Name))
    return skip("it has no name");
  counters(E, *At, decodeString(E.text(Field::Name)));
}

void RowMaker::counters(const Event &E, int64_t At, StringRef Name) {
  forEachField(E.text(Field::Args), [&](StringRef Key, Slice Value) {
    double Number;
    if (Key == "device" || Value.Text.getAsDouble(Number))
      return;
    TableBuilder &Row = row(TableId::counters, counters::place);
    // One counter may have several series; one series often has its name.
    std::string Series = decodeString(Key);
    if (Name.empty())
      Row.set(counters::name, StringRef(Series));
    else if (Series == Name || Series == "value")
      Row.set(counters::name, Name);
    else
      Row.set(counters::name, StringRef((Name + "/" + Series).str()));
    Row.set(counters::at, At);
    Row.set(counters::value, Number);
    set(Row, counters::device, E.number(Field::Device));
  });
}

} // namespace culprit::kineto
