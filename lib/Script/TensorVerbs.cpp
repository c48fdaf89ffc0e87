//===- TensorVerbs.cpp - The values behind tensor rows ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/TensorVerbs.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

static constexpr int64_t MaxElements = 10000;
/// Elements between two looks at the clock: about a millisecond.
static constexpr int64_t PollElements = 1 << 18;

/// Whether the values of \p View were dumped, and not statistics alone.
static bool hasValues(const TensorView &View) {
  return View.Bytes.size() / sizeOf(View.Type) >=
         static_cast<size_t>(View.numel());
}

/// The tensor of row \p Row of \p T.
static Expected<const TensorView *> tensorOf(const Host &H, const Table &T,
                                             size_t Row) {
  if (T.originName() != schema(TableId::tensors).Name)
    return failure("a row of '" + T.name() + "' is no tensor",
                   "only rows of case.tensors have values");
  const TensorView &View = H.Evidence->tensor(T.originRow(Row));
  if (!hasValues(View))
    return failure("the values of this tensor were not dumped",
                   "add `data` to the needs of the detector");
  return &View;
}

Expected<TensorPair> tensorsOf(Call &C, const RowValue &Other) {
  Expected<const TensorView *> Own = tensorOf(C, C.selfRow());
  if (!Own)
    return Own.takeError();
  Expected<const TensorView *> Theirs = tensorOf(C, Other);
  if (!Theirs)
    return Theirs.takeError();
  return TensorPair{*Own, *Theirs};
}

Expected<const TensorView *> tensorOf(Call &C, const RowValue &Row) {
  return tensorOf(C.host(), *Row.T, Row.Row);
}

Error checkAxis(const TensorView &View, int64_t Axis) {
  if (Axis >= 0 && Axis < static_cast<int64_t>(View.Shape.size()))
    return Error::success();
  return failure("the tensor has " + Twine(View.Shape.size()) +
                     " axes and no axis " + Twine(Axis),
                 "axes are counted from 0");
}

Expected<int> rowValues(Call &C) {
  lua_State *L = C.state();
  int64_t First = C.integer(1, 0);
  int64_t Count = C.integer(2, MaxElements);
  if (C.failed())
    return C.error();
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  int64_t Elements = (*View)->numel();
  if (First < 0 || Count < 0)
    return failure("values() wants a first element and a count of 0 or more");
  if (C.missing(2) && Elements - First > MaxElements)
    return failure("values() would make a list of " + Twine(Elements - First) +
                       " elements; the limit is " + Twine(MaxElements),
                   "say which: row:values(0, 16)");
  if (Count > MaxElements)
    return failure("values() gives at most " + Twine(MaxElements) +
                   " elements");
  Count = std::max<int64_t>(0, std::min(Count, Elements - First));
  lua_createtable(L, static_cast<int>(Count), 0);
  bool Floating = isFloating((*View)->Type);
  for (int64_t I = 0; I != Count; ++I) {
    if (Floating)
      lua_pushnumber(L, (*View)->at(First + I));
    else
      lua_pushinteger(L, (*View)->intAt(First + I));
    lua_rawseti(L, -2, I + 1);
  }
  return 1;
}

Expected<int> rowUnravel(Call &C) {
  int64_t Index = C.integer(1);
  if (C.failed())
    return C.error();
  const RowValue &Row = C.selfRow();
  if (Row.T->originName() != schema(TableId::tensors).Name)
    return failure("a row of '" + Row.T->name() + "' is no tensor");
  const TensorView &View = C.host().Evidence->tensor(Row.T->originRow(Row.Row));
  if (Index < 0 || Index >= View.numel())
    return failure("the tensor has " + Twine(View.numel()) +
                   " elements and no element " + Twine(Index));
  std::string Text;
  for (int64_t Part : View.unravel(Index))
    Text += (Text.empty() ? "" : ", ") + std::to_string(Part);
  return C.push("[" + Text + "]");
}

Expected<int> rowCountEqual(Call &C) {
  double Value = C.number(1);
  if (C.failed())
    return C.error();
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  int64_t Count = 0;
  for (int64_t I = 0, E = (*View)->numel(); I != E; ++I) {
    Count += (*View)->at(I) == Value;
    if (I % PollElements == 0)
      if (Error Late = C.host().poll())
        return Late;
  }
  return C.push(Count);
}

