//===- verbs-groups.cpp - Groups and joins ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "verbs.h"

using namespace culprit;
using namespace culprit::bench;

static void group(const Rows &W, const Rows &, Made &Out) {
  llvm::DenseMap<int64_t, uint32_t> Numbers;
  for (size_t I = 0; I != W.size(); ++I) {
    auto [It, New] = Numbers.try_emplace(W.Device[I], Out.Groups.size());
    if (New)
      Out.Groups.emplace_back();
    Out.Groups[It->second].push_back(uint32_t(I));
  }
  Out.Number = double(Out.Groups.size());
}

/// Key, sum, largest and count of each group.
static void aggregate(const std::vector<int64_t> &Keys,
                      const std::vector<int64_t> &Values, Made &Out) {
  struct Figures {
    int64_t Key, Sum, Most, Count;
  };
  llvm::DenseMap<int64_t, uint32_t> Numbers;
  std::vector<Figures> All;
  for (size_t I = 0; I != Keys.size(); ++I) {
    auto [It, New] = Numbers.try_emplace(Keys[I], uint32_t(All.size()));
    if (New)
      All.push_back({Keys[I], 0, NullInt, 0});
    Figures &F = All[It->second];
    ++F.Count;
    if (Values[I] == NullInt)
      continue;
    F.Sum += Values[I];
    F.Most = std::max(F.Most, Values[I]);
  }
  for (const Figures &F : All) {
    Out.Ints[0].push_back(F.Key);
    Out.Ints[1].push_back(F.Sum);
    Out.Ints[2].push_back(F.Most);
    Out.Ints[3].push_back(F.Count);
  }
  Out.Number = double(All.size());
}

static void aggregateFew(const Rows &W, const Rows &, Made &Out) {
  aggregate(W.Device, W.Dur, Out);
}

static void aggregateMany(const Rows &W, const Rows &, Made &Out) {
  aggregate(W.Correlation, W.Dur, Out);
}

static void aggregateTwo(const Rows &W, const Rows &, Made &Out) {
  llvm::DenseMap<std::pair<int64_t, StringId>, uint32_t> Numbers;
  for (size_t I = 0; I != W.size(); ++I) {
    auto [It, New] = Numbers.try_emplace({W.Device[I], W.Name[I]},
                                         uint32_t(Out.Ints[0].size()));
    if (New) {
      Out.Rows.push_back(uint32_t(I));
      Out.Ints[0].push_back(0);
    }
    if (W.Dur[I] != NullInt)
      Out.Ints[0][It->second] += W.Dur[I];
  }
  Out.Number = double(Out.Ints[0].size());
}

static void distinct(const Rows &W, const Rows &, Made &Out) {
  llvm::DenseSet<StringId> Seen;
  for (size_t I = 0; I != W.size(); ++I)
    if (W.Name[I] != NullString && Seen.insert(W.Name[I]).second)
      Out.Rows.push_back(uint32_t(I));
  Out.Number = double(Out.Rows.size());
}

static void join(const Rows &W, const Rows &C, Made &Out) {
  llvm::DenseMap<int64_t, uint32_t> First;
  for (size_t I = 0; I != C.size(); ++I)
    First.try_emplace(C.Correlation[I], uint32_t(I));
  for (size_t I = 0; I != W.size(); ++I) {
    auto It = First.find(W.Correlation[I]);
    if (It == First.end())
      continue;
    Out.Rows.push_back(uint32_t(I));
    Out.Others.push_back(It->second);
  }
  Out.Number = double(Out.Rows.size());
}

std::vector<Benchmark> culprit::bench::groupBenchmarks() {
  const char *Sums =
      "local s, m, n = {}, {}, {} return function(k, x) n[k] = (n[k] or 0) + 1 "
      "if x then s[k] = (s[k] or 0) + x m[k] = math.max(m[k] or x, x) end end";
  return {
      {"group, 8 keys",
       "local n = 0 for _, g in t:group('device') do n = n + 1 end return n",
       group,
       "local s = {} return function(k, row) local g = s[k] "
       "if not g then g = {} s[k] = g end g[#g + 1] = row end",
       {"device", "start"}},
      {"aggregate 3 figures, 8 keys",
       "return t:aggregate('device', { sum = 'sum dur', most = 'max dur', "
       "n = 'count' })",
       aggregateFew, Sums, {"device", "dur"}},
      {"aggregate 3 figures, 100k keys",
       "return t:aggregate('correlation', { sum = 'sum dur', "
       "most = 'max dur', n = 'count' })",
       aggregateMany, Sums, {"correlation", "dur"}},
      {"aggregate, 2 columns",
       "return t:aggregate({ 'device', 'name' }, { sum = 'sum dur' })",
       aggregateTwo,
       "local s = {} return function(a, b, x) local g = s[a] "
       "if not g then g = {} s[a] = g end g[b] = (g[b] or 0) + (x or 0) end",
       {"device", "name", "dur"}},
      {"distinct", "return t:distinct('name')", distinct,
       "local s = {} return function(k) s[k] = true end", {"name"}},
      {"join", "return t:join(o, 'correlation')", join,
       "local s = {} for i = 1, 100000 do s[i] = i end "
       "return function(k) return s[k] end", {"correlation"}},
  };
}
