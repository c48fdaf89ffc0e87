//===- TorchNamesTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TorchNames.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

FoundTensor found(StringRef Path, std::initializer_list<int64_t> Shape,
                  int Optimizer = -1, int64_t Parameter = -1) {
  FoundTensor Out;
  Out.Path = Path.str();
  Out.Record.Data.Shape = Shape;
  Out.Optimizer = Optimizer;
  Out.Parameter = Parameter;
  return Out;
}

std::vector<FoundTensor> checkpoint() {
  return {found("fc.weight", {2, 3}),
          found("bn.running_mean", {2}),
          found("fc.bias", {2}),
          found("optimizer.state.0.exp_avg", {2, 3}, 0, 0),
          found("optimizer.state.1.exp_avg", {2}, 0, 1),
          found("optimizer.state.1.step", {}, 0, 1)};
}

OptimizerNames groups(std::vector<size_t> Sizes) {
  OptimizerNames Out;
  for (size_t Size : Sizes)
    Out.Parameters += Size;
  Out.Groups = std::move(Sizes);
  return Out;
}

TEST(TorchNamesTest, StateIsOfTheWeightsInTheirOrder) {
  std::vector<FoundTensor> Found = checkpoint();
  nameLayers(Found, groups({2}));
  EXPECT_EQ(Found[0].Record.Layer, "fc");
  EXPECT_EQ(Found[0].Record.Role, "weight");
  for (size_t I : {3, 4, 5}) {
    EXPECT_EQ(Found[I].Record.Layer, "fc");
    EXPECT_EQ(Found[I].Record.Role, "state");
  }
}

TEST(TorchNamesTest, NothingIsGuessed) {
  // One parameter is not in the file.
  std::vector<FoundTensor> Found = checkpoint();
  nameLayers(Found, groups({3}));
  EXPECT_EQ(Found[3].Record.Layer, "optimizer.state.0");
  EXPECT_EQ(Found[3].Record.Role, "state");
  // A shape does not agree.
  Found = checkpoint();
  Found[4].Record.Data.Shape = {3};
  nameLayers(Found, groups({2}));
  EXPECT_EQ(Found[3].Record.Layer, "optimizer.state.0");
}

TEST(TorchNamesTest, TheOptimizerMayTellNames) {
  std::vector<FoundTensor> Found = checkpoint();
  OptimizerNames Told = groups({1, 1});
  Told.Names = {"head.weight", "fc.weight"};
  nameLayers(Found, Told);
  EXPECT_EQ(Found[3].Record.Layer, "head");
  EXPECT_EQ(Found[4].Record.Layer, "fc");
}

TEST(TorchNamesTest, MatricesFirstThenVectors) {
  // a, a.bias, b, b.bias are numbered a 0, b 1, a.bias 2, b.bias 3; a causal
  // mask and an average are no parameters.
  std::vector<FoundTensor> Found = {found("a.weight", {2, 3}),
                                    found("a.bias", {2}),
                                    found("attn.bias", {1, 1, 4, 4}),
                                    found("b.weight", {4, 2}),
                                    found("b.bias", {4}),
                                    found("a.weight", {2, 3}),
                                    found("state.1.exp_avg", {4, 2}, 0, 1),
                                    found("state.2.exp_avg", {2}, 0, 2)};
  Found[5].Record.Variant = "ema";
  nameLayers(Found, groups({2, 2}));
  EXPECT_EQ(Found[6].Record.Layer, "b");
  EXPECT_EQ(Found[7].Record.Layer, "a");
}

TEST(TorchNamesTest, VectorsAndPlacesFirst) {
  // The place is no vector, and goes with them by its name alone.
  std::vector<FoundTensor> Found = {found("pos_embed", {1, 5}),
                                    found("a.weight", {2, 3}),
                                    found("a.bias", {2}),
                                    found("b.weight", {4, 2}),
                                    found("state.0.exp_avg", {1, 5}, 0, 0),
                                    found("state.1.exp_avg", {2}, 0, 1),
                                    found("state.3.exp_avg", {4, 2}, 0, 3)};
  nameLayers(Found, groups({2, 2}));
  EXPECT_EQ(Found[4].Record.Layer, "pos_embed");
  EXPECT_EQ(Found[5].Record.Layer, "a");
  EXPECT_EQ(Found[6].Record.Layer, "b");
}

TEST(TorchNamesTest, OfFewerParametersThoseWithoutAChoice) {
  // The first may be a, b or c, which have one shape; head is itself.
  std::vector<FoundTensor> Found = {found("a.weight", {3, 3}),
                                    found("b.weight", {3, 3}),
                                    found("c.weight", {3, 3}),
                                    found("head.weight", {2, 3}),
                                    found("state.0.exp_avg", {3, 3}, 0, 0),
                                    found("state.1.exp_avg", {2, 3}, 0, 1)};
  nameLayers(Found, groups({2}));
  EXPECT_EQ(Found[4].Record.Layer, "state.0");
  EXPECT_EQ(Found[5].Record.Layer, "head");
}

TEST(TorchNamesTest, KeysOfCheckpoints) {
  for (StringRef Key : {"iter_num", "global_step", "steps_run"})
    EXPECT_TRUE(isStepKey(Key)) << Key.str();
  EXPECT_FALSE(isStepKey("max_steps"));
  for (StringRef Key : {"ema", "state_dict_ema", "model_ema"}) {
    EXPECT_TRUE(isAverageKey(Key)) << Key.str();
    EXPECT_FALSE(isModelKey(Key)) << Key.str();
  }
}

TEST(TorchNamesTest, FilesOfTransformerEngine) {
  std::optional<EngineName> Name =
      engineName("decoder_layers_1_fc1_activation_iter_000100");
  ASSERT_TRUE(Name);
  EXPECT_EQ(Name->Layer, "decoder_layers_1_fc1");
  EXPECT_EQ(Name->Tensor, "activation");
  EXPECT_EQ(Name->Role, "input");
  EXPECT_EQ(Name->Step, 100);
  EXPECT_FALSE(engineName("fc1_activation"));
  EXPECT_FALSE(engineName("activation_iter_1"));
  EXPECT_FALSE(engineName("fc1_noise_iter_1"));
  EXPECT_FALSE(engineName("fc1_weight_iter_"));
}

} // namespace
