//===- verbs-rows.cpp - Filters, figures, arithmetic, order -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Glob.h"
#include "verbs.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <queue>

using namespace culprit;
using namespace culprit::bench;

// Filters -------------------------------------------------------------------//

static void whereOne(const Rows &W, const Rows &, Made &Out) {
  for (size_t I = 0; I != W.size(); ++I)
    if (W.Dur[I] != NullInt && W.Dur[I] >= 20000)
      Out.Rows.push_back(uint32_t(I));
  Out.Number = double(Out.Rows.size());
}

static void whereText(const Rows &W, const Rows &, Made &Out) {
  StringId Kernel = W.Pool->lookup("kernel"), Name = W.Pool->lookup("gemm_7");
  for (size_t I = 0; I != W.size(); ++I)
    if (W.Kind[I] == Kernel && W.Name[I] == Name)
      Out.Rows.push_back(uint32_t(I));
  Out.Number = double(Out.Rows.size());
}

static void whereGlob(const Rows &W, const Rows &, Made &Out) {
  std::vector<int8_t> Verdicts(W.Pool->size(), -1);
  for (size_t I = 0; I != W.size(); ++I) {
    if (W.Name[I] == NullString)
      continue;
    int8_t &Verdict = Verdicts[W.Name[I]];
    if (Verdict < 0)
      Verdict = globMatch("*gemm*", W.Pool->text(W.Name[I]));
    if (Verdict)
      Out.Rows.push_back(uint32_t(I));
  }
  Out.Number = double(Out.Rows.size());
}

static void whereSum(const Rows &W, const Rows &C, Made &Out) {
  whereOne(W, C, Out);
  int64_t Sum = 0;
  for (uint32_t Row : Out.Rows)
    if (W.Bytes[Row] != NullInt)
      Sum += W.Bytes[Row];
  Out.Number = double(Sum);
}

// Figures -------------------------------------------------------------------//

static void countOf(const Rows &W, const Rows &, Made &Out) {
  size_t Count = 0;
  for (int64_t Value : W.Bytes)
    Count += Value != NullInt;
  Out.Number = double(Count);
}

static void sumOf(const Rows &W, const Rows &, Made &Out) {
  int64_t Sum = 0;
  for (int64_t Value : W.Dur)
    if (Value != NullInt)
      Sum += Value;
  Out.Number = double(Sum);
}

static void minOf(const Rows &W, const Rows &, Made &Out) {
  int64_t Least = INT64_MAX;
  for (int64_t Value : W.Dur)
    if (Value != NullInt)
      Least = std::min(Least, Value);
  Out.Number = double(Least);
}

static void maxOf(const Rows &W, const Rows &, Made &Out) {
  double Most = -INFINITY;
  for (double Value : W.Value)
    if (std::isfinite(Value))
      Most = std::max(Most, Value);
  Out.Number = Most;
}

static void meanOf(const Rows &W, const Rows &, Made &Out) {
  double Sum = 0;
  size_t Count = 0;
  for (double Value : W.Value)
    if (std::isfinite(Value)) {
      Sum += Value;
      ++Count;
    }
  Out.Number = Sum / double(Count);
}

static double orderStatistic(std::vector<double> &Values, double Q) {
  double Place = Q * double(Values.size() - 1);
  auto At = Values.begin() + ptrdiff_t(Place);
  std::nth_element(Values.begin(), At, Values.end());
  double Part = Place - std::floor(Place);
  return Part == 0 ? *At
                   : std::lerp(*At, *std::min_element(At + 1, Values.end()),
                               Part);
}

static void quantileOf(const Rows &W, double Q, Made &Out) {
  std::vector<double> Values;
  for (double Value : W.Value)
    if (std::isfinite(Value))
      Values.push_back(Value);
  Out.Number = orderStatistic(Values, Q);
}

static void medianOf(const Rows &W, const Rows &, Made &Out) {
  quantileOf(W, 0.5, Out);
}

static void upperOf(const Rows &W, const Rows &, Made &Out) {
  quantileOf(W, 0.9, Out);
}

// Arithmetic ----------------------------------------------------------------//

