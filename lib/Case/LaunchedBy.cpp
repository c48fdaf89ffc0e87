//===- LaunchedBy.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/LaunchedBy.h"
#include "Case/CallsOf.h"
#include "Table/Intervals.h"
#include "Table/Keys.h"
#include <map>

using namespace llvm;

namespace culprit {

/// For each row of \p Work the first of \p Spans with its operator id.
static Expected<RowIndex> spansById(const Table &Work, const Table &Spans) {
  static const std::string Keys[] = {"rank", "external"};
  for (const std::string &Key : Keys)
    if (!Work.find(Key) || !Spans.find(Key))
      return RowIndex(Work.rows(), NoRow);
  Expected<KeyIndex> Index = KeyIndex::make(Spans, Keys);
  if (!Index)
    return Index.takeError();
  return Index->firstRowsFor(Work);
}

using Thread = std::pair<int64_t, int64_t>; // rank, tid

namespace {
/// The columns that say on which thread a row is.
struct ThreadColumns {
  const ColumnView *Rank, *Tid;

  static Expected<ThreadColumns> of(const Table &T) {
    Expected<const ColumnView *> Rank = T.column("rank", ColumnType::Int);
    if (!Rank)
      return Rank.takeError();
    Expected<const ColumnView *> Tid = T.column("tid", ColumnType::Int);
    if (!Tid)
      return Tid.takeError();
    return ThreadColumns{*Rank, *Tid};
  }

  Thread operator[](size_t Row) const {
    return {Rank->getInt(Row), Tid->getInt(Row)};
  }
};

/// Rows by thread. One look-up serves a run of rows of one thread.
class RowsByThread {
public:
  std::map<Thread, RowIndex> Rows;

  void add(const Thread &Of, uint32_t Row) {
    if (!Last || Of != LastOf) {
      Last = &Rows[Of];
      LastOf = Of;
    }
    Last->push_back(Row);
  }

private:
  RowIndex *Last = nullptr;
  Thread LastOf;
};
} // namespace

Expected<ColumnRef> launchedBy(const Table &Work, const Table &Calls,
                               const Table &Spans, const Case *Of) {
  Expected<RowIndex> CallOf = callsOf(Work, Calls, Of);
  if (!CallOf)
    return CallOf.takeError();
  Expected<ThreadColumns> SpanThreads = ThreadColumns::of(Spans);
  if (!SpanThreads)
    return SpanThreads.takeError();
  Expected<ThreadColumns> CallThreads = ThreadColumns::of(Calls);
  if (!CallThreads)
    return CallThreads.takeError();
  Expected<const ColumnView *> CallStarts =
      Calls.column("start", ColumnType::Int);
  if (!CallStarts)
    return CallStarts.takeError();

  std::vector<int64_t> Found(Work.rows(), NullInt);
  RowsByThread WorkOf, SpansOf;
  bool AllKnown = true;
  for (size_t I = 0; I != Work.rows(); ++I)
    if (uint32_t Call = (*CallOf)[I]; Call != NoRow)
      WorkOf.add((*CallThreads)[Call], static_cast<uint32_t>(I));
    else
      AllKnown = false;
  for (size_t I = 0; I != Spans.rows(); ++I)
    SpansOf.add((*SpanThreads)[I], static_cast<uint32_t>(I));
  if (!AllKnown) {
    Expected<RowIndex> ById = spansById(Work, Spans);
    if (!ById)
      return ById.takeError();
    for (size_t I = 0; I != Work.rows(); ++I)
      if ((*CallOf)[I] == NoRow && (*ById)[I] != NoRow)
        Found[I] = (*ById)[I];
  }
  for (const auto &[Key, Rows] : WorkOf.Rows) {
    auto Open = SpansOf.Rows.find(Key);
    if (Open == SpansOf.Rows.end())
      continue;
    auto Starts = std::make_shared<Column>(ColumnType::Int);
    for (uint32_t Row : Rows)
      Starts->addInt((*CallStarts)->getInt((*CallOf)[Row]));
    // Bounds that are points: containing() looks at the start alone.
    Table Points("launches", Work.pool(),
                 {{"start", Starts}, {"stop", Starts}}, Rows.size());
    Expected<ColumnRef> Inner =
        containing(Points, Spans.take(RowIndex(Open->second)));
    if (!Inner)
      return Inner.takeError();
    for (size_t I = 0; I != Rows.size(); ++I)
      if (int64_t At = (*Inner)->ints()[I]; At != NullInt)
        Found[Rows[I]] = Open->second[At];
  }
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = std::move(Found);
  return Out;
}

} // namespace culprit
