//===- FaultCachesTest.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Caches of keys and values, samplers that go on from their own results, and
// right runs, which are noise.
//
//===----------------------------------------------------------------------===//

#include "FaultSupport.h"

namespace culprit::faults {
namespace {

//===- Caches of keys and values --------------------------------------------//

/// Turns the pairs (halves) of rows of \p Size of \p X by \p Position.
void turn(std::vector<double> &X, size_t Begin, int64_t Size,
          double Position) {
  for (int64_t I = 0; I != Size / 2; ++I) {
    const size_t A = Begin + size_t(I), B = A + size_t(Size / 2);
    const double Angle =
        Position * std::pow(1e4, -2 * double(I) / double(Size));
    const double XA = X[A], XB = X[B];
    X[A] = std::cos(Angle) * XA - std::sin(Angle) * XB;
    X[B] = std::sin(Angle) * XA + std::cos(Angle) * XB;
  }
}

TEST(FaultCachesTest, StalePosition) {
  // The prompt is right; what is decoded has the position of its end.
  sweep({"rotation", "kv-cache-stale-position", 1024}, NoLarge,
        [](MadePair &P, Sizes S) {
          if (S.C < 8)
            return false;
          P.Name = "block.0.attn.k_cache";
          P.RefShape = {S.B, S.T, S.C};
          P.Ref = P.Ours = draw(S, 22);
          const int64_t Prompt = S.T / 2;
          for (int64_t R = 0; R != S.B * S.T; ++R) {
            const int64_t At = R % S.T;
            turn(P.Ref, size_t(R * S.C), S.C, double(At));
            turn(P.Ours, size_t(R * S.C), S.C,
                 double(std::min(At, Prompt)));
          }
          return true;
        },
        [](const Answer &A, Sizes S, DType) {
          EXPECT_EQ(A.Kind.Parameters.getInteger("from"), S.T / 2 + 1)
              << A.Kind.Says;
        });
  // All positions off by one.
  sweep({"rotation", "kv-cache-stale-position", 1024}, NoLarge,
        [](MadePair &P, Sizes S) {
          if (S.C < 8)
            return false;
          P.Name = "block.0.attn.k_cache";
          P.RefShape = {S.B, S.T, S.C};
          P.Ref = draw(S, 23);
          P.Ours = P.Ref;
          for (int64_t R = 0; R != S.B * S.T; ++R)
            turn(P.Ours, size_t(R * S.C), S.C, -1);
          return true;
        },
        [](const Answer &A, Sizes, DType) {
          EXPECT_EQ(A.Kind.Parameters.getInteger("positions"), -1);
        });
}

TEST(FaultCachesTest, AppendedAtTheWrongIndex) {
  for (int64_t K : {1, -1})
    sweep({"shift", "kv-cache-append-index", 1024}, DType::BFloat16,
          [&](MadePair &P, Sizes S) {
            P.Name = "block.0.attn.v_cache";
            P.RefShape = {S.B, S.T, S.C};
            P.Ref = draw(S, 24);
            P.Ours = P.Ref;
            const int64_t Prompt = S.T / 2;
            for (int64_t I = 0; I != S.numel(); ++I) {
              const int64_t At = I / S.C % S.T;
              if (At < Prompt + std::min<int64_t>(K, 0))
                continue;
              const int64_t From = At - K;
              P.Ours[size_t(I)] = (K > 0 && At == Prompt) || From >= S.T
                                      ? 0
                                      : P.Ref[size_t(I - K * S.C)];
            }
            return S.T > 4;
          },
          [&](const Answer &A, Sizes, DType) {
            EXPECT_EQ(A.Kind.Parameters.getInteger("by"), K) << A.Kind.Says;
          });
}

TEST(FaultCachesTest, Mask) {
  for (bool Leak : {true, false})
    sweep({"mask", Leak ? "causal-mask-leak" : "", 1024, DType::BFloat16},
          NoLarge, [&](MadePair &P, Sizes S) {
            // Probabilities of [B, T, T]; ours sees one position more, or
            // lacks the first.
            if (S.T < 16)
              return false;
            P.Name = "block.0.attn.probs.output";
            P.RefShape = {S.B, S.T, S.T};
            const std::vector<double> X = normals(S.B * S.T * S.T, 25);
            const auto Softmax = [&](int64_t First, int64_t Extra) {
              std::vector<double> Out(X.size());
              for (int64_t R = 0; R != S.B * S.T; ++R) {
                const int64_t End =
                    std::min(S.T, R % S.T + 1 + Extra);
                double Sum = 0;
                for (int64_t I = std::min(First, End - 1); I < End; ++I)
                  Sum += std::exp(X[size_t(R * S.T + I)]);
                for (int64_t I = std::min(First, End - 1); I < End; ++I)
                  Out[size_t(R * S.T + I)] =
                      std::exp(X[size_t(R * S.T + I)]) / Sum;
              }
              return Out;
            };
            P.Ref = Softmax(0, 0);
            P.Ours = Leak ? Softmax(0, 1) : Softmax(1, 0);
            return true;
          });
}

TEST(FaultCachesTest, BlockReset) {
  sweep({"zero-block", "kv-block-reset", 1024}, NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "block.0.attn.v_cache";
          P.RefShape = {S.B, S.T, S.C};
          P.Ref = draw(S, 26);
          P.Ours = P.Ref;
          // A block of one row of the batch.
          for (int64_t At = S.T / 4; At < S.T / 2; ++At)
            for (int64_t I = 0; I != S.C; ++I)
              P.Ours[size_t((S.T + At) * S.C + I)] = 0;
          return S.T > 4;
        });
}

TEST(FaultCachesTest, RowMixUp) {
  sweep({"row-order|flip|slice-order|shift",
         "context-contamination|axis-permutation", 64},
        NoLarge, [](MadePair &P, Sizes S) {
          P.Name = "block.0.attn.output";
          P.RefShape = {S.B, S.T, S.C};
          P.Ref = draw(S, 27);
          const int64_t Row = S.T * S.C;
          mapped(P, [&](int64_t I) {
            const int64_t B = I / Row;
            return I + (B == 0 ? 1 : B == 1 ? -1 : 0) * Row;
          });
          return true;
        });
}

//===- Samplers -------------------------------------------------------------//

TEST(FaultCachesTest, InputScaling) {
  sweep({"scale", "input-scaling-missing", 64}, NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "unet.input";
          P.Role = "input";
          P.RefShape = {S.B, S.T, S.C};
          P.Sigma = 7.3;
          P.Ours = draw(S, 28, 7);
          P.Ref = times(P.Ours, 1 / std::sqrt(1 + 7.3 * 7.3));
          return true;
        },
        [](const Answer &A, Sizes, DType) {
          EXPECT_EQ(A.Kind.Parameters.getString("constant"),
                    "sqrt(1 + sigma^2)");
        });
}

