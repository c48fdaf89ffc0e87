//===- FaultPortsTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Faults as ports of trained models have them: beside biases, in the middle of
// a decoded sequence, or over several tensors.
//
//===----------------------------------------------------------------------===//

#include "FaultSupport.h"

namespace culprit::faults {
namespace {

TEST(FaultPortsTest, VarianceBesideABias) {
  // Rows of C values of unit variance times a gain, plus a bias: n - 1 for n
  // moves what is normalised, not the bias.
  sweep({"scale", "variance-estimator-mismatch", 512, DType::Float16}, NoLarge,
        [](MadePair &P, Sizes S) {
          if (S.C < 8 || S.C > 96)
            return false;
          P.Name = "block.0.ln.output";
          P.RefShape = {S.B, S.T, S.C};
          const std::vector<double> X = draw(S, 50), Gain = normals(S.C, 51),
                                    Bias = normals(S.C, 52);
          const double Less = std::sqrt(double(S.C - 1) / double(S.C));
          for (int64_t I = 0; I != S.numel(); ++I) {
            const double Y = X[size_t(I)] * (1 + 0.1 * Gain[size_t(I % S.C)]);
            P.Ref.push_back(Y + Bias[size_t(I % S.C)]);
            P.Ours.push_back(Less * Y + Bias[size_t(I % S.C)]);
          }
          return true;
        },
        [](const Answer &A, Sizes S, DType Type) {
          if (Type == DType::Float32) {
            EXPECT_EQ(A.Kind.Parameters.getString("constant"),
                      "sqrt(" + std::to_string(S.C - 1) + "/" +
                          std::to_string(S.C) + ")");
          }
        });
}

/// Turns heads of \p Width by their position, in halves or in pairs.
std::vector<double> turned(const std::vector<double> &X, Sizes S, bool Halves) {
  std::vector<double> Out = X;
  for (int64_t R = 0; R != S.B * S.T; ++R)
    for (int64_t I = 0; I != S.C / 2; ++I) {
      const size_t A = size_t(R * S.C + (Halves ? I : 2 * I));
      const size_t B = Halves ? A + size_t(S.C / 2) : A + 1;
      const double Angle = double(R % S.T) *
                           std::pow(1e4, -2 * double(I) / double(S.C));
      Out[A] = std::cos(Angle) * X[A] - std::sin(Angle) * X[B];
      Out[B] = std::cos(Angle) * X[B] + std::sin(Angle) * X[A];
    }
  return Out;
}

TEST(FaultPortsTest, RotaryLayoutOfActivations) {
  for (bool Halves : {true, false})
    sweep({"rotary-interleave", "rope-layout-permutation-missing", 1024},
          NoLarge, [&](MadePair &P, Sizes S) {
            if (S.C < 8)
              return false;
            P.Name = "block.0.attn.q.output";
            P.RefShape = {S.B, S.T, S.C};
            const std::vector<double> X = draw(S, 53);
            P.Ref = turned(X, S, Halves);
            P.Ours = turned(X, S, !Halves);
            return true;
          });
}

TEST(FaultPortsTest, OnePositionOfATable) {
  sweep({"position-shift", "kv-cache-stale-position", 64}, NoLarge,
        [](MadePair &P, Sizes S) {
          if (S.C < 8)
            return false;
          P.Name = "embed.output";
          P.RefShape = {S.B * S.T, 1, S.C};
          const std::vector<double> Token = draw(S, 54),
                                    Table = normals(16 * S.C, 55, 0.7);
          // Row 11 in the reference; ours stands still at 5.
          for (int64_t I = 0; I != S.numel(); ++I) {
            P.Ref.push_back(Token[size_t(I)] +
                            Table[size_t(11 * S.C + I % S.C)]);
            P.Ours.push_back(Token[size_t(I)] +
                             Table[size_t(5 * S.C + I % S.C)]);
          }
          P.Tables.push_back({"wpe.weight", Table});
          return true;
        },
        [](const Answer &A, Sizes, DType) {
          EXPECT_EQ(A.Kind.Parameters.getInteger("positions"), -6);
        });
}

TEST(FaultPortsTest, OneOfTwoTerms) {
  sweep({"missing-term", "bias-missing", 64}, NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "block.0.output";
          P.RefShape = {S.B, S.T, S.C};
          const std::vector<double> X = draw(S, 56), Y = draw(S, 57);
          P.Ours = Y;
          for (int64_t I = 0; I != S.numel(); ++I)
            P.Ref.push_back(X[size_t(I)] + Y[size_t(I)]);
          P.Others = {{"block.0.input", X}, {"block.0.mlp.output", Y}};
          return true;
        },
        [](const Answer &A, Sizes, DType) {
          EXPECT_EQ(A.Kind.Parameters.getString("term"), "block.0.input");
        });
}

TEST(FaultPortsTest, CacheWithFreeSlots) {
  // Five slots are filled, three decoded ones follow one slot too late, four
  // are free.
  MadePair P;
  P.Name = "block.0.attn.k_cache";
  P.RefShape = {2, 12, 8};
  P.Ref = P.Ours = std::vector<double>(192);
  const std::vector<double> X = normals(2 * 8 * 8, 58);
  for (int64_t B = 0; B != 2; ++B)
    for (int64_t T = 0; T != 8; ++T)
      for (int64_t C = 0; C != 8; ++C) {
        const double Value = X[size_t((B * 8 + T) * 8 + C)];
        P.Ref[size_t((B * 12 + T) * 8 + C)] = Value;
        P.Ours[size_t((B * 12 + T + (T >= 5)) * 8 + C)] = Value;
      }
  for (DType Type : {DType::Float32, DType::Float16, DType::BFloat16}) {
    const Answer A = ask(P, Type);
    EXPECT_EQ(A.Kind.Kind, "shift") << A.Kind.Says;
    EXPECT_EQ(A.Kind.Class, "kv-cache-append-index");
    EXPECT_EQ(A.Kind.Parameters.getInteger("by"), 1);
    EXPECT_EQ(A.Kind.Parameters.getInteger("from"), 5);
  }
}

TEST(FaultPortsTest, NoiseTurnsNothing) {
  // Just beyond the tolerance every length agrees with every other.
  for (uint64_t Seed = 60; Seed != 70; ++Seed) {
    MadePair P;
    P.Name = "unet.output";
    P.RefShape = {2, 8, 8};
    P.Ref = P.Ours = normals(128, Seed);
    const std::vector<double> Noise = normals(128, Seed + 100, 3e-7);
    for (size_t I = 0; I != Noise.size(); ++I)
      P.Ours[I] += Noise[I];
    EXPECT_EQ(ask(P, DType::Float32).Kind.Class, "") << Seed;
  }
}

//===- Several tensors ------------------------------------------------------//

TEST(FaultPortsTest, TwoTensorsChangedPlaces) {
  TensorComparison C;
  for (auto [Name, Is] : {std::pair("attn.q", "attn.k"), {"attn.k", "attn.q"},
                          {"attn.v", "attn.q"}}) {
    TensorDifference D;
    D.Pair.Ref.Name = Name;
    D.Verdict = CompareVerdict::Different;
    D.Kind.emplace();
    D.Kind->Kind = "other-tensor";
    D.Kind->Parameters["tensor"] = Is;
    C.Differences.push_back(std::move(D));
  }
  C.First = Divergence{0, std::nullopt, "", ""};
  concludeDivergence(C);
  EXPECT_EQ(C.First->Class, "axis-permutation");
  EXPECT_EQ(C.Differences[1].Kind->Class, "axis-permutation");
  // A third that is one of the two has not changed places with it.
  EXPECT_EQ(C.Differences[2].Kind->Class, "");
}

/// The class of the first difference of tokens that are off by \p Offsets.
std::string classOf(std::vector<int64_t> Offsets) {
  TensorComparison C;
  for (auto [Token, By] : llvm::enumerate(Offsets)) {
    TensorDifference D;
    D.Pair.Ref.Name = "attn.k_rope.output";
    D.Pair.Ref.Token = int64_t(Token);
    D.Verdict = CompareVerdict::Different;
    D.Kind.emplace();
    D.Kind->Kind = "rotation";
    D.Kind->Class = "off-by-one-position";
    D.Kind->Parameters["positions"] = By;
    C.Differences.push_back(std::move(D));
  }
  C.First = Divergence{0, std::nullopt, "", ""};
  concludeDivergence(C);
  return C.First->Class;
}

TEST(FaultPortsTest, PositionsOverTokens) {
  EXPECT_EQ(classOf({-1, -2, -3}), "kv-cache-stale-position");
  EXPECT_EQ(classOf({-1, -1, -1}), "off-by-one-position");
  EXPECT_EQ(classOf({-1}), "off-by-one-position");
}

TEST(FaultPortsTest, StepsTellOfAState) {
  for (auto [Kind, Class, Tokens, Wanted] :
       {std::tuple("zero-block", "kernel-uninitialized-grad", false,
                   "state-corrupted-at-step"),
        {"partial", "", false, "state-corrupted-at-step"},
        {"scale", "input-scaling-missing", false, "input-scaling-missing"},
        {"partial", "", true, ""}}) {
    TensorComparison C;
    TensorDifference D;
    D.Pair.Ref.Name = "x";
    (Tokens ? D.Pair.Ref.Token : D.Pair.Ref.Step) = 5;
    D.Kind.emplace();
    D.Kind->Kind = Kind;
    D.Kind->Class = Class;
    C.Differences.push_back(std::move(D));
    C.First = Divergence{0, std::nullopt, "", ""};
    C.Steps.emplace();
    C.Steps->Kind = "sudden";
    C.Steps->Class = "state-corrupted-at-step";
    concludeDivergence(C);
    EXPECT_EQ(C.First->Class, Wanted) << Kind;
  }
}

} // namespace
} // namespace culprit::faults
