//===- TensorNamesTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/TensorNames.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

/// "layer | role" of \p Name.
std::string split(StringRef Name) {
  TensorName N = splitTensorName(Name);
  return N.Layer + " | " + N.Role;
}

/// "name step rank token variant" of \p Path, - where there is none.
std::string told(StringRef Path) {
  DumpPath P = splitDumpPath(Path);
  const auto Text = [](std::optional<int64_t> Value) {
    return Value ? std::to_string(*Value) : std::string("-");
  };
  return P.Name + " " + Text(P.Step) + " " + Text(P.Rank) + " " +
         Text(P.Token) + " " + (P.Variant.empty() ? "-" : P.Variant);
}

TEST(TensorNamesTest, Roles) {
  EXPECT_EQ(split("blocks.1.attn.scores.output"),
            "blocks.1.attn.scores | output");
  EXPECT_EQ(split("blocks.1.attn.in"), "blocks.1.attn | input");
  EXPECT_EQ(split("mlp.act"), "mlp | output");
  EXPECT_EQ(split("head.bias"), "head | weight");
  EXPECT_EQ(split("batch.weight"), "batch.weight | value");
  EXPECT_EQ(split("lstm.weight_ih_l0"), "lstm | weight");
  EXPECT_EQ(split("lstm.bias_hh_l1_reverse"), "lstm | weight");
  EXPECT_EQ(split("cell.weight_ih"), "cell | weight");
  EXPECT_EQ(split("lstm.weight_other"), "lstm.weight_other | value");
  EXPECT_EQ(split("attn.in_proj_weight"), "attn | weight");
  EXPECT_EQ(split("batch.norm.weight"), "batch.norm | weight");
  EXPECT_EQ(split("head.lora_A.default.weight"),
            "head.lora_A.default | weight");
  EXPECT_EQ(split("attn.proj.grad"), "attn.proj | grad");
  EXPECT_EQ(split("attn.proj.weight.grad"), "attn.proj | grad");
  EXPECT_EQ(split("attn.proj.weight.exp_avg_sq"), "attn.proj | state");
  EXPECT_EQ(split("batch.input_ids"), "batch.input_ids | value");
  EXPECT_EQ(split("batch.input"), "batch | input");
}

TEST(TensorNamesTest, VariablesBetweenSlashes) {
  EXPECT_EQ(split("dense_1/kernel:0"), "dense_1 | weight");
  EXPECT_EQ(split("model/norm/gamma:0"), "model.norm | weight");
  EXPECT_EQ(split("params/Dense_0/kernel"), "params.Dense_0 | weight");
  EXPECT_EQ(split("norm/moving_mean:0"), "norm/moving_mean:0 | value");
  EXPECT_EQ(split("a/kernel:x"), "a/kernel:x | value");
  EXPECT_EQ(split("params/RMSNorm_0/scale"), "params.RMSNorm_0 | weight");
  EXPECT_EQ(split("Adam/m/dense/kernel:0"), "Adam/m/dense/kernel:0 | value");
  EXPECT_EQ(split("opt_state/0/mu/params/Dense_0/kernel"),
            "opt_state/0/mu/params/Dense_0/kernel | value");
  EXPECT_EQ(split("/kernel"), "/kernel | value");
}

TEST(TensorNamesTest, NumberedInputs) {
  EXPECT_EQ(split("attn.input.0"), "attn | input");
  EXPECT_EQ(split("attn.output.1"), "attn | output");
  EXPECT_EQ(split("blocks.0"), "blocks.0 | value");
  EXPECT_EQ(split("0"), "0 | value");
}

TEST(TensorNamesTest, OddNames) {
  EXPECT_EQ(split("output"), "output | output");
  EXPECT_EQ(split("weight.grad"), "weight.grad | grad");
  EXPECT_EQ(split(""), " | value");
  EXPECT_EQ(split("."), ". | value");
  EXPECT_EQ(split("module"), "module | value");
}

TEST(TensorNamesTest, Wrappers) {
  EXPECT_EQ(split("module.fc.weight"), "fc | weight");
  EXPECT_EQ(split("_orig_mod.module.fc.weight"), "fc | weight");
  EXPECT_EQ(split("_fsdp_wrapped_module.blocks.0._fsdp_wrapped_module.fc.out"),
            "blocks.0.fc | output");
  EXPECT_EQ(split("encoder.module.fc.out"), "encoder.module.fc | output");
}

