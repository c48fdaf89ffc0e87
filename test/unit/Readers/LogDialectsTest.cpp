//===- LogDialectsTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "TextLogTest.h"

using namespace culprit;
using namespace llvm;

class LogDialect : public TextLogTest {};

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
            "1 policy_loss=-0.5, 1 grad_norm=nan");
  EXPECT_EQ(scalarsOf("step:1 - actor/pg_loss:np.float64(-0.5) - "
                      "actor/lr:0.000 - actor/grad_norm:tensor(2., "
                      "device='cuda:0')\n"),
            "1 policy_loss=-0.5, 1 grad_norm=2")
      << "0.000 was rounded";
  EXPECT_EQ(scalarsOf("validate step: 10  loss:  8.25  tps: 9,000\n"),
            "10 val_loss=8.25, 10 val/tps=9000");
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
            "100 epoch=0, 100 step_time=0.4, 100 loss=6.9");
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

TEST_F(LogDialect, ReadsEveryStateOfABar) {
  EXPECT_EQ(scalarsOf("  5%|#   | 2/40 [00:01<00:19,  2.00it/s, loss=2.5]\r"
                      " 10%|##  | 4/40 [00:02<00:18,  2.00it/s, loss=1.5]\r"
                      " 10%|##  | 4/40 [00:02<00:18,  2.00it/s]\n"),
            "2 loss=2.5, 4 loss=1.5");
  EXPECT_EQ(rows(TableId::log_lines), 1u) << "what a terminal shows at last";
  EXPECT_EQ(scalarsOf("Epoch 3:   5%|#   | 2/40 [00:01<00:19, 2.00it/s, "
                      "v_num=1, train_loss=2.5]\n"
                      "Epoch 4:   5%|#   | 2/40 [00:01<00:19, 2.00it/s, "
                      "v_num=1, train_loss=nan]\n"),
            "2 epoch=3, 2 loss=2.5, 42 epoch=4, 42 loss=nan");
  EXPECT_EQ(scalarsOf("2|410|Loss: 1.5:   2%|#   | 10/400 [00:01<00:19, "
                      "2.00it/s]\n"),
            "410 loss=1.5");
}

TEST_F(LogDialect, TakesTheStepsOfDictsFromBars) {
  // As tqdm.write() leaves it: the bar, blanks over it, the dict, the bar.
  auto Bar = [](unsigned Step) {
    return "\r " + std::to_string(Step) + "%|##   | " + std::to_string(Step) +
           "/100 [00:23<05:51,  3.70s/it]";
  };
  auto Dict = [](StringRef Loss, StringRef Epoch) {
    return "\r      \r{'loss': " + Loss.str() + ", 'epoch': " + Epoch.str() +
           "}\n";
  };
  // The bar is drawn ten times a second, so that the one before may be late.
  std::string Text = Bar(0) + Bar(9) + Dict("2.0", "0.1") + Bar(10) + Bar(18) +
                     Dict("1.0", "0.2") + Bar(20) + "\r 50%|##  | 4/8 [00:01<"
                     "00:01,  3.70it/s]" + Bar(29) + Dict("nan", "0.3");
  EXPECT_EQ(scalarsOf(Text), "10 loss=2, 10 epoch=0.1, 20 loss=1, 20 epoch=0.2,"
                             " 29 loss=nan, 29 epoch=0.3")
      << "behind the last nothing was drawn";
  EXPECT_EQ(Said.at(0),
            "F: the log prints no steps; the progress bar told them");
  // Bars that came through another buffer: the dicts stand behind them all.
  scalarsOf(Bar(10) + Bar(20) + Bar(100) + "\n" + Dict("2.0", "0.1") +
            Dict("1.0", "0.2") + Dict("1.0", "1.0"));
  EXPECT_EQ(Said.at(0),
            "F: the log prints no steps; rows were counted instead");
}

TEST_F(LogDialect, ReadsDeepSpeed) {
  EXPECT_EQ(scalarsOf("[Rank 0] step=10, skipped=4, lr=[0.5, 0.25], "
                      "mom=[(0.9, 0.95)]\n"),
            "10 skipped_iterations=4, 10 lr=0.5, 10 mom=0.9");
  EXPECT_EQ(scalarsOf("Reducing dynamic loss scale from 8.0 to 4.0\n"
                      "Overflow detected. Skipping step. Attempted loss scale: "
                      "8.0, reducing to 4.0\n"
                      "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted "
                      "loss scale: 4, reducing to 4\n"),
            "0 loss_scale=4, 1 loss_scale=4")
      << "the first two say one thing";
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
