//===- Aggregate.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Aggregate.h"
#include "Support/Deadline.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "Support/Units.h"
#include "Table/Intervals.h"
#include "Table/Keys.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

namespace {

/// Which group each row of a table belongs to, NoRow for none.
struct Groups {
  const Table &T;
  ArrayRef<uint32_t> Numbers;
  size_t Count;

  template <typename Fn> void forEachRow(Fn Visit) const {
    for (size_t I = 0; I != Numbers.size(); ++I)
      if (Numbers[I] != NoRow)
        Visit(I, Numbers[I]);
  }
  /// For each group \p Join of \p Value(row) of its rows, from \p Start on,
  /// which changes nothing where it is joined; nor do rows of NullInt.
  template <typename ValueFn, typename JoinFn>
  std::vector<int64_t> folded(int64_t Start, ValueFn Value, JoinFn Join) const {
    // Where rows of one group follow each other, each would wait for the one
    // before: of few groups there are four sets.
    const bool Few = Count <= 1024;
    std::vector<int64_t> Out(Few ? 4 * Count : Count, Start);
    int64_t *Slots = Out.data();
    auto add = [&](size_t Row, size_t Slot) {
      if (int64_t V = Value(Row); V != NullInt)
        Slots[Slot] = Join(Slots[Slot], V);
    };
    if (Few)
      forEachRow([&](size_t Row, size_t Group) {
        add(Row, 4 * Group + Row % 4);
      });
    else
      forEachRow(add);
    for (size_t I = 0; Few && I != Count; ++I)
      Out[I] = Join(Join(Out[4 * I], Out[4 * I + 1]),
                    Join(Out[4 * I + 2], Out[4 * I + 3]));
    Out.resize(Count);
    return Out;
  }
  std::vector<int64_t> counts() const {
    return folded(
        0, [](size_t) { return 1; },
        [](int64_t A, int64_t B) { return A + B; });
  }
  /// Calls \p Visit(group, value) for the finite numbers of \p View.
  template <typename Fn>
  void forEachNumber(const ColumnView &View, Fn Visit) const {
    auto each = [&](auto Get) {
      forEachRow([&](size_t Row, uint32_t Group) {
        if (double Value = Get(Row); std::isfinite(Value))
          Visit(Group, Value);
      });
    };
    if (View.type() == ColumnType::Double)
      each([&](size_t Row) { return View.getDouble(Row); });
    else
      each([&](size_t Row) { return View.number(Row); });
  }
};

/// A figure as it is written.
struct Figure {
  StringRef Kind, Column;
  std::optional<double> Q; ///< Of a percentile or the median.
};

} // namespace

static ColumnRef intColumn(std::vector<int64_t> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = std::move(Values);
  return Out;
}

static ColumnRef doubleColumn(std::vector<double> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Double);
  Out->mutableDoubles() = std::move(Values);
  return Out;
}

