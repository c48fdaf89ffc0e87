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

/// The figures of \p All that \p Wanted names.
Figures those(const Figures &All, const Figures &Wanted) {
  Figures Out;
  for (const auto &[Name, Value] : Wanted)
    if (auto At = All.find(Name); At != All.end())
      Out.insert(*At);
  return Out;
}

/// Expects \p Wanted among the figures of \p Of.
void expectShape(Runs &Of, const Figures &Wanted) {
  EXPECT_EQ(those(Of.shape(), Wanted), Wanted);
}

TEST(RunShapeTest, Loss) {
  // The infinity is left out: the end is one row of eleven, 5, and the second
  // third rows 4 to 6: 5, 4, 4. Step 100 has 20. In the second half rows change
  // by 0, 2, 1, 19 and 15. A quarter of the rows ends among 8, 5, 5, three
  // quarters among 2, 1, 20; the loss falls by 9 at most.
  expectShape(Runs()
                  .run("a")
                  .curve("loss", {10, 8, 5, 5, 4, 4, 4, 2, 1, 20, Inf, 5}),
              {{"loss_end", -0.30103},
               {"loss_at_100", 0.30103},
               {"loss_start", 1},
               {"loss_third", -0.39794},
               {"loss_low", -1},
               {"loss_high", 0.30103},
               {"loss_back", 0.69897},
               {"loss_nonfinite", 0.083333},
               {"loss_low_at", 0.727273},
               {"loss_noise", -0.39794},
               {"fall_quarter", 0.555556},
               {"fall_most", 0.888889}});
}

TEST(RunShapeTest, Validation) {
  // The loss ends at 1 and is 10, 5 and 1 where validation is 2, 0.5 and 5.
  expectShape(Runs()
                  .run("a")
                  .curve("loss", {10, 5, 1, 1})
                  .curve("val_loss", {2, 0.5, 5}),
              {{"val_to_train", 0.69897},
               {"val_back", 1},
               {"val_first", -0.69897},
               {"val_low", -0.30103},
               {"val_fall", 0.39794},
               {"val_low_at", 0.333333},
               {"gap_first", -0.69897},
               {"gap_median", -0.69897},
               {"gap_growth", 1.39794}});
}

TEST(RunShapeTest, LossBesideAValidation) {
  // Steps 10 to 500: what lies within 20 is beside. Step 10 has 1, 4, 1 there,
  // step 20 has one more 1, step 30 two: means of 2, 1.75 and 1.6.
  std::vector<double> Loss(50, 1.0);
  Loss[1] = 4;
  expectShape(
      Runs().run("a").curve("loss", Loss).curve("val_loss", {4, 17.5, 0.16}),
      {{"gap_first", 0.30103},
       {"gap_median", 0.30103},
       {"gap_growth", -1.30103}});
}

TEST(RunShapeTest, AHugeLossStaysWhereItIs) {
  // Steps 10 to 1000, 40 beside each: the loss is 2 but for 1e25 at step 500,
  // validation 20 at steps 10 to 1000.
  std::vector<double> Loss(100, 2.0), Held(100, 20.0);
  Loss[49] = 1e25;
  expectShape(Runs().run("a").curve("loss", Loss).curve("val_loss", Held),
              {{"gap_first", 1}, {"gap_median", 1}, {"gap_growth", 0}});
}

TEST(RunShapeTest, EndIsTheLastTenth) {
  // Of twenty rows two, 3 and 1: 2 on average.
  std::vector<double> Loss(18, 4.0);
  Loss.push_back(3);
  Loss.push_back(1);
  expectShape(Runs().run("a").curve("loss", Loss), {{"loss_end", -0.30103}});
}