Expected<int> rowDistinctValues(Call &C) {
  int64_t Limit = C.integer(1, 100000);
  if (C.failed())
    return C.error();
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  if (isFloating((*View)->Type))
    return failure("distinct_values() wants a tensor of integers");
  DenseSet<int64_t> Seen;
  for (int64_t I = 0, E = (*View)->numel(); I != E; ++I) {
    // The two largest integers are DenseSet's own marks; they count as one.
    Seen.insert(
        std::min((*View)->intAt(I), std::numeric_limits<int64_t>::max() - 2));
    if (static_cast<int64_t>(Seen.size()) >= Limit)
      break;
    if (I % PollElements == 0)
      if (Error Late = C.host().poll())
        return Late;
  }
  return C.push(static_cast<int64_t>(Seen.size()));
}

Expected<int> rowEqualShare(Call &C) {
  const RowValue &Other = C.row(1);
  int64_t Shift = C.integer(2, 0);
  std::optional<int64_t> Ignore;
  if (!C.missing(3))
    Ignore = C.integer(3);
  if (C.failed())
    return C.error();
  Expected<TensorPair> Pair = tensorsOf(C, Other);
  if (!Pair)
    return Pair.takeError();
  const TensorView &A = *Pair->Own, &B = *Pair->Other;
  if (isFloating(A.Type) || isFloating(B.Type))
    return failure("equal_share() wants tensors of integers");
  if (A.Shape != B.Shape)
    return C.pushNil();
  int64_t Elements = A.numel();
  int64_t Length = A.Shape.empty() ? 1 : A.Shape.back();
  int64_t Equal = 0, Compared = 0;
  if (Shift <= -Length || Shift >= Length)
    return C.pushNil();
  for (int64_t Line = 0; Line < Elements; Line += Length) {
    for (int64_t I = std::max<int64_t>(0, -Shift),
                 E = std::min(Length, Length - Shift);
         I != E; ++I) {
      int64_t Ours = A.intAt(Line + I);
      int64_t Theirs = B.intAt(Line + I + Shift);
      if (Ignore && (Ours == *Ignore || Theirs == *Ignore))
        continue;
      ++Compared;
      Equal += Ours == Theirs;
    }
    if (Error Late = C.host().poll())
      return Late;
  }
  if (Compared == 0)
    return C.pushNil();
  return C.push(static_cast<double>(Equal) / static_cast<double>(Compared));
}

namespace {
/// What a comparison of two tensors of one shape gives.
struct Difference {
  double RelErr = 0, MaxAbs = 0, MeanAbs = 0;
  std::optional<double> Cosine;     ///< None when a norm is 0.
  std::optional<int64_t> FirstDiff; ///< None when all are equal.
};
} // namespace

/// \p A against the reference \p B. Elements that are NaN on both sides, or
/// the same infinity, agree.
static Expected<Difference> compareTensors(const Host &H, const TensorView &A,
                                           const TensorView &B) {
  Difference Out;
  constexpr double Infinity = std::numeric_limits<double>::infinity();
  double DiffSquares = 0, Product = 0, SquaresA = 0, SquaresB = 0, SumAbs = 0;
  int64_t Finite = 0;
  for (int64_t I = 0, E = A.numel(); I != E; ++I) {
    if (I % PollElements == 0)
      if (Error Late = H.poll())
        return Late;
    double X = A.at(I), Y = B.at(I);
    bool Agree = X == Y || (std::isnan(X) && std::isnan(Y));
    if (!Agree && !Out.FirstDiff)
      Out.FirstDiff = I;
    if (!std::isfinite(X) || !std::isfinite(Y)) {
      if (!Agree)
        Out.MaxAbs = Infinity;
      continue;
    }
    double Delta = X - Y;
    ++Finite;
    DiffSquares += Delta * Delta;
    Product += X * Y;
    SquaresA += X * X;
    SquaresB += Y * Y;
    SumAbs += std::fabs(Delta);
    Out.MaxAbs = std::max(Out.MaxAbs, std::fabs(Delta));
  }
  if (Out.MaxAbs == Infinity)
    Out.RelErr = Infinity;
  else if (DiffSquares > 0)
    Out.RelErr = SquaresB > 0 ? std::sqrt(DiffSquares / SquaresB) : Infinity;
  if (Finite)
    Out.MeanAbs = SumAbs / static_cast<double>(Finite);
  if (SquaresA > 0 && SquaresB > 0)
    Out.Cosine = Product / (std::sqrt(SquaresA) * std::sqrt(SquaresB));
  return Out;
}

