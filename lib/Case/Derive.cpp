//===- Derive.cpp - Steps and windows; every derived table ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Derive.h"
#include "Case/MatchedCollectives.h"
#include "Case/Waits.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit {

void deriveSteps(const Case &C, TableBuilder &Into) {
  const Table &Ranges = C.table(TableId::ranges);
  const ColumnView &Category = Ranges.columns()[ranges::category];
  StringId StepId = C.pool()->lookup("step");
  std::map<int64_t, std::vector<Span>> ByRank;
  if (StepId == NullString)
    return;
  for (size_t I = 0; I != Ranges.rows(); ++I) {
    if (Category.getString(I) != StepId)
      continue;
    int64_t Start = intAt(Ranges, ranges::start, I);
    int64_t Stop = intAt(Ranges, ranges::stop, I);
    if (Start != NullInt && Stop != NullInt && Stop >= Start)
      ByRank[intAt(Ranges, ranges::rank, I)].push_back(
          {Start, Stop, static_cast<uint32_t>(I)});
  }
  for (auto &[Rank, Spans] : ByRank) {
    std::sort(Spans.begin(), Spans.end());
    for (size_t I = 0; I != Spans.size(); ++I) {
      bool First = I == 0, Last = I + 1 == Spans.size();
      bool Steady = Spans.size() >= 4   ? !First && !Last
                    : Spans.size() == 3 ? !First
                                        : true;
      int64_t Number = intAt(Ranges, ranges::step, Spans[I].Row);
      Into.addRow();
      Into.set(steps::rank, Rank);
      Into.set(steps::step,
               Number == NullInt ? static_cast<int64_t>(I) : Number);
      Into.set(steps::start, Spans[I].Start);
      Into.set(steps::stop, Spans[I].Stop);
      Into.set(steps::dur, Spans[I].Stop - Spans[I].Start);
      Into.setBool(steps::steady, Steady);
    }
  }
}

void deriveWindows(const Case &C, const ProfileIndex &Index,
                   TableBuilder &Into) {
  struct Steady {
    int64_t Start = INT64_MAX, Stop = INT64_MIN, Steps = 0;
  };
  std::map<int64_t, Steady> ByRank;
  const Table &Steps = C.table(TableId::steps);
  for (size_t I = 0; I != Steps.rows(); ++I) {
    if (Steps.columns()[steps::steady].Data->bools()[I] != 1)
      continue;
    Steady &S = ByRank[intAt(Steps, steps::rank, I)];
    S.Start = std::min(S.Start, intAt(Steps, steps::start, I));
    S.Stop = std::max(S.Stop, intAt(Steps, steps::stop, I));
    ++S.Steps;
  }
  for (const auto &[Key, Spans] : Index.work()) {
    int64_t Start = Spans.front().Start, Stop = Start;
    for (const Span &S : Spans)
      Stop = std::max(Stop, S.Stop);
    int64_t StepCount = 0;
    if (auto It = ByRank.find(Key.first); It != ByRank.end()) {
      int64_t From = Index.onDevice(Key, It->second.Start);
      int64_t To = Index.onDevice(Key, It->second.Stop);
      if (From < To && coveredInside(Spans, From, To) > 0) {
        Start = From;
        Stop = To;
        StepCount = It->second.Steps;
      }
    }
    Into.addRow();
    Into.set(windows::rank, Key.first);
    Into.set(windows::device, Key.second);
    Into.set(windows::start, Start);
    Into.set(windows::stop, Stop);
    Into.set(windows::dur, Stop - Start);
    Into.set(windows::steps, StepCount);
    Into.set(windows::busy, coveredInside(Spans, Start, Stop));
  }
}

void derive(TableId Id, const Case &C, const ProfileIndex &Index,
            TableBuilder &Into) {
  switch (Id) {
  case TableId::steps:
    return deriveSteps(C, Into);
  case TableId::windows:
    return deriveWindows(C, Index, Into);
  case TableId::gaps:
    return deriveGaps(C, Index, Into);
  case TableId::launches:
    return deriveLaunches(C, Index, Into);
  case TableId::critical_path:
    return deriveCriticalPath(C, Index, Into);
  case TableId::capture_quality:
    return deriveCaptureQuality(C, Index, Into);
  case TableId::matched_collectives:
    return deriveMatchedCollectives(C, Into);
  case TableId::waits:
    return deriveWaits(C, Into);
  default:
    llvm_unreachable("not a derived table");
  }
}

} // namespace culprit
