//===- KinetoTraceHeader.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceHeader.h"
#include "Readers/KernelRoles.h"
#include "Readers/KinetoTraceLexer.h"
#include "Readers/KinetoTraceValues.h"
#include <set>

using namespace llvm;

namespace culprit::kineto {

static HeaderFacts::Device deviceFacts(StringRef Object) {
  HeaderFacts::Device D;
  forEachField(Object, [&](StringRef Key, Slice Value) {
    std::optional<int64_t> Number = scaledDecimal(Value.Text, 0);
    if (Key == "id")
      D.Id = Number;
    else if (Key == "name")
      D.Model = decodeString(Value.Text);
    else if (Key == "uuid")
      D.Uuid = decodeString(Value.Text);
    else if (Key == "totalGlobalMem")
      D.Memory = Number;
    else if (Key == "computeMajor")
      D.Major = Number;
    else if (Key == "computeMinor")
      D.Minor = Number;
    else if (Key == "numSms")
      D.Multiprocessors = Number;
    else if (Key == "clockRate")
      D.ClockKHz = Number;
    else if (Key == "memoryClockRate")
      D.MemoryClockKHz = Number;
    else if (Key == "memoryBusWidth")
      D.MemoryBusBits = Number;
  });
  return D;
}

static ProcessGroup groupFacts(StringRef Object) {
  ProcessGroup Group;
  forEachField(Object, [&](StringRef Key, Slice Value) {
    if (Key == "pg_name")
      Group.Id = decodeString(Value.Text);
    else if (Key == "pg_desc")
      Group.Name = decodeString(Value.Text);
    else if (Key == "pg_size")
      Group.Size = scaledDecimal(Value.Text, 0).value_or(NullInt);
    else if (Key == "ranks") // a list, or one in quotes
      if (auto Ranks = numberList(Value.Text))
        Group.Members.assign(Ranks->begin(), Ranks->end());
  });
  return Group;
}

static void distributedFacts(StringRef Object, HeaderFacts &Facts) {
  forEachField(Object, [&](StringRef Key, Slice Value) {
    if (Key == "rank")
      Facts.Rank = scaledDecimal(Value.Text, 0);
    else if (Key == "world_size")
      Facts.WorldSize = scaledDecimal(Value.Text, 0);
    else if (Key == "backend")
      Facts.Backend = decodeString(Value.Text);
    else if (Key == "nccl_version")
      Facts.NcclVersion = decodeString(Value.Text);
    else if (Key == "pg_config")
      forEachElement(Value.Text, [&](Slice Group) {
        ProcessGroup Read = groupFacts(Group.Text);
        if (!Read.Id.empty())
          Facts.Groups.push_back(std::move(Read));
      });
  });
}

HeaderFacts headerFacts(StringRef Header) {
  HeaderFacts Facts;
  // Quotes stop the lexer, which looks for them without bounds.
  std::string Padded = Header.str() + std::string(LexerPadding, '"');
  StringRef Text = StringRef(Padded).drop_back(LexerPadding);
  Text = Text.ltrim("\xEF\xBB\xBF \t\r\n");
  auto Lines = [](StringRef List, std::vector<std::string> &To) {
    forEachElement(List,
                   [&](Slice V) { To.push_back(decodeString(V.Text)); });
  };
  forEachField(Text, [&](StringRef Key, Slice Value) {
    if (Key == "baseTimeNanoseconds")
      Facts.BaseTimeNs = scaledDecimal(Value.Text, 0);
    else if (Key == "host_name" || Key == "hostname")
      Facts.Host = decodeString(Value.Text);
    else if (Key == "distributedInfo")
      distributedFacts(Value.Text, Facts);
    else if (Key == "deviceProperties")
      forEachElement(Value.Text, [&](Slice V) {
        Facts.Devices.push_back(deviceFacts(V.Text));
      });
    else if (Key == "ERROR")
      Lines(Value.Text, Facts.Errors);
    else if (Key == "WARNING")
      Lines(Value.Text, Facts.Warnings);
  });
  return Facts;
}

void addDevices(const HeaderFacts &Facts, int64_t Rank, Source &Into) {
  std::set<int64_t> Used;
  if (TableBuilder *Work = Into.existing(TableId::gpu_work))
    for (int64_t Device : Work->finished(gpu_work::device).ints())
      Used.insert(Device);
  for (size_t I = 0; I != Facts.Devices.size(); ++I) {
    const HeaderFacts::Device &D = Facts.Devices[I];
    int64_t Id = D.Id.value_or(static_cast<int64_t>(I));
    if (!Used.empty() && !Used.count(Id))
      continue;
    TableBuilder &Row = Into.table(TableId::devices);
    Row.addRow();
    Row.set(devices::rank, Rank);
    Row.set(devices::device, Id);
    if (!D.Model.empty())
      Row.set(devices::model, StringRef(D.Model));
    if (StringRef Vendor = deviceVendor(D.Model); !Vendor.empty())
      Row.set(devices::vendor, Vendor);
    set(Row, devices::multiprocessors, D.Multiprocessors);
    set(Row, devices::compute_major, D.Major);
    set(Row, devices::compute_minor, D.Minor);
    set(Row, devices::memory, D.Memory);
    if (D.ClockKHz && *D.ClockKHz < INT64_MAX / 1000)
      Row.set(devices::clock, *D.ClockKHz * 1000);
    // Both edges of the clock carry a bit of each line of the bus.
    if (D.MemoryClockKHz && D.MemoryBusBits)
      Row.set(devices::bandwidth, 2e-6 * double(*D.MemoryClockKHz) *
                                      double(*D.MemoryBusBits) / 8);
    if (!D.Uuid.empty())
      Row.set(devices::uuid, StringRef(D.Uuid));
    Row.set(devices::place, static_cast<int64_t>(I));
  }
}

/// The number in "Dropped 12 activity records".
static std::optional<int64_t> droppedRecords(StringRef Line) {
  size_t At = Line.find_insensitive("dropped ");
  return At == StringRef::npos ? std::nullopt
                               : looseNumber(Line.substr(At + 8));
}

void addProfilerLog(const HeaderFacts &Facts, Source &Into) {
  int64_t Place = 0;
  auto Add = [&](StringRef Kind, StringRef Line) {
    TableBuilder &Row = Into.table(TableId::profiler_events);
    Row.addRow();
    std::optional<int64_t> Count = droppedRecords(Line);
    // It stops recording when its buffers are full.
    bool Full = Line.contains("Exceeded max");
    Row.set(profiler_events::kind, Count || Full ? StringRef("lost") : Kind);
    set(Row, profiler_events::count, Count);
    Row.set(profiler_events::message, Line);
    Row.set(profiler_events::place, Place++);
  };
  for (const std::string &Line : Facts.Errors)
    Add("error", Line);
  for (const std::string &Line : Facts.Warnings)
    Add("warning", Line);
}

} // namespace culprit::kineto
