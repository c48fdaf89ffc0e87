//===- CriticalPathTest.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Case.h"
#include "gtest/gtest.h"

using namespace culprit;
using llvm::StringRef;

namespace {

/// A timeline of rank 0, device 0, in microseconds.
struct Timeline {
  CaseBuilder Builder;
  std::unique_ptr<Source> S =
      std::make_unique<Source>("run/p.json", Builder.pool());

  /// Work \p Start to \p Stop, launched at \p Launch by thread \p Tid.
  void work(StringRef Name, int64_t Stream, int64_t Start, int64_t Stop,
            int64_t Launch, int64_t Tid = 1, StringRef Role = "compute") {
    ++Id;
    TableBuilder &W = S->table(TableId::gpu_work);
    W.addRow();
    W.set(gpu_work::kind, StringRef("kernel"));
    W.set(gpu_work::name, Name);
    W.set(gpu_work::start, Start * 1000);
    W.set(gpu_work::stop, Stop * 1000);
    W.set(gpu_work::rank, int64_t(0));
    W.set(gpu_work::device, int64_t(0));
    W.set(gpu_work::stream, Stream);
    W.set(gpu_work::correlation, Id);
    W.set(gpu_work::role, Role);
    call("launch", Launch, Launch + 1, Tid, Id);
  }
  void call(StringRef Role, int64_t Start, int64_t Stop, int64_t Tid,
            int64_t Correlation = NullInt) {
    TableBuilder &B = S->table(TableId::host_calls);
    B.addRow();
    B.set(host_calls::role, Role);
    B.set(host_calls::start, Start * 1000);
    B.set(host_calls::stop, Stop * 1000);
    B.set(host_calls::dur, (Stop - Start) * 1000);
    B.set(host_calls::rank, int64_t(0));
    B.set(host_calls::tid, Tid);
    if (Correlation != NullInt)
      B.set(host_calls::correlation, Correlation);
  }
  void range(StringRef Category, int64_t Start, int64_t Stop, int64_t Tid,
             int64_t Step = NullInt) {
    TableBuilder &B = S->table(TableId::ranges);
    B.addRow();
    B.set(ranges::category, Category);
    B.set(ranges::start, Start * 1000);
    B.set(ranges::stop, Stop * 1000);
    B.set(ranges::rank, int64_t(0));
    B.set(ranges::tid, Tid);
    if (Step != NullInt)
      B.set(ranges::step, Step);
  }
  void runnable(int64_t Start, int64_t Stop, int64_t Tid) {
    TableBuilder &B = S->table(TableId::thread_states);
    B.addRow();
    B.set(thread_states::state, StringRef("runnable"));
    B.set(thread_states::start, Start * 1000);
    B.set(thread_states::stop, Stop * 1000);
    B.set(thread_states::rank, int64_t(0));
    B.set(thread_states::tid, Tid);
  }
  Case build() {
    S->EpochNs = 0;
    Builder.add(std::move(S));
    return Builder.build();
  }

  int64_t Id = 0;
};

/// Rows as text: "10-20 compute a".
std::vector<std::string> path(const Case &C) {
  const Table &T = C.table(TableId::critical_path);
  std::vector<std::string> Out;
  for (size_t I = 0; I != T.rows(); ++I) {
    auto At = [&](unsigned Column) { return T.columns()[Column].getInt(I); };
    auto Text = [&](unsigned Column) {
      return C.pool()->text(T.columns()[Column].getString(I)).str();
    };
    Out.push_back(std::to_string(At(critical_path::start) / 1000) + "-" +
                  std::to_string(At(critical_path::stop) / 1000) + " " +
                  Text(critical_path::kind) + " " + Text(critical_path::name));
  }
  return Out;
}

/// Pieces of gaps as text: "10-20 starved input".
std::vector<std::string> gapPieces(const Case &C) {
  const Table &T = C.table(TableId::gaps);
  std::vector<std::string> Out;
  for (size_t I = 0; I != T.rows(); ++I) {
    auto At = [&](unsigned Column) { return T.columns()[Column].getInt(I); };
    auto Text = [&](unsigned Column) {
      return C.pool()->text(T.columns()[Column].getString(I)).str();
    };
    Out.push_back(std::to_string(At(gaps::start) / 1000) + "-" +
                  std::to_string(At(gaps::stop) / 1000) + " " +
                  Text(gaps::state) + " " + Text(gaps::host));
  }
  return Out;
}

using Rows = std::vector<std::string>;

// a and c compute on stream 1, x communicates on stream 2. c was launched at
// 5, long before x ended at 50, and began 4 after that: it waited for x, not
// for a, which ended at 20.
TEST(CriticalPathTest, ComputeThatFollowsACollectiveWaitedForIt) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  P.work("x", 2, 15, 50, 2, 1, "communication");
  P.work("c", 1, 54, 60, 5);
  Case C = P.build();
  EXPECT_EQ(path(C), (Rows{"10-15 compute a", "15-50 communication x",
                           "50-54 blocked c", "54-60 compute c"}));
}

// The same, but c was launched at 52, when x had ended: the host was late, and
// x, though exposed, blocked nothing.
TEST(CriticalPathTest, ALateLaunchIsTheHostsThoughACollectiveRuns) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  P.work("x", 2, 15, 50, 2, 1, "communication");
  P.work("c", 1, 54, 60, 52);
  Case C = P.build();
  EXPECT_EQ(path(C), (Rows{"10-20 compute a", "20-52 code c",
                           "52-54 launching c", "54-60 compute c"}));
}

