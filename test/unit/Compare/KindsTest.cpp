//===- KindsTest.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Each kind is made from normal values at several shapes and dtypes, and must
// be found by name. Unrelated tensors must stay unexplained.
//
//===----------------------------------------------------------------------===//

#include "TensorSupport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace culprit;

namespace {

constexpr DType Types[] = {DType::Float32, DType::Float16, DType::BFloat16};

std::vector<Shape> shapes() {
  return {{8},       {2, 4},       {4, 4},      {3, 16},
          {6, 32},   {4, 6, 8},    {2, 16, 64}, {33, 65},
          {2, 4, 12, 16}, {64, 48, 40}, {7, 11, 1801}};
}

using Maker = llvm::function_ref<bool(MadePair &)>;

/// Makes pairs of all shapes and dtypes, rounds the reference to the dtype as
/// a dump would, and wants one of \p Kinds (separated by '|').
void property(llvm::StringRef Kinds, Maker Make, bool Narrow = true,
              llvm::StringRef Class = "") {
  unsigned Made = 0;
  llvm::SmallVector<llvm::StringRef, 4> Wanted;
  Kinds.split(Wanted, '|');
  for (DType Type : Types) {
    if (!Narrow && Type != DType::Float32)
      continue;
    uint64_t Seed = 1;
    for (const Shape &S : shapes()) {
      MadePair P;
      P.RefShape = S;
      P.Ref = normals(numelOf(S), ++Seed * 77);
      for (double &X : P.Ref)
        X = roundTo(X, Type);
      if (!Make(P))
        continue;
      ++Made;
      Answer A = ask(P, Type);
      EXPECT_EQ(toString(A.Verdict), "different")
          << Kinds.str() << " " << shapeText(S) << toString(Type).str();
      EXPECT_TRUE(llvm::is_contained(Wanted, llvm::StringRef(A.Kind.Kind)))
          << Kinds.str() << " " << shapeText(S) << " " << toString(Type).str()
          << ": " << A.Kind.Kind << ": " << A.Kind.Says;
      if (Kinds != "unexplained") {
        EXPECT_GE(A.Kind.Confidence, 0.5) << A.Kind.Says;
      }
      if (!Class.empty()) {
        EXPECT_EQ(A.Kind.Class, Class) << A.Kind.Says;
      }
    }
  }
  EXPECT_GE(Made, 2u) << Kinds.str();
}

/// ours[I] = ref[Map(I)].
void mapped(MadePair &P, llvm::function_ref<int64_t(int64_t)> Map) {
  P.Ours.resize(P.Ref.size());
  for (size_t I = 0; I != P.Ref.size(); ++I)
    P.Ours[I] = P.Ref[size_t(Map(int64_t(I)))];
}

TEST(KindsTest, Unrelated) {
  property("unexplained", [](MadePair &P) {
    P.Ours = normals(int64_t(P.Ref.size()), 4242);
    return true;
  }, true, "");
}

TEST(KindsTest, UnrelatedSmallTensors) {
  // Few elements, wide tolerances and hundreds of guesses: chance must not
  // explain anything.
  for (const Shape &S : {Shape{8}, Shape{2, 4}, Shape{3, 4}, Shape{2, 2, 4}})
    for (DType Type : Types)
      for (uint64_t Seed = 1; Seed != 150; ++Seed) {
        MadePair P;
        P.RefShape = S;
        P.Ref = normals(numelOf(S), Seed * 2);
        P.Ours = normals(numelOf(S), Seed * 2 + 1);
        P.Others.push_back({"other", normals(numelOf(S), Seed + 5000)});
        P.Tables.push_back({"wpe", normals(S.back() * 9, Seed + 6000)});
        Answer A = ask(P, Type);
        EXPECT_EQ(A.Kind.Kind, "unexplained")
            << shapeText(S) << toString(Type).str() << Seed << A.Kind.Says;
      }
}

TEST(KindsTest, UnrelatedHasNoConfidenceOrClass) {
  MadePair P;
  P.RefShape = {8, 8};
  P.Ref = normals(64, 1);
  P.Ours = normals(64, 2);
  Answer A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "unexplained");
  EXPECT_EQ(A.Kind.Confidence, 0);
  EXPECT_EQ(A.Kind.Class, "");
}

