//===- AttentionHeads.cpp - What each head attends to -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Verbs that describe attention weights, [..., queries, keys], head by head,
/// and follow them through the layers. One walk over the values each; what is
/// kept does not grow with the tensor, but for a line a head.
///
//===----------------------------------------------------------------------===//

#include "Script/TensorVerbs.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace culprit {

/// More heads than any model has: the tensor is something else.
static constexpr int64_t MaxHeads = 1 << 16;
/// Sums that are added up side by side.
static constexpr int64_t Chunk = 4096;
/// Longest line that attention is followed along.
static constexpr int64_t MaxPlaces = 10000;

Expected<int> rowSumsAlong(Call &C) {
  lua_State *L = C.state();
  int64_t Axis = C.integer(1);
  if (C.failed())
    return C.error();
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  const TensorView &T = **View;
  if (Error E = checkAxis(T, Axis))
    return E;
  if (T.numel() == 0)
    return C.pushNil();
  int64_t Length = T.Shape[Axis], Inner = 1;
  for (int64_t D : ArrayRef(T.Shape).drop_front(Axis + 1))
    Inner *= D;
  int64_t Block = Length * Inner, NonFinite = 0, Sums = 0;
  double Least = std::numeric_limits<double>::infinity(), Most = -Least;
  double Total = 0;
  std::vector<double> Sum(std::min(Inner, Chunk));
  for (int64_t Begin = 0, E = T.numel(); Begin != E; Begin += Block)
    for (int64_t From = 0; From < Inner; From += Chunk) {
      int64_t Width = std::min(Chunk, Inner - From);
      std::fill(Sum.begin(), Sum.end(), 0.0);
      for (int64_t Place = 0; Place != Length; ++Place) {
        if (Error Late = C.host().poll())
          return Late;
        int64_t First = Begin + Place * Inner + From;
        for (int64_t I = 0; I != Width; ++I)
          Sum[I] += T.at(First + I);
      }
      for (int64_t I = 0; I != Width; ++I) {
        if (!std::isfinite(Sum[I])) {
          ++NonFinite;
          continue;
        }
        ++Sums;
        Total += Sum[I];
        Least = std::min(Least, Sum[I]);
        Most = std::max(Most, Sum[I]);
      }
    }
  lua_createtable(L, 0, 4);
  auto Field = [&](const char *Name, double Value) {
    lua_pushnumber(L, Value);
    lua_setfield(L, -2, Name);
  };
  if (Sums) {
    Field("min", Least);
    Field("max", Most);
    Field("mean", Total / double(Sums));
  }
  lua_pushinteger(L, NonFinite);
  lua_setfield(L, -2, "nonfinite");
  return 1;
}

namespace {
/// Which keys of a row of the batch are marked: those whose id is Value.
struct Marks {
  const TensorView *Ids = nullptr;
  int64_t Value = 0, Rows = 1;

  bool operator()(int64_t Row, int64_t Key, int64_t Keys) const {
    return Ids && Ids->intAt((Rows == 1 ? 0 : Row) * Keys + Key) == Value;
  }
};

/// What is known of one head after a walk over its lines.
struct Head {
  int64_t Queries = 0, NaN = 0, Empty = 0, Masked = 0, Spread = 0, Later = 0;
  double SumMin = 0, SumMax = 0, SumTotal = 0, Worst = 0, WorstSum = 1;
  int64_t WorstQuery = -1, FirstNaN = -1, MarkedQuery = -1;
  double Entropy = 0, Sink = 0, SinkMin = 1, Marked = 0, MarkedMax = 0;
};
} // namespace

