//===- Aggregate.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Aggregate.h"
#include "Support/Deadline.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "Support/Units.h"
#include "Table/GroupFolds.h"
#include "Table/IntColumn.h"
#include "Table/Intervals.h"
#include "Table/Keys.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <variant>

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

/// The column \p F of groups that takes more than a fold of integers.
static Expected<ColumnRef> figureColumn(const Groups &G, const Figure &F,
                                        const ColumnView &View) {
  if (F.Kind == "count") {
    std::vector<int64_t> Counts(G.Count);
    G.forEachRow([&](size_t Row, uint32_t Group) {
      Counts[Group] += !View.isNull(Row);
    });
    return intColumn(std::move(Counts));
  }
  if (F.Kind == "distinct")
    return distinctColumn(G, F.Column);
  if (F.Kind == "first" || F.Kind == "last") {
    RowIndex Rows(G.Count, NoRow);
    bool First = F.Kind == "first";
    G.forEachRow([&](size_t Row, uint32_t Group) {
      if (!First || Rows[Group] == NoRow)
        Rows[Group] = static_cast<uint32_t>(Row);
    });
    return View.taken(Rows);
  }
  if (View.type() == ColumnType::String || View.type() == ColumnType::IntList)
    return failure("column '" + F.Column + "' in '" + G.T.name() + "' is " +
                   toString(View.type()) + ", not a number");
  if (F.Q)
    return quantileColumn(G, View, *F.Q);
  return foldedColumn(G, View, F.Kind);
}

/// The kind of \p F where it is an exact figure of integers.
static std::optional<GroupFolds::Kind> foldOf(const Figure &F,
                                              const ColumnView *View) {
  if (!View)
    return GroupFolds::Kind::Count;
  if (View->type() != ColumnType::Int)
    return std::nullopt;
  if (F.Kind == "sum")
    return GroupFolds::Kind::Sum;
  if (F.Kind == "min")
    return GroupFolds::Kind::Min;
  if (F.Kind == "max")
    return GroupFolds::Kind::Max;
  return std::nullopt;
}

/// \p Into, a row a group, with \p Figures of the groups. A figure that
/// \p Special knows is what it returns.
static Expected<Table>
withFigures(Table Into, const Groups &G, ArrayRef<NamedFigure> Figures,
            function_ref<std::optional<Expected<ColumnRef>>(StringRef)> Special =
                [](StringRef) { return std::nullopt; }) {
  GroupFolds Folds(G.Numbers, G.Count);
  std::vector<std::variant<ColumnRef, size_t>> Columns;
  for (const NamedFigure &Named : Figures) {
    if (std::optional<Expected<ColumnRef>> Known = Special(Named.Figure)) {
      if (!*Known)
        return Known->takeError();
      Columns.push_back(std::move(**Known));
      continue;
    }
    Expected<Figure> F = parseFigure(Named.Figure);
    if (!F)
      return F.takeError();
    const ColumnView *View = nullptr;
    if (!F->Column.empty()) {
      Expected<const ColumnView *> Found = G.T.column(F->Column);
      if (!Found)
        return Found.takeError();
      View = *Found;
    }
    if (std::optional<GroupFolds::Kind> Kind = foldOf(*F, View)) {
      Columns.push_back(
          View ? Folds.add(*Kind, View->Data->ints(),
                           View->Rows ? View->Rows->data() : nullptr)
               : Folds.add(*Kind));
      continue;
    }
    Expected<ColumnRef> Data = figureColumn(G, *F, *View);
    if (!Data)
      return Data.takeError();
    Columns.push_back(std::move(*Data));
  }
  Folds.run();
  for (auto [Named, Data] : zip(Figures, Columns)) {
    if (size_t *Fold = std::get_if<size_t>(&Data))
      Data = intColumn(Folds.take(*Fold));
    Into = Into.with(Named.Name, std::get<ColumnRef>(std::move(Data)));
  }
  return Into;
}

Expected<Table> aggregate(const Table &T, ArrayRef<std::string> Keys,
                          ArrayRef<NamedFigure> Figures) {
  Expected<KeyIndex> Index = KeyIndex::make(T, Keys);
  if (!Index)
    return Index.takeError();
  Expected<Table> Out = T.take(Index->firstRows().vec()).select(Keys);
  if (!Out)
    return Out.takeError();
  return withFigures(std::move(*Out), {T, Index->numbers(), Index->size()},
                     Figures);
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
  return withFigures(
      Out, {T, Numbers, static_cast<size_t>(Count)}, Figures,
      [&](StringRef Figure) -> std::optional<Expected<ColumnRef>> {
        if (Figure == "covered")
          return overlapWith(Out, T);
        return std::nullopt;
      });
}

} // namespace culprit