TEST(TensorNamesTest, Msprobe) {
  EXPECT_EQ(split("Module.conv1.Conv2d.forward.0.input.0"), "conv1 | input");
  EXPECT_EQ(split("Module.module.a.fc.Linear.forward.0.output.0"),
            "a.fc | output");
  EXPECT_EQ(split("Module.conv1.Conv2d.forward.0.parameters.bias"),
            "conv1 | weight");
  EXPECT_EQ(split("Module.conv1.Conv2d.parameters_grad.weight"),
            "conv1 | grad");
  EXPECT_EQ(split("Functional.linear.5.backward.output.0"), "linear.5 | grad");
  EXPECT_EQ(split("Tensor.permute.1.forward"), "permute.1 | value");
  EXPECT_EQ(split("Module.forward"), "Module.forward | value");
}

TEST(TensorNamesTest, StepInTheFileName) {
  EXPECT_EQ(told("dumps/step000311.safetensors"), "step000311 311 - - -");
  EXPECT_EQ(told("dumps/000311_blocks.1.attn.output.npy"),
            "blocks.1.attn.output 311 - - -");
  EXPECT_EQ(told("000311.npz"), "000311 311 - - -");
  EXPECT_EQ(told("step_12/rank3/blocks.1.mlp.output.pt"),
            "blocks.1.mlp.output 12 3 - -");
  EXPECT_EQ(told("ckpt_000120.pth"), "ckpt_000120 120 - - -");
  EXPECT_EQ(told("step7_blocks.1.attn.output.npy.gz"),
            "blocks.1.attn.output 7 - - -");
  EXPECT_EQ(told("llama-3.1_step100_rank3.safetensors"),
            "llama-3.1_step100_rank3 100 3 - -");
  EXPECT_EQ(told("cached_step2_token17.npz"), "cached_step2_token17 2 - 17 "
                                              "cached");
}

TEST(TensorNamesTest, NoStepInTheFileName) {
  EXPECT_EQ(told("20260102_run.npz"), "20260102_run - - - -");
  EXPECT_EQ(told("timestep5.npz"), "timestep5 - - - -");
  EXPECT_EQ(told("model-00001-of-00002.safetensors"),
            "model-00001-of-00002 - - - -");
  EXPECT_EQ(told("step1.proj.output.npy"), "step1.proj.output - - - -");
  EXPECT_EQ(told(".npy"), ".npy - - - -");
}

TEST(TensorNamesTest, Folders) {
  EXPECT_EQ(told("run/rank_3/iter_0000012/fc.output.npy"),
            "fc.output 12 3 - -");
  EXPECT_EQ(told("step0/rank0/dump_tensor_data/Module.a.B.forward.0.output.0"
                 ".npy"),
            "Module.a.B.forward.0.output.0 0 0 - -");
  EXPECT_EQ(told("checkpoint-500/model.safetensors"), "model 500 - - -");
  EXPECT_EQ(told("iter_0000100/mp_rank_01/model_optim_rng.pt"),
            "model_optim_rng 100 1 - -");
  EXPECT_EQ(told("global_step100/mp_rank_00_model_states.pt"),
            "mp_rank_00_model_states 100 0 - -");
  EXPECT_EQ(told("checkpoint-3.pth.tar"), "checkpoint-3 3 - - -");
  EXPECT_EQ(told("checkpoints/epoch=0-step=100.ckpt"),
            "epoch=0-step=100.ckpt 100 - - -");
  EXPECT_EQ(told("checkpoints/000200/pretrained_model/model.safetensors"),
            "model 200 - - -");
  EXPECT_EQ(told("checkpoints/2000/state.npz"), "state 2000 - - -");
  EXPECT_EQ(told("checkpoints/12/state.npz"), "state - - - -"); // an epoch?
  EXPECT_EQ(told("runs/2000/state.npz"), "state - - - -");
  EXPECT_EQ(told("full/x.npz"), "x - - - full");
  EXPECT_EQ(told("step3-experiments/x.npz"), "x - - - -");
}

TEST(TensorNamesTest, WhatIsKnownStays) {
  TensorRecord Record;
  Record.Name = "fc.output";
  Record.Step = 5;
  Record.Role = "value";
  completeTensorRecord(Record, "rank2/step9.safetensors");
  EXPECT_EQ(Record.Step, 5);
  EXPECT_EQ(Record.Rank, 2);
  EXPECT_EQ(Record.Layer, "fc");
  EXPECT_EQ(Record.Role, "value");
}

} // namespace
