//===- KindsConstants.cpp - What a factor may be ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A factor is named when it agrees with a constant to the precision that the
// dtype and the number of elements allow. Several constants may agree: 8 is
// sqrt(64), 2^3 and perhaps the number of ranks. Those that rest on a size of
// the tensor or its layer come before those of common sizes.
//
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

namespace {
class Namer {
public:
  Namer(const KindQuery &Q, double Factor) : Factor(std::fabs(Factor)) {
    const double N = double(std::max<int64_t>(1, Q.Ref.numel()));
    Precision = std::max({2 * Q.Tolerance.RelL2 / std::sqrt(N),
                          Q.Tolerance.Unit / 4, 2e-7});
  }

  bool agrees(double Value) const {
    return std::fabs(Factor / Value - 1) <= Precision;
  }

  void offer(double Value, std::string Text, std::string About,
             StringRef Class = "") {
    if (agrees(Value) && none_of(Names, [&](const NamedConstant &N) {
          return N.Text == Text;
        }))
      Names.push_back({std::move(Text), std::move(About), Class.str()});
  }

  /// sqrt(\p D) and its inverse.
  void offerRoot(int64_t D, const std::string &About, StringRef Class) {
    const std::string Root = "sqrt(" + std::to_string(D) + ")";
    offer(std::sqrt(double(D)), Root, About, Class);
    offer(1 / std::sqrt(double(D)), "1/" + Root, About, Class);
  }

  double factor() const { return Factor; }

  std::vector<NamedConstant> Names;

private:
  double Factor, Precision;
};
} // namespace

/// Roots of sizes: a missing or doubled scaling of attention scores.
static void offerRoots(Namer &Out, const KindQuery &Q) {
  const bool Attention = isAttention(Q);
  const StringRef Class =
      Attention ? "attention-scale-missing" : "weight-scale-factor";
  const std::string Why =
      Attention ? ", the head dimension: the scores are not scaled as in the "
                  "reference"
                : "";
  for (int64_t D : Q.Dims)
    if (D >= 8)
      Out.offerRoot(D, std::to_string(D) + " is a size of this layer" + Why,
                    Class);
  if (Attention)
    for (int64_t D : {16, 32, 40, 48, 64, 72, 80, 96, 112, 128, 160, 192, 256})
      Out.offerRoot(D, std::to_string(D) + " as of a head dimension" +
                           (Attention ? ": the scores are not scaled as in "
                                        "the reference"
                                      : ""),
                    Class);
}

/// n/(n-1) and its root: one side divides by n, the other by n - 1.
static void offerVariances(Namer &Out, const KindQuery &Q) {
  SmallVector<int64_t, 16> Counts(Q.Dims.begin(), Q.Dims.end());
  // Of [batch, channels, ...] a batch norm takes all but the channels, a group
  // norm a part of the channels of one sample.
  if (const ArrayRef<int64_t> Shape = Q.Ref.Shape;
      Shape.size() >= 3 && !isWeight(Q) && Q.Ref.numel() > 0) {
    Counts.push_back(Q.Ref.numel() / Shape[1]);
    const int64_t Sample = Q.Ref.numel() / Shape[0];
    for (int64_t Groups = 1; Groups <= std::min<int64_t>(Shape[1], 1024);
         ++Groups)
      if (Shape[1] % Groups == 0)
        Counts.push_back(Sample / Groups);
  }
  for (int64_t N : Counts) {
    // A factor that is 1 as far as can be told names nothing.
    if (N < 2 || Out.agrees(1))
      continue;
    const double Ratio = double(N) / double(N - 1);
    const std::string Text =
        std::to_string(N) + "/" + std::to_string(N - 1);
    const std::string About =
        "the variance over " + std::to_string(N) +
        " values is divided by n on one side and by n - 1 on the other";
    for (auto [Value, Form] :
         {std::pair(Ratio, Text),
          std::pair(std::sqrt(Ratio), "sqrt(" + Text + ")"),
          std::pair(1 / Ratio, std::to_string(N - 1) + "/" + std::to_string(N)),
          std::pair(std::sqrt(1 / Ratio), "sqrt(" + std::to_string(N - 1) +
                                              "/" + std::to_string(N) + ")")})
      // 2 = 2/1 is no variance; nor is any n what is as far from it as 1 is.
      if (N > 2 && std::fabs(Value - 1) > Q.Tolerance.RelL2 &&
          std::fabs(Out.factor() - Value) <= 0.1 * std::fabs(Value - 1))
        Out.offer(Value, Form, About, "variance-estimator-mismatch");
  }
}