TEST(FaultCachesTest, InputScalingOfEachSample) {
  sweep({"scale", "input-scaling-missing", 64}, NoLarge,
        [](MadePair &P, Sizes S) {
          P.Name = "unet.input";
          P.Role = "input";
          P.RefShape = {S.B, S.T, S.C};
          P.Ref = draw(S, 29);
          std::vector<double> Sigmas;
          for (int64_t B = 0; B != S.B; ++B)
            Sigmas.push_back(0.1 * std::pow(3, double(B)));
          for (int64_t I = 0; I != S.numel(); ++I) {
            const double Sigma = Sigmas[size_t(I / (S.T * S.C))];
            P.Ours.push_back(P.Ref[size_t(I)] * std::sqrt(1 + Sigma * Sigma));
          }
          P.Others.push_back({"unet.sigmas", Sigmas});
          return S.B < 10;
        },
        [](const Answer &A, Sizes, DType) {
          EXPECT_EQ(A.Kind.Parameters.getString("constant"),
                    "sqrt(1 + sigma^2)");
        });
}

enum class Sampler { Right, History, Coefficient, Corruption, Race };

/// A two-step Adams-Bashforth method of 12 steps for x' = sin(x/2) - x, which
/// does not amplify errors, with the state rounded to \p Type at every step.
std::vector<std::vector<double>> sample(size_t N, Sampler Fault, DType Type,
                                        uint64_t Seed) {
  std::vector<double> X = normals(int64_t(N), 30), Before;
  std::vector<std::vector<double>> Out;
  std::mt19937_64 Engine(Seed);
  const double H = 0.1;
  for (int Step = 0; Step != 12; ++Step) {
    std::vector<double> Slope;
    for (double V : X)
      Slope.push_back(std::sin(V / 2) - V);
    for (size_t I = 0; I != N; ++I) {
      double Old = Step ? Before[I] : 0;
      if (Fault == Sampler::History && Step)
        Old = -Old;
      const double Rate =
          Step ? 1.5 * Slope[I] - 0.5 * Old : Slope[I];
      X[I] += H * (Fault == Sampler::Coefficient ? 1.3 : 1) * Rate;
      if (Fault == Sampler::Corruption && Step == 7)
        X[I] = double(Engine() % 1000) / 500 - 1;
      // A read that may come before the write.
      if (Fault == Sampler::Race && Engine() % 4 == 0)
        X[I] = X[(I + 1) % N];
      X[I] = roundTo(X[I], Type);
    }
    Before = Slope;
    Out.push_back(X);
  }
  return Out;
}

