//===- CollectivesTest.h - Collectives row by row ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_UNIT_CASE_COLLECTIVESTEST_H
#define CULPRIT_TEST_UNIT_CASE_COLLECTIVESTEST_H

#include "Case/Case.h"
#include "Case/ClockAlignment.h"
#include "Case/MatchedCollectives.h"
#include "gtest/gtest.h"

namespace culprit {

/// The profile of one rank, written row by row.
struct RankProfile {
  RankProfile(CaseBuilder &Builder, int64_t Rank)
      : S(std::make_unique<Source>("run/rank" + std::to_string(Rank) + ".json",
                                   Builder.pool())),
        Rank(Rank) {}

  void collective(llvm::StringRef Op, int64_t Seq, int64_t Start, int64_t Stop,
                  int64_t Bytes = 1024, int64_t Peer = NullInt,
                  llvm::StringRef Group = "dp") {
    TableBuilder &B = S->table(TableId::collectives);
    B.addRow();
    B.set(collectives::op, Op);
    B.set(collectives::group, Group);
    if (Seq != NullInt)
      B.set(collectives::seq, Seq);
    B.set(collectives::rank, Rank);
    B.set(collectives::bytes, Bytes);
    if (Start != NullInt) {
      B.set(collectives::start, Start);
      B.set(collectives::stop, Stop);
    }
    if (Peer != NullInt)
      B.set(collectives::peer, Peer);
  }
  void world(int64_t Size) {
    TableBuilder &B = S->table(TableId::ranks);
    B.addRow();
    B.set(ranks::rank, Rank);
    B.set(ranks::world_size, Size);
  }
  void model(llvm::StringRef Name) {
    TableBuilder &B = S->table(TableId::devices);
    B.addRow();
    B.set(devices::rank, Rank);
    B.set(devices::model, Name);
  }

  std::unique_ptr<Source> S;
  int64_t Rank;
};

inline int64_t number(const Table &T, size_t Row, llvm::StringRef Column) {
  return T.cell(Row, *T.find(Column)).Int;
}

/// When collective \p I ends: irregular gaps of 9 to 11 ms, as steps have.
inline int64_t leaves(int64_t I) {
  return 10'000'000 * (I + 1) + (I * I * 7919) % 1'000'003;
}

} // namespace culprit

#endif // CULPRIT_TEST_UNIT_CASE_COLLECTIVESTEST_H
