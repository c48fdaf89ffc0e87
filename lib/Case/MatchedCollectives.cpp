//===- MatchedCollectives.cpp -----------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/MatchedCollectives.h"
#include "Case/ClockAlignment.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

std::optional<double> busFactor(StringRef Op, int64_t Size) {
  double N = static_cast<double>(Size);
  if (Size < 2)
    return std::nullopt;
  if (Op == "all_reduce")
    return 2 * (N - 1) / N;
  // Of these collectives.bytes counts the parts of all ranks together, of
  // which each rank already has one.
  if (Op == "all_gather" || Op == "reduce_scatter" || Op == "all_to_all" ||
      Op == "gather" || Op == "scatter")
    return (N - 1) / N;
  if (Op == "broadcast" || Op == "reduce" || Op == "send" || Op == "recv")
    return 1;
  return std::nullopt;
}

/// Sets the columns that tell of time for \p M, whose records have times.
static void setTimes(ArrayRef<CollectiveRecord> Records,
                     const CollectiveMatch &M, int64_t Bytes, int64_t Size,
                     TableBuilder &Into) {
  std::vector<uint32_t> ByEntry(M.begin(), M.end());
  // Of ranks that enter at the same time the lower is first and the other
  // last, so that a tie names two.
  llvm::stable_sort(ByEntry, [&](uint32_t X, uint32_t Y) {
    return Records[X].Start < Records[Y].Start;
  });
  const CollectiveRecord &First = Records[ByEntry.front()],
                         &Last = Records[ByEntry.back()];
  int64_t Stop = Last.Stop, Transfer = INT64_MAX, Waited = 0;
  for (uint32_t I : M) {
    const CollectiveRecord &R = Records[I];
    Stop = std::max(Stop, R.Stop);
    Transfer = std::min(Transfer, R.Stop - R.Start);
    // Who left before the last one came did not wait for it till then.
    Waited += std::min(Last.Start, std::max(R.Stop, R.Start)) - R.Start;
  }
  size_t Others = ByEntry.size() - 1;
  int64_t Median = Records[ByEntry[Others / 2]].Start;
  if (Others % 2 == 0)
    Median = (Median + Records[ByEntry[Others / 2 - 1]].Start) / 2;

  Into.set(matched_collectives::start, First.Start);
  Into.set(matched_collectives::stop, Stop);
  Into.set(matched_collectives::dur, Stop - First.Start);
  Into.set(matched_collectives::first_rank, First.Rank);
  Into.set(matched_collectives::last_rank, Last.Rank);
  Into.set(matched_collectives::skew, Last.Start - First.Start);
  Into.set(matched_collectives::transfer, Transfer);
  Into.set(matched_collectives::last_row, static_cast<int64_t>(Last.Row));
  Into.set(matched_collectives::waited,
           Waited / static_cast<int64_t>(Others));
  Into.set(matched_collectives::lateness, Last.Start - Median);
  std::optional<double> Factor =
      Size == NullInt ? std::nullopt : busFactor(First.Op, Size);
  if (Factor && Bytes != NullInt && Bytes > 0 && Transfer > 0)
    Into.set(matched_collectives::bus_bandwidth,
             static_cast<double>(Bytes) / static_cast<double>(Transfer) *
                 *Factor);
}

void deriveMatchedCollectives(const Case &C, TableBuilder &Into) {
  std::vector<CollectiveRecord> Records = collectiveRecords(C);
  for (const CollectiveMatch &M : matchCollectives(Records)) {
    const CollectiveRecord *First = &Records[M.front()];
    int64_t Bytes = NullInt, Size = NullInt;
    for (uint32_t I : M) {
      const CollectiveRecord &R = Records[I];
      if (R.timed() && R.Start < First->Start)
        First = &R;
      Bytes = std::max(Bytes, R.Bytes); // NullInt is the smallest
      Size = std::max({Size, R.GroupSize,
                       R.Members.empty() ? NullInt
                                         : int64_t(R.Members.size())});
    }
    // A send is one link, whatever the size of the group around it; and where
    // nobody names groups, what all ranks of the job took part in is theirs.
    bool OneLink = First->Op == "send" || First->Op == "recv";
    int64_t Seen = static_cast<int64_t>(M.size());
    int64_t Known = OneLink                          ? 2
                    : Size != NullInt                ? Size
                    : First->World == Seen           ? Seen
                                                     : NullInt;
    Into.addRow();
    if (!First->Op.empty())
      Into.set(matched_collectives::op, First->Op);
    if (!First->Group.empty())
      Into.set(matched_collectives::group, First->Group);
    if (First->Seq != NullInt)
      Into.set(matched_collectives::seq, First->Seq);
    if (Bytes != NullInt)
      Into.set(matched_collectives::bytes, Bytes);
    Into.set(matched_collectives::ranks, Seen);
    Into.set(matched_collectives::group_size,
             Size != NullInt ? Size : OneLink ? 2 : Seen);
    if (Records[M.front()].timed())
      setTimes(Records, M, Bytes, Known, Into);
  }
}

} // namespace culprit
