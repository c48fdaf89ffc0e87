//===- RunSort.h - Sorts what is nearly sorted ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Profilers write events in order of time, a thread, stream or rank after
/// another: by time a table is one to a few runs, and merging those takes a
/// tenth of the time of a sort that does not know.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_RUNSORT_H
#define CULPRIT_TABLE_RUNSORT_H

#include "Support/Deadline.h"
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace culprit {

/// Sorts \p Values stably by \p Less where they are a few runs, rising or
/// strictly falling; otherwise returns false, with equal values in order still.
template <typename T, typename Compare>
bool mergeRuns(std::vector<T> &Values, Compare Less) {
  constexpr size_t MostRuns = 64;
  auto Begin = Values.begin(), End = Values.end();
  std::vector<typename std::vector<T>::iterator> Bounds = {Begin};
  for (auto I = Begin; I != End; Bounds.push_back(I)) {
    if (Bounds.size() > MostRuns)
      return false;
    auto First = I++;
    if (I != End && Less(*I, *First)) {
      while (I != End && Less(*I, *std::prev(I)))
        ++I;
      std::reverse(First, I);
    }
    while (I != End && !Less(*I, *std::prev(I)))
      ++I;
  }
  // Merge neighbours until one run is left: [Bounds[K], Bounds[K + 1]).
  while (Bounds.size() > 2) {
    size_t Kept = 1;
    for (size_t K = 0; K + 1 < Bounds.size(); K += 2) {
      auto From = Bounds[K], Middle = Bounds[K + 1];
      auto To = K + 2 < Bounds.size() ? Bounds[K + 2] : Middle;
      if (Middle != To) {
        // What lies below the second run or above the first stays in place.
        auto Low = std::upper_bound(From, Middle, *Middle, Less);
        auto High = std::lower_bound(Middle, To, *std::prev(Middle), Less);
        std::inplace_merge(Low, Middle, High, Less);
      }
      Bounds[Kept++] = To;
    }
    Bounds.resize(Kept);
  }
  return true;
}

/// Sorts \p Values stably by \p Less, in pieces of a millisecond or so that
/// are merged; ends early, in some order, when the time is up.
template <typename T, typename Compare>
void sortInPieces(std::vector<T> &Values, Compare Less) {
  constexpr size_t Piece = size_t(1) << 14;
  const size_t Size = Values.size();
  auto at = [&](size_t I) {
    return Values.begin() + static_cast<std::ptrdiff_t>(std::min(I, Size));
  };
  for (size_t I = 0; I < Size; I += Piece) {
    if (Size > Piece && timeIsUp())
      return;
    std::stable_sort(at(I), at(I + Piece), Less);
  }
  for (size_t Width = Piece; Width < Size; Width *= 2)
    for (size_t I = 0; I + Width < Size; I += 2 * Width) {
      if (timeIsUp())
        return;
      std::inplace_merge(at(I), at(I + Width), at(I + 2 * Width), Less);
    }
}

/// Sorts \p Values stably by \p Less; linear where they are a few runs.
template <typename T, typename Compare>
void sortRuns(std::vector<T> &Values, Compare Less) {
  if (!mergeRuns(Values, Less))
    sortInPieces(Values, Less);
}

} // namespace culprit

#endif // CULPRIT_TABLE_RUNSORT_H