static void difference(const Rows &W, const Rows &, Made &Out) {
  std::vector<int64_t> &Values = Out.Ints[0];
  Values.resize(W.size());
  for (size_t I = 0; I != W.size(); ++I)
    Values[I] = W.Stop[I] == NullInt || W.Start[I] == NullInt
                    ? NullInt
                    : W.Stop[I] - W.Start[I];
}

static void ratio(const Rows &W, const Rows &, Made &Out) {
  Out.Doubles.resize(W.size());
  for (size_t I = 0; I != W.size(); ++I)
    Out.Doubles[I] = W.Bytes[I] == NullInt || W.Dur[I] == NullInt
                         ? nullDouble()
                         : double(W.Bytes[I]) / double(W.Dur[I]);
}

// Order ---------------------------------------------------------------------//

template <typename Compare>
static void sortRows(const Rows &W, Made &Out, Compare Less) {
  Out.Rows.resize(W.size());
  std::iota(Out.Rows.begin(), Out.Rows.end(), 0);
  std::stable_sort(Out.Rows.begin(), Out.Rows.end(), Less);
  Out.Number = double(Out.Rows.size());
}


static void sortTimes(const Rows &W, const Rows &, Made &Out) {
  sortRows(W, Out, [&](uint32_t A, uint32_t B) {
    return W.Start[A] < W.Start[B];
  });
}

static void sortDown(const Rows &W, const Rows &, Made &Out) {
  sortRows(W, Out, [&](uint32_t A, uint32_t B) {
    return W.Dur[A] > W.Dur[B]; // a null is the least there is
  });
}

static void sortKeys(const Rows &W, const Rows &, Made &Out) {
  sortRows(W, Out, [&](uint32_t A, uint32_t B) {
    if (W.Device[A] != W.Device[B])
      return W.Device[A] < W.Device[B];
    return W.Correlation[A] < W.Correlation[B];
  });
}

static void sortNames(const Rows &W, const Rows &, Made &Out) {
  sortRows(W, Out, [&](uint32_t A, uint32_t B) {
    return W.Name[A] != W.Name[B] &&
           W.Pool->text(W.Name[A]) < W.Pool->text(W.Name[B]);
  });
}

static void sortNumbers(const Rows &W, const Rows &, Made &Out) {
  auto Place = [](double X) { return std::isnan(X) ? 1 + isNullDouble(X) : 0; };
  sortRows(W, Out, [&](uint32_t A, uint32_t B) {
    int PlaceA = Place(W.Value[A]), PlaceB = Place(W.Value[B]);
    if (PlaceA || PlaceB)
      return PlaceA < PlaceB;
    return W.Value[A] < W.Value[B];
  });
}

static void topRows(const Rows &W, size_t N, Made &Out) {
  auto Larger = [&](uint32_t A, uint32_t B) {
    return W.Dur[A] != W.Dur[B] ? W.Dur[A] > W.Dur[B] : A < B;
  };
  std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(Larger)> Kept(
      Larger);
  for (uint32_t I = 0; I != W.size(); ++I) {
    if (W.Dur[I] == NullInt)
      continue;
    if (Kept.size() == N) {
      if (!Larger(I, Kept.top()))
        continue;
      Kept.pop();
    }
    Kept.push(I);
  }
  for (; !Kept.empty(); Kept.pop())
    Out.Rows.push_back(Kept.top());
  std::reverse(Out.Rows.begin(), Out.Rows.end());
  Out.Number = double(Out.Rows.size());
}

static void topFew(const Rows &W, const Rows &, Made &Out) {
  topRows(W, 5, Out);
}

static void topMany(const Rows &W, const Rows &, Made &Out) {
  topRows(W, W.size() / 10, Out);
}