TEST(RunShapeTest, WholeModel) {
  // Logarithms of the norm: 0, 0, 2, 0, 2; .96 is their variance, 18 that of
  // the step times.
  expectShape(Runs()
                  .run("a")
                  .curve("loss", Flat)
                  .curve("grad_norm", {1, 1, 100, 1, 100})
                  .curve("lr", {0, 0.1, 1, 0.01})
                  .curve("step_time", {1, 10, 1})
                  .curve("data_time", {0.1, 0.1, 0.9})
                  .curve("unchanged_share", {0.2, 0.4}),
              {{"grad_median", 0},
               {"grad_high", 2},
               {"grad_end", 2},
               {"grad_first", 0},
               {"grad_low", 0},
               {"grad_high_at", 0.4},
               {"grad_spread", 0.979796},
               {"lr_zero", 0.25},
               {"lr_jump", 1},
               {"lr_drop", -2},
               {"lr_first", -12},
               {"lr_last", -2},
               {"lr_high_at", 0.5},
               {"lr_at_high", 0.25},
               {"time_high", 1},
               {"time_spread", 0.627636},
               {"data_share", -1},
               {"data_high", -0.045757},
               {"unchanged", 0.4}});
}

TEST(RunShapeTest, NormThatFollowsTheLoss) {
  // Steps 10 to 60 have both, and one has no finite loss.
  expectShape(Runs()
                  .run("a")
                  .curve("loss", {7, 6, 5, Inf, 3, 2, 1, 0.5})
                  .curve("grad_norm", {14, 12, 10, 1, 6, 4, 2}),
              {{"grad_with_loss", 1}});
  EXPECT_EQ(Runs()
                .run("a")
                .curve("loss", {5, 4, 3, 2, 1})
                .curve("grad_norm", {5, 4, 3, 2, 1})
                .shape()
                .count("grad_with_loss"),
            0u);
}

TEST(RunShapeTest, Layers) {
  // Updates in order: 0, 0, .01, .1. The first activations: 1 and .1.
  expectShape(Runs()
                  .run("a")
                  .curve("loss", Flat)
                  .curve("lr", {0.01, 0.01})
                  .curve("update_ratio", {0, 0}, "a")
                  .curve("update_ratio", {0.1, 0.01}, "b")
                  .curve("grad_norm", {0, 1}, "a")
                  .curve("grad_norm", {0, 0}, "b")
                  .curve("activation_rms", {1, 100}, "a")
                  .curve("activation_rms", {0.1, 5}, "b")
                  .curve("activation_mean", {0, -50}, "a")
                  .curve("activation_mean", {0.1, 5}, "b")
                  .curve("activation_max", {10, 1000}, "b")
                  .curve("zero_share", {0.1, 0.9}, "a")
                  .curve("saturated_share", {0.3, 0.2}, "a")
                  .curve("weight_norm", {2, 4}, "a")
                  .curve("weight_norm", {1, 10}, "b")
                  .curve("unchanged_share", {0.5, 0.5}, "a")
                  .curve("unchanged_share", {1, 1}, "b")
                  .curve("grad_cosine", {-0.5, 0.25, 0.5}, "b")
                  .curve("exp_avg_sq_rms", {1, 0.01}, "b")
                  .curve("max_attention_logit", {1, 100}, "b")
                  .curve("attention_entropy_share", {0.8, 0.7}, "b")
                  .curve("nonfinite", {0, 3}, "b"),
              {{"update_median", -2},
               {"update_high", -1},
               {"update_zero", 0.5},
               {"layers_still", 0.5},
               {"layers_cut", 0.5},
               {"update_first", -1},
               {"update_last", -1},
               {"update_low", -12},
               {"update_per_lr", 1},
               {"grads_zero", 0.75},
               {"grads_in_one", 1},
               {"start_high", 0},
               {"start_low", -1},
               {"act_high", 3},
               {"acts_above", 0},
               {"acts_below", -1.30103},
               {"acts_growth", 2},
               {"acts_growth_high", 2},
               {"acts_growth_low", 1.69897},
               {"mean_share", 1},
               {"mean_share_high", 1},
               {"zeros_high", 0.9},
               {"zeros_first", 0.1},
               {"zeros_growth", 0.8},
               {"saturated", 0.3},
               {"weights_growth", 1},
               {"weights_growth_high", 1},
               {"weights_growth_low", 0.30103},
               {"unchanged_high", 1},
               {"unchanged_layers", 1},
               {"cosine", 0.25},
               {"cosine_first", -0.5},
               {"cosine_last", 0.5},
               {"cosine_high", 0.25},
               {"cosine_low", 0.25},
               {"square_growth", -2},
               {"logit", 2},
               {"logit_growth", 2},
               {"entropy", 0.7},
               {"entropy_first", 0.8},
               {"entropy_last", 0.7},
               {"nonfinite", 1}});
}

