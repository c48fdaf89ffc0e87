//===- verbs.h - Verbs beside loops in C++ ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What verbs.cpp measures: the rows as plain vectors, and for each verb the
// loop that does the same over them.
//
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_BENCH_VERBS_H
#define CULPRIT_BENCH_VERBS_H

#include "Table/Table.h"
#include <functional>

namespace culprit::bench {

/// Device work as a profiler records it: four streams, each in order of time,
/// one after another, and 1 in 50 rows without a duration.
struct Rows {
  std::vector<int64_t> Start, Stop, Dur, Device, Correlation, Bytes;
  std::vector<double> Value; ///< A hundredth null, a thousandth infinite.
  std::vector<StringId> Kind, Name;
  std::shared_ptr<StringPool> Pool;

  size_t size() const { return Start.size(); }
};

Rows makeRows(size_t Count, std::shared_ptr<StringPool> Pool);
/// One row for each of \p Keys correlations, in mixed order, apart in time.
Rows makeCalls(size_t Count, size_t Keys, std::shared_ptr<StringPool> Pool);
Table makeTable(const Rows &R, std::string Name);

/// What a loop made; freed after the clock has stopped, as Lua's values are.
struct Made {
  std::vector<uint32_t> Rows, Others;
  std::vector<std::vector<uint32_t>> Groups;
  std::vector<int64_t> Ints[5];
  std::vector<double> Doubles;
  double Number = 0; ///< Of a reducer; else how many rows or the sum of all.
};

struct Benchmark {
  const char *Verb;
  /// A chunk of Lua after `local t, o = ...`; returns a number or a table, or
  /// a column. t is Work and o is Calls.
  const char *Lua;
  void (*Loop)(const Rows &Work, const Rows &Calls, Made &Out);
  /// Functions that see one row a call, and at the end nothing, if that makes
  /// sense: `return function(dur) ... end, function() ... end`.
  const char *Callback = nullptr;
  /// The columns whose values the callback is given.
  std::vector<const char *> Given = {};
  /// Rows are divided by this, where a verb is slow.
  size_t Fewer = 1;
};

std::vector<Benchmark> rowBenchmarks();
std::vector<Benchmark> groupBenchmarks();
std::vector<Benchmark> timeBenchmarks();
std::vector<Benchmark> seriesBenchmarks();

} // namespace culprit::bench

#endif // CULPRIT_BENCH_VERBS_H
