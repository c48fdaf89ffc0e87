//===- Joins.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Joins.h"
#include "Support/Deadline.h"
#include "Support/Error.h"
#include "Support/Units.h"
#include "Table/IntervalRows.h"
#include "Table/Keys.h"
#include "Table/RunSort.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

/// A column of row numbers that no case has.
static constexpr StringLiteral RowName = "(row)";

/// The rows \p Mine of \p A beside the rows \p Theirs of \p B, NoRow for none,
/// without B's \p Keys. No \p Mine means all of A.
static Expected<Table> paired(const Table &A, std::optional<RowIndex> Mine,
                              const Table &B, ArrayRef<uint32_t> Theirs,
                              ArrayRef<std::string> Keys) {
  auto Partners = std::make_shared<Column>(ColumnType::Int);
  for (uint32_t Row : Theirs)
    Partners->addInt(Row == NoRow ? NullInt : static_cast<int64_t>(Row));
  auto Numbers = std::make_shared<Column>(ColumnType::Int);
  Numbers->mutableInts().resize(B.rows());
  std::iota(Numbers->mutableInts().begin(), Numbers->mutableInts().end(), 0);

  std::vector<std::string> Names;
  for (const ColumnView &View : B.columns())
    if (!is_contained(Keys, View.Name))
      Names.push_back(View.Name);
  Names.push_back(RowName.str());
  Expected<Table> Right = B.with(RowName, std::move(Numbers)).select(Names);
  if (!Right)
    return Right.takeError();
  Table Left = (Mine ? A.take(std::move(*Mine)) : A)
                   .with(RowName, std::move(Partners));
  Expected<Table> Out =
      Left.join(*Right, {RowName.str()}, Table::JoinKind::Left);
  if (!Out)
    return Out.takeError();
  Names.clear();
  for (const ColumnView &View : Out->columns())
    if (View.Name != RowName)
      Names.push_back(View.Name);
  return Out->select(Names);
}

namespace {

/// The rows of two tables by what they have in their keys.
struct Matching {
  RowIndex A, B; ///< For each row its number, NoRow for none.
  size_t Count = 0;
};

} // namespace

static Expected<Matching> match(const Table &A, const Table &B,
                                ArrayRef<std::string> Keys) {
  for (const std::string &Key : Keys) {
    Expected<const ColumnView *> Left = A.column(Key);
    if (!Left)
      return Left.takeError();
    const ColumnView *Right = B.find(Key);
    if (Right && (*Left)->type() != Right->type())
      return failure("key '" + Key + "' is " + toString((*Left)->type()) +
                     " in '" + A.name() + "' and " + toString(Right->type()) +
                     " in '" + B.name() + "'");
  }
  Expected<KeyIndex> Index = KeyIndex::make(B, Keys);
  if (!Index)
    return Index.takeError();
  Expected<RowIndex> First = Index->firstRowsFor(A);
  if (!First)
    return First.takeError();
  Matching Out;
  Out.B = Index->numbers().vec();
  Out.Count = Index->size();
  Out.A = std::move(*First);
  for (uint32_t &Row : Out.A)
    if (Row != NoRow)
      Row = Out.B[Row];
  return Out;
}

/// Members in their order, one group after another: group G is
/// [Ends[G - 1], Ends[G]) of what \p Of has for those in \p Values.
template <typename T, typename Fn>
static std::vector<size_t> bucket(std::vector<T> &Values, size_t Groups,
                                  Fn Of) {
  std::vector<size_t> Ends(Groups + 1);
  for (const T &Value : Values)
    ++Ends[Of(Value) + 1];
  std::partial_sum(Ends.begin(), Ends.end(), Ends.begin());
  std::vector<T> Out(Values.size());
  for (const T &Value : Values)
    Out[Ends[Of(Value)]++] = Value;
  Values.swap(Out);
  Ends.pop_back(); // each start has moved on to its end
  return Ends;
}

namespace {

template <typename T> struct Timed {
  T At;
  uint32_t Row;
};

} // namespace

static double distance(int64_t A, int64_t B) {
  return static_cast<double>(static_cast<uint64_t>(std::max(A, B)) -
                             static_cast<uint64_t>(std::min(A, B)));
}
static double distance(double A, double B) {
  return A == B ? 0 : std::fabs(A - B);
}

