//===- LogDialectsTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "Readers/TextLog.h"
#include "TextFileTest.h"

using namespace culprit;
using namespace llvm;

class LogDialect : public TextFileTest {
protected:
  /// All scalars of \p Text as "step name=value, ...".
  std::string scalarsOf(StringRef Text) {
    read(R, Text);
    std::string Out;
    for (size_t I = 0; I != rows(TableId::scalars); ++I) {
      std::string Step = row(TableId::scalars, I, {scalars::step});
      Out += (Out.empty() ? "" : ", ") + Step + " " +
             row(TableId::scalars, I, {scalars::name}) + "=" +
             row(TableId::scalars, I, {scalars::value});
    }
    return Out;
  }
  TextLogReader R;
};

TEST_F(LogDialect, ReadsNanoGpt) {
  EXPECT_EQ(scalarsOf("iter 290: loss 0.0116, time 24.00ms, mfu 0.31%\n"),
            "290 loss=0.0116, 290 step_time=0.024, 290 mfu=0.31");
  EXPECT_EQ(scalarsOf("step 299: train loss 0.0117, val loss 0.0119\n"),
            "299 loss=0.0117, 299 val_loss=0.0119");
}

TEST_F(LogDialect, ReadsNanochat) {
  EXPECT_EQ(scalarsOf("step 00010/01000 (1.00%) | loss: 3.1 | lrm: 1.00 | dt: "
                      "100.00ms | tok/sec: 1,234 | bf16_mfu: 40.00 | epoch: 1 "
                      "| total time: 1.2m\n"),
            "10 loss=3.1, 10 lrm=1, 10 step_time=0.1, 10 throughput=1234, "
            "10 mfu=40, 10 epoch=1");
  EXPECT_EQ(scalarsOf("Step 00250 | Validation bpb: 0.98\n"),
            "250 val_loss=0.98");
}

TEST_F(LogDialect, ReadsMegatron) {
  StringRef Front = " [2026-01-05 09:00:10] iteration        5/     400 | "
                    "elapsed time per iteration (ms): 20.0 | learning rate: "
                    "1.0E-04 |";
  EXPECT_EQ(scalarsOf((Front + " lm loss: 2.5E+00 | number of skipped "
                               "iterations:   0 | number of nan iterations:   "
                               "0 |\n")
                          .str()),
            "5 step_time=0.02, 5 lr=0.0001, 5 loss=2.5, "
            "5 skipped_iterations=0, 5 nan_iterations=0");
  EXPECT_EQ(rows(TableId::errors), 0u);
  // The loss is left out when it is NaN, and the line says so.
  EXPECT_EQ(scalarsOf((Front + " number of skipped iterations:   0 | number of "
                               "nan iterations:   1 |\n")
                          .str()),
            "5 step_time=0.02, 5 lr=0.0001, 5 skipped_iterations=0, "
            "5 nan_iterations=1, 5 loss=nan");
  EXPECT_EQ(row(TableId::errors, 0, {errors::signature, errors::step}),
            "nan-detected|5");
  EXPECT_EQ(scalarsOf(" validation loss at iteration 400 | lm loss value: "
                      "1.5E+00 | lm loss PPL: 4.0E+00 | \n"),
            "400 val_loss=1.5, 400 val_perplexity=4");
}

TEST_F(LogDialect, ReadsOthers) {
  EXPECT_EQ(scalarsOf("Step 12 | loss:1.25 lr:2e-05 "
                      "tokens_per_second_per_gpu:123 grad_norm:0.5\n"),
            "12 loss=1.25, 12 lr=2e-05, 12 throughput=123, 12 grad_norm=0.5");
  EXPECT_EQ(scalarsOf("[rank0]:[titan] 2025-03-12 11:10:21,511 - root - INFO - "
                      "step:  4  loss:  7.5  memory:  1.5GiB(1.79%)  tps: "
                      "193,831  mfu: 1.86%\n"),
            "4 loss=7.5, 4 memory_allocated=1.5, 4 throughput=193831, "
            "4 mfu=1.86");
  EXPECT_EQ(row(TableId::scalars, 0, {scalars::rank}), "0");
  EXPECT_EQ(scalarsOf("step:1 - actor/pg_loss:-0.5 - actor/grad_norm:nan\n"),
            "1 loss=-0.5, 1 grad_norm=nan");
  EXPECT_EQ(scalarsOf("step=12 loss=3.5\n"), "12 loss=3.5");
  EXPECT_EQ(scalarsOf("[step 12] loss: 3.5\n"), "12 loss=3.5");
  EXPECT_EQ(scalarsOf("2026-01-05 09:00:00,976 WARNING train: loss is nan at "
                      "step 40, grad norm nan\n"),
            "40 loss=nan, 40 grad_norm=nan");
  EXPECT_EQ(scalarsOf("[2024-09-11 17:52:18,030] [INFO] [deepspeed] OVERFLOW! "
                      "Rank 0 Skipping step. Attempted loss scale: 4, reducing "
                      "to 2\n"),
            "0 loss_scale=2");
}

