//===- KinetoTraceFinish.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceFinish.h"
#include "Readers/CollectiveOrder.h"
#include "Readers/KernelRoles.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace culprit::kineto {

namespace {

/// What the text around the event list says.
struct HeaderFacts {
  std::optional<int64_t> Rank, WorldSize, BaseTimeNs;
  std::string Backend, Host;
  struct Device {
    std::optional<int64_t> Id, Memory, Major, Minor, Multiprocessors;
    std::string Model;
  };
  std::vector<Device> Devices;
};

} // namespace

static HeaderFacts::Device deviceFacts(StringRef Object) {
  HeaderFacts::Device D;
  forEachField(Object, [&](StringRef Key, Slice Value) {
    std::optional<int64_t> Number = scaledDecimal(Value.Text, 0);
    if (Key == "id")
      D.Id = Number;
    else if (Key == "name")
      D.Model = decodeString(Value.Text);
    else if (Key == "totalGlobalMem")
      D.Memory = Number;
    else if (Key == "computeMajor")
      D.Major = Number;
    else if (Key == "computeMinor")
      D.Minor = Number;
    else if (Key == "numSms")
      D.Multiprocessors = Number;
  });
  return D;
}

/// Reads the header as far as it goes; a trace that was cut off has lost the
/// part behind the events.
static HeaderFacts headerFacts(StringRef Header) {
  HeaderFacts Facts;
  // Quotes stop the lexer, which looks for them without bounds.
  std::string Padded = Header.str() + std::string(LexerPadding, '"');
  StringRef Text = StringRef(Padded).drop_back(LexerPadding);
  Text = Text.ltrim("\xEF\xBB\xBF \t\r\n");
  forEachField(Text, [&](StringRef Key, Slice Value) {
    if (Key == "baseTimeNanoseconds") {
      Facts.BaseTimeNs = scaledDecimal(Value.Text, 0);
    } else if (Key == "host_name" || Key == "hostname") {
      Facts.Host = decodeString(Value.Text);
    } else if (Key == "distributedInfo") {
      forEachField(Value.Text, [&](StringRef Name, Slice V) {
        if (Name == "rank")
          Facts.Rank = scaledDecimal(V.Text, 0);
        else if (Name == "world_size")
          Facts.WorldSize = scaledDecimal(V.Text, 0);
        else if (Name == "backend")
          Facts.Backend = decodeString(V.Text);
      });
    } else if (Key == "deviceProperties") {
      forEachElement(Value.Text, [&](Slice V) {
        Facts.Devices.push_back(deviceFacts(V.Text));
      });
    }
  });
  return Facts;
}

static void set(TableBuilder &Row, unsigned Column,
                std::optional<int64_t> Value) {
  if (Value)
    Row.set(Column, *Value);
}

/// One row for each device that did something. A host lists all its devices
/// in the trace of every process, and the others are not this process's. A
/// trace without any work keeps them all: that none was used is a finding.
static void addDevices(const HeaderFacts &Facts, int64_t Rank, Source &Into) {
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
    Row.set(devices::place, static_cast<int64_t>(I));
  }
}

static void addRank(const HeaderFacts &Facts, int64_t Rank, Source &Into) {
  TableBuilder &Row = Into.table(TableId::ranks);
  Row.addRow();
  Row.set(ranks::rank, Rank);
  set(Row, ranks::world_size, Facts.WorldSize);
  if (!Facts.Host.empty())
    Row.set(ranks::host, StringRef(Facts.Host));
  if (!Facts.Backend.empty())
    Row.set(ranks::backend, StringRef(Facts.Backend));
  for (TableId Id : {TableId::host_calls, TableId::host_ops})
    if (TableBuilder *Host = Into.existing(Id)) {
      ArrayRef<int64_t> Pids = Host->finished(*schema(Id).find("pid")).ints();
      if (!Pids.empty() && Pids[0] != NullInt) {
        Row.set(ranks::pid, Pids[0]);
        break;
      }
    }
  Row.set(ranks::place, int64_t(0));
}

static void fillRank(int64_t Rank, Source &Into) {
  for (unsigned I = 0; I != NumTables; ++I) {
    TableId Id = static_cast<TableId>(I);
    TableBuilder *T = Into.existing(Id);
    std::optional<unsigned> Column = schema(Id).find("rank");
    if (!T || !Column || T->rows() == 0)
      continue;
    std::vector<int64_t> &Ranks = T->finished(*Column).mutableInts();
    std::fill(Ranks.begin(), Ranks.end(), Rank);
  }
}