TEST(KindsTest, Scale) {
  for (double Factor : {8.0, 0.125, 2.0, 255.0, 1 / 255.0, 1.7, -3.0})
    property("scale", [&](MadePair &P) {
      for (double X : P.Ref)
        P.Ours.push_back(Factor * X);
      return true;
    });
}

TEST(KindsTest, ConstantsHaveNames) {
  MadePair P;
  P.Name = "blocks.1.attn.scores.output";
  P.RefShape = {2, 16, 64};
  P.Ref = normals(2048, 3);
  for (double X : P.Ref)
    P.Ours.push_back(8 * X);
  Answer A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Class, "attention-scale-missing");
  EXPECT_EQ(A.Kind.Parameters.getString("constant"), "sqrt(64)");

  // The variance over 64 values divided by 63: y = x / sd, so a factor of
  // sqrt(63/64).
  P.Name = "norm.output";
  for (auto [I, X] : llvm::enumerate(P.Ref))
    P.Ours[I] = X * std::sqrt(63.0 / 64);
  A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Class, "variance-estimator-mismatch");
  EXPECT_EQ(A.Kind.Parameters.getString("constant"), "sqrt(63/64)");

  for (auto [I, X] : llvm::enumerate(P.Ref))
    P.Ours[I] = X * 1.2345;
  A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "scale");
  EXPECT_FALSE(A.Kind.Parameters.get("constant"));
}

TEST(KindsTest, SignOffsetAffine) {
  property("sign", [](MadePair &P) {
    for (double X : P.Ref)
      P.Ours.push_back(-X);
    return true;
  });
  property("offset", [](MadePair &P) {
    for (double X : P.Ref)
      P.Ours.push_back(X + 0.75);
    return true;
  }, true, "bias-missing");
  property("affine", [](MadePair &P) {
    for (double X : P.Ref)
      P.Ours.push_back(2 * X - 1);
    return true;
  });
}

TEST(KindsTest, Transpose) {
  property("axis-permutation", [](MadePair &P) {
    const Shape &S = P.RefShape;
    if (S.size() != 2)
      return false;
    P.OursShape = {S[1], S[0]};
    P.Role = "weight";
    mapped(P, [&](int64_t I) { return I % S[0] * S[1] + I / S[0]; });
    return true;
  }, true, "weight-transposed");
}

TEST(KindsTest, ReshapeForTranspose) {
  // The shape is the reference's, the order that of the last two axes swapped.
  property("reshape-for-transpose|interleave|rotary-interleave|head-merge",
           [](MadePair &P) {
    const Shape &S = P.RefShape;
    if (S.size() < 2 || S[S.size() - 1] == S[S.size() - 2])
      return false;
    int64_t A = S[S.size() - 2], B = S.back();
    mapped(P, [&](int64_t I) {
      int64_t In = I % (A * B);
      return I - In + In % A * B + In / A;
    });
    return true;
  });
}

TEST(KindsTest, ChannelsLast) {
  MadePair P;
  P.RefShape = {2, 5, 6, 7};
  P.OursShape = {2, 6, 7, 5};
  P.Ref = normals(420, 9);
  mapped(P, [](int64_t I) {
    int64_t C = I % 5, W = I / 5 % 7, H = I / 35 % 6, N = I / 210;
    return ((N * 5 + C) * 6 + H) * 7 + W;
  });
  Answer A = ask(P, DType::Float16);
  EXPECT_EQ(A.Kind.Class, "channel-order-mismatch");
  EXPECT_NE(A.Kind.Says.find("NHWC"), std::string::npos);
}

TEST(KindsTest, Flip) {
  property("flip|shift", [](MadePair &P) {
    const int64_t L = P.RefShape.back();
    mapped(P, [&](int64_t I) { return I - I % L + L - 1 - I % L; });
    return true;
  });
  MadePair P;
  P.RefShape = {2, 3, 8, 8};
  P.Ref = normals(384, 5);
  mapped(P, [](int64_t I) {
    int64_t C = I / 64 % 3;
    return I + (2 - 2 * C) * 64;
  });
  EXPECT_EQ(ask(P, DType::Float32).Kind.Class, "channel-order-mismatch");
}

TEST(KindsTest, Roll) {
  for (int64_t K : {1, -1, 3})
    property("shift", [&](MadePair &P) {
      const int64_t L = P.RefShape.back();
      if (L < 7)
        return false;
      mapped(P, [&](int64_t I) { return I - I % L + (I % L - K + L) % L; });
      return true;
    });
}