Expected<int> rowCompare(Call &C) {
  lua_State *L = C.state();
  const RowValue &Reference = C.row(1);
  if (C.failed())
    return C.error();
  Expected<TensorPair> Pair = tensorsOf(C, Reference);
  if (!Pair)
    return Pair.takeError();
  const TensorView &A = *Pair->Own, &B = *Pair->Other;
  if (A.Shape != B.Shape)
    return C.pushNil();
  Expected<Difference> D = compareTensors(C.host(), A, B);
  if (!D)
    return D.takeError();
  lua_createtable(L, 0, 5);
  auto Set = [&](const char *Name, double Value) {
    lua_pushnumber(L, Value);
    lua_setfield(L, -2, Name);
  };
  Set("rel_err", D->RelErr);
  Set("max_abs", D->MaxAbs);
  Set("mean_abs", D->MeanAbs);
  if (D->Cosine)
    Set("cosine", *D->Cosine);
  if (D->FirstDiff) {
    lua_pushinteger(L, *D->FirstDiff);
    lua_setfield(L, -2, "first_diff");
  }
  return 1;
}

/// The rows of both sides that agree on the keys, as row numbers of \p A and
/// origin rows of \p B.
static Expected<std::pair<Table, std::vector<int64_t>>>
partners(const Table &A, const Table &B, ArrayRef<std::string> Keys) {
  static constexpr StringLiteral Partner = "(partner)";
  auto Rows = std::make_shared<Column>(ColumnType::Int);
  for (size_t I = 0; I != B.rows(); ++I)
    Rows->addInt(static_cast<int64_t>(B.originRow(I)));
  std::vector<std::string> Wanted = Keys.vec();
  Wanted.push_back(Partner.str());
  Expected<Table> Right = B.with(Partner, std::move(Rows)).select(Wanted);
  if (!Right)
    return Right.takeError();
  Expected<Table> Joined = A.join(*Right, Keys, Table::JoinKind::Inner);
  if (!Joined)
    return Joined.takeError();
  Expected<std::vector<int64_t>> Numbers = Joined->integers(Partner);
  if (!Numbers)
    return Numbers.takeError();
  std::vector<std::string> Names;
  for (const ColumnView &View : A.columns())
    Names.push_back(View.Name);
  Expected<Table> Left = Joined->select(Names);
  if (!Left)
    return Left.takeError();
  return std::make_pair(std::move(*Left), std::move(*Numbers));
}

Expected<int> tableCompare(Call &C) {
  const Table &Other = C.table(1);
  std::vector<std::string> Keys = C.textList(2);
  if (C.failed())
    return C.error();
  for (const Table *T : {&C.self(), &Other})
    if (T->originName() != schema(TableId::tensors).Name)
      return failure("compare() wants rows of case.tensors, not of '" +
                     T->name() + "'");
  auto Pairs = partners(C.self(), Other, Keys);
  if (!Pairs)
    return Pairs.takeError();
  Table Out = std::move(Pairs->first);

  auto Numbers = [] { return std::make_shared<Column>(ColumnType::Double); };
  auto RelErr = Numbers(), MaxAbs = Numbers(), MeanAbs = Numbers(),
       Cosine = Numbers();
  auto FirstDiff = std::make_shared<Column>(ColumnType::Int);
  auto Reference = std::make_shared<Column>(ColumnType::Int);
  auto Shapes = std::make_shared<Column>(ColumnType::Bool);
  for (size_t I = 0; I != Out.rows(); ++I) {
    const TensorView &A = C.host().Evidence->tensor(Out.originRow(I));
    size_t Partner = static_cast<size_t>(Pairs->second[I]);
    const TensorView &B = C.host().Evidence->tensor(Partner);
    Reference->addInt(Pairs->second[I]);
    bool Same = A.Shape == B.Shape;
    Shapes->addBool(!Same);
    std::optional<Difference> D;
    if (Same && hasValues(A) && hasValues(B)) {
      Expected<Difference> Found = compareTensors(C.host(), A, B);
      if (!Found)
        return Found.takeError();
      D = std::move(*Found);
    }
    RelErr->addDouble(D ? D->RelErr : nullDouble());
    MaxAbs->addDouble(D ? D->MaxAbs : nullDouble());
    MeanAbs->addDouble(D ? D->MeanAbs : nullDouble());
    Cosine->addDouble(D && D->Cosine ? *D->Cosine : nullDouble());
    FirstDiff->addInt(D && D->FirstDiff ? *D->FirstDiff : NullInt);
  }
  return C.push(Out.with("rel_err", std::move(RelErr))
                    .with("max_abs", std::move(MaxAbs))
                    .with("mean_abs", std::move(MeanAbs))
                    .with("cosine", std::move(Cosine))
                    .with("first_diff", std::move(FirstDiff))
                    .with("shapes_differ", std::move(Shapes))
                    .with("reference", std::move(Reference)),
                7);
}

} // namespace culprit