/// The position in \p Sorted of the row that belongs to \p At, or its size.
template <typename T>
static size_t chosen(ArrayRef<Timed<T>> Sorted, T At, AsofDirection Direction) {
  auto Later = std::upper_bound(
      Sorted.begin(), Sorted.end(), At,
      [](T Time, const Timed<T> &Row) { return Time < Row.At; });
  auto NotEarlier = std::lower_bound(
      Sorted.begin(), Sorted.end(), At,
      [](const Timed<T> &Row, T Time) { return Row.At < Time; });
  size_t None = Sorted.size();
  size_t Before = Later == Sorted.begin()
                      ? None
                      : static_cast<size_t>(Later - Sorted.begin() - 1);
  size_t After = static_cast<size_t>(NotEarlier - Sorted.begin());
  if (Direction == AsofDirection::Backward || After == None)
    return Direction == AsofDirection::Forward ? None : Before;
  if (Direction == AsofDirection::Forward || Before == None)
    return After;
  return distance(Sorted[After].At, At) < distance(At, Sorted[Before].At)
             ? After
             : Before;
}

template <typename T, typename Fn>
static RowIndex asofRows(const Matching &M, Fn ValueOfA, Fn ValueOfB,
                         AsofDirection Direction,
                         std::optional<double> Tolerance) {
  std::vector<Timed<T>> Rows;
  Rows.reserve(M.B.size());
  for (size_t I = 0; I != M.B.size(); ++I)
    if (std::optional<T> At = ValueOfB(I); At && M.B[I] != NoRow)
      Rows.push_back({*At, static_cast<uint32_t>(I)});
  auto Earlier = [](const Timed<T> &X, const Timed<T> &Y) {
    return X.At < Y.At;
  };
  sortRuns(Rows, Earlier);
  std::vector<size_t> Ends = bucket(
      Rows, M.Count, [&](const Timed<T> &Row) { return M.B[Row.Row]; });

  RowIndex Out(M.A.size(), NoRow);
  TimeCheck Late;
  for (size_t I = 0; I != M.A.size() && !Late(); ++I) {
    std::optional<T> At = ValueOfA(I);
    if (!At || M.A[I] == NoRow)
      continue;
    size_t First = M.A[I] ? Ends[M.A[I] - 1] : 0;
    auto Group = ArrayRef(Rows).slice(First, Ends[M.A[I]] - First);
    size_t Place = chosen<T>(Group, *At, Direction);
    if (Place != Group.size() &&
        (!Tolerance || distance(Group[Place].At, *At) <= *Tolerance))
      Out[I] = Group[Place].Row;
  }
  return Out;
}

Expected<Table> joinAsof(const Table &A, const Table &B, StringRef On,
                         ArrayRef<std::string> Keys, AsofDirection Direction,
                         std::optional<double> Tolerance) {
  Expected<const ColumnView *> Left = A.column(On);
  if (!Left)
    return Left.takeError();
  Expected<const ColumnView *> Right = B.column(On);
  if (!Right)
    return Right.takeError();
  auto isNumber = [](const ColumnView &View) {
    return View.type() == ColumnType::Int || View.type() == ColumnType::Double;
  };
  for (const auto &[View, T] : {std::pair(*Left, &A), {*Right, &B}})
    if (!isNumber(*View))
      return failure("column '" + On + "' in '" + T->name() + "' is " +
                     toString(View->type()) + ", not a number");
  Expected<Matching> M = match(A, B, Keys);
  if (!M)
    return M.takeError();

  RowIndex Theirs;
  if ((*Left)->type() == ColumnType::Int &&
      (*Right)->type() == ColumnType::Int) {
    auto valueOf = [](const ColumnView *View) {
      return [View](size_t I) {
        int64_t Value = View->getInt(I);
        return Value == NullInt ? std::nullopt : std::optional<int64_t>(Value);
      };
    };
    Theirs = asofRows<int64_t>(*M, valueOf(*Left), valueOf(*Right), Direction,
                               Tolerance);
  } else {
    auto valueOf = [](const ColumnView *View) {
      return [View](size_t I) {
        double Value = View->number(I); // nulls are NaN too
        return std::isnan(Value) ? std::nullopt : std::optional<double>(Value);
      };
    };
    Theirs = asofRows<double>(*M, valueOf(*Left), valueOf(*Right), Direction,
                              Tolerance);
  }
  return paired(A, std::nullopt, B, Theirs, Keys);
}