TEST(KindsTest, PositionsLaterWithOtherValuesAtTheEnd) {
  property("shift", [](MadePair &P) {
    const Shape &S = P.RefShape;
    if (S.size() != 3 || S[1] < 10)
      return false;
    P.Ours = normals(int64_t(P.Ref.size()), 31);
    for (size_t I = 0; I != P.Ref.size(); ++I)
      if (int64_t(I) / S[2] % S[1] != 0)
        P.Ours[I] = P.Ref[I - size_t(S[2])];
    return true;
  }, true, "off-by-one-position");
}

TEST(KindsTest, RotaryLayouts) {
  // Heads of 8 (or the whole axis): halves in ref, pairs in ours.
  property("rotary-interleave|interleave|reshape-for-transpose",
           [](MadePair &P) {
    const int64_t L = P.RefShape.back(), D = L % 8 ? 0 : 8;
    if (D == 0)
      return false;
    P.Name = "layers.0.self_attn.q_proj";
    mapped(P, [&](int64_t I) {
      int64_t At = I % D;
      return I - At + At % 2 * (D / 2) + At / 2;
    });
    return true;
  }, true, "rope-layout-permutation-missing");
}

TEST(KindsTest, HeadMerge) {
  property("head-merge|reshape-for-transpose", [](MadePair &P) {
    const Shape &S = P.RefShape;
    if (S.size() != 3 || S[2] % 4 || S[1] % 4 == 0)
      return false;
    const int64_t T = S[1], H = 4, D = S[2] / H;
    // ours is (h, t, d) read as (t, h d).
    mapped(P, [&](int64_t I) {
      int64_t In = I % (T * H * D), W = In % D, Row = In / D % T;
      return I - In + (Row * H + In / D / T) * D + W;
    });
    return true;
  });
}

TEST(KindsTest, SliceOrders) {
  property("slice-order|row-order|shift|flip", [](MadePair &P) {
    const Shape &S = P.RefShape;
    if (S.size() < 2 || S[0] < 3)
      return false;
    const int64_t W = int64_t(P.Ref.size()) / S[0];
    // 0 -> 2 -> 1 -> 0 and the rest in place.
    mapped(P, [&](int64_t I) {
      int64_t Row = I / W;
      int64_t From = Row == 0 ? 2 : Row == 1 ? 0 : Row == 2 ? 1 : Row;
      return I + (From - Row) * W;
    });
    return true;
  });
  MadePair P;
  P.Name = "attn.qkv.weight";
  P.Role = "weight";
  P.RefShape = {48, 16};
  P.Ref = normals(768, 4);
  // Keys first: K, Q, V.
  mapped(P, [](int64_t I) {
    int64_t Block = I / 256;
    return I + (Block == 0 ? 256 : Block == 1 ? -256 : 0);
  });
  Answer A = ask(P, DType::BFloat16);
  EXPECT_EQ(A.Kind.Kind, "slice-order");
  EXPECT_NE(A.Kind.Says.find("queries, keys and values"), std::string::npos)
      << A.Kind.Says;
}

TEST(KindsTest, Reorder) {
  MadePair P;
  P.RefShape = {16, 16};
  P.Ref = normals(256, 6);
  P.Ours = P.Ref;
  std::mt19937_64 Engine(1);
  std::shuffle(P.Ours.begin(), P.Ours.end(), Engine);
  EXPECT_EQ(ask(P, DType::Float16).Kind.Kind, "reorder");
}

TEST(KindsTest, Rounding) {
  for (DType Type : {DType::BFloat16, DType::Float16}) {
    MadePair P;
    P.RefShape = {32, 16};
    P.Ref = normals(512, 8);
    for (double X : P.Ref)
      P.Ours.push_back(roundTo(float(X), Type));
    // Stored as float32, stored as what it is, and weights: never different.
    EXPECT_EQ(toString(ask(P, DType::Float32).Verdict), "within-noise");
    EXPECT_EQ(toString(ask(P, DType::Float32, Type).Verdict), "within-noise");
    P.Role = "weight";
    EXPECT_EQ(toString(ask(P, DType::Float32).Verdict), "within-noise");
    EXPECT_EQ(toString(ask(P, DType::Float32, Type).Verdict), "within-noise");
    // Small weights are subnormal in float16.
    for (double &X : P.Ref)
      X *= 1e-5;
    P.Ours.clear();
    for (double X : P.Ref)
      P.Ours.push_back(roundTo(float(X), Type));
    EXPECT_EQ(toString(ask(P, DType::Float32, Type).Verdict), "within-noise");
  }
}

