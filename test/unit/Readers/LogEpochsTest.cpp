//===- LogEpochsTest.cpp ----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LogDialects.h"
#include "TextLogTest.h"

using namespace culprit;
using namespace llvm;

class LogEpochs : public TextLogTest {};

TEST_F(LogEpochs, AnEpochIsTheStepWhereThereIsNoOther) {
  for (StringRef Line :
       {"Epoch: 003, Loss: 1.5", "Epoch 3, Loss: 1.5", "Epoch 3: loss = 1.5",
        "Epoch [3/60], Loss: 1.5", "epoch 3 loss 1.5", "[Epoch 3] loss: 1.5",
        "Train Epoch: 3 | Average loss: 1.5",
        "====> Epoch: 3 Average loss: 1.5",
        "INFO:root:Epoch 3 finished, avg loss 1.5",
        "2026-01-05 08:59:57,600 INFO train: epoch 3/60 - train_loss: 1.5"})
    EXPECT_EQ(scalarsOf(Line), "3 epoch=3, 3 loss=1.5") << Line.str();
  EXPECT_EQ(scalarsOf("Epoch: 040, Loss: nan, Train: 0.9, Val: 0.7\n"),
            "40 epoch=40, 40 loss=nan, 40 Train=0.9, 40 Val=0.7");
  EXPECT_EQ(scalarsOf("Epoch: 1 \tTraining Loss: 1.5 \tValidation Loss: 2.5\n"),
            "1 epoch=1, 1 loss=1.5, 1 val_loss=2.5");
  EXPECT_EQ(scalarsOf("Epoch 1 | train loss 1.5 | val loss 2.5 | val acc "
                      "0.5\n"),
            "1 epoch=1, 1 loss=1.5, 1 val_loss=2.5, 1 val_accuracy=0.5");
  // SpeechBrain
  EXPECT_EQ(scalarsOf("epoch: 2, lr: 1.00e-03 - train loss: 1.5 - valid loss: "
                      "2.5, valid CER: 30\n"),
            "2 epoch=2, 2 lr=0.001, 2 loss=1.5, 2 val_loss=2.5");
  EXPECT_EQ(scalarsOf("epoch 0 | train: loss 1.5 | val: loss 2.5\n"),
            "0 epoch=0, 0 loss=1.5, 0 val_loss=2.5")
      << "the second loss is that of the set before it";
  EXPECT_EQ(scalarsOf("Validation Results - Epoch: 2  Avg accuracy: 0.5 Avg "
                      "loss: 2.5\n"),
            "2 epoch=2, 2 val_accuracy=0.5, 2 val_loss=2.5");
}

TEST_F(LogEpochs, StandBesideStepsWithoutMixing) {
  // 2 epochs of 600 steps; the mean of an epoch is no loss of its last step.
  EXPECT_EQ(scalarsOf("Epoch [1/2], Step [300/600], Loss: 4.0\n"
                      "Epoch [1/2], Step [600/600], Loss: 2.0\n"
                      "Epoch 1: train_loss: 3.0, val_loss: 2.5\n"
                      "Epoch [2/2], Step [300/600], Loss: 1.0\n"),
            "300 epoch=1, 300 loss=4, 600 epoch=1, 600 loss=2, 600 epoch=1, "
            "600 epoch/train_loss=3, 600 val_loss=2.5, 900 epoch=2, "
            "900 loss=1");
}

TEST_F(LogEpochs, TakeTheEpochOfABarThatCountsEpochs) {
  EXPECT_EQ(scalarsOf("Epoch 0:   0%|  | 0/50 [00:03<49:00, loss=2.5]\n"
                      "Epoch 1:   2%|  | 1/50 [00:03<49:00, loss=2.25]\n"),
            "0 epoch=0, 0 loss=2.5, 1 epoch=1, 1 loss=2.25");
  // Lightning's counts the batches of each epoch.
  EXPECT_EQ(scalarsOf("Epoch 0:  40%|  | 20/50 [00:03<49:00, loss=2.5]\n"
                      "Epoch 1:  40%|  | 20/50 [00:03<49:00, loss=2.25]\n"),
            "20 epoch=0, 20 loss=2.5, 70 epoch=1, 70 loss=2.25");
}

