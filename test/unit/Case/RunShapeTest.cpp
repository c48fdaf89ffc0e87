//===- RunShapeTest.cpp - The figures of a run's curves ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/RunShape.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace culprit;
using namespace llvm;

namespace {

constexpr double Inf = std::numeric_limits<double>::infinity();
const double NaN = std::nan("");

/// Runs with curves by hand, each in a file of its own.
class Runs {
public:
  /// Begins a run, whose curves follow.
  Runs &run(StringRef Name) {
    finish();
    Run = Name.str();
    S = std::make_unique<Source>(Run + "/m.jsonl", Builder.pool());
    return *this;
  }

  /// The values of a metric at steps 10, 20, ...; of the model without a layer.
  Runs &curve(StringRef Metric, ArrayRef<double> Values, StringRef Layer = "") {
    TableBuilder &B = S->table(TableId::scalars);
    for (size_t I = 0; I != Values.size(); ++I) {
      B.addRow();
      B.set(scalars::run, Run);
      B.set(scalars::step, int64_t(10 * (I + 1)));
      B.set(scalars::name,
            StringRef((Metric + (Layer.empty() ? "" : "/") + Layer).str()));
      B.set(scalars::metric, Metric);
      if (!Layer.empty())
        B.set(scalars::layer, Layer);
      B.set(scalars::value, Values[I]);
    }
    return *this;
  }

  std::map<std::string, double> shape() {
    finish();
    return runShape(Builder.build());
  }

private:
  void finish() {
    if (S)
      Builder.add(std::move(S));
  }