/// Adds the line of \p Query (a place among the keys) that begins at \p First.
static void addLine(Head &H, const TensorView &T, int64_t First, int64_t Row,
                    int64_t Query, int64_t Keys, const Marks &Mark) {
  if (Mark(Row, Query, Keys)) {
    ++H.Masked; // what a pad token looks at is nobody's concern
    return;
  }
  double Sum = 0, Above = 0, OnMarked = 0, Bits = 0;
  for (int64_t Key = 0; Key != Keys; ++Key) {
    double W = T.at(First + Key);
    if (!std::isfinite(W)) {
      ++H.NaN;
      if (H.FirstNaN < 0)
        H.FirstNaN = Query;
      return;
    }
    Sum += W;
    if (Key > Query)
      Above += std::fabs(W);
    if (W > 0)
      Bits -= W * std::log(W);
    if (Mark(Row, Key, Keys))
      OnMarked += W;
  }
  if (Sum == 0) {
    ++H.Empty;
    return;
  }
  H.SumMin = H.Queries ? std::min(H.SumMin, Sum) : Sum;
  H.SumMax = H.Queries ? std::max(H.SumMax, Sum) : Sum;
  H.SumTotal += Sum;
  ++H.Queries;
  if (std::fabs(Sum - 1) > H.Worst || H.WorstQuery < 0) {
    H.Worst = std::fabs(Sum - 1);
    H.WorstSum = Sum;
    H.WorstQuery = Query;
  }
  int64_t Visible = Above > 0 ? Keys : Query + 1;
  if (Visible > 1) {
    // Of weights that add up to Sum: -sum p ln p with p = W / Sum.
    H.Entropy += (Bits / Sum + std::log(Sum)) / std::log(double(Visible));
    ++H.Spread;
  }
  if (Query > 0) {
    double Share = T.at(First) / Sum;
    H.Sink += Share;
    H.SinkMin = std::min(H.SinkMin, Share);
    ++H.Later;
  }
  double Share = OnMarked / Sum;
  H.Marked += Share;
  if (Share > H.MarkedMax) {
    H.MarkedMax = Share;
    H.MarkedQuery = Query;
  }
}

/// The lines of \p Heads as a table.
static Table tableOf(ArrayRef<Head> Heads, int64_t HeadsOfRow, bool Marked,
                     std::shared_ptr<StringPool> Pool) {
  std::vector<std::pair<std::string, ColumnRef>> Columns;
  auto Add = [&](const char *Name, ColumnType Type, auto Value) {
    auto Out = std::make_shared<Column>(Type);
    for (size_t I = 0; I != Heads.size(); ++I) {
      auto V = Value(Heads[I], static_cast<int64_t>(I));
      if (!V)
        Out->addNull();
      else if constexpr (std::is_same_v<decltype(V), std::optional<int64_t>>)
        Out->addInt(*V);
      else
        Out->addDouble(*V);
    }
    Columns.emplace_back(Name, std::move(Out));
  };
  using Count = std::optional<int64_t>;
  using Figure = std::optional<double>;
  auto Integers = [&](const char *Name, auto Value) {
    Add(Name, ColumnType::Int, [=](const Head &H, int64_t I) -> Count {
      int64_t V = Value(H, I);
      return V < 0 ? Count() : Count(V);
    });
  };
  auto Figures = [&](const char *Name, auto Of, auto Value) {
    Add(Name, ColumnType::Double, [=](const Head &H, int64_t) -> Figure {
      return Of(H) ? Figure(Value(H)) : Figure();
    });
  };
  auto Some = [](const Head &H) { return H.Queries > 0; };
  Integers("row", [=](const Head &, int64_t I) { return I / HeadsOfRow; });
  Integers("head", [=](const Head &, int64_t I) { return I % HeadsOfRow; });
  Integers("queries", [](const Head &H, int64_t) { return H.Queries; });
  Integers("nan", [](const Head &H, int64_t) { return H.NaN; });
  Integers("first_nan", [](const Head &H, int64_t) { return H.FirstNaN; });
  Integers("empty", [](const Head &H, int64_t) { return H.Empty; });
  Figures("sum_min", Some, [](const Head &H) { return H.SumMin; });
  Figures("sum_max", Some, [](const Head &H) { return H.SumMax; });
  Figures("sum_mean", Some,
          [](const Head &H) { return H.SumTotal / double(H.Queries); });
  Figures("off", Some, [](const Head &H) { return H.Worst; });
  Figures("off_sum", Some, [](const Head &H) { return H.WorstSum; });
  Integers("off_query", [](const Head &H, int64_t) { return H.WorstQuery; });
  Figures(
      "entropy", [](const Head &H) { return H.Spread > 0; },
      [](const Head &H) { return H.Entropy / double(H.Spread); });
  auto Later = [](const Head &H) { return H.Later > 0; };
  Figures("sink", Later,
          [](const Head &H) { return H.Sink / double(H.Later); });
  Figures("sink_min", Later, [](const Head &H) { return H.SinkMin; });
  auto OfMarks = [=](const Head &H) { return Marked && H.Queries > 0; };
  Figures("marked", OfMarks,
          [](const Head &H) { return H.Marked / double(H.Queries); });
  Figures("marked_max", OfMarks, [](const Head &H) { return H.MarkedMax; });
  Integers("marked_query", [=](const Head &H, int64_t) {
    return Marked ? H.MarkedQuery : -1;
  });
  return Table("attention heads", std::move(Pool), std::move(Columns),
               Heads.size());
}