TEST(RunShapeTest, LayersBesideTheMiddleOne) {
  expectShape(Runs()
                  .run("a")
                  .curve("loss", Flat)
                  .curve("grad_norm", {4, 2}, "a")
                  .curve("grad_norm", {1, 0.1}, "b")
                  .curve("grad_norm", {100, 400}, "c")
                  .curve("update_ratio", {1e-3}, "a")
                  .curve("update_ratio", {1e-2}, "b")
                  .curve("update_ratio", {1e-5}, "c"),
              {{"grads_above", 2}, // 400 over 4
               {"grads_below", -0.60206},
               {"grads_in_one", 0.999894}, // of 160,000 + 16 + 1
               {"grads_growth", -0.30103},
               {"grads_growth_high", 0.60206},
               {"grads_growth_low", -1},
               {"updates_above", 1},
               {"updates_below", -2}});
}

TEST(RunShapeTest, ZeroHasALogarithm) {
  Figures F =
      Runs().run("a").curve("loss", Flat).curve("grad_norm", {0, 0}).shape();
  EXPECT_EQ(F["grad_median"], -12);
  EXPECT_EQ(F.count("grad_high"), 0u);
}

TEST(RunShapeTest, RateOfZeroHasNoShape) {
  Figures F = Runs().run("a").curve("loss", Flat).curve("lr", {0, 0}).shape();
  EXPECT_EQ(F["lr_zero"], 1);
  EXPECT_EQ(F.count("lr_jump"), 0u);
  EXPECT_EQ(F.count("lr_last"), 0u);
}

TEST(RunShapeTest, NotANumberIsLeftOut) {
  // Of ten rows the last is no value at all.
  std::vector<double> Loss(9, 1.0);
  Loss.push_back(NaN);
  expectShape(Runs().run("a").curve("loss", Loss),
              {{"loss_end", 0}, {"loss_nonfinite", 0}});
}

// 8, 4, 0, -4 falls by 12 and is lifted by 8, so that the last is a quarter of
// the first: 16, 12, 8, 4. Validation is lifted by as much, from 0 to 8.
TEST(RunShapeTest, LossBelowZeroIsLifted) {
  Runs Of;
  Of.run("a").curve("loss", {8, 4, 0, -4}).curve("val_loss", {8, 4, 4, 0});
  expectShape(Of, {{"loss_start", 1.20412},  // log10 16
                   {"loss_end", -0.60206},   // log10 1/4
                   {"loss_back", 0},
                   {"val_to_train", 0.30103}}); // log10 8/4
}

// At -1 throughout: lifted to a third.
TEST(RunShapeTest, NegativeLossThatStays) {
  expectShape(Runs().run("a").curve("loss", std::vector<double>(10, -1.0)),
              {{"loss_start", -0.477121}, {"loss_end", 0}, {"loss_high", 0}});
}

TEST(RunShapeTest, LossAboutZeroHasNoRatio) {
  // Of a policy: that all are finite can be said, and little else.
  const Figures Of = Runs()
                         .run("a")
                         .curve("loss", {.1, -.1, .2, -.2, .1, -.1})
                         .shape();
  EXPECT_EQ(Of.count("loss_end"), 0u);
  EXPECT_EQ(Of.count("loss_nonfinite"), 1u);
}

// Ten to the power -.522879 is .3; -12 stands for 0.
TEST(RunShapeTest, IsToldWithoutLogarithms) {
  EXPECT_EQ(shapeText("loss_end", -0.522879),
            "loss at the end over the first one (0.3)");
  EXPECT_EQ(shapeText("grad_median", -12), "median gradient norm (0)");
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
