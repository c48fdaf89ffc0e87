//===- Intervals.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Every verb is a sweep over intervals in order of start. Verbs on two tables
// first reduce each to its maximal covered intervals (Cover), disjoint and
// apart, so that what follows is a merge.
//
//===----------------------------------------------------------------------===//

#include "Table/Intervals.h"
#include "Table/IntColumn.h"
#include "Table/IntervalRows.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

namespace {

/// Times may span the whole range of int64; lengths wrap instead of being
/// undefined.
int64_t length(int64_t Start, int64_t Stop) {
  return static_cast<int64_t>(static_cast<uint64_t>(Stop) -
                              static_cast<uint64_t>(Start));
}

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

/// Sets \p Out, which is empty, to what the intervals of \p T cover.
static Error cover(const Table &T, Cover &Out) {
  Expected<IntervalRows> Rows = IntervalRows::of(T);
  if (!Rows)
    return Rows.takeError();
  Rows->sweep([&](const Interval &V) {
    // Intervals that touch cover one stretch.
    if (Out.size() == 0 || V.Start > Out.Stops.back())
      Out.add(V.Start, V.Stop);
    else if (V.Stop > Out.Stops.back())
      Out.Stops.back() = V.Stop;
  });
  return Error::success();
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
  Cover C;
  if (Error E = cover(T, C))
    return E;
  return toTable("union of " + T.name(), T, std::move(C));
}

Expected<Table> gapsOf(const Table &T) {
  Expected<IntervalRows> S = IntervalRows::of(T);
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
  Cover X, Y, Out;
  if (Error E = cover(A, X))
    return E;
  if (Error E = cover(B, Y))
    return E;
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
  Cover X, Y, Out;
  if (Error E = cover(A, X))
    return E;
  if (Error E = cover(B, Y))
    return E;
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
  Expected<IntervalRows> Rows = IntervalRows::of(A);
  if (!Rows)
    return Rows.takeError();
  Cover C;
  if (Error E = cover(B, C))
    return E;
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

Expected<ColumnRef> exposedTo(const Table &A, const Table &B) {
  Expected<ColumnRef> Covered = overlapWith(A, B);
  if (!Covered)
    return Covered.takeError();
  Expected<IntervalRows> Rows = IntervalRows::of(A);
  if (!Rows)
    return Rows.takeError();
  std::vector<int64_t> Out((*Covered)->ints().vec());
  Interval V;
  for (size_t I = 0; I != Out.size(); ++I)
    if (Rows->read(I, V))
      Out[I] = length(Out[I], length(V.Start, V.Stop));
  return intColumn(std::move(Out));
}

Expected<Table> depthOf(const Table &T) {
  Expected<IntervalRows> Rows = IntervalRows::of(T);
  if (!Rows)
    return Rows.takeError();
  std::vector<int64_t> Starts, Stops;
  Rows->sweep([&](const Interval &V) {
    Starts.push_back(V.Start);
    Stops.push_back(V.Stop);
  });
  if (!std::is_sorted(Stops.begin(), Stops.end()))
    std::sort(Stops.begin(), Stops.end());
  // At each time what ends there ends, and then what begins there begins.
  Cover Out;
  std::vector<int64_t> Depths;
  int64_t Depth = 0;
  size_t Begun = 0, Ended = 0;
  while (Ended != Stops.size()) {
    int64_t At = Stops[Ended];
    if (Begun != Starts.size())
      At = std::min(At, Starts[Begun]);
    int64_t Before = Depth;
    for (; Ended != Stops.size() && Stops[Ended] == At; ++Ended)
      --Depth;
    for (; Begun != Starts.size() && Starts[Begun] == At; ++Begun)
      ++Depth;
    bool Last = Ended == Stops.size();
    if (Before == Depth && Out.size() != 0 && !Last)
      continue; // one ends where another begins
    if (Out.size() != 0)
      Out.Stops.back() = At;
    if (!Last) {
      Out.add(At, At);
      Depths.push_back(Depth);
    }
  }
  size_t Count = Out.size();
  auto Columns = toColumns(std::move(Out));
  Columns.emplace_back("depth", intColumn(std::move(Depths)));
  return Table("depth of " + T.name(), T.pool(), std::move(Columns), Count);
}

Expected<ColumnRef> containing(const Table &A, const Table &B) {
  Expected<const ColumnView *> Start = A.column("start", ColumnType::Int);
  if (!Start)
    return Start.takeError();
  Expected<IntervalRows> SourceB = IntervalRows::of(B);
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
  Expected<IntervalRows> S = IntervalRows::of(T);
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
  Expected<IntervalRows> S = IntervalRows::of(T);
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
