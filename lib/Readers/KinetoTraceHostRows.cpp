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
  if (!IsPython && Name.Category != NullString)
    range(E, S, Name, NullString);
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

void RowMaker::range(const Event &E, Span S, const NameInfo &Name,
                     StringId Domain) {
  TableBuilder &Row = row(TableId::ranges, ranges::place);
  Row.setId(ranges::name, Name.Id);
  Row.setId(ranges::category,
            Name.Category != NullString ? Name.Category : AnnotationText);
  Row.set(ranges::start, S.Start);
  Row.set(ranges::stop, S.Stop);
  Row.set(ranges::dur, S.Stop - S.Start);
  set(Row, ranges::pid, looseNumber(E.text(Field::Pid)));
  set(Row, ranges::tid, looseNumber(E.text(Field::Tid)));
  setId(Row, ranges::domain, Domain);
  if (Name.Step != NullInt)
    Row.set(ranges::step, Name.Step);
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
  std::string Name = decodeString(E.text(Field::Name));
  forEachField(E.text(Field::Args), [&](StringRef Key, Slice Value) {
    double Number;
    if (Value.Text.getAsDouble(Number))
      return;
    TableBuilder &Row = row(TableId::counters, counters::place);
    // One counter may have several series; one series often has its name.
    std::string Series = decodeString(Key);
    bool Same = Series == Name || Series == "value";
    Row.set(counters::name, StringRef(Same ? Name : Name + "/" + Series));
    Row.set(counters::at, *At);
    Row.set(counters::value, Number);
    set(Row, counters::device, E.number(Field::Device));
  });
}

} // namespace culprit::kineto