// Two steps of the host, 100 each; the pieces are cut where the second begins
// on the device: when the work launched before 100 has ended, at 110.
TEST(CriticalPathTest, PiecesCarryTheStepAndAddUpToTheWindow) {
  Timeline P;
  P.range("step", 0, 100, 1, 7);
  P.range("step", 100, 200, 1, 8);
  P.work("a", 1, 10, 110, 5);
  P.work("b", 1, 130, 190, 125);
  Case C = P.build();
  EXPECT_EQ(path(C),
            (Rows{"0-5 code a", "5-10 launching a", "10-110 compute a",
                  "110-125 code b", "125-130 launching b",
                  "130-190 compute b", "190-200 unresolved "}));
  const Table &T = C.table(TableId::critical_path);
  int64_t Sum = 0;
  std::vector<int64_t> Steps;
  for (size_t I = 0; I != T.rows(); ++I) {
    Sum += T.columns()[critical_path::dur].getInt(I);
    Steps.push_back(T.columns()[critical_path::step].getInt(I));
  }
  EXPECT_EQ(Sum, 200'000);
  EXPECT_EQ(Steps, (std::vector<int64_t>{7, 7, 7, 8, 8, 8, 8}));
}

// The gap [20,100) belongs to b, launched at 90 by thread 1. Its thread was in
// the loader in [30,60), with an allocation in [40,50) inside it, and wanted a
// CPU in [70,80). The loader of thread 9, which launches nothing, is not its
// wait.
TEST(GapsTest, OneAnswerAnInstant) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  P.work("b", 1, 100, 110, 90);
  P.range("dataloader", 30, 60, 1);
  P.range("dataloader", 60, 90, 9);
  P.call("allocate", 40, 50, 1);
  P.runnable(70, 80, 1);
  P.runnable(20, 30, 9);
  Case C = P.build();
  EXPECT_EQ(gapPieces(C),
            (Rows{"20-30 starved code", "30-40 starved input",
                  "40-50 starved allocate", "50-60 starved input",
                  "60-70 starved code", "70-80 starved preempted",
                  "80-90 starved code", "90-100 launching "}));
}

// Thread 2 launches on nothing here, and makes calls: its allocation in
// [30,60) is not the wait of the device that thread 1 serves.
TEST(GapsTest, AnotherDevicesThreadIsNotBlamed) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  P.work("b", 1, 100, 110, 90);
  P.call("allocate", 30, 60, 2);
  Case C = P.build();
  EXPECT_EQ(gapPieces(C),
            (Rows{"20-90 starved code", "90-100 launching "}));
}

// The host waited for a until 22: what follows is the refill. The second gap
// opened with nobody waiting: code.
TEST(GapsTest, TheGapAfterAWaitIsItsRefill) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  P.work("b", 1, 40, 50, 35);
  P.work("c", 1, 70, 80, 65);
  P.call("sync", 12, 22, 1);
  Case C = P.build();
  EXPECT_EQ(gapPieces(C),
            (Rows{"20-35 starved refill", "35-40 launching ",
                  "50-65 starved code", "65-70 launching "}));
}

// A copy call that returns after its copy has ended was a wait as well.
TEST(GapsTest, ASynchronousCopyIsAWait) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  TableBuilder &W = P.S->table(TableId::gpu_work);
  W.addRow();
  W.set(gpu_work::kind, StringRef("copy"));
  W.set(gpu_work::role, StringRef("copy"));
  W.set(gpu_work::start, int64_t(20'000));
  W.set(gpu_work::stop, int64_t(21'000));
  W.set(gpu_work::rank, int64_t(0));
  W.set(gpu_work::device, int64_t(0));
  W.set(gpu_work::stream, int64_t(1));
  W.set(gpu_work::correlation, int64_t(99));
  P.call("copy", 3, 25, 1, 99);
  P.work("b", 1, 40, 50, 35);
  Case C = P.build();
  EXPECT_EQ(gapPieces(C),
            (Rows{"21-35 starved refill", "35-40 launching "}));
}

// Where loader ranges carry ids that no launch call has, they are of another
// kind and all of them count.
TEST(GapsTest, ThreadIdsOfAnotherKindAllCount) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  P.work("b", 1, 100, 110, 90);
  P.range("dataloader", 30, 60, 140'000);
  Case C = P.build();
  EXPECT_EQ(gapPieces(C),
            (Rows{"20-30 starved code", "30-60 starved input",
                  "60-90 starved code", "90-100 launching "}));
}

// Launches at 0, 1, 2; works end at 20, 60, 80. When the third is called two
// are not done.
TEST(LaunchesTest, QueuedCountsWhatIsNotDone) {
  Timeline P;
  P.work("a", 1, 10, 20, 0);
  P.work("b", 1, 20, 60, 1);
  P.work("c", 1, 60, 80, 2);
  P.work("d", 1, 90, 95, 70);
  Case C = P.build();
  const Table &T = C.table(TableId::launches);
  ASSERT_EQ(T.rows(), 4u);
  std::vector<int64_t> Queued;
  for (size_t I = 0; I != 4; ++I)
    Queued.push_back(T.columns()[launches::queued].getInt(I));
  EXPECT_EQ(Queued, (std::vector<int64_t>{0, 1, 2, 1}));
  EXPECT_EQ(T.columns()[launches::dur].getInt(3), 20'000);
}

} // namespace