TEST_F(LogEpochs, TakeASetFromWhereItStands) {
  // GraphGym; wavenet_vocoder; icefall behind a rank; flashy's logger.
  EXPECT_EQ(scalarsOf("train: {'epoch': 0, 'loss': 2.5, 'lr': 0.5}\n"
                      "val: {'epoch': 0, 'loss': 2.25, 'lr': 0}\n"),
            "0 epoch=0, 0 loss=2.5, 0 lr=0.5, 0 epoch=0, 0 val_loss=2.25, "
            "0 val/lr=0");
  EXPECT_EQ(scalarsOf("Step 10 [train] Loss: 2.5\nStep 10 [dev] Loss: 2.25\n"),
            "10 loss=2.5, 10 val_loss=2.25");
}

TEST_F(LogEpochs, TakesBatchesForSteps) {
  EXPECT_EQ(scalarsOf("epoch 0 batch 20/80 loss 0.5\n"
                      "epoch 1 batch 20/80 loss 0.25\n"),
            "20 epoch=0, 20 loss=0.5, 100 epoch=1, 100 loss=0.25");
  EXPECT_EQ(scalarsOf("[Epoch 1/9] [Batch 5/90] [D loss: 0.5] [G loss: 2.5]\n"),
            "5 epoch=1, 5 D loss=0.5, 5 G loss=2.5");
  EXPECT_EQ(scalarsOf("[1/5][50/90]\tLoss_D: 1.5\tLoss_G: 3.5\tD(x): 0.5\n"),
            "50 epoch=1, 50 Loss_D=1.5, 50 Loss_G=3.5, 50 D(x)=0.5");
  EXPECT_EQ(scalarsOf("(epoch: 2, iters: 100, time: 0.120, data: 0.004) D_A: "
                      "0.5 G_A: 0.25\n"),
            "100 epoch=2, 100 D_A=0.5, 100 G_A=0.25");
  EXPECT_EQ(scalarsOf("Epoch 1\n-------------\n"
                      "loss: 2.5  [   64/ 640]\nloss: 1.5  [  640/  640]\n"
                      "Epoch 2\n-------------\nloss: 1.0  [   64/ 640]\n"),
            "64 loss=2.5, 640 loss=1.5, 704 loss=1");
}

TEST_F(LogEpochs, CountsOnWhereACounterBeginsAgain) {
  EXPECT_EQ(scalarsOf("[1,  2000] loss: 2.5\n[1,  4000] loss: 1.5\n"
                      "[2,  2000] loss: 0.5\n"),
            "2000 epoch=1, 2000 loss=2.5, 4000 epoch=1, 4000 loss=1.5, "
            "6000 epoch=2, 6000 loss=0.5");
  EXPECT_EQ(scalarsOf("epoch 1 step 10 loss 2.5\nepoch 2 step 20 loss 1.5\n"),
            "10 epoch=1, 10 loss=2.5, 20 epoch=2, 20 loss=1.5")
      << "a counter of the run stays";
  // A resume, with a counter of the run: what it was before counts again.
  EXPECT_EQ(scalarsOf("epoch 2 step 20 loss 1.5\nepoch 1 step 10 loss 2.5\n"),
            "20 epoch=2, 20 loss=1.5, 10 epoch=1, 10 loss=2.5");
  // Informer says how many steps an epoch has: 62, of which 60 was the last
  // line.
  EXPECT_EQ(
      scalarsOf("\titers: 60, epoch: 1 | loss: 1.5\n"
                "Epoch: 1, Steps: 62 | Train Loss: 2.5 Vali Loss: 3.5 Test "
                "Loss: 4.5\n"
                "\titers: 20, epoch: 2 | loss: 0.5\n"),
      "60 epoch=1, 60 loss=1.5, 60 epoch=1, 60 epoch/Train Loss=2.5, "
      "60 val_loss=3.5, 60 Test Loss=4.5, 82 epoch=2, 82 loss=0.5");
  EXPECT_TRUE(Said.empty()) << "no step goes back";
}