TEST(KindsTest, Grid) {
  MadePair P;
  P.Role = "weight";
  P.RefShape = {64, 32};
  P.Ref = normals(2048, 12, 0.05);
  P.Ours = P.Ref;
  for (size_t Row = 0; Row != 64; ++Row) {
    double Largest = 0;
    for (size_t I = 0; I != 32; ++I)
      Largest = std::max(Largest, std::fabs(P.Ref[Row * 32 + I]));
    double Step = Largest / 127;
    for (size_t I = 0; I != 32; ++I)
      P.Ours[Row * 32 + I] = Step * std::nearbyint(P.Ref[Row * 32 + I] / Step);
  }
  Answer A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "quantized") << A.Kind.Says;
  EXPECT_EQ(A.Kind.Parameters.getString("scale_per"), "row");
}

TEST(KindsTest, BitFlip) {
  for (unsigned Bit : {31u, 30u, 23u, 22u, 18u}) {
    MadePair P;
    P.RefShape = {5, 40};
    P.Ref = normals(200, 13);
    for (double &X : P.Ref)
      X = float(X);
    P.Ours = P.Ref;
    float F = float(P.Ref[123]);
    F = std::bit_cast<float>(std::bit_cast<uint32_t>(F) ^ 1u << Bit);
    P.Ours[123] = F;
    Answer A = ask(P, DType::Float32);
    EXPECT_EQ(A.Kind.Kind, "bit-flip") << Bit << A.Kind.Says;
    EXPECT_EQ(A.Kind.Parameters.getInteger("bit"), int64_t(Bit));
    EXPECT_EQ(A.Kind.Class, "silent-data-corruption");
  }
}

TEST(KindsTest, OneElement) {
  property("few-elements|bit-flip", [](MadePair &P) {
    P.Ours = P.Ref;
    P.Ours[P.Ours.size() / 3] += 3.3;
    return true;
  });
}

TEST(KindsTest, ZeroBlocks) {
  property("zero-block|few-elements", [](MadePair &P) {
    P.Ours = P.Ref;
    P.Role = "weight";
    for (size_t I = P.Ours.size() / 2; I < P.Ours.size() * 3 / 4; ++I)
      P.Ours[I] = 0;
    return true;
  });
  // A band of the last axis.
  property("zero-block", [](MadePair &P) {
    const int64_t L = P.RefShape.back();
    if (P.RefShape.size() < 2 || L < 8)
      return false;
    P.Ours = P.Ref;
    for (size_t I = 0; I != P.Ours.size(); ++I)
      if (int64_t(I) % L >= L / 2)
        P.Ours[I] = 0;
    return true;
  });
  property("all-zero", [](MadePair &P) {
    P.Ours.assign(P.Ref.size(), 0);
    return true;
  });
}

TEST(KindsTest, MissingTerms) {
  property("missing-term", [](MadePair &P) {
    std::vector<double> Residual = normals(int64_t(P.Ref.size()), 99);
    for (size_t I = 0; I != P.Ref.size(); ++I)
      P.Ours.push_back(P.Ref[I] - Residual[I]);
    P.Others.push_back({"unrelated", normals(int64_t(P.Ref.size()), 98)});
    P.Others.push_back({"block.0.input", Residual});
    return true;
  }, true, "bias-missing");
  property("other-tensor", [](MadePair &P) {
    P.Ours = normals(int64_t(P.Ref.size()), 97);
    P.Others.push_back({"block.0.k", P.Ours});
    return true;
  });
}

TEST(KindsTest, MissingBias) {
  property("axis-offset", [](MadePair &P) {
    const int64_t L = P.RefShape.back();
    if (int64_t(P.Ref.size()) < 4 * L)
      return false;
    std::vector<double> Bias = normals(L, 55);
    P.Others.push_back({"block.0.bias", Bias});
    for (size_t I = 0; I != P.Ref.size(); ++I)
      P.Ours.push_back(P.Ref[I] - Bias[I % size_t(L)]);
    return true;
  }, true, "bias-missing");
}

