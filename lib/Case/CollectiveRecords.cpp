//===- CollectiveRecords.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/ClockAlignment.h"
#include "Table/Statistics.h"
#include <cmath>

using namespace llvm;

namespace culprit {

namespace {

/// Reads the rows of one `collectives` table. \p Values gives the data of a
/// column, or null where nobody set it.
void readRecords(size_t Rows, const StringPool &Pool, uint32_t Source,
                 function_ref<const ColumnView *(unsigned)> Values,
                 const std::map<int64_t, int64_t> &World,
                 std::vector<CollectiveRecord> &Out) {
  auto integer = [&](unsigned C, size_t I) {
    const ColumnView *V = Values(C);
    return V ? V->getInt(I) : NullInt;
  };
  auto text = [&](unsigned C, size_t I) {
    const ColumnView *V = Values(C);
    StringId Id = V ? V->getString(I) : NullString;
    return Id == NullString ? StringRef() : Pool.text(Id);
  };
  for (size_t I = 0; I != Rows; ++I) {
    CollectiveRecord R;
    R.Rank = integer(collectives::rank, I);
    if (R.Rank == NullInt)
      R.Rank = 0;
    R.Seq = integer(collectives::seq, I);
    R.Order = integer(collectives::record, I);
    R.Bytes = integer(collectives::bytes, I);
    R.Start = integer(collectives::start, I);
    R.Stop = integer(collectives::stop, I);
    // A flight recorder's times are when its watchdog noticed, which says
    // nothing of waits, transfers or clocks; only it numbers its records.
    if (R.Order != NullInt || (R.timed() && R.Stop < R.Start))
      R.Start = R.Stop = NullInt;
    R.GroupSize = integer(collectives::group_size, I);
    R.Peer = integer(collectives::peer, I);
    R.Group = text(collectives::group, I);
    R.Op = text(collectives::op, I);
    if (const ColumnView *V = Values(collectives::members))
      R.Members = V->Data->list(V->row(I));
    if (auto It = World.find(R.Rank); It != World.end())
      R.World = It->second;
    R.Row = static_cast<uint32_t>(I);
    R.Source = Source;
    Out.push_back(R);
  }
}

} // namespace

std::vector<CollectiveRecord>
collectiveRecords(ArrayRef<std::unique_ptr<Source>> Sources,
          std::vector<int64_t> &WorldOf) {
  std::vector<CollectiveRecord> Out;
  for (uint32_t S = 0; S != Sources.size(); ++S) {
    std::map<int64_t, int64_t> World;
    if (TableBuilder *B = Sources[S]->existing(TableId::ranks)) {
      ArrayRef<int64_t> Rank = B->finished(ranks::rank).ints(),
                        Size = B->finished(ranks::world_size).ints();
      for (size_t I = 0; I != B->rows(); ++I)
        if (Size[I] != NullInt)
          World[Rank[I]] = WorldOf[S] = Size[I];
    }
    TableBuilder *B = Sources[S]->existing(TableId::collectives);
    if (!B || B->rows() == 0)
      continue;
    // A copy of what is shared, not of the data: the builder owns it.
    std::map<unsigned, ColumnView> Views;
    for (unsigned C = 0; C != schema(TableId::collectives).Columns.size(); ++C)
      if (B->touched(C))
        Views[C] = {"", ColumnRef(ColumnRef(), &B->finished(C)), nullptr};
    readRecords(
        B->rows(), Sources[S]->pool(), S,
        [&](unsigned C) -> const ColumnView * {
          auto It = Views.find(C);
          return It == Views.end() ? nullptr : &It->second;
        },
        World, Out);
  }
  return Out;
}

std::vector<CollectiveRecord> collectiveRecords(const Case &C) {
  std::map<int64_t, int64_t> World;
  const Table &Ranks = C.table(TableId::ranks);
  for (size_t I = 0; I != Ranks.rows(); ++I)
    if (int64_t Size = Ranks.columns()[ranks::world_size].getInt(I);
        Size != NullInt)
      World[Ranks.columns()[ranks::rank].getInt(I)] = Size;
  const Table &T = C.table(TableId::collectives);
  std::vector<CollectiveRecord> Out;
  readRecords(
      T.rows(), *C.pool(), 0, [&](unsigned I) { return &T.columns()[I]; },
      World, Out);
  return Out;
}

std::map<int64_t, int64_t> clockResiduals(const Case &C) {
  std::vector<CollectiveRecord> Records = collectiveRecords(C);
  std::map<int64_t, std::vector<double>> ByRank;
  for (const CollectiveMatch &M : matchCollectives(Records)) {
    const CollectiveRecord &First = Records[M.front()];
    if (!First.timed() || !leavesTogether(First.Op))
      continue;
    std::vector<double> Stops;
    for (uint32_t I : M)
      Stops.push_back(static_cast<double>(Records[I].Stop));
    double Middle = quantile(Stops, 0.5).value_or(0);
    // Of two, each is as far from the other as the two are apart.
    double Scale = M.size() == 2 ? 2 : 1;
    for (size_t I = 0; I != M.size(); ++I)
      ByRank[Records[M[I]].Rank].push_back(Scale * (Stops[I] - Middle));
  }
  std::map<int64_t, int64_t> Out;
  for (auto &[Rank, Differences] : ByRank)
    Out[Rank] = std::llround(
        std::abs(quantile(Differences, 0.5).value_or(0)));
  return Out;
}

std::optional<int64_t> clockResidual(const Case &C, int64_t Rank) {
  std::map<int64_t, int64_t> All = clockResiduals(C);
  auto It = All.find(Rank);
  if (It == All.end())
    return std::nullopt;
  return It->second;
}

} // namespace culprit
