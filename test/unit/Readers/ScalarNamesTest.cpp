//===- ScalarNamesTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ScalarNames.h"
#include "Readers/TimeStamp.h"
#include "gtest/gtest.h"

using namespace culprit;
using namespace llvm;

TEST(ScalarNames, MapsWhatLoggersWrite) {
  const std::pair<StringRef, StringRef> Cases[] = {
      {"loss", "loss"},
      {"train/loss", "loss"},
      {"train_loss", "loss"},
      {"train_loss_step", "loss"},
      {"training_loss", "loss"},
      {"lm loss", "loss"},
      {"loss_metrics/global_avg_loss", "loss"},
      // Of a policy, which is no loss of a model that predicts.
      {"actor/pg_loss", "policy_loss"},
      {"policy_loss", "policy_loss"},
      {"train/policy_gradient_loss", "policy_loss"},
      {"train/value_loss", "value_loss"},
      {"critic/vf_loss", "value_loss"},
      {"critic/rewards/mean", "reward"},
      {"train/reward_std", "reward_std"},
      {"train/frac_reward_zero_std", "frac_reward_zero_std"},
      {"train/rewards/chosen", "rewards_chosen"},
      {"train/rewards/margins", "rewards_margin"},
      {"completions/mean_length", "response_length"},
      {"response_length/clip_ratio", "response_clip_ratio"},
      {"actor/ppo_kl", "policy_kl"},
      {"train/kl", "kl"},
      {"train/clip_ratio/region_mean", "clip_ratio"},
      {"rewards/format/mean", "rewards/format/mean"},
      {"Loss/train", "loss"},
      {"eval_loss", "val_loss"},
      {"val/loss", "val_loss"},
      {"train/val_loss", "val_loss"},
      {"val/bpb", "val_loss"},
      {"validation_metrics/loss", "val_loss"},
      {"eval/accuracy", "val_accuracy"},
      {"grad-norm", "grad_norm"},
      {"train/grad_norm", "grad_norm"},
      {"gnorm", "grad_norm"},
      {"learning_rate", "lr"},
      {"lr-AdamW", "lr"},
      {"tok/sec", "throughput"},
      {"throughput(tps)", "throughput"},
      {"tokens_per_second_per_gpu", "throughput"},
      {"number of nan iterations", "nan_iterations"},
      // Groups say nothing of whose scalar it is.
      {"perf/step_time", "step_time"},
      {"Timing/iter_time", "step_time"},
      {"s/b", "step_time"},
      {"train/perf/step_time_ms", "step_time"},
      {"perf.data_time", "data_time"},
      {"data sec per step", "data_time"},
      {"optimizer/learning_rate", "lr"},
      {"losses/train", "loss"},
      {"loss/train_loss", "loss"},
      {"metrics/train/LanguageCrossEntropy", "loss"},
      {"metrics/eval/LanguageCrossEntropy", "val_loss"},
      {"validation/metrics/accuracy", "val_accuracy"},
      {"train_inner/loss", "loss"},
      {"epoch/cv_loss", "epoch/cv_loss"},
      {"cv/loss", "val_loss"},
      {"valid_prec1", "val_accuracy"},
      {"speed/images_per_sec", "throughput"},
      {"optim0_lr0", "lr"},
      {"other/learning_rate/train", "lr"},
      {"time/train_loop/train", "step_time"},
      {"lr-RAdam", "lr"},
      {"learning.rate", "lr"}, // tacotron2
      {"lr_model", "lr"},      // SpeechBrain
      {"TrainIterStats/current_lr_0", "lr"}, // Coqui
      {"Mockingjay-lr", "lr"},               // s3prl
      {"2.Workers/6.Learning_rate", "lr"},   // muzero-general
      {"x/lr0", "lr"},                       // YOLOv7
      {"VLA Train/Learning Rate", "lr"},     // OpenVLA
      {"3.Loss/1.Total_weighted_loss", "loss"},
      {"training/gen_loss_total", "loss"}, // HiFi-GAN
      {"train/_loss", "loss"},             // benchmarking-gnns
      {"val/_loss", "val_loss"},
      {"VLA Train/Loss", "loss"},
      {"losses/vf_loss/mean", "value_loss"}, // tianshou
      // What is done to a rate is none, nor is that of a part beside it.
      {"lr_scale", "lr_scale"},
      {"lr/warmup_steps", "lr/warmup_steps"},
      {"disc_loss_total", "disc_loss_total"},
      // What was taken of a metric is no layer.
      {"grad_norm/max", "grad_norm/max"},
      {"grad_norm/n_nonfinite", "grad_norm/n_nonfinite"},
      {"grad_norm/p90", "grad_norm/p90"},
      {"norm/avg_key_norm", "norm/avg_key_norm"},
      {"Eval Loss Dict/rgb_loss", "Eval Loss Dict/rgb_loss"},
      {"bce_loss", "loss"},
      {"eval_bce_loss", "val_loss"},
      {"train/ctc_loss", "loss"},
      // A word may mean another thing in its group.
      {"time/epoch", "time/epoch"},
      {"time/total", "time/total"},
      {"memory/total", "memory/total"},
      {"system/memory", "system/memory"},
      {"data/scale", "data/scale"},
      {"val/perf/step_time", "val/perf/step_time"},
      {"encoder/grad_norm", "encoder/grad_norm"},
      {"discriminator/loss", "discriminator/loss"},
      {"teacher/lr", "teacher/lr"},
      // What has no alias keeps its name.
      {"train_loss_epoch", "train_loss_epoch"},
      {"eval_runtime", "eval_runtime"},
      {"eval_samples_per_second", "eval_samples_per_second"},
      {"test_loss", "test_loss"},
      {"My Metric", "My Metric"},
  };
  for (auto [Raw, Canonical] : Cases)
    EXPECT_EQ(scalarName(Raw).Name, Canonical) << Raw.str();
}

