//===- IntervalRows.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Profilers write their events nearly sorted: one pass finds out, and a table
// in order is swept in place. Otherwise a copy is sorted: a few runs are
// merged, and what is in no order is sorted by radix, which is several times
// faster than by comparison on millions of times that differ in their lower 40
// bits.
//
//===----------------------------------------------------------------------===//

#include "Table/IntervalRows.h"
#include "Table/RunSort.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

/// Inner ones later: a stack of them has the innermost on top.
static bool nestsBefore(const Interval &A, const Interval &B) {
  if (A.Start != B.Start)
    return A.Start < B.Start;
  return A.Stop != B.Stop ? A.Stop > B.Stop : A.Row > B.Row;
}

void sortByStart(std::vector<Interval> &Values) {
  constexpr size_t RadixPays = 4096;
  auto Before = [](const Interval &A, const Interval &B) {
    return A.Start < B.Start;
  };
  if (mergeRuns(Values, Before))
    return;
  if (Values.size() < RadixPays)
    return std::stable_sort(Values.begin(), Values.end(), Before);
  auto [Least, Most] =
      std::minmax_element(Values.begin(), Values.end(), Before);
  uint64_t Base = static_cast<uint64_t>(Least->Start);
  uint64_t Range = static_cast<uint64_t>(Most->Start) - Base;
  constexpr unsigned Bits = 11;
  std::vector<Interval> Other(Values.size());
  for (unsigned Shift = 0; Shift < 64 && Range >> Shift != 0; Shift += Bits) {
    std::array<size_t, size_t(1) << Bits> Ends = {};
    auto digit = [&](const Interval &V) {
      return ((static_cast<uint64_t>(V.Start) - Base) >> Shift) &
             (Ends.size() - 1);
    };
    for (const Interval &V : Values)
      ++Ends[digit(V)];
    size_t Sum = 0;
    for (size_t &End : Ends)
      Sum += std::exchange(End, Sum);
    for (const Interval &V : Values)
      Other[Ends[digit(V)]++] = V;
    Values.swap(Other);
  }
}

Expected<IntervalRows> IntervalRows::of(const Table &T) {
  Expected<const ColumnView *> Start = T.column("start", ColumnType::Int);
  if (!Start)
    return Start.takeError();
  Expected<const ColumnView *> Stop = T.column("stop", ColumnType::Int);
  if (!Stop)
    return Stop.takeError();
  IntervalRows Result;
  Result.Rows = T.rows();
  Result.Starts = (*Start)->Data->ints();
  Result.Stops = (*Stop)->Data->ints();
  Result.StartRows = (*Start)->Rows.get();
  Result.StopRows = (*Stop)->Rows.get();
  return Result;
}

bool IntervalRows::isInOrder(bool Nested) const {
  Interval V, Last = {INT64_MIN, INT64_MAX, UINT32_MAX};
  for (size_t I = 0; I != Rows; ++I) {
    if (!read(I, V) || V.empty())
      continue;
    if (Nested ? nestsBefore(V, Last) : V.Start < Last.Start)
      return false;
    Last = V;
  }
  return true;
}

std::vector<Interval> IntervalRows::sorted(bool Nested) const {
  std::vector<Interval> Sorted;
  Sorted.reserve(Rows);
  Interval V;
  for (size_t I = 0; I != Rows; ++I)
    if (read(I, V) && !V.empty())
      Sorted.push_back(V);
  sortByStart(Sorted);
  if (Nested)
    // Only runs of one start are still out of order.
    for (auto I = Sorted.begin(), E = Sorted.end(); I != E;) {
      auto Run = I;
      while (I != E && I->Start == Run->Start)
        ++I;
      std::sort(Run, I, nestsBefore);
    }
  return Sorted;
}

} // namespace culprit
