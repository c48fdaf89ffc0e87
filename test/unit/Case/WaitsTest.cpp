//===- WaitsTest.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Case.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace llvm;

namespace {

/// The dumps of a job. Records are numbered in the order they are added.
struct Dumps {
  Dumps() : S(std::make_unique<Source>("run/dumps", Builder.pool())) {}

  /// Returns the row, so that members or a peer can be added.
  TableBuilder &call(int64_t Rank, StringRef Op, StringRef Group, int64_t Seq,
                     StringRef State, ArrayRef<int64_t> Members = {}) {
    TableBuilder &B = S->table(TableId::collectives);
    B.addRow();
    B.set(collectives::rank, Rank);
    B.set(collectives::record, Record++);
    B.set(collectives::op, Op);
    B.set(collectives::group, Group);
    B.set(collectives::seq, Seq);
    B.set(collectives::state, State);
    if (!Members.empty())
      B.setList(collectives::members, Members);
    return B;
  }
  void exchange(int64_t Rank, StringRef Op, int64_t Peer, int64_t Seq,
                StringRef State = "scheduled", StringRef Group = "pp") {
    call(Rank, Op, Group, Seq, State).set(collectives::peer, Peer);
  }
  void counter(int64_t Rank, StringRef Group, ArrayRef<int64_t> Members,
               int64_t Enqueued, int64_t Completed) {
    TableBuilder &B = S->table(TableId::process_groups);
    B.addRow();
    B.set(process_groups::rank, Rank);
    B.set(process_groups::group, Group);
    B.setList(process_groups::members, Members);
    B.set(process_groups::last_enqueued, Enqueued);
    B.set(process_groups::last_completed, Completed);
  }

  /// "call row: rank state*, ..." a call, * where the rank hangs in it.
  std::string waits() {
    Builder.add(std::move(S));
    Case C = Builder.build();
    const Table &T = C.table(TableId::waits);
    auto integer = [&](unsigned Column, size_t Row) {
      return T.columns()[Column].getInt(Row);
    };
    std::string Out;
    for (size_t I = 0; I != T.rows(); ++I) {
      if (I == 0 || integer(waits::call, I) != integer(waits::call, I - 1))
        Out += (I ? "\n" : "") + std::to_string(integer(waits::call, I)) +
               " " + std::to_string(integer(waits::row, I)) + ":";
      StringRef State =
          C.pool()->text(T.columns()[waits::state].getString(I));
      Out += " " + std::to_string(integer(waits::rank, I)) + " " + State.str();
      if (integer(waits::own, I) != NullInt)
        Out += "*" + std::to_string(integer(waits::own, I));
      uint8_t Started = T.columns()[waits::started].Data->bools()[I];
      if (Started == 1)
        Out += " started";
    }
    return Out;
  }