  CaseBuilder Builder;
  std::unique_ptr<Source> S;
  std::string Run;
};

using Figures = std::map<std::string, double>;

const std::vector<double> Flat(10, 1.0);
/// What a flat loss of 1 has by itself.
Figures withFlatLoss(Figures More) {
  for (StringRef Name :
       {"loss_end", "loss_at_100", "loss_start", "loss_third", "loss_low",
        "loss_high", "loss_back", "loss_nonfinite"})
    More[Name.str()] = 0;
  return More;
}

TEST(RunShapeTest, Loss) {
  // The infinity is left out: the end is one row of eleven, 5, and the second
  // third rows 4 to 6: 5, 4, 4. Step 100 has 20.
  EXPECT_EQ(Runs()
                .run("a")
                .curve("loss", {10, 8, 5, 5, 4, 4, 4, 2, 1, 20, Inf, 5})
                .curve("val_loss", {2, 0.5, 5})
                .shape(),
            (Figures{{"loss_end", -0.30103},
                     {"loss_at_100", 0.30103},
                     {"loss_start", 1},
                     {"loss_third", -0.39794},
                     {"loss_low", -1},
                     {"loss_high", 0.30103},
                     {"loss_back", 0.69897},
                     {"loss_nonfinite", 0.083333},
                     {"val_to_train", 0},
                     {"val_back", 1}}));
}

TEST(RunShapeTest, EndIsTheLastTenth) {
  // Of twenty rows two, 3 and 1: 2 on average.
  std::vector<double> Loss(18, 4.0);
  Loss.push_back(3);
  Loss.push_back(1);
  Figures F = Runs().run("a").curve("loss", Loss).shape();
  EXPECT_EQ(F["loss_end"], -0.30103);
}

TEST(RunShapeTest, WholeModel) {
  EXPECT_EQ(Runs()
                .run("a")
                .curve("loss", Flat)
                .curve("grad_norm", {1, 1, 100, 1, 100})
                .curve("lr", {0, 0.1, 1, 0.01})
                .curve("step_time", {1, 10, 1})
                .curve("data_time", {0.1, 0.1, 0.9})
                .curve("unchanged_share", {0.2, 0.4})
                .shape(),
            withFlatLoss({{"grad_median", 0},
                          {"grad_high", 2},
                          {"grad_end", 2},
                          {"lr_zero", 0.25},
                          {"lr_jump", 1},
                          {"lr_drop", -2},
                          {"lr_high", 0},
                          {"time_high", 1},
                          {"data_share", -1},
                          {"unchanged", 0.4}}));
}

TEST(RunShapeTest, Layers) {
  // Updates in order: 0, 0, .01, .1. The first activations: 1 and .1.
  EXPECT_EQ(Runs()
                .run("a")
                .curve("loss", Flat)
                .curve("update_ratio", {0, 0}, "a")
                .curve("update_ratio", {0.1, 0.01}, "b")
                .curve("grad_norm", {0, 1}, "a")
                .curve("grad_norm", {0, 0}, "b")
                .curve("activation_rms", {1, 100}, "a")
                .curve("activation_rms", {0.1, 5}, "b")
                .curve("activation_max", {10, 1000}, "b")
                .curve("zero_share", {0.1, 0.9}, "a")
                .curve("saturated_share", {0.3, 0.2}, "a")
                .curve("grad_cosine", {-0.5, 0.25, 0.5}, "b")
                .curve("max_attention_logit", {1, 100}, "b")
                .curve("attention_entropy_share", {0.8, 0.7}, "b")
                .curve("nonfinite", {0, 3}, "b")
                .shape(),
            withFlatLoss({{"update_median", -2},
                          {"update_high", -1},
                          {"update_zero", 0.5},
                          {"layers_still", 0.5},
                          {"layers_cut", 0.5},
                          {"grads_zero", 0.75},
                          {"start_high", 0},
                          {"start_low", -1},
                          {"act_high", 3},
                          {"zeros_high", 0.9},
                          {"saturated", 0.3},
                          {"cosine", 0.25},
                          {"logit", 2},
                          {"entropy", 0.7},
                          {"nonfinite", 1}}));
}

TEST(RunShapeTest, ZeroHasALogarithm) {
  Figures F = Runs().run("a").curve("loss", Flat).curve("lr", {0, 0}).shape();
  EXPECT_EQ(F["lr_high"], -12);
  EXPECT_EQ(F["lr_zero"], 1);
  EXPECT_EQ(F.count("lr_jump"), 0u);
}

TEST(RunShapeTest, NotANumberIsLeftOut) {
  // Of ten rows the last is no value at all.
  std::vector<double> Loss(9, 1.0);
  Loss.push_back(NaN);
  EXPECT_EQ(Runs().run("a").curve("loss", Loss).shape(), withFlatLoss({}));
}

TEST(RunShapeTest, NegativeLossHasNoRatio) {
  // Of a policy: only that all are finite can be said.
  EXPECT_EQ(
      Runs().run("a").curve("loss", std::vector<double>(10, -1.0)).shape(),
      (Figures{{"loss_nonfinite", 0}}));
}

// Ten to the power -.522879 is .3; -12 stands for 0.
TEST(RunShapeTest, IsToldWithoutLogarithms) {
  EXPECT_EQ(shapeText("loss_end", -0.522879),
            "loss at the end over the first one (0.3)");
  EXPECT_EQ(shapeText("lr_high", -12), "highest learning rate (0)");
  EXPECT_EQ(shapeText("lr_zero", 1), "rows with a learning rate of 0 (100 %)");
}

TEST(RunShapeTest, NoneWithoutFourLosses) {
  EXPECT_TRUE(Runs()
                  .run("a")
                  .curve("loss", std::vector<double>(3, 1.0))
                  .curve("lr", Flat)
                  .shape()
                  .empty());
  EXPECT_TRUE(Runs().run("a").curve("loss", Flat, "head").shape().empty());
  EXPECT_TRUE(runShape(CaseBuilder().build()).empty());
}

TEST(RunShapeTest, FirstRunByName) {
  Figures F = Runs()
                  .run("b")
                  .curve("loss", std::vector<double>(10, 100.0))
                  .run("a")
                  .curve("loss", std::vector<double>(10, 10.0))
                  .shape();
  EXPECT_EQ(F["loss_start"], 1);
}

TEST(RunShapeTest, Described) {
  EXPECT_EQ(describeShape("loss_end"),
            "loss at the end over the first one, log10");
  EXPECT_EQ(describeShape("nonfinite"),
            "some layer had values that are not finite, 0 or 1");
  EXPECT_EQ(describeShape("loss"), "");
}

} // namespace