/// Adds the Python frames that fetch a batch as ranges, except where an
/// annotation of the same fetch, or another such frame around it, is one
/// already: time inside the loader must count once.
static void addLoaderFrames(ArrayRef<LoaderFrame> Frames, Source &Into) {
  using Thread = std::pair<int64_t, int64_t>;
  std::map<Thread, std::vector<std::pair<int64_t, int64_t>>> Known;
  StringId Loader = Into.pool().intern("dataloader");
  if (TableBuilder *T =
          Frames.empty() ? nullptr : Into.existing(TableId::ranges)) {
    ArrayRef<StringId> Category = T->finished(ranges::category).strings();
    ArrayRef<int64_t> Pids = T->finished(ranges::pid).ints(),
                      Tids = T->finished(ranges::tid).ints(),
                      Starts = T->finished(ranges::start).ints(),
                      Stops = T->finished(ranges::stop).ints();
    for (size_t I = 0; I != T->rows(); ++I)
      if (Category[I] == Loader)
        Known[{Pids[I], Tids[I]}].push_back({Starts[I], Stops[I]});
  }
  for (auto &[Id, Spans] : Known)
    llvm::sort(Spans);
  std::vector<LoaderFrame> Sorted(Frames.begin(), Frames.end());
  // The outer of two nested frames first.
  llvm::stable_sort(Sorted, [](const LoaderFrame &A, const LoaderFrame &B) {
    return std::tie(A.Pid, A.Tid, A.Start, B.Stop) <
           std::tie(B.Pid, B.Tid, B.Start, A.Stop);
  });
  const LoaderFrame *Outer = nullptr;
  for (const LoaderFrame &F : Sorted) {
    if (Outer && Outer->Pid == F.Pid && Outer->Tid == F.Tid &&
        F.Start < Outer->Stop)
      continue;
    auto It = Known.find({F.Pid, F.Tid});
    if (It != Known.end()) {
      // Spans of one thread nest or follow each other, so the last one that
      // begins before the frame ends is the one that may touch it.
      auto After = llvm::lower_bound(It->second, std::pair(F.Stop, INT64_MIN));
      if (After != It->second.begin() && std::prev(After)->second > F.Start)
        continue;
    }
    Outer = &F;
    TableBuilder &Row = Into.table(TableId::ranges);
    Row.addRow();
    Row.setId(ranges::name, F.Name);
    Row.setId(ranges::category, Loader);
    Row.set(ranges::start, F.Start);
    Row.set(ranges::stop, F.Stop);
    Row.set(ranges::dur, F.Stop - F.Start);
    if (F.Pid != NullInt)
      Row.set(ranges::pid, F.Pid);
    if (F.Tid != NullInt)
      Row.set(ranges::tid, F.Tid);
    Row.set(ranges::place, F.Place);
  }
}

/// Unix time of time 0, where the file has one. Newer traces count from
/// baseTimeNanoseconds, older ones from 1970; a time base of before 1980 is
/// some other clock.
static std::optional<int64_t> epoch(const HeaderFacts &Facts, TimeBase Time) {
  constexpr int64_t Year1980 = 315532800000000000;
  auto Plausible = [](int64_t Ns) { return Ns >= Year1980 && Ns < TimeLimit; };
  if (Plausible(Time.BaseNs))
    return Time.BaseNs;
  int64_t Epoch;
  if (!Facts.BaseTimeNs || !Plausible(*Facts.BaseTimeNs) ||
      __builtin_add_overflow(*Facts.BaseTimeNs, Time.BaseNs, &Epoch) ||
      !Plausible(Epoch))
    return std::nullopt;
  return Epoch;
}

void finishTrace(StringRef Header, TimeBase Time, const TraceTotals &Totals,
                 Source &Into) {
  HeaderFacts Facts = headerFacts(Header);
  int64_t Rank = Facts.Rank.value_or(0);
  Into.EpochNs = epoch(Facts, Time);
  addLoaderFrames(Totals.Frames, Into);
  addDevices(Facts, Rank, Into);
  if (Totals.Events)
    addRank(Facts, Rank, Into);
  fillRank(Rank, Into);
  numberCollectives(Into);
}

} // namespace culprit::kineto