TEST_F(LogDialect, CountsOnOverEpochs) {
  EXPECT_EQ(scalarsOf("Epoch [1/10], Step [100/600], Loss: 0.5\n"
                      "Epoch [2/10], Step [100/600], Loss: 0.25\n"),
            "100 epoch=1, 100 loss=0.5, 700 epoch=2, 700 loss=0.25");
  EXPECT_EQ(scalarsOf("Epoch: [0][ 100/5005]\tTime  0.4 ( 0.5)\tLoss 6.9e+00 "
                      "(6.8e+00)\n"),
            "100 epoch=0, 100 loss=6.9");
}

TEST_F(LogDialect, InfersTheStepsOfDicts) {
  StringRef Text = "{'loss': 4.0, 'learning_rate': 5e-05, 'epoch': 0.5}\n"
                   "{'loss': nan, 'learning_rate': 0.0, 'epoch': 1.0}\n"
                   "{'eval_loss': 3.5, 'eval_runtime': 1.0, 'epoch': 1.0}\n";
  EXPECT_EQ(scalarsOf(Text), "0 loss=4, 0 lr=5e-05, 0 epoch=0.5, 1 loss=nan, "
                             "1 lr=0, 1 epoch=1, 1 val_loss=3.5, "
                             "1 eval_runtime=1, 1 epoch=1");
  EXPECT_EQ(Said.at(0),
            "F: the log prints no steps; rows were counted instead");
  scalarsOf((Text + "{'train_runtime': 10.0, 'train_steps_per_second': 2.0, "
                    "'train_loss': 3.0, 'epoch': 1.0}\n")
                .str());
  EXPECT_EQ(scalar(0), "10|loss|4|1") << "20 steps, 2 rows";
  EXPECT_EQ(scalar(3), "20|loss|nan|2");
  EXPECT_EQ(Said.at(0),
            "F: the log prints no steps; they were taken as every 10");
  scalarsOf(
      ("  Num Epochs = 2\n  Total optimization steps = 80\n" + Text).str());
  EXPECT_EQ(scalar(3), "40|loss|nan|4") << "half of the run";
}

TEST_F(LogDialect, TakesNoSentences) {
  for (StringRef Line : {"Saved best model at step 100, loss 2.3",
                         "Resuming from step 100 with loss 3.2",
                         "loading shard 3 of 12, loss function: cross_entropy",
                         "loss scale 65536", "accuracy 0.5",
                         "step 3 of the recipe", "eta: 0:12:33, loss later"})
    EXPECT_EQ(scalarsOf(Line), "") << Line.str();
}

TEST(LogPairs, FindsNumbersAndTheirKeys) {
  SmallVector<LoggedPair, 8> Pairs;
  findPairs("iteration 5/ 400 | time per iteration (ms): 23.6 v1.2.3 at "
            "10.0.0.1 fp16 -1e-3",
            Pairs);
  ASSERT_EQ(Pairs.size(), 3u);
  EXPECT_EQ(Pairs[0].Key, "iteration");
  EXPECT_EQ(Pairs[0].Of, 400);
  EXPECT_EQ(Pairs[1].Key, "time per iteration (ms)");
  EXPECT_TRUE(Pairs[1].Assigned);
  EXPECT_EQ(Pairs[2].Value, -1e-3);
}
