//===- verbs-time.cpp - Intervals and series --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "verbs.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace culprit;
using namespace culprit::bench;

namespace {
struct Piece {
  int64_t Start, Stop;
  uint32_t Row;
};
} // namespace

/// The intervals that have a length, in order of start.
static std::vector<Piece> piecesOf(const Rows &R) {
  std::vector<Piece> Out;
  Out.reserve(R.size());
  for (size_t I = 0; I != R.size(); ++I)
    if (R.Start[I] != NullInt && R.Stop[I] > R.Start[I])
      Out.push_back({R.Start[I], R.Stop[I], uint32_t(I)});
  auto Before = [](const Piece &A, const Piece &B) {
    return A.Start < B.Start;
  };
  if (!std::is_sorted(Out.begin(), Out.end(), Before))
    std::stable_sort(Out.begin(), Out.end(), Before);
  return Out;
}

/// What they cover, merged.
static std::vector<Piece> merged(const Rows &R) {
  std::vector<Piece> Out;
  for (const Piece &P : piecesOf(R))
    if (Out.empty() || P.Start > Out.back().Stop)
      Out.push_back(P);
    else
      Out.back().Stop = std::max(Out.back().Stop, P.Stop);
  return Out;
}

static void add(Made &Out, int64_t Start, int64_t Stop) {
  Out.Ints[0].push_back(Start);
  Out.Ints[1].push_back(Stop);
  Out.Ints[2].push_back(Stop - Start);
}

static void gaps(const Rows &W, const Rows &, Made &Out) {
  std::vector<Piece> Pieces = piecesOf(W);
  Piece Latest = Pieces.front();
  for (const Piece &P : Pieces) {
    if (P.Start > Latest.Stop) {
      add(Out, Latest.Stop, P.Start);
      Out.Ints[3].push_back(Latest.Row);
      Out.Ints[4].push_back(P.Row);
    }
    if (P.Stop > Latest.Stop || (P.Stop == Latest.Stop && P.Row < Latest.Row))
      Latest = P;
  }
  Out.Number = double(Out.Ints[0].size());
}

static void unionOf(const Rows &W, const Rows &, Made &Out) {
  for (const Piece &P : merged(W))
    add(Out, P.Start, P.Stop);
  Out.Number = double(Out.Ints[0].size());
}

static void covered(const Rows &W, const Rows &, Made &Out) {
  int64_t Sum = 0, End = INT64_MIN;
  for (const Piece &P : piecesOf(W)) {
    if (P.Stop <= End)
      continue;
    Sum += P.Stop - std::max(P.Start, End);
    End = P.Stop;
  }
  Out.Number = double(Sum);
}

static void intersect(const Rows &W, const Rows &C, Made &Out) {
  std::vector<Piece> X = merged(W), Y = merged(C);
  for (size_t I = 0, J = 0; I != X.size() && J != Y.size();) {
    int64_t Start = std::max(X[I].Start, Y[J].Start);
    int64_t Stop = std::min(X[I].Stop, Y[J].Stop);
    if (Start < Stop)
      add(Out, Start, Stop);
    ++(X[I].Stop < Y[J].Stop ? I : J);
  }
  Out.Number = double(Out.Ints[0].size());
}

static void subtract(const Rows &W, const Rows &C, Made &Out) {
  std::vector<Piece> X = merged(W), Y = merged(C);
  size_t J = 0;
  for (const Piece &P : X) {
    int64_t From = P.Start;
    while (J != Y.size() && Y[J].Stop <= From)
      ++J;
    for (size_t K = J; K != Y.size() && Y[K].Start < P.Stop; ++K) {
      if (Y[K].Start > From)
        add(Out, From, Y[K].Start);
      From = Y[K].Stop;
    }
    if (From < P.Stop)
      add(Out, From, P.Stop);
  }
  Out.Number = double(Out.Ints[0].size());
}

static void overlap(const Rows &W, const Rows &C, Made &Out) {
  std::vector<Piece> Y = merged(C);
  std::vector<int64_t> Starts, Lengths = {0};
  for (const Piece &P : Y) {
    Starts.push_back(P.Start);
    Lengths.push_back(Lengths.back() + (P.Stop - P.Start));
  }
  auto before = [&](int64_t Time) {
    size_t N = std::upper_bound(Starts.begin(), Starts.end(), Time) -
               Starts.begin();
    return N == 0 ? 0
                  : Lengths[N - 1] + std::min(Time, Y[N - 1].Stop) -
                        Y[N - 1].Start;
  };
  Out.Ints[0].resize(W.size());
  for (size_t I = 0; I != W.size(); ++I)
    Out.Ints[0][I] = W.Start[I] == NullInt || W.Stop[I] < W.Start[I]
                         ? NullInt
                         : before(W.Stop[I]) - before(W.Start[I]);
}