TEST_F(LogEpochs, ReadsKeras) {
  StringRef Bar = "64/64 [==============================] - 0s 3ms/step - ";
  EXPECT_EQ(scalarsOf(("Epoch 1/10\n" + Bar + "loss: 2.5 - val_loss: 3.5\n" +
                       "Epoch 2/10\n" + Bar + "loss: 1.5 - val_loss: 2.5\n")
                          .str()),
            "64 loss=2.5, 64 val_loss=3.5, 128 loss=1.5, 128 val_loss=2.5");
}

TEST_F(LogEpochs, ReadsTimm) {
  StringRef Front = "Train: 1 [  12/48 ( 26%)]  Loss: 1.5 (2.5)  Time: 0.5s, ";
  EXPECT_EQ(
      scalarsOf((Front + "4500.1/s  (0.014s, 4500.1/s)  LR: 1.000e-01  Data: "
                         "0.001 (0.001)\n"
                         "Test: [   5/7]  Time: 0.5 (0.5)  Loss: 9.5 (9.5)\n"
                         "Test: [   7/7]  Time: 0.5 (0.5)  Loss:  4.5 ( 3.5)  "
                         "Acc@1:  50.0 ( 75.0)\n")
                    .str()),
      "12 epoch=1, 12 loss=1.5, 12 step_time=0.5, 12 lr=0.1, 12 data_time=0.001, "
      "12 val/Time=0.5, 12 val_loss=3.5, 12 val_accuracy=75")
      << "the means of the last batch";
}

TEST_F(LogEpochs, ReadsMMEngine) {
  StringRef Front = "05/01 10:00:00 - mmengine - INFO - ";
  EXPECT_EQ(scalarsOf((Front + "Epoch(train)  [1][  50/7330]  base_lr: 1.0e-02 "
                               "lr: 5.0e-03  eta: 1 day, 0:12:01  time: 0.5  "
                               "data_time: 0.25  memory: 3883  loss: 1.5\n" +
                       Front + "Epoch(val)  [1][60/60]    accuracy/top1: 75.0  "
                               "data_time: 0.01  time: 0.02\n")
                          .str())
                .substr(0, 49),
            "50 epoch=1, 50 base_lr=0.01, 50 lr=0.005, 50 step");
  EXPECT_EQ(scalar(7), "50|epoch|1|2") << "the validation after step 50";
  EXPECT_EQ(scalar(8), "50|val_accuracy|75|2");
  EXPECT_EQ(scalarsOf((Front + "Iter(train) [  10/1000]  lr: 5.0e-03  loss: "
                               "1.5\n")
                          .str()),
            "10 lr=0.005, 10 loss=1.5");
}

TEST_F(LogEpochs, ReadsWhatStandsBelowAHeading) {
  EXPECT_EQ(scalarsOf("Epoch 0/24\n----------\n"
                      "train Loss: 2.5 Acc: 0.25\nval Loss: 1.5 Acc: 0.5\n"
                      "Epoch 1/24\n----------\ntrain Loss: 1.5 Acc: 0.5\n"),
            "0 loss=2.5, 0 accuracy=0.25, 0 val_loss=1.5, 0 val_accuracy=0.5, "
            "1 loss=1.5, 1 accuracy=0.5");
}

