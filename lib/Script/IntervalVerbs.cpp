//===- IntervalVerbs.cpp - Time that rows cover -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/LaunchedBy.h"
#include "Case/WhatIf.h"
#include "Script/Binding.h"
#include "Table/Intervals.h"

using namespace llvm;

namespace culprit {

/// The receiver with the columns that arguments 1 and 2 name as `start` and
/// `stop`, which is what they are when left out.
static Expected<Table> intervals(Call &C) {
  StringRef Start = C.text(1, "start"), Stop = C.text(2, "stop");
  if (C.failed())
    return C.error();
  const Table &T = C.self();
  if (Start == "start" && Stop == "stop")
    return T;
  Expected<Table> Pair = T.select({Start.str(), Stop.str()});
  if (!Pair)
    return Pair.takeError();
  ColumnView First = Pair->columns()[0], Second = Pair->columns()[1];
  First.Name = "start";
  Second.Name = "stop";
  return Table(T.name(), T.pool(), std::vector<ColumnView>{First, Second},
               T.rows(), /*IsOrigin=*/false);
}

template <typename Verb> static Expected<int> overIntervals(Call &C, Verb Of) {
  Expected<Table> T = intervals(C);
  if (!T)
    return T.takeError();
  auto Out = Of(*T);
  if (!Out)
    return Out.takeError();
  return C.push(std::move(*Out));
}

Expected<int> tableSpan(Call &C) { return overIntervals(C, spanOf); }
Expected<int> tableCovered(Call &C) { return overIntervals(C, coveredLength); }
Expected<int> tableUnion(Call &C) { return overIntervals(C, unionOf); }
Expected<int> tableGaps(Call &C) { return overIntervals(C, gapsOf); }

Expected<int> tableDepth(Call &C) { return overIntervals(C, depthOf); }

Expected<int> tableIntersect(Call &C) {
  const Table &Other = C.table(1);
  if (C.failed())
    return C.error();
  return C.push(intersect(C.self(), Other));
}

Expected<int> tableSubtract(Call &C) {
  const Table &Other = C.table(1);
  if (C.failed())
    return C.error();
  return C.push(subtract(C.self(), Other));
}

Expected<int> tableOverlap(Call &C) {
  const Table &Other = C.table(1);
  if (C.failed())
    return C.error();
  Expected<ColumnRef> Data = overlapWith(C.self(), Other);
  if (!Data)
    return Data.takeError();
  return C.pushColumn(C.self(), "overlap", std::move(*Data));
}

Expected<int> tableContaining(Call &C) {
  const Table &Other = C.table(1);
  if (C.failed())
    return C.error();
  Expected<ColumnRef> Data = containing(C.self(), Other);
  if (!Data)
    return Data.takeError();
  return C.pushColumn(C.self(), "containing", std::move(*Data));
}

Expected<int> tableLaunchedBy(Call &C) {
  const Table &Calls = C.table(1), &Spans = C.table(2);
  if (C.failed())
    return C.error();
  Expected<ColumnRef> Data =
      launchedBy(C.self(), Calls, Spans, C.host().Evidence);
  if (!Data)
    return Data.takeError();
  return C.pushColumn(C.self(), "launched_by", std::move(*Data));
}

Expected<int> tableEndsSooner(Call &C) {
  StringRef Saving = C.text(1);
  const Table &Calls = C.table(2);
  if (C.failed())
    return C.error();
  Expected<int64_t> Sooner =
      endsSooner(C.self(), Saving, Calls, C.host().Evidence);
  if (!Sooner)
    return Sooner.takeError();
  return C.push(*Sooner);
}

} // namespace culprit