static void containing(const Rows &W, const Rows &C, Made &Out) {
  std::vector<Piece> Asked, Y = piecesOf(C), Open;
  for (size_t I = 0; I != W.size(); ++I)
    if (W.Start[I] != NullInt)
      Asked.push_back({W.Start[I], 0, uint32_t(I)});
  auto Before = [](const Piece &A, const Piece &B) {
    return A.Start < B.Start;
  };
  if (!std::is_sorted(Asked.begin(), Asked.end(), Before))
    std::stable_sort(Asked.begin(), Asked.end(), Before);
  Out.Ints[0].assign(W.size(), NullInt);
  size_t Next = 0;
  for (const Piece &Q : Asked) {
    for (; Next != Y.size() && Y[Next].Start <= Q.Start; ++Next) {
      while (!Open.empty() && Open.back().Stop <= Y[Next].Start)
        Open.pop_back();
      Open.push_back(Y[Next]);
    }
    while (!Open.empty() && Open.back().Stop <= Q.Start)
      Open.pop_back();
    if (!Open.empty())
      Out.Ints[0][Q.Row] = Open.back().Row;
  }
}

std::vector<Benchmark> culprit::bench::timeBenchmarks() {
  // In order of start first, which the verbs do not take for granted either.
  const char *Sweep =
      "local l, out = {}, {} return function(start, stop) "
      "l[#l + 1] = { start, stop } end, function() "
      "table.sort(l, function(a, b) return a[1] < b[1] end) "
      "local last, sum = 0, 0 for _, p in ipairs(l) do "
      "if p[1] > last then out[#out + 1] = { last, p[1] } end "
      "if p[2] > last then sum = sum + p[2] - math.max(p[1], last) "
      "last = p[2] end end end";
  return {
      {"gaps", "return t:gaps()", gaps, Sweep, {"start", "stop"}},
      {"union", "return t:union()", unionOf, Sweep, {"start", "stop"}},
      {"covered", "return t:covered()", covered, Sweep, {"start", "stop"}},
      {"intersect", "return t:intersect(o)", intersect},
      {"subtract", "return t:subtract(o)", subtract},
      {"overlap", "return t:overlap(o)", overlap},
      {"containing", "return t:containing(o)", containing},
  };
}

// Series --------------------------------------------------------------------//

static void diff(const Rows &W, const Rows &, Made &Out) {
  Out.Ints[0].assign(W.size(), NullInt);
  for (size_t I = 1; I != W.size(); ++I)
    if (W.Dur[I] != NullInt && W.Dur[I - 1] != NullInt)
      Out.Ints[0][I] = W.Dur[I] - W.Dur[I - 1];
}

static void rollingMean(const Rows &W, const Rows &, Made &Out) {
  const size_t Window = 32;
  Out.Doubles.assign(W.size(), nullDouble());
  double Sum = 0;
  size_t Count = 0;
  for (size_t I = 0; I != W.size(); ++I) {
    if (std::isfinite(W.Value[I])) {
      Sum += W.Value[I];
      ++Count;
    }
    if (I >= Window && std::isfinite(W.Value[I - Window])) {
      Sum -= W.Value[I - Window];
      --Count;
    }
    if (Count)
      Out.Doubles[I] = Sum / double(Count);
  }
}

static void rollingMax(const Rows &W, const Rows &, Made &Out) {
  const size_t Window = 32;
  Out.Doubles.assign(W.size(), nullDouble());
  std::vector<size_t> Kept(W.size()); // a queue of falling values
  size_t Head = 0, Tail = 0;
  for (size_t I = 0; I != W.size(); ++I) {
    if (std::isfinite(W.Value[I])) {
      while (Tail != Head && W.Value[Kept[Tail - 1]] <= W.Value[I])
        --Tail;
      Kept[Tail++] = I;
    }
    if (Head != Tail && Kept[Head] + Window <= I)
      ++Head;
    if (Head != Tail)
      Out.Doubles[I] = W.Value[Kept[Head]];
  }
}

static double middleOf(const std::vector<double> &Sorted) {
  size_t Half = Sorted.size() / 2;
  return Sorted.size() % 2 ? Sorted[Half]
                           : std::midpoint(Sorted[Half - 1], Sorted[Half]);
}

static void rollingMedian(const Rows &W, const Rows &, Made &Out) {
  const size_t Window = 32;
  Out.Doubles.assign(W.size(), nullDouble());
  std::vector<double> Seen;
  for (size_t I = 0; I != W.size(); ++I) {
    if (I >= Window && std::isfinite(W.Value[I - Window]))
      Seen.erase(
          std::lower_bound(Seen.begin(), Seen.end(), W.Value[I - Window]));
    if (double Value = W.Value[I]; std::isfinite(Value))
      Seen.insert(std::upper_bound(Seen.begin(), Seen.end(), Value), Value);
    if (!Seen.empty())
      Out.Doubles[I] = middleOf(Seen);
  }
}