TEST_F(LogEpochs, ReadsBoosting) {
  EXPECT_EQ(scalarsOf("[0]\ttrain-rmse:2.5\tvalid-rmse:3.5+0.25\n"),
            "0 train-rmse=2.5, 0 valid-rmse=3.5");
  EXPECT_EQ(scalarsOf("[1]\ttraining's l2: 2.5\tvalid_1's l2: 3.5\n"),
            "1 training/l2=2.5, 1 val/l2=3.5");
  EXPECT_EQ(scalarsOf("[1]\ttraining's binary_logloss: 0.5\tvalid_1's "
                      "binary_logloss: 0.75\n"),
            "1 loss=0.5, 1 val_loss=0.75");
  EXPECT_EQ(scalarsOf("[1]\tvalid_0's l2: 2.5\tvalid_1's l2: 3.5\n"),
            "1 valid_0/l2=2.5, 1 valid_1/l2=3.5")
      << "which of two is held out nobody knows";
  EXPECT_EQ(scalarsOf("[1]\tSmith, J.: Losses of rmse: 2004\n"), "");
  EXPECT_EQ(match(R, "[0]\ttrain-rmse:2.5\n[1]\ttrain-rmse:2.4\n"),
            Match::Likely);
}

TEST_F(LogEpochs, ReadsReturns) {
  EXPECT_EQ(scalarsOf("global_step=52, episodic_return=[0.5]\n"),
            "52 reward=0.5");
  EXPECT_EQ(match(R, "global_step=52, episodic_return=[0.5]\n"), Match::Likely);
}

TEST_F(LogEpochs, TakesNoSentences) {
  for (StringRef Line :
       {"Epoch 3 of the story, loss of 2 men", "Epoch 3: the loss fell to 2.5",
        "In epoch 3 the loss was 2.5", "Best epoch: 3, loss: 2.5",
        "Epoch 3: val_loss improved from 2.5 to 1.5, saving model to x.h5",
        "Epoch 3: total loss of trust: 5 people", "epoch 3, accuracy 2 of 3",
        "Epoch loaded: 30 - test loss: 2.5", "Train: 5 of 6 cars, no loss: 0",
        "[1, 2] shows a loss of 2 men", "1/2 of the loss of 3 men",
        "Chapter [1/2][3/4] loss of 2.5 men", "[0]\tfoo: bar",
        "Test: [1/7] losses 3", "Validation - loss: 2.5",
        "global_step=3, loss"})
    EXPECT_EQ(scalarsOf(Line), "") << Line.str();
  // A heading alone makes no metrics of the sentences below it.
  EXPECT_EQ(scalarsOf("Epoch 3\n\nThe war began with the loss of 2.5 ships\n"
                      "and the loss: 3 men\n"),
            "");
}

TEST(LogHeading, IsOneOfAnEpochAlone) {
  EXPECT_EQ(epochOfHeading("Epoch 3/10"), 3);
  EXPECT_EQ(epochOfHeading("===== Epoch 3 of 10 ====="), 3);
  EXPECT_EQ(epochOfHeading("[Epoch 3]"), 3);
  EXPECT_EQ(epochOfHeading("Epoch 3 of the story"), std::nullopt);
  EXPECT_EQ(epochOfHeading("Epoch three"), std::nullopt);
  EXPECT_EQ(epochOfHeading("Epoch 3 starts"), std::nullopt);
}

TEST_F(LogEpochs, ReadsBoxesOfStableBaselines) {
  StringRef Box = "-----------------------------------\n"
                  "| rollout/             |          |\n"
                  "|    ep_rew_mean       | 22.5     |\n"
                  "| time/                |          |\n"
                  "|    total_timesteps   | 2048     |\n"
                  "| train/               |          |\n"
                  "|    approx_kl         | 0.0078125 |\n"
                  "|    entropy_loss      | -0.5     |\n"
                  "|    policy_gradien... | 3.5      |\n"
                  "|    tensorboard       | off      |\n"
                  "-----------------------------------\n";
  EXPECT_EQ(scalarsOf(Box),
            "2048 reward=22.5, 2048 policy_kl=0.0078125, 2048 entropy=0.5");
  EXPECT_EQ(scalarsOf(("Using cpu device\n" + Box.drop_back(36)).str()), "")
      << "a box without an end was cut off";
  EXPECT_EQ(scalarsOf("| model | loss |\n|---|---|\n| small | 0.5 |\n"), "")
      << "a table of Markdown";
}
