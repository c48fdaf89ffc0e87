//===- TensorsTest.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "TensorSupport.h"
#include "gtest/gtest.h"
#include <sys/mman.h>

using namespace culprit;

namespace {

//===- Names ----------------------------------------------------------------//

std::string matched(llvm::ArrayRef<NamedShape> Ref,
                    llvm::ArrayRef<NamedShape> Ours) {
  NameMatching M = matchNames(Ref, Ours);
  std::string Out;
  for (const NameMatch &Each : M.Matches) {
    Out += toString(Each.Rule).str() + ":";
    for (size_t I : Each.Ref)
      Out += " " + Ref[I].Name;
    Out += " =";
    for (size_t I : Each.Ours)
      Out += " " + Ours[I].Name;
    Out += "\n";
  }
  for (size_t I : M.Missing)
    Out += "missing: " + Ref[I].Name + "\n";
  for (size_t I : M.Unexpected)
    Out += "unexpected: " + Ours[I].Name + "\n";
  return Out;
}

TEST(NamesTest, WrappersAndExact) {
  EXPECT_EQ(matched({{"a.weight", {2}}, {"b.weight", {2}}, {"c.bias", {2}}},
                    {{"module._orig_mod.b.weight", {2}}, {"a.weight", {2}}}),
            "exact: a.weight = a.weight\n"
            "prefix: b.weight = module._orig_mod.b.weight\n"
            "missing: c.bias\n");
  EXPECT_EQ(withoutWrappers("base_model.model.model.layers.0.q.weight"),
            "layers.0.q.weight");
  // A child called model stays; so does a tensor called model.
  EXPECT_EQ(withoutWrappers("encoder.model.weight"), "encoder.model.weight");
  EXPECT_EQ(withoutWrappers("model."), "model.");
}

TEST(NamesTest, UnknownPrefixNeedsTwoNames) {
  EXPECT_EQ(matched({{"h.0.w", {2}}, {"h.1.w", {2}}},
                    {{"student.h.0.w", {2}}, {"student.h.1.w", {2}}}),
            "prefix: h.0.w = student.h.0.w\nprefix: h.1.w = student.h.1.w\n");
}

TEST(NamesTest, FusedBothWays) {
  std::vector<NamedShape> Split = {{"l.0.attn.q_proj.weight", {4, 8}},
                                   {"l.0.attn.k_proj.weight", {2, 8}},
                                   {"l.0.attn.v_proj.weight", {2, 8}},
                                   {"l.0.mlp.gate_proj.weight", {6, 8}},
                                   {"l.0.mlp.up_proj.weight", {6, 8}}};
  std::vector<NamedShape> Fused = {{"l.0.attn.qkv_proj.weight", {8, 8}},
                                   {"l.0.mlp.gate_up_proj.weight", {12, 8}}};
  EXPECT_EQ(matched(Split, Fused),
            "fused: l.0.attn.q_proj.weight l.0.attn.k_proj.weight "
            "l.0.attn.v_proj.weight = l.0.attn.qkv_proj.weight\n"
            "fused: l.0.mlp.gate_proj.weight l.0.mlp.up_proj.weight = "
            "l.0.mlp.gate_up_proj.weight\n");
  EXPECT_EQ(matched(Fused, Split).substr(0, 54),
            "fused: l.0.attn.qkv_proj.weight = l.0.attn.q_proj.weig");
  // Sizes that do not add up are no fusion.
  Fused[0].Shape = {9, 8};
  EXPECT_EQ(matched(Split, Fused).find("qkv_proj.weight\nfused"),
            std::string::npos);
}

TEST(NamesTest, NearNamesOfTheSameLayer) {
  EXPECT_EQ(matched({{"blocks.0.attention.out.weight", {4, 4}},
                     {"blocks.1.attention.out.weight", {4, 4}}},
                    {{"blocks.1.attention.output.weight", {4, 4}},
                     {"blocks.0.attention.output.weight", {4, 4}}}),
            "near: blocks.0.attention.out.weight = "
            "blocks.0.attention.output.weight\n"
            "near: blocks.1.attention.out.weight = "
            "blocks.1.attention.output.weight\n");
  // Neither another shape nor a bias will do.
  EXPECT_EQ(matched({{"a.out.weight", {4, 4}}}, {{"a.outp.weight", {4, 5}}}),
            "missing: a.out.weight\nunexpected: a.outp.weight\n");
  EXPECT_EQ(matched({{"a.out.weight", {4}}}, {{"a.out.bias", {4}}}),
            "missing: a.out.weight\nunexpected: a.out.bias\n");
}

//===- Sums -----------------------------------------------------------------//

/// One element at a time.
DifferenceSums naive(const TensorView &A, const TensorView &B,
                     ElementTolerance T) {
  DifferenceSums S;
  for (int64_t I = 0; I != A.numel(); ++I) {
    double X = A.at(I), Y = B.at(I), D = Y - X;
    bool Above;
    if (std::isfinite(X) && std::isfinite(Y)) {
      ++S.Finite;
      S.MaxAbs = std::max(S.MaxAbs, std::fabs(D));
      S.DAbs += std::fabs(D);
      S.DSquares += D * D;
      S.Squares += X * X;
      S.Product += X * D;
      Above = std::fabs(D) > T.Absolute + T.Relative * std::fabs(X);
      S.Different += D != 0;
    } else {
      bool Same = (std::isnan(X) && std::isnan(Y)) || X == Y;
      Above = !Same;
      S.Different += !Same;
    }
    S.Above += Above;
    if (Above && !S.FirstAbove)
      S.FirstAbove = I;
    if (Above)
      S.LastAbove = I;
  }
  return S;
}

TEST(DifferenceTest, AgreesWithOneByOne) {
  for (DType A : {DType::Float32, DType::BFloat16, DType::Float64,
                  DType::Float16, DType::Int64})
    for (DType B : {DType::Float32, DType::BFloat16, DType::Float64})
      for (int64_t N : {1, 7, 8, 2047, 2048, 2049, 10000})
        for (bool Broken : {false, true}) {
          std::vector<double> X = normals(N, uint64_t(N)),
                              Y = normals(N, uint64_t(N) + 1, 0.1);
          for (int64_t I = 0; I != N; ++I)
            Y[size_t(I)] = I % 3 ? X[size_t(I)] : X[size_t(I)] + Y[size_t(I)];
          if (Broken) {
            Y[size_t(N / 2)] = NAN;
            Y[size_t(N / 3)] = INFINITY;
          }
          MadeTensor TX(A, {N}, X), TY(B, {N}, Y);
          ElementTolerance T{0.05, 0.01};
          DifferenceSums Got = differenceOf(TX.View, TY.View, 0, N, T);
          DifferenceSums Want = naive(TX.View, TY.View, T);
          EXPECT_EQ(Got.Finite, Want.Finite);
          EXPECT_EQ(Got.Different, Want.Different);
          EXPECT_EQ(Got.Above, Want.Above);
          EXPECT_EQ(Got.FirstAbove, Want.FirstAbove);
          EXPECT_EQ(Got.LastAbove, Want.LastAbove);
          // Floats are subtracted as floats: half a bit of 24.
          EXPECT_NEAR(Got.MaxAbs, Want.MaxAbs, 0x1p-24 * Want.MaxAbs);
          EXPECT_NEAR(Got.relL2(), Want.relL2(), 1e-7);
          EXPECT_NEAR(Got.cosine(), Want.cosine(), 1e-7);
          EXPECT_NEAR(Got.meanAbs(), Want.meanAbs(), 1e-7);
        }
}

TEST(DifferenceTest, PiecesAddUp) {
  std::vector<double> X = normals(5000, 1), Y = normals(5000, 2);
  MadeTensor A(DType::Float32, {5000}, X), B(DType::Float32, {5000}, Y);
  ElementTolerance T{1, 0};
  DifferenceSums Whole = differenceOf(A.View, B.View, 0, 5000, T);
  DifferenceSums Sum = differenceOf(A.View, B.View, 0, 1234, T);
  Sum.append(differenceOf(A.View, B.View, 1234, 5000, T));
  EXPECT_EQ(Whole.Above, Sum.Above);
  EXPECT_EQ(Whole.FirstAbove, Sum.FirstAbove);
  EXPECT_EQ(Whole.LastAbove, Sum.LastAbove);
  EXPECT_EQ(Whole.MaxAt, Sum.MaxAt);
  EXPECT_NEAR(Whole.DSquares, Sum.DSquares, 1e-9);
}

TEST(DifferenceTest, MoreThanTwoToThe31Elements) {
  // Untouched pages are one page of zeros, so that this takes no memory.
  const size_t Size = (size_t(1) << 31) + 8;
  TensorView Views[2];
  for (TensorView &V : Views) {
    void *Map = mmap(nullptr, Size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(Map, MAP_FAILED);
    V = {DType::Float8E4M3,
         {2, int64_t(Size / 2)},
         llvm::ArrayRef(static_cast<uint8_t *>(Map), Size)};
  }
  const_cast<uint8_t *>(Views[1].Bytes.data())[Size - 3] = 0x38; // 1
  KindQuery Q;
  Q.Ref = Views[0];
  Q.Ours = Views[1];
  Q.Sums = differenceOf(Views[0], Views[1], int64_t(Size) - 5000,
                        int64_t(Size), {});
  EXPECT_EQ(Q.Sums.FirstAbove, int64_t(Size) - 3);
  EXPECT_EQ(Q.Sums.DSquares, 1);
  const DifferenceKind Kind = findKind(Q);
  EXPECT_EQ(Kind.Kind, "few-elements");
  EXPECT_EQ(Kind.Says, "one element differs, [1, 1073741825]: 0 in ref, 1 in "
                       "ours");
  for (const TensorView &V : Views)
    munmap(const_cast<uint8_t *>(V.Bytes.data()), Size);
}

//===- Tolerance ------------------------------------------------------------//

/// A matrix product of K terms with inputs and outputs rounded to \p Type and
/// summed in float32; all of it in double precision for Float64.
std::vector<double> product(llvm::ArrayRef<double> X, llvm::ArrayRef<double> W,
                            int64_t M, int64_t K, int64_t N, DType Type,
                            bool Backwards) {
  std::vector<double> Out(static_cast<size_t>(M * N));
  for (int64_t I = 0; I != M; ++I)
    for (int64_t J = 0; J != N; ++J) {
      float Sum = 0;
      double Exact = 0;
      for (int64_t L = 0; L != K; ++L) {
        int64_t At = Backwards ? K - 1 - L : L;
        double A = roundTo(X[size_t(I * K + At)], Type);
        double B = roundTo(W[size_t(At * N + J)], Type);
        Exact += A * B;
        Sum += float(A) * float(B);
      }
      Out[size_t(I * N + J)] =
          Type == DType::Float64 ? Exact : roundTo(Sum, Type);
    }
  return Out;
}

TEST(ToleranceTest, CorrectRunsAreNoise) {
  const int64_t M = 64, K = 512, N = 64;
  std::vector<double> X = normals(M * K, 1), W = normals(K * N, 2, 0.05);
  std::vector<double> Exact = product(X, W, M, K, N, DType::Float64, false);
  for (DType Type : {DType::Float32, DType::Float16, DType::BFloat16}) {
    MadePair P;
    P.RefShape = {M, N};
    // Another order of summation; and the same layer in the format, dumped in
    // it or as float32.
    P.Ref = product(X, W, M, K, N, Type, false);
    P.Ours = product(X, W, M, K, N, Type, true);
    EXPECT_NE(toString(ask(P, Type).Verdict), "different")
        << toString(Type).str();
    P.Ref = Exact;
    P.Ours = product(X, W, M, K, N, Type, false);
    EXPECT_EQ(toString(ask(P, DType::Float32, Type).Verdict), "within-noise")
        << toString(Type).str();
    EXPECT_EQ(toString(ask(P, DType::Float32).Verdict), "within-noise")
        << toString(Type).str();
    // A twentieth is no rounding, not even of bfloat16.
    for (double &Y : P.Ours)
      Y *= 1.05;
    EXPECT_EQ(toString(ask(P, Type).Verdict), "different")
        << toString(Type).str();
  }
}

TEST(ToleranceTest, IntegersAreExact) {
  MadePair P;
  P.RefShape = {4};
  P.Ref = {1, 2, 3, 1000000};
  P.Ours = {1, 2, 3, 1000001};
  EXPECT_EQ(toString(ask(P, DType::Int64).Verdict), "different");
  P.Ours = P.Ref;
  EXPECT_EQ(toString(ask(P, DType::Int64).Verdict), "same");
}

//===- Steps ----------------------------------------------------------------//

/// The pattern of a process whose relative error at step k is \p Errors[k].
std::string patternOf(llvm::ArrayRef<double> Errors, double Noise = -1) {
  TensorComparison C;
  static const double One[] = {1};
  static MadeTensor T(DType::Float32, {1}, One);
  for (size_t K = 0; K != Errors.size(); ++K) {
    TensorDifference D;
    D.Pair.Ref.Step = int64_t(K);
    D.Pair.Ref.Role = "state";
    D.Pair.Ref.View = &T.View;
    D.Sums.Finite = 1;
    D.Sums.Squares = 1;
    D.Sums.DSquares = Errors[K] * Errors[K];
    D.Tolerance.Unit = 0x1p-24;
    if (Noise >= 0)
      D.NoiseRelL2 = Noise;
    D.Verdict = Errors[K] > 1e-5 ? CompareVerdict::Different
                                 : CompareVerdict::WithinNoise;
    C.Differences.push_back(D);
  }
  findStepPattern(C);
  return C.Steps ? C.Steps->Kind + " " + std::to_string(C.Steps->Step) : "";
}

/// Whether shapes \p R and \p O are those of a vocabulary and its filling.
bool isFilled(Shape R, Shape O) {
  const MadeTensor Ref(DType::Float32, R,
                       std::vector<double>(size_t(numelOf(R)), 1.0));
  const MadeTensor Ours(DType::Float32, O,
                        std::vector<double>(size_t(numelOf(O)), 1.0));
  TensorPair P;
  P.Ref.View = &Ref.View;
  P.Ours.View = &Ours.View;
  NameReport Names;
  std::set<std::string> Told;
  if (!cutPadding(P, Names, Told))
    return false;
  EXPECT_EQ(P.Ref.View->Shape, P.Ours.View->Shape);
  EXPECT_EQ(P.Ref.View->Bytes.size(), P.Ours.View->Bytes.size());
  return true;
}

TEST(PaddingTest, Vocabularies) {
  EXPECT_TRUE(isFilled({50257, 1}, {50304, 1}));
  EXPECT_TRUE(isFilled({2, 32768}, {2, 32000})); // 768 more: 2.4 %
  EXPECT_TRUE(isFilled({50, 2}, {64, 2}));
  // Widths of two models.
  EXPECT_FALSE(isFilled({768}, {1024}));
  EXPECT_FALSE(isFilled({4, 96}, {4, 128}));
  EXPECT_FALSE(isFilled({10, 2}, {11, 2}));
  EXPECT_FALSE(isFilled({2, 50, 2}, {2, 64, 2}));
}

TEST(StepsTest, Patterns) {
  EXPECT_EQ(patternOf({1e-7, 2e-7, 1e-7, 2e-7}), "");
  EXPECT_EQ(patternOf({1e-7, 3e-2, 4e-2, 5e-2, 6e-2}), "order-two 1");
  EXPECT_EQ(patternOf({1e-7, 1e-7, 2e-7, 2e-7, 0.4, 0.5}), "sudden 4");
  EXPECT_EQ(patternOf({1e-6, 3e-6, 9e-6, 2.7e-5, 8e-5, 2.4e-4}), "gradual 3");
  EXPECT_EQ(patternOf({1e-2, 2e-2, 3e-2, 4e-2, 5e-2}), "gradual 0");
  EXPECT_EQ(patternOf({0.3, 0.31, 0.29, 0.3}), "from-start 0");
  EXPECT_EQ(patternOf({0.3, 0.31, 0.29, 0.3}, 0.3), "every-run 0");
  EXPECT_EQ(patternOf({1e-7, 1e-7, INFINITY, INFINITY}), "sudden 2");
}

} // namespace