std::vector<Benchmark> culprit::bench::rowBenchmarks() {
  return {
      {"where: dur >= ?", "return t:where('dur >= ?', 20000)", whereOne,
       "return function(dur) return dur and dur >= 20000 end", {"dur"}},
      {"where: kind ==, name ==",
       "return t:where(\"kind == 'kernel' and name == 'gemm_7'\")", whereText,
       "return function(kind, name) return kind == 'kernel' and "
       "name == 'gemm_7' end",
       {"kind", "name"}},
      {"where: match(name, glob)", "return t:where(\"match(name, '*gemm*')\")",
       whereGlob,
       "return function(name) return name:glob('*gemm*') end", {"name"}},
      {"where and sum", "return t:where('dur >= 20000'):sum('bytes')",
       whereSum,
       "local s = 0 return function(dur, bytes) if dur and dur >= 20000 and "
       "bytes then s = s + bytes end end, function() return s end",
       {"dur", "bytes"}},
      {"count of a column", "return t:count('bytes')", countOf,
       "local n = 0 return function(x) if x then n = n + 1 end end, "
       "function() return n end", {"bytes"}},
      {"sum", "return t:sum('dur')", sumOf,
       "local s = 0 return function(x) if x then s = s + x end end, "
       "function() return s end", {"dur"}},
      {"min", "return t:min('dur')", minOf,
       "local s return function(x) if x and (not s or x < s) then s = x end "
       "end, function() return s end", {"dur"}},
      {"max, of doubles", "return t:max('value')", maxOf,
       "local s return function(x) if x and x == x and x < math.huge and "
       "(not s or x > s) then s = x end end, function() return s end",
       {"value"}},
      {"mean, of doubles", "return t:mean('value')", meanOf,
       "local s, n = 0, 0 return function(x) if x and x == x and "
       "x < math.huge then s, n = s + x, n + 1 end end, function() "
       "return s / n end", {"value"}},
      {"median", "return t:median('value')", medianOf,
       "local l = {} return function(x) if x and x == x and x < math.huge then "
       "l[#l + 1] = x end end, function() table.sort(l) "
       "return l[#l // 2] end", {"value"}},
      {"quantile", "return t:quantile('value', 0.9)", upperOf,
       "local l = {} return function(x) if x and x == x and x < math.huge then "
       "l[#l + 1] = x end end, function() table.sort(l) "
       "return l[#l * 9 // 10] end", {"value"}},
      {"compute: stop - start", "return t:compute('stop - start')", difference,
       "return function(start, stop) return stop - start end",
       {"start", "stop"}},
      {"compute: bytes / dur", "return t:compute('bytes / dur')", ratio,
       "return function(bytes, dur) return bytes and dur and bytes / dur end",
       {"bytes", "dur"}},
      {"with", "return t:with { took = 'stop - start' }:col('took')",
       difference, "return function(start, stop) return stop - start end",
       {"start", "stop"}},
      {"sort: start, of four runs", "return t:sort('start')", sortTimes,
       "local l = {} return function(x) l[#l + 1] = x end, function() "
       "table.sort(l) end", {"start"}},
      {"sort: -dur", "return t:sort('-dur')", sortDown,
       "local l = {} return function(x) if x then l[#l + 1] = x end end, "
       "function() table.sort(l, function(a, b) return a > b end) end",
       {"dur"}},
      {"sort: device, correlation", "return t:sort('device', 'correlation')",
       sortKeys,
       "local l = {} return function(a, b) l[#l + 1] = { a, b } end, "
       "function() table.sort(l, function(x, y) if x[1] ~= y[1] then "
       "return x[1] < y[1] end return x[2] < y[2] end) end",
       {"device", "correlation"}},
      {"sort: name", "return t:sort('name')", sortNames,
       "local l = {} return function(x) l[#l + 1] = x end, function() "
       "table.sort(l) end", {"name"}},
      {"sort: value", "return t:sort('value')", sortNumbers,
       "local l = {} return function(x) if x and x == x then l[#l + 1] = x end "
       "end, function() table.sort(l) end", {"value"}},
      {"top 5", "return t:top(5, 'dur')", topFew,
       "local least, l = -1, {} return function(x) if x and (#l < 5 or "
       "x > least) then l[#l + 1] = x table.sort(l, function(a, b) "
       "return a > b end) l[6] = nil least = l[#l] end end", {"dur"}},
      {"top tenth", "return t:top(#t // 10, 'dur')", topMany,
       "local l = {} return function(x) if x then l[#l + 1] = x end end, "
       "function() table.sort(l, function(a, b) return a > b end) end",
       {"dur"}},
  };
}