TEST(KindsTest, AxisFactor) {
  property("axis-factor", [](MadePair &P) {
    const int64_t L = P.RefShape.back();
    if (int64_t(P.Ref.size()) < 8 * L)
      return false;
    std::vector<double> Gain = normals(L, 56);
    for (size_t I = 0; I != P.Ref.size(); ++I)
      P.Ours.push_back(P.Ref[I] * (1.5 + 0.3 * Gain[I % size_t(L)]));
    return true;
  });
}

/// Rows of \p Size of \p X normalised with \p Epsilon.
std::vector<double> normalised(llvm::ArrayRef<double> X, size_t Size,
                               double Epsilon) {
  std::vector<double> Out(X.size());
  for (size_t R = 0; R != X.size(); R += Size) {
    double Mean = 0, Variance = 0;
    for (size_t I = R; I != R + Size; ++I)
      Mean += X[I] / double(Size);
    for (size_t I = R; I != R + Size; ++I)
      Variance += (X[I] - Mean) * (X[I] - Mean) / double(Size);
    for (size_t I = R; I != R + Size; ++I)
      Out[I] = (X[I] - Mean) / std::sqrt(Variance + Epsilon);
  }
  return Out;
}

TEST(KindsTest, Epsilon) {
  MadePair P;
  P.RefShape = {32, 64};
  P.Input = normals(2048, 21);
  // Rows of deviations from 0.003 to 0.1.
  for (size_t I = 0; I != 2048; ++I)
    P.Input[I] *= 0.003 * std::pow(1.12, double(I / 64));
  P.Ref = normalised(P.Input, 64, 1e-5);
  P.Ours = normalised(P.Input, 64, 1e-3);
  Answer A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "epsilon") << A.Kind.Says;
  EXPECT_EQ(A.Kind.Class, "norm-epsilon-mismatch");
  EXPECT_NEAR(A.Kind.Parameters.getNumber("ref_epsilon").value_or(0), 1e-5,
              1e-9);
  EXPECT_NEAR(A.Kind.Parameters.getNumber("ours_epsilon").value_or(0), 1e-3,
              1e-5);
  P.Input.clear();
  A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "epsilon") << A.Kind.Says;
  EXPECT_NEAR(A.Kind.Parameters.getNumber("ratio").value_or(0), 100, 2);
}

double gelu(double X) { return 0.5 * X * (1 + std::erf(X / std::sqrt(2.0))); }
double geluOfTanh(double X) {
  return 0.5 * X *
         (1 + std::tanh(0.7978845608028654 * (X + 0.044715 * X * X * X)));
}
double silu(double X) { return X / (1 + std::exp(-X)); }
double relu(double X) { return std::max(X, 0.0); }

TEST(KindsTest, Activations) {
  struct Form {
    double (*Ref)(double), (*Ours)(double);
    bool Input;
    const char *Names;
  };
  for (const Form &F :
       {Form{gelu, geluOfTanh, true, "GELU|GELU with tanh"},
        {gelu, geluOfTanh, false, "GELU|GELU with tanh"},
        {silu, relu, true, "SiLU|ReLU"},
        {silu, relu, false, "SiLU|ReLU"},
        {silu, gelu, false, "SiLU|GELU"},
        {gelu, [](double X) { return X; }, false, "GELU|no activation"},
        {relu, [](double X) { return X; }, true, "ReLU|no activation"}}) {
    MadePair P;
    P.RefShape = {16, 128};
    std::vector<double> X = normals(2048, 5, 1.5);
    for (double &V : X) {
      V = float(V);
      P.Ref.push_back(F.Ref(V));
      P.Ours.push_back(F.Ours(V));
    }
    if (F.Input)
      P.Input = X;
    Answer A = ask(P, DType::Float32);
    EXPECT_EQ(A.Kind.Kind, "activation") << F.Names << ": " << A.Kind.Says;
    EXPECT_EQ(A.Kind.Parameters.getString("ref").value_or("").str() + "|" +
                  A.Kind.Parameters.getString("ours").value_or("").str(),
              F.Names);
  }
}