Expected<int> rowAttentionHeads(Call &C) {
  bool Marked = !C.missing(1);
  const RowValue *Ids = Marked ? &C.row(1) : nullptr;
  int64_t Value = C.integer(2, 0);
  if (C.failed())
    return C.error();
  Expected<const TensorView *> View = tensorOf(C, C.selfRow());
  if (!View)
    return View.takeError();
  const TensorView &T = **View;
  size_t Axes = T.Shape.size();
  if (Axes < 2 || T.numel() == 0)
    return C.pushNil();
  int64_t Keys = T.Shape.back(), Queries = T.Shape[Axes - 2];
  int64_t Heads = T.numel() / Keys / Queries;
  int64_t Rows = Axes > 3 ? T.Shape[0] : 1;
  if (Queries > Keys || Heads > MaxHeads)
    return C.pushNil();
  Marks Mark;
  if (Marked) {
    Expected<const TensorView *> Of = tensorOf(C, *Ids);
    if (!Of)
      return Of.takeError();
    if (isFloating((*Of)->Type))
      return failure("argument 1 of 'attention_heads' must be a tensor of "
                     "integers");
    // [rows x heads, queries, keys] has one axis for both.
    int64_t Lines = (*Of)->numel() / Keys;
    if (Axes == 3 && Lines > 0 && Heads % Lines == 0)
      Rows = Lines;
    if ((*Of)->numel() != Lines * Keys || (Lines != 1 && Lines != Rows))
      return C.pushNil();
    Mark = {*Of, Value, Lines};
  }
  std::vector<Head> Found(Heads);
  int64_t HeadsOfRow = Heads / Rows;
  for (int64_t H = 0; H != Heads; ++H)
    for (int64_t Query = 0; Query != Queries; ++Query) {
      if (Error Late = C.host().poll())
        return Late;
      addLine(Found[H], T, (H * Queries + Query) * Keys, H / HeadsOfRow,
              Query + Keys - Queries, Keys, Mark);
    }
  return C.push(
      tableOf(Found, HeadsOfRow, Marked, C.selfRow().T->pool()));
}

Expected<int> tableAttentionRollout(Call &C) {
  lua_State *L = C.state();
  int64_t Query = C.integer(1);
  int64_t Row = C.integer(2, 0);
  if (C.failed())
    return C.error();
  std::vector<double> Share, Next;
  const TableRef &Layers = C.selfTable();
  // From the last layer down: how much of what stands at Query came from each
  // place below. Half passes by the attention, along the residual stream.
  for (size_t I = Layers->rows(); I-- > 0;) {
    Expected<const TensorView *> View = tensorOf(C, RowValue{Layers, I});
    if (!View)
      return View.takeError();
    const TensorView &T = **View;
    size_t Axes = T.Shape.size();
    int64_t Keys = Axes < 2 ? 0 : T.Shape.back();
    int64_t Rows = Axes > 3 ? T.Shape[0] : 1;
    if (T.numel() == 0 || T.Shape[Axes - 2] != Keys || Keys > MaxPlaces ||
        Row < 0 || Row >= Rows || Query < 0 || Query >= Keys)
      return C.pushNil();
    if (Share.empty()) {
      Share.assign(Keys, 0);
      Share[Query] = 1;
    }
    if (static_cast<int64_t>(Share.size()) != Keys)
      return C.pushNil();
    int64_t Heads = T.numel() / Keys / Keys / Rows;
    Next.assign(Keys, 0);
    for (int64_t Q = 0; Q != Keys; ++Q) {
      if (Share[Q] == 0)
        continue;
      Next[Q] += 0.5 * Share[Q];
      for (int64_t H = 0; H != Heads; ++H) {
        if (Error Late = C.host().poll())
          return Late;
        int64_t First = ((Row * Heads + H) * Keys + Q) * Keys;
        for (int64_t K = 0; K != Keys; ++K) {
          double W = T.at(First + K);
          if (!std::isfinite(W))
            return C.pushNil();
          Next[K] += 0.5 * Share[Q] * W / double(Heads);
        }
      }
    }
    std::swap(Share, Next);
  }
  lua_createtable(L, static_cast<int>(Share.size()), 0);
  for (size_t I = 0; I != Share.size(); ++I) {
    lua_pushnumber(L, Share[I]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(I) + 1);
  }
  return 1;
}

} // namespace culprit
