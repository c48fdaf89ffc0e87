//===- LaunchedBy.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/LaunchedBy.h"
#include "Table/Intervals.h"
#include "Table/Keys.h"
#include <map>

using namespace llvm;

namespace culprit {

/// For each row of \p A the first row of \p B that agrees on the columns
/// \p Keys, or KeyIndex::None; all None where a table lacks a column.
static Expected<RowIndex> partners(const Table &A, const Table &B,
                                   ArrayRef<std::string> Keys) {
  RowIndex Out(A.rows(), KeyIndex::None);
  for (const std::string &Key : Keys)
    if (!A.find(Key) || !B.find(Key))
      return Out;
  Expected<RowKeys> Wanted = RowKeys::make(A, Keys);
  if (!Wanted)
    return Wanted.takeError();
  Expected<RowKeys> Given = RowKeys::make(B, Keys);
  if (!Given)
    return Given.takeError();
  KeyIndex Index(*Given);
  for (size_t I = 0; I != B.rows(); ++I)
    Index.add(I);
  for (size_t I = 0; I != A.rows(); ++I)
    if (Wanted->present(I))
      if (uint32_t N = Index.find(Wanted->key(I)); N != KeyIndex::None)
        Out[I] = Index.firstRow(N);
  return Out;
}

Expected<ColumnRef> launchedBy(const Table &Work, const Table &Calls,
                               const Table &Spans) {
  Expected<RowIndex> CallOf = partners(Work, Calls, {"rank", "correlation"});
  if (!CallOf)
    return CallOf.takeError();
  Expected<RowIndex> ById = partners(Work, Spans, {"rank", "external"});
  if (!ById)
    return ById.takeError();

  using Thread = std::pair<int64_t, int64_t>; // rank, tid
  auto threads = [](const Table &T) -> Expected<std::vector<Thread>> {
    Expected<std::vector<int64_t>> Ranks = T.integers("rank");
    if (!Ranks)
      return Ranks.takeError();
    Expected<std::vector<int64_t>> Tids = T.integers("tid");
    if (!Tids)
      return Tids.takeError();
    std::vector<Thread> Out;
    for (size_t I = 0; I != T.rows(); ++I)
      Out.emplace_back((*Ranks)[I], (*Tids)[I]);
    return Out;
  };
  Expected<std::vector<Thread>> SpanThreads = threads(Spans);
  if (!SpanThreads)
    return SpanThreads.takeError();
  Expected<std::vector<Thread>> CallThreads = threads(Calls);
  if (!CallThreads)
    return CallThreads.takeError();
  Expected<std::vector<int64_t>> CallStarts = Calls.integers("start");
  if (!CallStarts)
    return CallStarts.takeError();

  std::map<Thread, RowIndex> SpansOf, WorkOf;
  for (size_t I = 0; I != Spans.rows(); ++I)
    SpansOf[(*SpanThreads)[I]].push_back(static_cast<uint32_t>(I));
  std::vector<int64_t> Found(Work.rows(), NullInt);
  for (size_t I = 0; I != Work.rows(); ++I) {
    uint32_t Call = (*CallOf)[I];
    if (Call != KeyIndex::None)
      WorkOf[(*CallThreads)[Call]].push_back(static_cast<uint32_t>(I));
    else if ((*ById)[I] != KeyIndex::None)
      Found[I] = (*ById)[I];
  }
  for (const auto &[Key, Rows] : WorkOf) {
    auto Open = SpansOf.find(Key);
    if (Open == SpansOf.end())
      continue;
    auto Starts = std::make_shared<Column>(ColumnType::Int);
    for (uint32_t Row : Rows)
      Starts->addInt((*CallStarts)[(*CallOf)[Row]]);
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