TEST(KindsTest, RotaryPositions) {
  // Queries at the next position: pair i is turned by base^(-2i/d).
  for (bool Halves : {true, false}) {
    MadePair P;
    P.Name = "attn.q.output";
    P.RefShape = {2, 24, 32};
    P.Ref = normals(2 * 24 * 32, 71);
    P.Ours = P.Ref;
    for (size_t Row = 0; Row != 48; ++Row)
      for (size_t I = 0; I != 16; ++I) {
        size_t A = Row * 32 + (Halves ? I : 2 * I);
        size_t B = Halves ? A + 16 : A + 1;
        double T = std::pow(1e4, -double(I) / 16);
        P.Ours[A] = std::cos(T) * P.Ref[A] - std::sin(T) * P.Ref[B];
        P.Ours[B] = std::sin(T) * P.Ref[A] + std::cos(T) * P.Ref[B];
      }
    Answer A = ask(P, DType::Float32);
    EXPECT_EQ(A.Kind.Kind, "rotation") << A.Kind.Says;
    EXPECT_EQ(A.Kind.Class, "off-by-one-position");
    EXPECT_EQ(A.Kind.Parameters.getInteger("positions"), 1);
  }
}

TEST(KindsTest, Precision) {
  // Products with inputs of 11 binary digits, summed in float32: TF32.
  const int64_t M = 32, K = 256, N = 32;
  std::vector<double> X = normals(M * K, 1), W = normals(K * N, 2, 0.06);
  MadePair P;
  P.RefShape = {M, N};
  for (int64_t I = 0; I != M * N; ++I) {
    double Exact = 0, Narrow = 0;
    for (int64_t L = 0; L != K; ++L) {
      double A = X[size_t(I / N * K + L)], B = W[size_t(L * N + I % N)];
      Exact += A * B;
      Narrow += roundTo(A, 11, -126) * roundTo(B, 11, -126);
    }
    P.Ref.push_back(Exact);
    P.Ours.push_back(Narrow);
  }
  Answer A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "precision") << A.Kind.Says;
  EXPECT_EQ(A.Kind.Class, "tf32-precision");
  // A row that is off is no noise.
  P.Ours = P.Ref;
  for (size_t I = 0; I != 32; ++I)
    P.Ours[64 + I] += 0.01 * P.Ref[I];
  EXPECT_NE(ask(P, DType::Float32).Kind.Kind, "precision");
}

TEST(KindsTest, NotLoaded) {
  MadePair P;
  P.Role = "weight";
  P.RefShape = {96, 64};
  P.Ref = normals(6144, 81, 0.07);
  P.Ours = normals(6144, 82, 0.02);
  Answer A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "not-loaded") << A.Kind.Says;
  // Another deviation is no recipe's.
  P.Ours = normals(6144, 82, 0.043);
  EXPECT_EQ(ask(P, DType::Float32).Kind.Kind, "unexplained");
}

TEST(KindsTest, FromAPositionOn) {
  MadePair P;
  P.RefShape = {2, 32, 16};
  P.Ref = normals(1024, 61);
  P.Ours = P.Ref;
  std::vector<double> Wrong = normals(1024, 62);
  for (size_t I = 0; I != 1024; ++I)
    if (I / 16 % 32 >= 20)
      P.Ours[I] = Wrong[I];
  Answer A = ask(P, DType::Float32);
  EXPECT_EQ(A.Kind.Kind, "from-position") << A.Kind.Says;
  EXPECT_EQ(A.Kind.Parameters.getInteger("first"), 20);
}

TEST(KindsTest, TenMillionElements) {
  MadePair P;
  P.RefShape = {10, 1000, 1000};
  P.Ref = normals(10'000'000, 91);
  for (double &X : P.Ref)
    X = float(X);
  mapped(P, [](int64_t I) {
    int64_t In = I % 1'000'000;
    return I - In + In % 1000 * 1000 + In / 1000;
  });
  EXPECT_EQ(ask(P, DType::Float32).Kind.Kind, "axis-permutation");
  for (size_t I = 0; I != P.Ref.size(); ++I)
    P.Ours[I] = P.Ref[I] * 0.5;
  EXPECT_EQ(ask(P, DType::BFloat16).Kind.Kind, "scale");
  P.Ours = P.Ref;
  P.Ours[7'654'321] = -P.Ours[7'654'321];
  EXPECT_EQ(ask(P, DType::Float32).Kind.Kind, "bit-flip");
  P.Ours = normals(10'000'000, 92);
  EXPECT_EQ(ask(P, DType::Float32).Kind.Kind, "unexplained");
}

} // namespace
