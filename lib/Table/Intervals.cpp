//===- Intervals.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every verb is a sweep over intervals in order of start. Profilers write
// their events nearly sorted: one pass finds out, and a table in order is
// swept in place. Otherwise a copy is sorted by radix, which is several times
// faster than by comparison on millions of times that differ in their lower 40
// bits.
//
// Verbs on two tables first reduce each to its maximal covered intervals
// (Cover), disjoint and apart, so that what follows is a merge.
//
//===----------------------------------------------------------------------===//

#include "Table/Intervals.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace culprit {

namespace {

struct Interval {
  int64_t Start;
  int64_t Stop;
  uint32_t Row;

  bool empty() const { return Start == Stop; }
};

/// Inner ones later: a stack of them has the innermost on top.
bool nestsBefore(const Interval &A, const Interval &B) {
  if (A.Start != B.Start)
    return A.Start < B.Start;
  return A.Stop != B.Stop ? A.Stop > B.Stop : A.Row > B.Row;
}

/// Times may span the whole range of int64; lengths wrap instead of being
/// undefined.
int64_t length(int64_t Start, int64_t Stop) {
  return static_cast<int64_t>(static_cast<uint64_t>(Stop) -
                              static_cast<uint64_t>(Start));
}

} // namespace

/// Sorts by start, stably.
static void sortByStart(std::vector<Interval> &Values) {
  constexpr size_t RadixPays = 4096;
  if (Values.size() < RadixPays)
    return std::stable_sort(
        Values.begin(), Values.end(),
        [](const Interval &A, const Interval &B) { return A.Start < B.Start; });
  auto [Least, Most] = std::minmax_element(
      Values.begin(), Values.end(),
      [](const Interval &A, const Interval &B) { return A.Start < B.Start; });
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

namespace {

/// The rows of a table as intervals.
class Source {
public:
  static Expected<Source> of(const Table &T) {
    Expected<const ColumnView *> Start = T.column("start", ColumnType::Int);
    if (!Start)
      return Start.takeError();
    Expected<const ColumnView *> Stop = T.column("stop", ColumnType::Int);
    if (!Stop)
      return Stop.takeError();
    Source Result;
    Result.Rows = T.rows();
    Result.Starts = (*Start)->Data->ints();
    Result.Stops = (*Stop)->Data->ints();
    Result.StartRows = (*Start)->Rows.get();
    Result.StopRows = (*Stop)->Rows.get();
    return Result;
  }

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
  /// by row; with \p Nested, in the order of nestsBefore.
  template <typename Fn> void sweep(Fn Visit, bool Nested = false) const {
    if (isInOrder(Nested)) {
      Interval V;
      for (size_t I = 0; I != Rows; ++I)
        if (read(I, V) && !V.empty())
          Visit(V);
      return;
    }
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
    for (const Interval &S : Sorted)
      Visit(S);
  }

private:
  bool isInOrder(bool Nested) const {
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

  size_t Rows = 0;
  ArrayRef<int64_t> Starts, Stops;
  const RowIndex *StartRows = nullptr, *StopRows = nullptr;
};

/// What some intervals cover: disjoint, apart, in order.
struct Cover {
  std::vector<int64_t> Starts, Stops;

  size_t size() const { return Starts.size(); }
  void add(int64_t Start, int64_t Stop) {
    Starts.push_back(Start);
    Stops.push_back(Stop);
  }
};

} // namespace

static Cover coverOf(const Source &S) {
  Cover Out;
  S.sweep([&](const Interval &V) {
    // Intervals that touch cover one stretch.
    if (Out.size() == 0 || V.Start > Out.Stops.back())
      Out.add(V.Start, V.Stop);
    else if (V.Stop > Out.Stops.back())
      Out.Stops.back() = V.Stop;
  });
  return Out;
}

static ColumnRef intColumn(std::vector<int64_t> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = std::move(Values);
  return Out;
}

static std::vector<std::pair<std::string, ColumnRef>> toColumns(Cover C) {
  std::vector<int64_t> Lengths(C.size());
  for (size_t I = 0; I != C.size(); ++I)
    Lengths[I] = length(C.Starts[I], C.Stops[I]);
  std::vector<std::pair<std::string, ColumnRef>> Out;
  Out.emplace_back("start", intColumn(std::move(C.Starts)));
  Out.emplace_back("stop", intColumn(std::move(C.Stops)));
  Out.emplace_back("dur", intColumn(std::move(Lengths)));
  return Out;
}

static Table toTable(std::string Name, const Table &T, Cover C) {
  size_t Rows = C.size();
  return Table(std::move(Name), T.pool(), toColumns(std::move(C)), Rows);
}

Expected<Table> unionOf(const Table &T) {
  Expected<Source> S = Source::of(T);
  if (!S)
    return S.takeError();
  return toTable("union of " + T.name(), T, coverOf(*S));
}

Expected<Table> gapsOf(const Table &T) {
  Expected<Source> S = Source::of(T);
  if (!S)
    return S.takeError();
  Cover Gaps;
  std::vector<int64_t> Before, After;
  Interval Latest = {0, 0, 0}; // the row that ends last so far
  bool Any = false;
  S->sweep([&](const Interval &V) {
    if (Any && V.Start > Latest.Stop) {
      Gaps.add(Latest.Stop, V.Start);
      Before.push_back(Latest.Row);
      After.push_back(V.Row);
    }
    if (!Any || V.Stop > Latest.Stop ||
        (V.Stop == Latest.Stop && V.Row < Latest.Row))
      Latest = V;
    Any = true;
  });
  size_t Rows = Gaps.size();
  std::vector<std::pair<std::string, ColumnRef>> Columns =
      toColumns(std::move(Gaps));
  Columns.emplace_back("before", intColumn(std::move(Before)));
  Columns.emplace_back("after", intColumn(std::move(After)));
  return Table("gaps of " + T.name(), T.pool(), std::move(Columns), Rows);
}

Expected<Table> intersect(const Table &A, const Table &B) {
  Expected<Source> SourceA = Source::of(A);
  if (!SourceA)
    return SourceA.takeError();
  Expected<Source> SourceB = Source::of(B);
  if (!SourceB)
    return SourceB.takeError();
  Cover X = coverOf(*SourceA), Y = coverOf(*SourceB), Out;
  for (size_t I = 0, J = 0; I != X.size() && J != Y.size();) {
    int64_t Start = std::max(X.Starts[I], Y.Starts[J]);
    int64_t Stop = std::min(X.Stops[I], Y.Stops[J]);
    if (Start < Stop)
      Out.add(Start, Stop);
    if (X.Stops[I] < Y.Stops[J])
      ++I;
    else
      ++J;
  }
  return toTable(A.name() + " and " + B.name(), A, std::move(Out));
}

Expected<Table> subtract(const Table &A, const Table &B) {
  Expected<Source> SourceA = Source::of(A);
  if (!SourceA)
    return SourceA.takeError();
  Expected<Source> SourceB = Source::of(B);
  if (!SourceB)
    return SourceB.takeError();
  Cover X = coverOf(*SourceA), Y = coverOf(*SourceB), Out;
  size_t J = 0;
  for (size_t I = 0; I != X.size(); ++I) {
    int64_t From = X.Starts[I];
    while (J != Y.size() && Y.Stops[J] <= From)
      ++J;
    // The last hole may reach into the next interval too: J stays on it.
    for (size_t K = J; K != Y.size() && Y.Starts[K] < X.Stops[I]; ++K) {
      if (Y.Starts[K] > From)
        Out.add(From, Y.Starts[K]);
      From = Y.Stops[K];
      J = K;
    }
    if (From < X.Stops[I])
      Out.add(From, X.Stops[I]);
  }
  return toTable(A.name() + " without " + B.name(), A, std::move(Out));
}

/// How many of the sorted \p Values are at most \p Limit, searched outward
/// from \p Hint: neighbouring rows ask for neighbouring times.
static size_t countUpTo(ArrayRef<int64_t> Values, int64_t Limit, size_t Hint) {
  size_t Low = Hint, High = Hint, Stride = 1;
  if (Hint != Values.size() && Values[Hint] <= Limit) {
    while (High < Values.size() && Values[High] <= Limit) {
      Low = High + 1;
      High = std::min(High + Stride, Values.size());
      Stride *= 2;
    }
  } else {
    while (Low > 0 && Values[Low - 1] > Limit) {
      High = Low - 1;
      Low -= std::min(Low, Stride);
      Stride *= 2;
    }
  }
  ArrayRef<int64_t> Rest = Values.slice(Low, High - Low);
  return Low +
         (std::upper_bound(Rest.begin(), Rest.end(), Limit) - Rest.begin());
}

Expected<ColumnRef> overlapWith(const Table &A, const Table &B) {
  Expected<Source> Rows = Source::of(A);
  if (!Rows)
    return Rows.takeError();
  Expected<Source> SourceB = Source::of(B);
  if (!SourceB)
    return SourceB.takeError();
  Cover C = coverOf(*SourceB);
  // Lengths[K] is covered by the first K intervals: what lies before a time
  // is one search, and an overlap the difference of two.
  std::vector<uint64_t> Lengths(C.size() + 1);
  for (size_t I = 0; I != C.size(); ++I)
    Lengths[I + 1] = Lengths[I] + length(C.Starts[I], C.Stops[I]);
  auto coveredBefore = [&](int64_t Time, size_t Count) {
    if (Count == 0)
      return uint64_t(0);
    return Lengths[Count - 1] +
           length(C.Starts[Count - 1], std::min(Time, C.Stops[Count - 1]));
  };

  std::vector<int64_t> Out(Rows->rows(), NullInt);
  size_t First = 0;
  Interval V;
  for (size_t I = 0; I != Out.size(); ++I) {
    if (!Rows->read(I, V))
      continue;
    First = countUpTo(C.Starts, V.Start, First);
    size_t Last = countUpTo(C.Starts, V.Stop, First);
    Out[I] = static_cast<int64_t>(coveredBefore(V.Stop, Last) -
                                  coveredBefore(V.Start, First));
  }
  return intColumn(std::move(Out));
}

Expected<ColumnRef> containing(const Table &A, const Table &B) {
  Expected<const ColumnView *> Start = A.column("start", ColumnType::Int);
  if (!Start)
    return Start.takeError();
  Expected<Source> SourceB = Source::of(B);
  if (!SourceB)
    return SourceB.takeError();

  std::vector<Interval> Asked; // Stop is not used
  Asked.reserve(A.rows());
  for (size_t I = 0; I != A.rows(); ++I)
    if (int64_t At = (*Start)->getInt(I); At != NullInt)
      Asked.push_back({At, At, static_cast<uint32_t>(I)});
  auto ByStart = [](const Interval &X, const Interval &Y) {
    return X.Start < Y.Start;
  };
  if (!std::is_sorted(Asked.begin(), Asked.end(), ByStart))
    sortByStart(Asked);

  // Open intervals in order of start. One that has ended when it is on top is
  // gone for good, as later times are asked later; one that ended further down
  // shows when what covers it goes.
  std::vector<int64_t> Out(A.rows(), NullInt);
  std::vector<Interval> Open;
  size_t Next = 0;
  auto answerBefore = [&](int64_t Limit, bool All) {
    for (; Next != Asked.size() && (All || Asked[Next].Start < Limit); ++Next) {
      int64_t At = Asked[Next].Start;
      while (!Open.empty() && Open.back().Stop <= At)
        Open.pop_back();
      if (!Open.empty())
        Out[Asked[Next].Row] = Open.back().Row;
    }
  };
  SourceB->sweep(
      [&](const Interval &V) {
        answerBefore(V.Start, false);
        while (!Open.empty() && Open.back().Stop <= V.Start)
          Open.pop_back();
        Open.push_back(V);
      },
      /*Nested=*/true);
  answerBefore(0, true);
  return intColumn(std::move(Out));
}

Expected<int64_t> coveredLength(const Table &T) {
  Expected<Source> S = Source::of(T);
  if (!S)
    return S.takeError();
  uint64_t Sum = 0;
  int64_t End = INT64_MIN;
  S->sweep([&](const Interval &V) {
    if (V.Stop <= End)
      return;
    Sum += length(std::max(V.Start, End), V.Stop);
    End = V.Stop;
  });
  return static_cast<int64_t>(Sum);
}

Expected<int64_t> spanOf(const Table &T) {
  Expected<Source> S = Source::of(T);
  if (!S)
    return S.takeError();
  int64_t First = INT64_MAX, Last = INT64_MIN;
  Interval V;
  for (size_t I = 0; I != S->rows(); ++I) {
    if (!S->read(I, V) || V.empty())
      continue;
    First = std::min(First, V.Start);
    Last = std::max(Last, V.Stop);
  }
  return First > Last ? 0 : length(First, Last);
}

} // namespace culprit