static void robustZ(const Rows &W, const Rows &, Made &Out) {
  const size_t Window = 64;
  Out.Doubles.assign(W.size(), nullDouble());
  std::vector<double> Seen, Distances, Order; // by value, scratch, by time
  for (size_t I = 0; I != W.size(); ++I) {
    double Value = W.Value[I];
    if (isNullDouble(Value))
      continue;
    if (Seen.size() >= 8) {
      double Median = middleOf(Seen);
      Distances.clear();
      for (double X : Seen)
        Distances.push_back(std::fabs(X - Median));
      size_t Half = Distances.size() / 2;
      std::nth_element(Distances.begin(), Distances.begin() + ptrdiff_t(Half),
                       Distances.end());
      double Middle = Distances[Half];
      if (Distances.size() % 2 == 0)
        Middle = std::midpoint(
            Middle, *std::max_element(Distances.begin(),
                                      Distances.begin() + ptrdiff_t(Half)));
      double Deviation =
          std::max(1.4826 * Middle, 1e-3 * std::fabs(Median));
      Out.Doubles[I] = Value == Median ? 0 : (Value - Median) / Deviation;
    }
    if (!std::isfinite(Value))
      continue;
    Order.push_back(Value);
    if (Seen.size() == Window)
      Seen.erase(std::lower_bound(Seen.begin(), Seen.end(),
                                  Order[Order.size() - 1 - Window]));
    Seen.insert(std::upper_bound(Seen.begin(), Seen.end(), Value), Value);
  }
}

static void slope(const Rows &W, const Rows &, Made &Out) {
  std::vector<std::pair<double, double>> Points, Kept;
  for (size_t I = 0; I != W.size(); ++I)
    if (std::isfinite(W.Value[I]))
      Points.emplace_back(double(I), W.Value[I]);
  for (size_t I = 0; I != 512; ++I)
    Kept.push_back(Points[I * (Points.size() - 1) / 511]);
  std::vector<double> Slopes;
  for (size_t I = 0; I != Kept.size(); ++I)
    for (size_t J = 0; J != I; ++J)
      if (Kept[I].first != Kept[J].first)
        Slopes.push_back((Kept[I].second - Kept[J].second) /
                         (Kept[I].first - Kept[J].first));
  auto Half = Slopes.begin() + ptrdiff_t(Slopes.size() / 2);
  std::nth_element(Slopes.begin(), Half, Slopes.end());
  Out.Number = Slopes.size() % 2
                   ? *Half
                   : std::midpoint(*std::max_element(Slopes.begin(), Half),
                                   *Half);
}

/// Pettitt's test on each stretch, which is ranked anew; no episodes, which
/// the verb looks for besides.
static void split(const std::vector<double> &Values, size_t First, size_t Last,
                  std::vector<uint32_t> &Out) {
  size_t N = Last - First;
  if (N < 16)
    return;
  std::vector<uint32_t> Order(N);
  std::iota(Order.begin(), Order.end(), 0);
  std::sort(Order.begin(), Order.end(), [&](uint32_t A, uint32_t B) {
    return Values[First + A] < Values[First + B];
  });
  std::vector<int64_t> Ranks(N);
  for (size_t I = 0; I != N;) {
    size_t From = I;
    while (I != N && Values[First + Order[I]] == Values[First + Order[From]])
      ++I;
    for (size_t K = From; K != I; ++K)
      Ranks[Order[K]] = int64_t(From + 1 + I);
  }
  int64_t U = 0, Most = 0;
  size_t At = 0;
  for (size_t T = 1; T + 8 <= N; ++T) {
    U += Ranks[T - 1] - int64_t(N + 1);
    if (T >= 8 && std::abs(U) > Most) {
      Most = std::abs(U);
      At = T;
    }
  }
  double Cube = double(N) * double(N) * double(N + 1);
  if (2 * std::exp(-6 * double(Most) * double(Most) / Cube) >= 0.01)
    return;
  split(Values, First, First + At, Out);
  Out.push_back(uint32_t(First + At));
  split(Values, First + At, Last, Out);
}

static void changePoints(const Rows &W, const Rows &, Made &Out) {
  std::vector<double> Finite;
  for (double Value : W.Value)
    if (std::isfinite(Value))
      Finite.push_back(Value);
  split(Finite, 0, Finite.size(), Out.Rows);
  Out.Number = double(Out.Rows.size());
}

std::vector<Benchmark> culprit::bench::seriesBenchmarks() {
  return {
      {"diff", "return t:col('dur'):diff()", diff,
       "local last return function(x) local d = x and last and x - last "
       "last = x return d end", {"dur"}},
      {"rolling mean, 32", "return t:col('value'):rolling(32, 'mean')",
       rollingMean,
       "local w, s, n, i = {}, 0, 0, 0 return function(x) i = i % 32 + 1 "
       "if not x or x ~= x or x == math.huge then x = nil end "
       "if w[i] then s, n = s - w[i], n - 1 end w[i] = x or false "
       "if x then s, n = s + x, n + 1 end return n > 0 and s / n end",
       {"value"}},
      {"rolling max, 32", "return t:col('value'):rolling(32, 'max')",
       rollingMax},
      {"rolling median, 32", "return t:col('value'):rolling(32, 'median')",
       rollingMedian},
      {"robust_z, 64", "return t:col('value'):robust_z(64)", robustZ},
      {"slope", "return t:col('value'):slope()", slope},
      {"change_points", "return t:col('value'):change_points()", changePoints,
       nullptr, {}, 25},
  };
}