std::vector<std::pair<double, StringRef>> inputScalings(double Sigma) {
  const double One = std::sqrt(1 + Sigma * Sigma);
  const double Half = std::sqrt(0.25 + Sigma * Sigma);
  return {{One, "sqrt(1 + sigma^2)"},
          {1 / One, "1/sqrt(1 + sigma^2)"},
          {Half, "sqrt(0.5^2 + sigma^2)"},
          {1 / Half, "1/sqrt(0.5^2 + sigma^2)"}};
}

/// Scalings of inputs by a noise level: c_in of the formulations in use.
static void offerNoiseLevels(Namer &Out, const KindQuery &Q) {
  if (!Q.Sigma || *Q.Sigma == 0)
    return;
  const double S = *Q.Sigma;
  const std::string About =
      "sigma = " + shortNumber(S) + " was dumped: an input scaling by the "
      "noise level is not applied";
  for (const auto &[Value, Text] : inputScalings(S))
    Out.offer(Value, Text.str(), About, "input-scaling-missing");
}

static void offerRanks(Namer &Out, const KindQuery &Q, StringRef Class) {
  if (Q.WorldSize < 2)
    return;
  const std::string W = std::to_string(Q.WorldSize);
  const std::string About =
      "the number of ranks: a sum is taken for a mean, or the reverse";
  Out.offer(double(Q.WorldSize), W, About, Class);
  Out.offer(1 / double(Q.WorldSize), "1/" + W, About, Class);
}

/// Constants of their own.
static void offerCommon(Namer &Out) {
  Out.offer(255, "255", "bytes are not mapped to [0, 1]",
            "input-not-normalized");
  Out.offer(1.0 / 255, "1/255", "values are divided by 255 once more",
            "input-not-normalized");
  Out.offer(127.5, "127.5", "", "input-not-normalized");
  Out.offer(1 / 127.5, "1/127.5", "", "input-not-normalized");
  Out.offer(0.18215, "0.18215", "the scale of latents of Stable Diffusion",
            "input-scaling-missing");
  Out.offer(1 / 0.18215, "1/0.18215",
            "the scale of latents of Stable Diffusion",
            "input-scaling-missing");
  Out.offer(0.13025, "0.13025", "the scale of latents of SDXL",
            "input-scaling-missing");
  Out.offer(1 / 0.13025, "1/0.13025", "the scale of latents of SDXL",
            "input-scaling-missing");
  Out.offer(std::sqrt(2.0), "sqrt(2)", "");
  Out.offer(std::sqrt(0.5), "1/sqrt(2)", "");
  Out.offer(std::log(2.0), "ln(2)", "logarithms of base 2 and of base e");
  Out.offer(1 / std::log(2.0), "1/ln(2)",
            "logarithms of base 2 and of base e");
  for (int Percent : {5, 10, 15, 20, 25, 30, 40}) {
    const double P = Percent / 100.0;
    const std::string Text = shortNumber(P);
    Out.offer(1 / (1 - P), "1/(1 - " + Text + ")",
              "as of a dropout of " + Text, "dropout-or-batchnorm-mode");
  }
}

std::vector<NamedConstant> nameConstant(const KindQuery &Q, double Factor) {
  Namer Out(Q, Factor);
  // The likeliest for a gradient; elsewhere sizes are.
  if (Q.Role == "grad")
    offerRanks(Out, Q, "gradient-sum-for-mean");
  Out.offer(2, "2", "");
  Out.offer(0.5, "1/2", "");
  offerNoiseLevels(Out, Q);
  offerRoots(Out, Q);
  offerVariances(Out, Q);
  offerRanks(Out, Q, "");
  for (int64_t D : Q.Dims) {
    if (D < 3)
      continue;
    const std::string About = std::to_string(D) + " is a size of this layer: "
                              "a sum is taken for a mean, or the reverse";
    Out.offer(double(D), std::to_string(D), About);
    Out.offer(1 / double(D), "1/" + std::to_string(D), About);
  }
  offerCommon(Out);
  for (int Power = 2; Power <= 24; ++Power) {
    Out.offer(std::ldexp(1, Power), "2^" + std::to_string(Power),
              Power >= 7 ? "as of a loss scale that was not removed" : "");
    Out.offer(std::ldexp(1, -Power), "2^-" + std::to_string(Power), "");
  }
  if (Factor < 0)
    for (NamedConstant &N : Out.Names)
      N.Text = "-" + N.Text;
  return std::move(Out.Names);
}

} // namespace culprit