/// The intervals of \p Rows that are not empty and have a key, group by group,
/// each in order of start.
static std::vector<Interval> groupedIntervals(const IntervalRows &Rows,
                                              ArrayRef<uint32_t> Numbers,
                                              size_t Groups,
                                              std::vector<size_t> &Ends) {
  std::vector<Interval> Out;
  Rows.sweep([&](const Interval &V) {
    if (Numbers[V.Row] != NoRow)
      Out.push_back(V);
  });
  Ends = bucket(Out, Groups,
                [&](const Interval &V) { return Numbers[V.Row]; });
  return Out;
}

namespace {

struct Pair {
  uint32_t A, B;
  int64_t Overlap;
};

/// Finds the pairs of one group of intervals.
class PairFinder {
public:
  explicit PairFinder(size_t Most) : Most(Most) {}

  std::vector<Pair> Pairs;

  /// False when there are too many, or the time is up.
  bool find(ArrayRef<Interval> As, ArrayRef<Interval> Bs) {
    Open.clear();
    size_t Next = 0;
    for (const Interval &A : As) {
      // Those that began before A and go on: what ended is gone for good.
      size_t Kept = 0;
      for (const Interval &B : Open)
        if (B.Stop > A.Start)
          Open[Kept++] = B;
      Open.resize(Kept);
      for (; Next != Bs.size() && Bs[Next].Start <= A.Start; ++Next)
        if (Bs[Next].Stop > A.Start)
          Open.push_back(Bs[Next]);
      for (const Interval &B : Open)
        if (!add(A, B))
          return false;
      for (size_t I = Next; I != Bs.size() && Bs[I].Start < A.Stop; ++I)
        if (!add(A, Bs[I]))
          return false;
      if (Pairs.size() > Most || Late(1 + Open.size()))
        return false;
    }
    return true;
  }

private:
  bool add(const Interval &A, const Interval &B) {
    int64_t From = std::max(A.Start, B.Start), To = std::min(A.Stop, B.Stop);
    uint64_t Common = static_cast<uint64_t>(To) - static_cast<uint64_t>(From);
    Pairs.push_back({A.Row, B.Row, static_cast<int64_t>(Common)});
    return Pairs.size() <= Most && !Late();
  }

  size_t Most;
  std::vector<Interval> Open;
  TimeCheck Late;
};

} // namespace

Expected<Table> joinOverlapping(const Table &A, const Table &B,
                                ArrayRef<std::string> Keys, size_t MostPairs) {
  Expected<IntervalRows> RowsA = IntervalRows::of(A);
  if (!RowsA)
    return RowsA.takeError();
  Expected<IntervalRows> RowsB = IntervalRows::of(B);
  if (!RowsB)
    return RowsB.takeError();
  Expected<Matching> M = match(A, B, Keys);
  if (!M)
    return M.takeError();
  std::vector<size_t> EndsA, EndsB;
  std::vector<Interval> As = groupedIntervals(*RowsA, M->A, M->Count, EndsA);
  std::vector<Interval> Bs = groupedIntervals(*RowsB, M->B, M->Count, EndsB);

  PairFinder Finder(MostPairs);
  for (size_t G = 0; G != M->Count; ++G) {
    auto part = [G](ArrayRef<Interval> All, ArrayRef<size_t> Ends) {
      size_t First = G ? Ends[G - 1] : 0;
      return All.slice(First, Ends[G] - First);
    };
    if (Finder.find(part(As, EndsA), part(Bs, EndsB)))
      continue;
    if (Finder.Pairs.size() <= MostPairs)
      break; // the time is up
    return failure("more than " +
                       formatCount(static_cast<int64_t>(MostPairs)) +
                       " pairs of '" + A.name() + "' and '" + B.name() +
                       "' overlap",
                   "choose rows first or name keys; `overlap` and `containing` "
                   "need no pairs");
  }
  std::vector<Pair> &Pairs = Finder.Pairs;
  bucket(Pairs, A.rows(), [](const Pair &P) { return P.A; });
  RowIndex Mine, Theirs;
  auto Overlap = std::make_shared<Column>(ColumnType::Int);
  for (const Pair &P : Pairs) {
    Mine.push_back(P.A);
    Theirs.push_back(P.B);
    Overlap->addInt(P.Overlap);
  }
  Expected<Table> Out = paired(A, std::move(Mine), B, Theirs, Keys);
  if (!Out)
    return Out.takeError();
  return Out->with("overlap", std::move(Overlap));
}

} // namespace culprit
