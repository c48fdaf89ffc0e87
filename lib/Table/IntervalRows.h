//===- IntervalRows.h - The rows of a table as intervals --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What the verbs of Intervals.h sweep over: rows with a start and a stop, in
/// order of start.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_INTERVALROWS_H
#define CULPRIT_TABLE_INTERVALROWS_H

#include "Table/Table.h"

namespace culprit {

/// Half-open: \p Stop is not part of it.
struct Interval {
  int64_t Start;
  int64_t Stop;
  uint32_t Row;

  bool empty() const { return Start == Stop; }
};

/// Sorts by start, stably.
void sortByStart(std::vector<Interval> &Values);

/// The rows of a table as intervals.
class IntervalRows {
public:
  /// The rows of \p T, which must outlive this; fails without Int columns
  /// start and stop.
  static llvm::Expected<IntervalRows> of(const Table &T);

  size_t rows() const { return Rows; }

  /// Row \p I; false when it is no interval.
  bool read(size_t I, Interval &Out) const {
    Out.Start = Starts[StartRows ? (*StartRows)[I] : I];
    Out.Stop = Stops[StopRows ? (*StopRows)[I] : I];
    Out.Row = static_cast<uint32_t>(I);
    // NullInt is the least integer: a null stop is below every start.
    return Out.Start != NullInt && Out.Stop >= Out.Start;
  }

  /// Calls \p Visit for every interval that is not empty, by start and then
  /// by row; with \p Nested, outer ones first among those of one start.
  template <typename Fn> void sweep(Fn Visit, bool Nested = false) const {
    if (isInOrder(Nested)) {
      Interval V;
      for (size_t I = 0; I != Rows; ++I)
        if (read(I, V) && !V.empty())
          Visit(V);
      return;
    }
    for (const Interval &S : sorted(Nested))
      Visit(S);
  }

private:
  bool isInOrder(bool Nested) const;
  std::vector<Interval> sorted(bool Nested) const;

  size_t Rows = 0;
  llvm::ArrayRef<int64_t> Starts, Stops;
  const RowIndex *StartRows = nullptr, *StopRows = nullptr;
};

} // namespace culprit

#endif // CULPRIT_TABLE_INTERVALROWS_H