  CaseBuilder Builder;
  std::unique_ptr<Source> S;
  int64_t Record = 0;
};

const int64_t Four[] = {0, 1, 2, 3};
const int64_t Three[] = {0, 1, 2};
const int64_t Two[] = {0, 1};

// Ranks 0 and 1 have called 5, and the device of 0 has begun it; 2 has
// completed 4 and gone no further; 3 left nothing.
TEST(WaitsTest, WhoHasNotCalledAndWhoLeftNoDump) {
  Dumps D;
  D.call(0, "all_reduce", "dp", 5, "started", Four);
  D.call(1, "all_reduce", "dp", 5, "scheduled", Four);
  D.call(2, "all_reduce", "dp", 4, "completed", Four);
  EXPECT_EQ(D.waits(), "0 0: 0 waits*0 started 1 waits*1 2 absent 3 unknown");
}

TEST(WaitsTest, NothingHangsWhereAllIsCompleted) {
  Dumps D;
  D.call(0, "all_reduce", "dp", 5, "completed", Two);
  D.call(1, "all_reduce", "dp", 5, "completed", Two);
  EXPECT_EQ(D.waits(), "");
}

// Rank 1 has called dp 5 behind tp 9, which is pending on its device and which
// rank 2 has not called. Rows of a call come by rank, calls by their lowest.
TEST(WaitsTest, AnOlderCallIsInTheWay) {
  Dumps D;
  const int64_t Tensor[] = {2, 1};
  D.call(1, "all_gather", "tp", 9, "scheduled", Tensor);
  D.call(1, "all_reduce", "dp", 5, "scheduled", Two);
  D.call(0, "all_reduce", "dp", 5, "scheduled", Two);
  D.call(2, "all_gather", "tp", 8, "completed", Tensor);
  EXPECT_EQ(D.waits(), "0 2: 0 waits*2 1 before\n"
                       "1 0: 1 waits*0 2 absent");
}

// Rank 0's record of 5 says it is done; of rank 1 only the counter does, which
// agrees with its last record.
TEST(WaitsTest, CountersTellWhatRecordsNoLongerDo) {
  Dumps D;
  D.call(2, "all_reduce", "dp", 5, "scheduled", Three);
  D.call(0, "all_reduce", "dp", 5, "completed", Three);
  D.call(1, "all_reduce", "dp", 6, "scheduled", Three);
  D.counter(1, "dp", Three, 6, 5);
  D.counter(2, "dp", Three, 5, 4);
  EXPECT_EQ(D.waits(), "0 2: 0 absent 1 waits*2 2 absent\n"
                       "1 0: 0 done 1 done 2 waits*0");
}

// Rank 1 has no record of the group left; by its counter it called 7 and
// completed 4. What became of 5 is not known.
TEST(WaitsTest, CalledAndFallenOutOfTheBuffer) {
  Dumps D;
  D.call(0, "all_reduce", "dp", 5, "scheduled", Two);
  D.counter(0, "dp", Two, 5, 4);
  D.counter(1, "dp", Two, 7, 4);
  EXPECT_EQ(D.waits(), "0 0: 0 waits*0 1 called");
}

// The same, but the group carries sends too, and its counters count them: 7
// pieces of work are no 7 collectives.
TEST(WaitsTest, CountersOfMixedGroupsAreNotBelieved) {
  Dumps D;
  D.call(0, "all_reduce", "dp", 5, "scheduled", Two);
  D.exchange(0, "send", 1, 2, "completed", "dp");
  D.counter(0, "dp", Two, 5, 4);
  D.counter(1, "dp", Two, 7, 6);
  EXPECT_EQ(D.waits(), "0 0: 0 waits*0 1 absent");
}

// Rank 0's counter says 8 calls where its last record is 5: they count
// something else.
TEST(WaitsTest, CountersThatDisagreeAreNotBelieved) {
  Dumps D;
  D.call(0, "all_reduce", "dp", 5, "scheduled", Two);
  D.counter(0, "dp", Two, 8, 7);
  D.counter(1, "dp", Two, 7, 6);
  EXPECT_EQ(D.waits(), "0 0: 0 waits*0 1 absent");
}

// Without a list of members those count that were seen in the group, by a
// record (rank 4) or by a counter (rank 1).
TEST(WaitsTest, MembersThatWereSeen) {
  Dumps D;
  D.call(2, "all_reduce", "dp", 5, "scheduled");
  D.call(4, "all_reduce", "dp", 4, "completed");
  D.counter(1, "dp", Two, 4, 4);
  EXPECT_EQ(D.waits(), "0 0: 1 absent 2 waits*0 4 absent");
}

// Rank 1 receives from 0 and sends to 2 in one batch. 0 has nothing for it; 2
// receives from it, but behind its own receive from 3, which left no dump.
TEST(WaitsTest, ABatchWaitsForEachOfItsPeers) {
  Dumps D;
  D.exchange(1, "recv", 0, 3);
  D.exchange(1, "send", 2, 3);
  D.exchange(2, "recv", 3, 3);
  D.exchange(2, "recv", 1, 4);
  D.call(0, "all_reduce", "dp", 1, "completed");
  EXPECT_EQ(D.waits(), "0 0: 0 absent 1 waits*0 2 before\n"
                       "1 2: 2 waits*2 3 unknown");
}

// In a group of two both ends count alike: rank 0 has completed its send 7,
// so rank 1 alone is left in the receive; and its own receive 8 is another.
TEST(WaitsTest, TheOtherEndOfAPairIsOver) {
  Dumps D;
  D.exchange(0, "send", 1, 7, "completed");
  D.exchange(1, "recv", 0, 7);
  EXPECT_EQ(D.waits(), "0 1: 0 done 1 waits*1");
}

// Rank 1 waits in receive 7 and rank 0 in receive 8 of the pair: they do not
// meet, though each has something pending for the other.
TEST(WaitsTest, PairsMeetByNumber) {
  Dumps D;
  D.exchange(0, "recv", 1, 8);
  D.exchange(1, "recv", 0, 7);
  EXPECT_EQ(D.waits(), "0 0: 0 waits*0 1 before\n"
                       "1 1: 0 before 1 waits*1");
}

// Rows that no recorder numbered, or without a group, say nothing of a hang.
TEST(WaitsTest, OnlyFlightRecorders) {
  Dumps D;
  TableBuilder &B = D.S->table(TableId::collectives);
  B.addRow();
  B.set(collectives::rank, int64_t(0));
  B.set(collectives::seq, int64_t(5));
  B.set(collectives::group, StringRef("dp"));
  B.set(collectives::state, StringRef("scheduled"));
  EXPECT_EQ(D.waits(), "");
}

} // namespace