static Expected<Figure> parseFigure(StringRef Text) {
  static const char *const Kinds[] = {"count", "distinct", "first",  "last",
                                      "max",   "mean",     "median", "min",
                                      "std",   "sum"};
  auto [Kind, Column] = Text.trim().split(' ');
  Figure Out = {Kind, Column.trim(), std::nullopt};
  double Percent;
  if (Kind == "median")
    Out.Q = 0.5;
  else if (Kind.starts_with("p") && !Kind.drop_front().getAsDouble(Percent) &&
           Percent >= 0 && Percent <= 100)
    Out.Q = Percent / 100;
  bool Known = Out.Q || is_contained(Kinds, Kind);
  if (Known && (Kind == "count" || !Out.Column.empty()))
    return Out;
  std::vector<std::string> Names(std::begin(Kinds), std::end(Kinds));
  std::string Close = Known ? "" : closestName(Kind, Names);
  return failure("'" + Text + "' is no figure of a group",
                 (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                     "write count, or sum, min, max, mean, median, std, p99, "
                     "distinct, first or last and a column: 'sum dur'");
}

/// The sum, least or largest of the integers \p View for each group.
static ColumnRef exactColumn(const Groups &G, const ColumnView &View,
                             StringRef Kind) {
  ArrayRef<int64_t> Values = View.Data->ints();
  const uint32_t *Index = View.Rows ? View.Rows->data() : nullptr;
  auto fold = [&](int64_t Start, auto Join) {
    if (Index)
      return intColumn(G.folded(
          Start, [&](size_t Row) { return Values[Index[Row]]; }, Join));
    return intColumn(G.folded(
        Start,
        [&](size_t Row) {
          __builtin_prefetch(Values.data() + Row + 128); // 16 lines ahead
          return Values[Row];
        },
        Join));
  };
  // Sums wrap, as all integers do, and are 0 for no value.
  if (Kind == "sum")
    return fold(0, [](int64_t A, int64_t B) {
      return static_cast<int64_t>(static_cast<uint64_t>(A) +
                                  static_cast<uint64_t>(B));
    });
  if (Kind == "min")
    return fold(NullInt, [](int64_t A, int64_t B) {
      return A == NullInt ? B : B == NullInt ? A : std::min(A, B);
    });
  return fold(NullInt, [](int64_t A, int64_t B) { return std::max(A, B); });
}

/// The \p Q quantile of \p View for each group.
static ColumnRef quantileColumn(const Groups &G, const ColumnView &View,
                                double Q) {
  // The finite values of each group one after another.
  std::vector<size_t> Ends(G.Count + 1);
  G.forEachNumber(View, [&](uint32_t Group, double) { ++Ends[Group + 1]; });
  for (size_t I = 1; I < Ends.size(); ++I)
    Ends[I] += Ends[I - 1];
  std::vector<double> Values(Ends.back()), Part;
  G.forEachNumber(View, [&](uint32_t Group, double Value) {
    Values[Ends[Group]++] = Value;
  });
  std::vector<double> Out(G.Count, nullDouble());
  TimeCheck Late;
  for (size_t I = 0, First = 0; I != G.Count; First = Ends[I++]) {
    if (Ends[I] == First)
      continue;
    if (Late(4 * (Ends[I] - First)))
      break;
    Part.assign(Values.begin() + static_cast<ptrdiff_t>(First),
                Values.begin() + static_cast<ptrdiff_t>(Ends[I]));
    Out[I] = quantileInPlace(Part, Q);
  }
  return doubleColumn(std::move(Out));
}

/// The sum, least, largest, mean or deviation of \p View for each group.
static ColumnRef foldedColumn(const Groups &G, const ColumnView &View,
                              StringRef Kind) {
  std::vector<double> Out(G.Count, 0);
  std::vector<size_t> Counts(G.Count);
  if (Kind == "min" || Kind == "max") {
    bool Least = Kind == "min";
    G.forEachNumber(View, [&](uint32_t Group, double Value) {
      bool First = Counts[Group]++ == 0;
      if (First || (Least ? Value < Out[Group] : Value > Out[Group]))
        Out[Group] = Value;
    });
  } else {
    G.forEachNumber(View, [&](uint32_t Group, double Value) {
      Out[Group] += Value;
      ++Counts[Group];
    });
  }
  if (Kind == "sum")
    return doubleColumn(std::move(Out));
  bool Mean = Kind == "mean" || Kind == "std";
  for (size_t I = 0; I != G.Count; ++I)
    if (Counts[I] == 0)
      Out[I] = nullDouble();
    else if (Mean)
      Out[I] /= static_cast<double>(Counts[I]);
  if (Kind != "std")
    return doubleColumn(std::move(Out));
  std::vector<double> Squares(G.Count);
  G.forEachNumber(View, [&](uint32_t Group, double Value) {
    Squares[Group] += (Value - Out[Group]) * (Value - Out[Group]);
  });
  for (size_t I = 0; I != G.Count; ++I)
    Squares[I] = Counts[I] < 2
                     ? nullDouble()
                     : std::sqrt(Squares[I] /
                                 static_cast<double>(Counts[I] - 1));
  return doubleColumn(std::move(Squares));
}

/// How many distinct values \p Name has in each group.
static Expected<ColumnRef> distinctColumn(const Groups &G, StringRef Name) {
  Expected<KeyIndex> Values = KeyIndex::make(G.T, {Name.str()});
  if (!Values)
    return Values.takeError();
  std::vector<int64_t> Out(G.Count);
  if (Values->size() == 0)
    return intColumn(std::move(Out));
  uint64_t Each = Values->size();
  WordIndex Seen(Each * G.Count, G.T.rows());
  G.forEachRow([&](size_t Row, uint32_t Group) {
    uint32_t Value = Values->numbers()[Row];
    if (Value == KeyIndex::None)
      return;
    size_t Before = Seen.size();
    Seen.add(Group * Each + Value);
    Out[Group] += Seen.size() != Before;
  });
  return intColumn(std::move(Out));
}

/// The column that \p Text, "sum dur", asks for.
static Expected<ColumnRef> figureColumn(const Groups &G, StringRef Text) {
  Expected<Figure> F = parseFigure(Text);
  if (!F)
    return F.takeError();
  if (F->Column.empty())
    return intColumn(G.counts());
  Expected<const ColumnView *> Found = G.T.column(F->Column);
  if (!Found)
    return Found.takeError();
  const ColumnView &View = **Found;
  if (F->Kind == "count") {
    std::vector<int64_t> Counts(G.Count);
    G.forEachRow([&](size_t Row, uint32_t Group) {
      Counts[Group] += !View.isNull(Row);
    });
    return intColumn(std::move(Counts));
  }
  if (F->Kind == "distinct")
    return distinctColumn(G, F->Column);
  if (F->Kind == "first" || F->Kind == "last") {
    RowIndex Rows(G.Count, NoRow);
    bool First = F->Kind == "first";
    G.forEachRow([&](size_t Row, uint32_t Group) {
      if (!First || Rows[Group] == NoRow)
        Rows[Group] = static_cast<uint32_t>(Row);
    });
    return View.taken(Rows);
  }
  if (View.type() == ColumnType::String || View.type() == ColumnType::IntList)
    return failure("column '" + F->Column + "' in '" + G.T.name() + "' is " +
                   toString(View.type()) + ", not a number");
  if (F->Q)
    return quantileColumn(G, View, *F->Q);
  if (View.type() == ColumnType::Int &&
      (F->Kind == "sum" || F->Kind == "min" || F->Kind == "max"))
    return exactColumn(G, View, F->Kind);
  return foldedColumn(G, View, F->Kind);
}

Expected<Table> aggregate(const Table &T, ArrayRef<std::string> Keys,
                          ArrayRef<NamedFigure> Figures) {
  Expected<KeyIndex> Index = KeyIndex::make(T, Keys);
  if (!Index)
    return Index.takeError();
  Expected<Table> Out = T.take(Index->firstRows().vec()).select(Keys);
  if (!Out)
    return Out.takeError();
  Groups G = {T, Index->numbers(), Index->size()};
  for (const NamedFigure &F : Figures) {
    Expected<ColumnRef> Data = figureColumn(G, F.Figure);
    if (!Data)
      return Data.takeError();
    *Out = Out->with(F.Name, std::move(*Data));
  }
  return Out;
}

Expected<Table> windowsOf(const Table &T, int64_t Width,
                          ArrayRef<NamedFigure> Figures,
                          std::optional<int64_t> First) {
  constexpr uint64_t MostWindows = 1'000'000;
  if (Width <= 0)
    return failure("a window wants a width above 0, not " + Twine(Width));
  Expected<std::vector<int64_t>> Starts = T.integers("start");
  if (!Starts)
    return Starts.takeError();
  int64_t Least = INT64_MAX, Last = INT64_MIN;
  for (int64_t Start : *Starts)
    if (Start != NullInt) {
      Least = std::min(Least, Start);
      Last = std::max(Last, Start);
    }
  int64_t From = First ? *First : Least;
  auto windowOf = [&](int64_t Start) {
    return (static_cast<uint64_t>(Start) - static_cast<uint64_t>(From)) /
           static_cast<uint64_t>(Width);
  };
  uint64_t Count = Least > Last || Last < From ? 0 : windowOf(Last) + 1;
  if (Count > MostWindows)
    return failure("there would be " + formatCount(static_cast<int64_t>(
                       std::min<uint64_t>(Count, INT64_MAX))) +
                       " windows of '" + T.name() + "'; the limit is " +
                       formatCount(MostWindows),
                   "take wider windows, or choose rows first");
  RowIndex Numbers(T.rows(), NoRow);
  for (size_t I = 0; I != Numbers.size(); ++I)
    if (int64_t Start = (*Starts)[I]; Start != NullInt && Start >= From)
      Numbers[I] = static_cast<uint32_t>(windowOf(Start));

  std::vector<int64_t> Begin(Count), End(Count);
  for (uint64_t I = 0; I != Count; ++I) {
    Begin[I] = static_cast<int64_t>(static_cast<uint64_t>(From) +
                                    I * static_cast<uint64_t>(Width));
    End[I] = static_cast<int64_t>(static_cast<uint64_t>(Begin[I]) +
                                  static_cast<uint64_t>(Width));
  }
  Table Out("windows of " + T.name(), T.pool(),
            std::vector<std::pair<std::string, ColumnRef>>{
                {"start", intColumn(std::move(Begin))},
                {"stop", intColumn(std::move(End))},
                {"dur", intColumn(std::vector<int64_t>(Count, Width))}},
            Count);
  Groups G = {T, Numbers, static_cast<size_t>(Count)};
  for (const NamedFigure &F : Figures) {
    Expected<ColumnRef> Data = F.Figure == "covered"
                                   ? overlapWith(Out, T)
                                   : figureColumn(G, F.Figure);
    if (!Data)
      return Data.takeError();
    Out = Out.with(F.Name, std::move(*Data));
  }
  return Out;
}

} // namespace culprit
