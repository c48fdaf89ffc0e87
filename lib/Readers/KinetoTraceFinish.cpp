//===- KinetoTraceFinish.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceFinish.h"
#include "Readers/CollectiveOrder.h"
#include "Readers/KinetoTraceHeader.h"
#include "Readers/KinetoTraceValues.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit::kineto {

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
  if (Facts.NcclVersion.empty() || Facts.NcclVersion == "unknown")
    return;
  TableBuilder &Package = Into.table(TableId::packages);
  Package.addRow();
  Package.set(packages::name, StringRef("nccl"));
  Package.set(packages::version, StringRef(Facts.NcclVersion));
}

static void addCut(StringRef Message, int64_t Place, Source &Into) {
  if (Message.empty())
    return;
  TableBuilder &Row = Into.table(TableId::profiler_events);
  Row.addRow();
  Row.set(profiler_events::kind, StringRef("cut"));
  Row.set(profiler_events::message, Message);
  Row.set(profiler_events::place, Place);
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

void finishTrace(StringRef Header, TimeBase Time, TraceTotals Totals,
                 Source &Into) {
  HeaderFacts Facts = headerFacts(Header);
  int64_t Rank = Facts.Rank.value_or(0);
  Into.EpochNs = epoch(Facts, Time);
  Into.FileTime = {Time.BaseNs, "us"}; // what Perfetto shows as ts
  addLoaderFrames(Totals.Frames, Into);
  addDevices(Facts, Rank, Into);
  if (Totals.Events)
    addRank(Facts, Rank, Into);
  addProfilerLog(Facts, Into);
  addCut(Totals.Cut, Totals.Events, Into);
  addCollectives(std::move(Totals.Runs), std::move(Totals.Calls), Facts.Groups,
                 Rank, Into);
  fillRank(Rank, Into);
  numberCollectives(Into);
}

} // namespace culprit::kineto