TEST(ScalarNames, TakesAwayUnitsAndAverages) {
  const std::tuple<StringRef, StringRef, double> Cases[] = {
      {"meta_data/data_time", "data_time", 1}, // OpenPCDet
      {"meta_data/batch_time", "step_time", 1},
      {"avg_batch_cost", "step_time", 1}, // PaddlePaddle
      {"avg_reader_cost", "data_time", 1},
      {"avg_ips", "throughput", 1},
      {"perf/step_time_seconds", "step_time", 1}, // MaxText
      {"elapsed_time_per_iteration_ms", "step_time", 1e-3}, // nanotron
      {"throughput/device/data loading (s)", "data_time", 1}, // OLMo-core
      {"step_time_mean_ms", "step_time", 1e-3},
      {"train_step_timing in s", "step_time", 1}, // NeMo
      {"data_us", "data_time", 1e-6},
      {"train/time(s)", "step_time", 1}, // verl
      {"interval_samples_per_second", "throughput", 1}, // PaddleNLP
      {"interval_tokens_per_second_per_device", "throughput", 1},
      {"timing/target_tokens_per_second_per_core", "throughput", 1}, // t5x
      {"perf/per_device_tokens_per_sec", "throughput", 1},
      {"tokens_per_sec_per_gpu", "throughput", 1},
      {"Tokens/s/device", "throughput", 1},
      {"train|device/samples_per_sec", "throughput", 1}, // Lightning
      // Another time, another unit, another work.
      {"time/batch", "time/batch", 1},
      {"time_s", "time_s", 1},
      {"forward_ms", "forward_ms", 1},
      {"epoch_time_s", "epoch_time_s", 1},
      {"flops_per_sec", "flops_per_sec", 1},
      {"bytes_per_second", "bytes_per_second", 1},
      {"generation_tokens_per_second", "generation_tokens_per_second", 1},
      {"eval_tokens_per_second", "eval_tokens_per_second", 1},
      {"tokens_per_step", "tokens_per_step", 1},
      {"val_step_time_ms", "val_step_time_ms", 1},
      {"data loading (%)", "data loading (%)", 1},
  };
  for (auto [Raw, Canonical, Factor] : Cases) {
    EXPECT_EQ(scalarName(Raw).Name, Canonical) << Raw.str();
    EXPECT_EQ(scalarName(Raw).Factor, Factor) << Raw.str();
  }
  EXPECT_TRUE(scalarName("interval_samples_per_second").Weak);
  EXPECT_FALSE(scalarName("train_samples_per_second").Weak);
}

TEST(ScalarNames, KnowsTheNamesOfTrainers) {
  const std::pair<StringRef, StringRef> Cases[] = {
      {"meta_data/learning_rate", "lr"},
      {"learning/current_learning_rate", "lr"}, // MaxText
      {"learning/raw_grad_norm", "grad_norm"},
      {"learning/loss", "loss"},
      {"optim/LR (group 0)", "lr"},     // OLMo-core
      {"grad/norm/total", "grad_norm"}, // Levanter
      {"throughput/duration", "step_time"},
      {"lr-Ranger", "lr"}, // Lightning: after the optimizer's class
      {"lr-SomeOptimizer/pg1", "lr"},
      {"lr-DecoupledLionW/group0", "lr"},
      {"lr-AdamW-momentum", "lr-AdamW-momentum"},
      {"lr-AdamW/pg2", "lr/pg2"},
      {"lr-scale", "lr-scale"},
      {"train/lr(1e-3)", "lr"}, // verl
      {"ptl/val_loss", "val_loss"},
      {"val_loss/dataloader_idx_0", "val_loss"},
      {"val_loss/dataloader_idx_1", "val_loss/dataloader_idx_1"},
      {"val_acc_epoch", "val_accuracy"},
      {"avg_epoch_loss", "loss"}, // GluonTS
      {"validation_avg_epoch_loss", "val_loss"},
      {"TrainIterStats/loader_time", "data_time"}, // Coqui
      {"EvalStats/avg_loss", "val_loss"},
      {"Loss/value_function", "value_loss"}, // rsl_rl
      {"Loss/surrogate", "policy_loss"},
      {"epoch_steps_per_second", "throughput"}, // Keras
      // OpenCLIP's is the scale of its logits.
      {"train/scale", "train/scale"},
      {"amp/scale", "loss_scale"},
  };
  for (auto [Raw, Canonical] : Cases)
    EXPECT_EQ(scalarName(Raw).Name, Canonical) << Raw.str();
  EXPECT_EQ(scalarName("train/lr(1e-3)").Factor, 1e-3);
}