/// The pattern over the steps of a faulty sampler against a right one. With
/// \p Noise the reference is run a second time, with its fault.
std::string patternOf(size_t N, Sampler Ref, Sampler Ours, DType Type,
                      bool Noise) {
  const auto A = sample(N, Ref, DType::Float64, 1);
  const auto Again = sample(N, Ref, DType::Float64, 2);
  const auto B = sample(N, Ours, Type, 3);
  TensorComparison C;
  std::vector<MadeTensor> Kept;
  Kept.reserve(3 * A.size());
  for (size_t Step = 0; Step != A.size(); ++Step) {
    TensorDifference D;
    for (const auto *Values : {&A[Step], &B[Step], &Again[Step]})
      Kept.emplace_back(Type, Shape{int64_t(N)}, *Values);
    const size_t At = 3 * Step;
    D.Pair.Ref.Role = D.Pair.Ours.Role = "value";
    D.Pair.Ref.Name = D.Pair.Ours.Name = "latent";
    D.Pair.Ref.Step = int64_t(Step);
    D.Pair.Ref.View = &Kept[At].View;
    D.Pair.Ours.View = &Kept[At + 1].View;
    D.Tolerance = toleranceOf(D.Pair, int64_t(N), 1 + int64_t(Step));
    const auto Walk = [&](size_t Other) {
      return differenceOf(Kept[At].View, Kept[Other].View, 0, int64_t(N),
                          D.Tolerance.elements(1));
    };
    if (Noise)
      D.NoiseRelL2 = Walk(At + 2).relL2();
    D.Sums = Walk(At + 1);
    D.Verdict = D.Sums.Above || D.Sums.relL2() > D.Tolerance.RelL2
                    ? CompareVerdict::Different
                    : CompareVerdict::WithinNoise;
    C.Differences.push_back(D);
  }
  findStepPattern(C);
  return C.Steps ? C.Steps->Kind : "";
}

TEST(FaultCachesTest, Samplers) {
  for (DType Type : {DType::Float32, DType::Float16, DType::BFloat16})
    for (size_t N : {8u, 100u, 10'000u}) {
      const std::string Where =
          toString(Type).str() + " " + std::to_string(N);
      const auto Pattern = [&](Sampler Fault) {
        return patternOf(N, Sampler::Right, Fault, Type, false);
      };
      EXPECT_EQ(Pattern(Sampler::History), "order-two") << Where;
      EXPECT_EQ(Pattern(Sampler::Corruption), "sudden") << Where;
      EXPECT_EQ(Pattern(Sampler::Coefficient), "gradual") << Where;
      EXPECT_EQ(patternOf(N, Sampler::Race, Sampler::Race, Type, true),
                "every-run")
          << Where;
      // A right run in the format has no pattern.
      EXPECT_EQ(Pattern(Sampler::Right), "") << Where;
    }
}

//===- Right runs -----------------------------------------------------------//

TEST(FaultCachesTest, RightRunsAreNoise) {
  // y = x W + b with inputs, weights and outputs rounded to the dtype.
  for (DType Type : {DType::Float32, DType::Float16, DType::BFloat16})
    for (Sizes S : {Sizes{2, 2, 2}, {2, 4, 8}, {2, 16, 32}, {4, 33, 96}}) {
      const std::vector<double> X = draw(S, 40),
                                W = normals(S.C * S.C, 41, 0.2);
      MadePair P;
      P.RefShape = {S.B, S.T, S.C};
      for (bool Rounded : {false, true})
        for (int64_t I = 0; I != S.numel(); ++I) {
          double Sum = 0;
          for (int64_t K = 0; K != S.C; ++K) {
            double A = X[size_t(I / S.C * S.C + K)];
            double B = W[size_t(K * S.C + I % S.C)];
            Sum += Rounded ? roundTo(A, Type) * roundTo(B, Type) : A * B;
          }
          (Rounded ? P.Ours : P.Ref).push_back(Sum);
        }
      const std::string Where =
          shapeText(P.RefShape) + " " + toString(Type).str();
      EXPECT_NE(toString(ask(P, Type).Verdict), "different") << Where;
      EXPECT_EQ(toString(ask(P, DType::Float32, Type).Verdict),
                "within-noise")
          << Where;
    }
}

} // namespace
} // namespace culprit::faults
