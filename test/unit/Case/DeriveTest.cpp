//===- DeriveTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Case.h"
#include "gtest/gtest.h"

using namespace culprit;

namespace {

/// Builds a profile row by row. Work of rank 0 on device 0.
struct Profile {
  CaseBuilder Builder;
  std::unique_ptr<Source> S =
      std::make_unique<Source>("run/p.json", Builder.pool());

  void work(int64_t Start, int64_t Stop, int64_t Correlation) {
    TableBuilder &B = S->table(TableId::gpu_work);
    B.addRow();
    B.set(gpu_work::name, llvm::StringRef("k"));
    B.set(gpu_work::start, Start);
    B.set(gpu_work::stop, Stop);
    B.set(gpu_work::rank, int64_t(0));
    B.set(gpu_work::device, int64_t(0));
    B.set(gpu_work::correlation, Correlation);
  }
  void launch(int64_t Start, int64_t Correlation) {
    TableBuilder &B = S->table(TableId::host_calls);
    B.addRow();
    B.set(host_calls::start, Start);
    B.set(host_calls::stop, Start + 5);
    B.set(host_calls::rank, int64_t(0));
    B.set(host_calls::tid, int64_t(7));
    B.set(host_calls::correlation, Correlation);
  }
  void step(int64_t Start, int64_t Stop, int64_t Number) {
    TableBuilder &B = S->table(TableId::ranges);
    B.addRow();
    B.set(ranges::category, llvm::StringRef("step"));
    B.set(ranges::start, Start);
    B.set(ranges::stop, Stop);
    B.set(ranges::rank, int64_t(0));
    B.set(ranges::step, Number);
  }
  Case build() {
    S->EpochNs = 0;
    Builder.add(std::move(S));
    return Builder.build();
  }
};

std::string text(const Table &T, size_t Row, llvm::StringRef Column) {
  return T.cell(Row, *T.find(Column)).text();
}

// Work in [0,10), [30,40), [45,50). The launch of the second began at 22, so
// of its gap [10,30) the host owes [10,22) and the launch takes [22,30). The
// third was launched at 24, before its gap [40,45): stalled.
TEST(DeriveTest, GapsAreCutAtTheLaunch) {
  Profile P;
  P.work(0, 10, 1);
  P.work(30, 40, 2);
  P.work(45, 50, 3);
  P.launch(-0, 1);
  P.launch(22, 2);
  P.launch(24, 3);
  Case C = P.build();
  const Table &Gaps = C.table(TableId::gaps);
  ASSERT_EQ(Gaps.rows(), 3u);
  EXPECT_EQ(text(Gaps, 0, "state"), "starved");
  EXPECT_EQ(text(Gaps, 0, "start"), "10");
  EXPECT_EQ(text(Gaps, 0, "dur"), "12");
  EXPECT_EQ(text(Gaps, 0, "tid"), "7");
  EXPECT_EQ(text(Gaps, 1, "state"), "launching");
  EXPECT_EQ(text(Gaps, 1, "dur"), "8");
  EXPECT_EQ(text(Gaps, 2, "state"), "stalled");
  EXPECT_EQ(text(Gaps, 2, "dur"), "5");
  const Table &Windows = C.table(TableId::windows);
  ASSERT_EQ(Windows.rows(), 1u);
  EXPECT_EQ(text(Windows, 0, "dur"), "50");  // span: no steps
  EXPECT_EQ(text(Windows, 0, "busy"), "25"); // 10 + 10 + 5
  EXPECT_EQ(text(Windows, 0, "steps"), "0");
}

TEST(DeriveTest, WorkWithoutALaunchIsUnresolved) {
  Profile P;
  P.work(0, 10, 1);
  P.work(20, 30, 99);
  P.launch(0, 1);
  Case C = P.build();
  ASSERT_EQ(C.table(TableId::gaps).rows(), 1u);
  EXPECT_EQ(text(C.table(TableId::gaps), 0, "state"), "unresolved");
}

// Four steps of 100 on the host; the device runs 60 late, as it does when the
// host is ahead. Steady are steps 1 and 2. The window ends with the work that
// step 2 launched (at 360), and begins where the work before step 1 ended
// (at 160), not where the host's step began (at 100).
TEST(DeriveTest, WindowFollowsTheDeviceWhenTheHostIsAhead) {
  Profile P;
  for (int64_t I = 0; I != 4; ++I) {
    P.step(100 * I, 100 * I + 100, I);
    P.launch(100 * I + 10, I + 1);
    P.work(100 * I + 60, 100 * I + 160, I + 1);
  }
  Case C = P.build();
  const Table &Steps = C.table(TableId::steps);
  ASSERT_EQ(Steps.rows(), 4u);
  EXPECT_EQ(text(Steps, 0, "steady"), "false");
  EXPECT_EQ(text(Steps, 1, "steady"), "true");
  EXPECT_EQ(text(Steps, 3, "steady"), "false");
  const Table &Windows = C.table(TableId::windows);
  ASSERT_EQ(Windows.rows(), 1u);
  EXPECT_EQ(text(Windows, 0, "start"), "160");
  EXPECT_EQ(text(Windows, 0, "stop"), "360");
  EXPECT_EQ(text(Windows, 0, "steps"), "2");
  EXPECT_EQ(text(Windows, 0, "busy"), "200");
}

// The host is the limit: work ends before the step does. The window is the
// host's: from the begin of step 1 to the end of step 2.
TEST(DeriveTest, WindowFollowsTheHostWhenTheDeviceWaits) {
  Profile P;
  for (int64_t I = 0; I != 4; ++I) {
    P.step(100 * I, 100 * I + 100, I);
    P.launch(100 * I + 50, I + 1);
    P.work(100 * I + 55, 100 * I + 80, I + 1);
  }
  Case C = P.build();
  const Table &Windows = C.table(TableId::windows);
  EXPECT_EQ(text(Windows, 0, "start"), "100");
  EXPECT_EQ(text(Windows, 0, "stop"), "300");
  EXPECT_EQ(text(Windows, 0, "busy"), "50");
}

TEST(CaseTest, SourcesAreAlignedByTheirEpochs) {
  CaseBuilder Builder;
  for (int64_t I = 0; I != 2; ++I) {
    auto S = std::make_unique<Source>("r" + std::to_string(I), Builder.pool());
    S->EpochNs = 1000 + 500 * I;
    TableBuilder &B = S->table(TableId::gpu_work);
    B.addRow();
    B.set(gpu_work::start, int64_t(100));
    B.set(gpu_work::stop, int64_t(200));
    B.set(gpu_work::rank, I);
    Builder.add(std::move(S));
  }
  Case C = Builder.build();
  // Absolute starts 1100 and 1600; the case begins at 1100.
  EXPECT_EQ(*C.epochNs(), 1100);
  EXPECT_EQ(text(C.table(TableId::gpu_work), 0, "start"), "0");
  EXPECT_EQ(text(C.table(TableId::gpu_work), 1, "start"), "500");
  EXPECT_EQ(C.cite(TableId::gpu_work, 1).Path, "r1");
}

TEST(CaseTest, ProfilesOfOneRankAreKeptApart) {
  CaseBuilder Builder;
  for (int64_t I = 0; I != 2; ++I) {
    auto S = std::make_unique<Source>("r" + std::to_string(I), Builder.pool());
    TableBuilder &B = S->table(TableId::gpu_work);
    B.addRow();
    B.set(gpu_work::start, int64_t(0));
    B.set(gpu_work::stop, int64_t(1));
    B.set(gpu_work::rank, int64_t(0));
    Builder.add(std::move(S));
  }
  Case C = Builder.build();
  EXPECT_EQ(text(C.table(TableId::gpu_work), 1, "rank"), "1");
  ASSERT_EQ(C.inputs()[1].Remarks.size(), 1u);
}

namespace {
using Losses = std::vector<std::pair<int64_t, double>>;

/// A file of losses, and what stands in `primary` for each.
struct LossFile {
  const char *Path, *Format;
  Losses Rows;
};
} // namespace

static std::vector<std::string> primaryOf(llvm::ArrayRef<LossFile> Files) {
  CaseBuilder Builder;
  for (const LossFile &File : Files) {
    auto S = std::make_unique<Source>(File.Path, Builder.pool());
    S->Format = File.Format;
    for (auto [Step, Value] : File.Rows) {
      TableBuilder &B = S->table(TableId::scalars);
      B.addRow();
      B.set(scalars::run, llvm::StringRef(S->Run));
      B.set(scalars::name, llvm::StringRef("loss"));
      B.set(scalars::step, Step);
      B.set(scalars::value, Value);
    }
    Builder.add(std::move(S));
  }
  Case C = Builder.build();
  const Table &T = C.table(TableId::scalars);
  std::vector<std::string> Primary;
  for (size_t I = 0; I != T.rows(); ++I)
    Primary.push_back(text(T, I, "primary"));
  return Primary;
}

// The metrics file logs three steps and, after a resume, step 2 again; the log
// repeats two of them.
TEST(CaseTest, OneRowAStepIsPrimary) {
  EXPECT_EQ(
      primaryOf({{"run/metrics.jsonl", "JSON lines",
                  {{1, 4.0}, {2, 3.0}, {2, 3.5}, {3, 2}}},
                 {"run/train.log", "text log", {{1, 4.0}, {2, 3.0}}}}),
      (std::vector<std::string>{"true", "false", "true", "true", "false",
                                "false"}));
}

// The log begins at step 10 and has more steps; the file has the first one.
TEST(CaseTest, AnotherFileBeginsTheSeries) {
  EXPECT_EQ(primaryOf({{"run/metrics.csv", "CSV", {{0, 4.0}, {25, 3.0}}},
                       {"run/train.log", "text log",
                        {{10, 3.5}, {20, 3.1}, {30, 2.9}}}}),
            (std::vector<std::string>{"true", "false", "true", "true",
                                      "true"}));
}

// Epochs are other steps: they end long before.
TEST(CaseTest, AFileOfEpochsDoesNotBeginASeriesOfSteps) {
  EXPECT_EQ(primaryOf({{"run/epochs.csv", "CSV", {{0, 4.0}, {1, 3.0}}},
                       {"run/train.log", "text log",
                        {{10, 3.5}, {20, 3.1}, {30, 2.9}}}}),
            (std::vector<std::string>{"false", "false", "true", "true",
                                      "true"}));
}

namespace {
/// A file of tensors: name, role and mean of each, which have one element and
/// no step.
struct Checkpoint {
  const char *Path;
  std::vector<std::tuple<const char *, const char *, double>> Tensors;
};
} // namespace

static std::vector<std::string>
stepsOf(llvm::ArrayRef<Checkpoint> Files, const Losses &Logged) {
  CaseBuilder Builder;
  auto Log = std::make_unique<Source>("run/metrics.jsonl", Builder.pool());
  for (auto [Step, Value] : Logged) {
    TableBuilder &B = Log->table(TableId::scalars);
    B.addRow();
    B.set(scalars::run, llvm::StringRef(Log->Run));
    B.set(scalars::name, llvm::StringRef("loss"));
    B.set(scalars::step, Step);
    B.set(scalars::value, Value);
  }
  Builder.add(std::move(Log));
  for (const Checkpoint &File : Files) {
    auto S = std::make_unique<Source>(File.Path, Builder.pool());
    for (auto [Name, Role, Mean] : File.Tensors) {
      TableBuilder &B = S->table(TableId::tensors);
      B.addRow();
      B.set(tensors::run, llvm::StringRef(S->Run));
      B.set(tensors::name, llvm::StringRef(Name));
      B.set(tensors::role, llvm::StringRef(Role));
      B.set(tensors::numel, int64_t(1));
      B.set(tensors::mean, Mean);
    }
    Builder.add(std::move(S));
  }
  Case C = Builder.build();
  const Table &T = C.table(TableId::tensors);
  std::vector<std::string> Out;
  for (size_t I = 0; I != T.rows(); ++I)
    Out.push_back(text(T, I, "step"));
  return Out;
}

// The last file is of the last logged step, one with an optimizer of as many
// updates as that counts; of the best one nothing says when it was written.
TEST(CaseTest, CheckpointsWithoutAStepAreDated) {
  EXPECT_EQ(stepsOf({{"run/model_last.pth", {{"fc.weight", "weight", 0.5}}},
                     {"run/trainer.pth",
                      {{"optim.state.0.step", "state", 150},
                       {"fc.weight", "weight", 0.5}}},
                     {"run/best.pth", {{"fc.weight", "weight", 0.5}}}},
                    {{0, 3.0}, {100, 2.0}, {199, 1.0}}),
            (std::vector<std::string>{"199", "150", "150", "-"}));
}

TEST(SourceTest, RunIsTheFolderAboveDumps) {
  StringPool Pool;
  EXPECT_EQ(Source("runs/42/metrics.jsonl", Pool).Run, "runs/42");
  EXPECT_EQ(Source("runs/42/dumps/step000311.safetensors", Pool).Run,
            "runs/42");
  EXPECT_EQ(Source("runs/42/dumps/step0/rank0/x.npy", Pool).Run, "runs/42");
  for (const char *Folder : {"checkpoint-500", "global_step100", "epoch_1",
                             "iter_0000100/mp_rank_00", "ckpt_20"})
    EXPECT_EQ(
        Source(std::string("runs/42/") + Folder + "/model.pt", Pool).Run,
        "runs/42");
  EXPECT_EQ(Source("runs/42/iter3/x.pt", Pool).Run, "runs/42/iter3");
  EXPECT_EQ(Source("metrics.jsonl", Pool).Run, ".");
}

// Counts of a damaged file: their sum stays the largest number.
TEST(DeriveTest, LostRecordsHaveASum) {
  for (int64_t Count : {int64_t(5), INT64_MAX}) {
    Profile P;
    P.work(0, 10, 1);
    for (int I = 0; I != 3; ++I) {
      TableBuilder &B = P.S->table(TableId::profiler_events);
      B.addRow();
      B.set(profiler_events::kind, llvm::StringRef("lost"));
      B.set(profiler_events::rank, int64_t(0));
      B.set(profiler_events::count, Count);
    }
    Case C = P.build();
    const Table &Quality = C.table(TableId::capture_quality);
    ASSERT_EQ(Quality.rows(), 1u);
    EXPECT_EQ(text(Quality, 0, "lost"),
              Count == 5 ? "15" : "9223372036854775807");
  }
}

} // namespace