TEST(ScalarNames, KindsOfLossGiveWay) {
  EXPECT_TRUE(scalarName("ctc_loss").Weak);
  EXPECT_TRUE(scalarName("eval/mse_loss").Weak);
  EXPECT_FALSE(scalarName("loss").Weak);
  EXPECT_FALSE(scalarName("lm loss").Weak);
}

TEST(ScalarNames, ConvertsKnownUnits) {
  EXPECT_EQ(scalarName("perf/step_ms").Factor, 1e-3);
  EXPECT_EQ(scalarName("elapsed time per iteration (ms)").Factor, 1e-3);
  EXPECT_EQ(scalarName("step_time").Factor, 1);
  EXPECT_EQ(scalarName("train/entropy_loss").Factor, -1) << "of the policy";
}

TEST(ScalarNames, SplitsOffTheLayer) {
  ScalarName N = scalarName("train/grad_norm/blocks.0.attn");
  EXPECT_EQ(N.Name, "grad_norm/blocks.0.attn");
  EXPECT_EQ(N.Metric, "grad_norm");
  EXPECT_EQ(N.Layer, "blocks.0.attn");
  EXPECT_EQ(layerScalarName("act_rms", "ln_f").Name, "activation_rms/ln_f");
  EXPECT_EQ(layerScalarName("odd", "ln_f").Name, "odd/ln_f");
  // Transformers' evaluation sets are a series each.
  EXPECT_EQ(scalarName("eval_g1_loss").Name, "val_loss/g1");
  EXPECT_EQ(scalarName("eval_g1_loss").Metric, "val_loss");
  EXPECT_EQ(scalarName("eval_loss").Name, "val_loss");
  // rewards/<function> is no layer.
  EXPECT_EQ(scalarName("rewards/chosen").Layer, "");
}

TEST(ScalarNames, KnowsWhatPlacesARecord) {
  EXPECT_EQ(fieldKind("_step"), FieldKind::Step);
  EXPECT_EQ(fieldKind("Global Step"), FieldKind::Step);
  EXPECT_EQ(fieldKind("rank"), FieldKind::Rank);
  EXPECT_EQ(fieldKind("_timestamp"), FieldKind::Time);
  EXPECT_EQ(fieldKind("layer"), FieldKind::Layer);
  EXPECT_EQ(fieldKind("epoch"), FieldKind::Scalar);
}

TEST(TimeStamp, ReadsCommonForms) {
  // 2026-01-05 08:59:57 UTC is 1767603597.
  const std::tuple<StringRef, double, size_t> Cases[] = {
      {"2026-01-05 08:59:57,600 INFO", 1767603597.6, 23},
      {"[2026-01-05 08:59:57] x", 1767603597, 21},
      {"2026-01-05T08:59:57Z x", 1767603597, 20},
      {"2026-01-05T10:59:57.5+02:00 x", 1767603597.5, 27},
      {"01/05/2026 08:59:57 - INFO", 1767603597, 19},
      {" [2026-01-05 08:59:57] iteration", 1767603597, 22},
  };
  for (auto [Text, Unix, Length] : Cases) {
    std::optional<TimeStamp> Stamp = leadingTimeStamp(Text);
    ASSERT_TRUE(Stamp && Stamp->Unix) << Text.str();
    EXPECT_NEAR(*Stamp->Unix, Unix, 1e-3) << Text.str();
    EXPECT_EQ(Stamp->Length, Length) << Text.str();
  }
}

TEST(TimeStamp, TakesStampsWithoutADate) {
  for (StringRef Text : {"Sep 19 16:18:04 host kernel: x", "08:59:57 x",
                         "[1084456.074562] NVRM: x"}) {
    std::optional<TimeStamp> Stamp = leadingTimeStamp(Text);
    ASSERT_TRUE(Stamp) << Text.str();
    EXPECT_FALSE(Stamp->Unix) << Text.str();
  }
  for (StringRef Text : {"12/100 loss", "2026-13-05 08:59:57", "[step 12]", "",
                         "Epoch 3", "1.5", "25:00:00", "[1.5]"})
    EXPECT_FALSE(leadingTimeStamp(Text)) << Text.str();
}
