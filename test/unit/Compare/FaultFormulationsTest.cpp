//===- FaultFormulationsTest.cpp --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Ports that compute a layer by another formula, or load it in another layout.
//
//===----------------------------------------------------------------------===//

#include "FaultSupport.h"

namespace culprit::faults {
namespace {

TEST(FaultFormulationsTest, AttentionScale) {
  sweep({"scale", "attention-scale-missing", 64}, DType::BFloat16,
        [](MadePair &P, Sizes S) {
          P.Name = "block.0.attn.scores.output";
          P.RefShape = {S.B, S.T, S.C};
          P.Ref = draw(S, 1);
          P.Ours = times(P.Ref, std::sqrt(double(S.C)));
          return S.C >= 8;
        },
        [](const Answer &A, Sizes S, DType) {
          EXPECT_EQ(A.Kind.Parameters.getString("constant"),
                    "sqrt(" + std::to_string(S.C) + ")")
              << A.Kind.Says;
        });
}

TEST(FaultFormulationsTest, AttentionScaleSeenInProbabilities) {
  sweep({"softmax-scale", "attention-scale-missing", 1024},
        NoLarge, [](MadePair &P, Sizes S) {
          if (S.C < 8)
            return false;
          P.Name = "block.0.attn.probs.output";
          P.RefShape = {S.B, S.T, S.C};
          const std::vector<double> X = draw(S, 2);
          for (double Factor : {1.0, std::sqrt(double(S.C))})
            for (int64_t R = 0; R != S.B * S.T; ++R) {
              double Sum = 0;
              for (int64_t I = 0; I != S.C; ++I)
                Sum += std::exp(X[size_t(R * S.C + I)] * Factor / 4);
              for (int64_t I = 0; I != S.C; ++I)
                (Factor == 1 ? P.Ref : P.Ours)
                    .push_back(std::exp(X[size_t(R * S.C + I)] * Factor / 4) /
                               Sum);
            }
          return true;
        });
}

TEST(FaultFormulationsTest, GradientsSummedOverRanks) {
  for (double Factor : {8.0, 1 / 8.0})
    sweep({"scale", "gradient-sum-for-mean", 64}, NoLarge,
          [&](MadePair &P, Sizes S) {
            P.Name = "fc.weight.grad";
            P.Role = "grad";
            P.WorldSize = 8;
            P.RefShape = {S.B * S.T, S.C};
            P.Ref = draw(S, 31, 1e-3);
            P.Ours = times(P.Ref, Factor);
            return S.numel() >= 64;
          });
}

TEST(FaultFormulationsTest, TransposedWeight) {
  sweep({"axis-permutation|reshape-for-transpose", "weight-transposed", 64},
        DType::Float32, [](MadePair &P, Sizes S) {
          P.Name = "fc.weight";
          P.Role = "weight";
          const int64_t R = S.B * S.T, C = S.C;
          P.RefShape = {R, C};
          P.OursShape = {C, R};
          P.Ref = draw(S, 3);
          mapped(P, [&](int64_t I) { return I % R * C + I / R; });
          return true;
        });
}

TEST(FaultFormulationsTest, ChannelsLast) {
  sweep({"axis-permutation", "channel-order-mismatch", 64}, DType::BFloat16,
        [](MadePair &P, Sizes S) {
          // [B, C, T, 2] as NCHW.
          const int64_t C = S.C / 2, H = S.T, W = 2;
          if (C < 3)
            return false;
          P.Name = "conv.output";
          P.RefShape = {S.B, C, H, W};
          P.OursShape = {S.B, H, W, C};
          P.Ref = draw(S, 4);
          mapped(P, [&](int64_t I) {
            const int64_t Ch = I % C, X = I / C % W, Y = I / C / W % H;
            return ((I / C / W / H * C + Ch) * H + Y) * W + X;
          });
          return true;
        });
}

/// Rows of \p X normalised, with the variance divided by n - \p Less; gain
/// and bias where they are given.
std::vector<double> norm(const std::vector<double> &X, int64_t Size, double E,
                         int Less, llvm::ArrayRef<double> Gain = {},
                         llvm::ArrayRef<double> Bias = {}) {
  std::vector<double> Out(X.size());
  for (size_t R = 0; R != X.size(); R += size_t(Size)) {
    double Mean = 0, V = 0;
    for (size_t I = 0; I != size_t(Size); ++I)
      Mean += X[R + I] / double(Size);
    for (size_t I = 0; I != size_t(Size); ++I)
      V += (X[R + I] - Mean) * (X[R + I] - Mean);
    const double Scale = 1 / std::sqrt(V / double(Size - Less) + E);
    for (size_t I = 0; I != size_t(Size); ++I)
      Out[R + I] = (X[R + I] - Mean) * Scale * (Gain.empty() ? 1 : Gain[I]) +
                   (Bias.empty() ? 0 : Bias[I]);
  }
  return Out;
}

TEST(FaultFormulationsTest, BiasedVariance) {
  // sqrt((n-1)/n) is nearer to 1 than what bfloat16 tells apart.
  sweep({"scale", "variance-estimator-mismatch", 64, DType::Float32},
        NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "norm.output";
          P.RefShape = {S.B, S.T, S.C};
          const std::vector<double> X = draw(S, 5, 2);
          P.Ref = norm(X, S.C, 0, 0);
          P.Ours = norm(X, S.C, 0, 1);
          return S.C > 2;
        },
        [](const Answer &A, Sizes S, DType) {
          EXPECT_EQ(A.Kind.Parameters.getString("constant"),
                    "sqrt(" + std::to_string(S.C - 1) + "/" +
                        std::to_string(S.C) + ")")
              << A.Kind.Says;
        });
}

/// Inputs whose rows have deviations from 0.003 to 0.3.
std::vector<double> unevenRows(Sizes S, uint64_t Seed) {
  std::vector<double> X = draw(S, Seed);
  for (size_t I = 0; I != X.size(); ++I)
    X[I] *= 0.003 * std::pow(10, 2 * double(I / size_t(S.C) * 7919 % 64) / 64);
  return X;
}

TEST(FaultFormulationsTest, Epsilon) {
  for (bool Dumped : {true, false})
    sweep({"epsilon|row-factor", "norm-epsilon-mismatch", 1024}, NoLarge,
          [&](MadePair &P, Sizes S) {
            P.Name = "norm.output";
            P.RefShape = {S.B, S.T, S.C};
            const std::vector<double> X = unevenRows(S, 6);
            P.Ref = norm(X, S.C, 1e-5, 0);
            P.Ours = norm(X, S.C, 1e-3, 0);
            if (Dumped)
              P.Input = X;
            return S.C > 2;
          },
          [&](const Answer &A, Sizes, DType Type) {
            if (!Dumped || Type == DType::BFloat16)
              return;
            EXPECT_NEAR(
                A.Kind.Parameters.getNumber("ours_epsilon").value_or(0), 1e-3,
                1e-4)
                << A.Kind.Says;
          });
}

TEST(FaultFormulationsTest, EpsilonOfANormWithGainAndBias) {
  for (bool Dumped : {true, false})
    sweep({"epsilon|row-factor", "norm-epsilon-mismatch", 1024,
           DType::Float16},
          NoLarge,
          [&](MadePair &P, Sizes S) {
            P.Name = "norm.output";
            P.RefShape = {S.B, S.T, S.C};
            const std::vector<double> X = unevenRows(S, 7);
            std::vector<double> Gain = normals(S.C, 8, 0.2);
            for (double &G : Gain)
              G += 1;
            const std::vector<double> Bias = normals(S.C, 9, 0.5);
            P.Ref = norm(X, S.C, 1e-5, 0, Gain, Bias);
            P.Ours = norm(X, S.C, 1e-3, 0, Gain, Bias);
            if (Dumped)
              P.Input = X;
            return S.C > 2;
          },
          [&](const Answer &A, Sizes, DType Type) {
            if (!Dumped || Type != DType::Float32)
              return;
            EXPECT_NEAR(
                A.Kind.Parameters.getNumber("ours_epsilon").value_or(0), 1e-3,
                1e-4)
                << A.Kind.Says;
          });
}

double geluErf(double X) { return 0.5 * X * std::erfc(-X / std::sqrt(2.0)); }
double geluTanh(double X) {
  return 0.5 * X *
         (1 + std::tanh(0.7978845608028654 * (X + 0.044715 * X * X * X)));
}

TEST(FaultFormulationsTest, GeluForms) {
  // They differ by 5e-4 at most: rounding of the 16-bit formats hides that.
  for (bool Dumped : {true, false})
    sweep({"activation", "activation-variant-mismatch", 1024, DType::Float32},
          NoLarge,
          [&](MadePair &P, Sizes S) {
            P.Name = "mlp.act.output";
            P.RefShape = {S.B, S.T, S.C};
            std::vector<double> X = draw(S, 10, 1.5);
            for (double &V : X) {
              V = float(V);
              P.Ref.push_back(geluErf(V));
              P.Ours.push_back(geluTanh(V));
            }
            if (Dumped)
              P.Input = X;
            return true;
          },
          [](const Answer &A, Sizes, DType) {
            EXPECT_EQ(A.Kind.Parameters.getString("ours"), "GELU with tanh");
          });
}

TEST(FaultFormulationsTest, RotaryLayout) {
  sweep({"rotary-interleave|interleave", "rope-layout-permutation-missing", 64},
        NoLarge, [](MadePair &P, Sizes S) {
          P.Name = "attn.q_proj.output";
          P.RefShape = {S.B, S.T, S.C};
          P.Ref = draw(S, 11);
          mapped(P, [](int64_t I) {
            const int64_t At = I % 8;
            return I - At + At % 2 * 4 + At / 2;
          });
          return S.C % 8 == 0;
        });
}

TEST(FaultFormulationsTest, QkvOrder) {
  sweep({"slice-order|shift", "axis-permutation", 192}, DType::BFloat16,
        [](MadePair &P, Sizes S) {
          P.Name = "attn.qkv.weight";
          P.Role = "weight";
          P.RefShape = {3 * S.B * S.T, S.C};
          P.Ref = normals(3 * S.numel(), 12);
          mapped(P, [&](int64_t I) {
            const int64_t Part = I / S.numel();
            return I + (Part == 0 ? 1 : Part == 1 ? -1 : 0) * S.numel();
          });
          return S.numel() < 10'000'000;
        });
}

TEST(FaultFormulationsTest, MissingResidual) {
  sweep({"missing-term", "bias-missing", 64}, NoLarge,
        [](MadePair &P, Sizes S) {
          P.RefShape = {S.B, S.T, S.C};
          const std::vector<double> X = draw(S, 13);
          P.Ours = draw(S, 14);
          for (size_t I = 0; I != X.size(); ++I)
            P.Ref.push_back(P.Ours[I] + X[I]);
          P.Others.push_back({"block.0.input", X});
          return true;
        },
        [](const Answer &A, Sizes, DType) {
          EXPECT_EQ(A.Kind.Parameters.getString("term"), "block.0.input");
        });
}

TEST(FaultFormulationsTest, MissingWeight) {
  sweep({"not-loaded", "weights-missing-or-extra", 1024}, NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "fc.weight";
          P.Role = "weight";
          P.RefShape = {S.B * S.T, S.C};
          P.Ref = draw(S, 15, 0.07);
          P.Ours = draw(S, 16, 0.02);
          return true;
        });
  sweep({"all-zero", "weights-missing-or-extra", 8}, NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "fc.weight";
          P.Role = "weight";
          P.RefShape = {S.B * S.T, S.C};
          P.Ref = draw(S, 17, 0.07);
          P.Ours.assign(P.Ref.size(), 0);
          return true;
        });
}

TEST(FaultFormulationsTest, LearnedPositionsOffByOne) {
  sweep({"position-shift|shift", "off-by-one-position", 1024},
        NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "embed.output";
          P.RefShape = {S.B, S.T, S.C};
          const int64_t Rows = 2 * S.T + 3;
          const std::vector<double> Token = draw(S, 18, 0.5),
                                    Table = normals(Rows * S.C, 19, 0.4);
          P.Ref = P.Ours = Token;
          for (int64_t I = 0; I != S.numel(); ++I) {
            const int64_t At = I / S.C % S.T * S.C + I % S.C;
            P.Ref[size_t(I)] += Table[size_t(At)];
            P.Ours[size_t(I)] += Table[size_t(At + S.C)];
          }
          P.Tables.push_back({"wte.weight", normals(7 * S.C, 20)});
          P.Tables.push_back({"wpe.weight", Table});
          return true;
        },
        [](const Answer &A, Sizes, DType) {
          EXPECT_EQ(A.Kind.Parameters.getInteger("positions"), 1);
        });
}

TEST(FaultFormulationsTest, SoftmaxMissingOrTwice) {
  for (bool Twice : {false, true})
    sweep({"softmax", Twice ? "double-softmax" : "activation-missing", 1024},
          NoLarge, [&](MadePair &P, Sizes S) {
            P.Name = "head.probs.output";
            P.RefShape = {S.B * S.T, S.C};
            const std::vector<double> X = draw(S, 21);
            const auto Softmax = [&](const std::vector<double> &In) {
              std::vector<double> Out;
              for (int64_t R = 0; R != S.B * S.T; ++R) {
                double Sum = 0;
                for (int64_t I = 0; I != S.C; ++I)
                  Sum += std::exp(In[size_t(R * S.C + I)]);
                for (int64_t I = 0; I != S.C; ++I)
                  Out.push_back(std::exp(In[size_t(R * S.C + I)]) / Sum);
              }
              return Out;
            };
            P.Ref = Softmax(X);
            P.Ours = Twice ? Softmax(P.Ref) : X;
            return true;
          });
}

} // namespace
} // namespace culprit::faults
