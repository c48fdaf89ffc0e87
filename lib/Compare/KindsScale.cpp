//===- KindsScale.cpp - Factors and offsets ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// ours = -ref.
MaybeKind findSign(const KindSearch &S) {
  Fit F = S.test([&](int64_t I) { return -S.ref(I); });
  if (!F.Good)
    return std::nullopt;
  return explained("sign", "", "ours = -ref: the sign is flipped", F);
}

static json::Array constantsJson(ArrayRef<NamedConstant> Names) {
  json::Array Out;
  for (const NamedConstant &N : Names)
    Out.push_back(N.Text);
  return Out;
}

/// "8 = sqrt(64), 64 is ..." or nothing.
static std::string constantText(ArrayRef<NamedConstant> Names, double Value) {
  if (Names.empty())
    return "";
  std::string Out;
  if (Names[0].Text != shortNumber(Value))
    Out = ", " + shortNumber(Value) + " = " + Names[0].Text;
  if (!Names[0].About.empty())
    Out += ", " + Names[0].About;
  return Out;
}

/// ours = a ref, by least squares. The names of the factor are given where it
/// is a constant that programs multiply by, and tell the class.
MaybeKind findScale(const KindSearch &S) {
  const DifferenceSums &Sums = S.query().Sums;
  if (Sums.Squares == 0)
    return std::nullopt;
  const double A = 1 + Sums.Product / Sums.Squares;
  if (A == 0 || !std::isfinite(A))
    return std::nullopt;
  Fit F = S.test([&](int64_t I) { return A * S.ref(I); }, 1);
  if (!F.Good)
    return std::nullopt;
  std::vector<NamedConstant> Names = nameConstant(S.query(), A);
  // A factor that is hardly beyond the tolerance stands for anything that
  // makes the tensor a little smaller or larger.
  const bool Slight =
      Names.empty() && std::fabs(A - 1) < 8 * S.tolerance().RelL2;
  DifferenceKind Out = explained(
      "scale",
      Slight                                     ? StringRef()
      : Names.empty() || Names[0].Class.empty() ? "weight-scale-factor"
                                                : StringRef(Names[0].Class),
      "ours = " + shortNumber(A) + " x ref" + constantText(Names, A), F);
  Out.Parameters["factor"] = A;
  if (!Names.empty()) {
    Out.Parameters["constant"] = Names[0].Text;
    Out.Parameters["constants"] = constantsJson(Names);
  }
  return Out;
}

/// ours = ref times an input scaling at the noise level of each sample, which
/// was dumped as a tensor of one number a sample.
MaybeKind findNoiseLevels(const KindSearch &S) {
  const int64_t Samples = S.dims().empty() ? 0 : S.dims()[0];
  for (const NamedTensor &T : S.query().Others) {
    const StringRef Name = StringRef(T.Name).rsplit('.').second;
    if (T.View.numel() != Samples || S.numel() < 4 * Samples ||
        !(Name.empty() ? StringRef(T.Name) : Name)
             .starts_with_insensitive("sigma"))
      continue;
    const int64_t Inner = S.numel() / Samples;
    const size_t Scalings = inputScalings(1).size();
    for (size_t Which = 0; Which != Scalings; ++Which) {
      std::vector<double> Factors;
      for (int64_t I = 0; I != Samples; ++I)
        Factors.push_back(inputScalings(T.View.at(I))[Which].first);
      Fit F = S.test(
          [&](int64_t I) { return Factors[size_t(I / Inner)] * S.ref(I); });
      if (!F.Good)
        continue;
      const StringRef Text = inputScalings(1)[Which].second;
      DifferenceKind Out = explained(
          "scale", "input-scaling-missing",
          "ours = " + Twine(Text) + " x ref with the " + T.Name +
              " of each sample: an input scaling by the noise level is not "
              "applied",
          F);
      Out.Parameters["constant"] = Text;
      return Out;
    }
  }
  return std::nullopt;
}

/// ours = ref + b with one b.
MaybeKind findOffset(const KindSearch &S) {
  const DifferenceSums &Sums = S.query().Sums;
  if (Sums.Finite == 0)
    return std::nullopt;
  const double B = Sums.DSum / double(Sums.Finite);
  Fit F = S.test([&](int64_t I) { return S.ref(I) + B; }, 1);
  if (!F.Good)
    return std::nullopt;
  DifferenceKind Out =
      explained("offset", "bias-missing",
                "ours = ref " + Twine(B < 0 ? "- " : "+ ") +
                    shortNumber(std::fabs(B)) + " everywhere",
                F);
  Out.Parameters["offset"] = B;
  return Out;
}

/// ours = a ref + b, by least squares.
MaybeKind findAffine(const KindSearch &S) {
  const DifferenceSums &Sums = S.query().Sums;
  const double N = double(Sums.Finite);
  if (N < 6)
    return std::nullopt;
  const double Variance = Sums.Squares - Sums.Sum * Sums.Sum / N;
  const double Covariance = Sums.Product - Sums.Sum * Sums.DSum / N;
  if (Variance <= 1e-12 * Sums.Squares)
    return std::nullopt;
  const double A = 1 + Covariance / Variance;
  const double B = (Sums.oursSum() - A * Sums.Sum) / N;
  if (A == 0)
    return std::nullopt;
  Fit F = S.test([&](int64_t I) { return A * S.ref(I) + B; }, 2);
  if (!F.Good)
    return std::nullopt;
  std::vector<NamedConstant> Names = nameConstant(S.query(), A);
  DifferenceKind Out = explained(
      "affine",
      isWeight(S.query()) || !isFloating(S.query().Ref.Type)
          ? ""
          : "input-not-normalized",
      "ours = " + shortNumber(A) + " x ref " + (B < 0 ? "- " : "+ ") +
          shortNumber(std::fabs(B)) + constantText(Names, A),
      F);
  Out.Parameters["factor"] = A;
  Out.Parameters["offset"] = B;
  if (!Names.empty())
    Out.Parameters["constant"] = Names[0].Text;
  return Out;
}

namespace {
/// A value for each index of an axis, from a few elements each.
struct AxisProfile {
  std::vector<double> Values;
  int64_t Outer = 1, Inner = 1; ///< Elements around an index of the axis.

  double at(int64_t I) const {
    return Values[size_t(I / Inner % int64_t(Values.size()))];
  }
};
} // namespace

/// A number for each index of axis \p D of S.dims(): the mean of ours - ref
/// or, for \p Factor, sum ours ref / sum ref^2, over 8 to 512 elements,
/// the fewer the longer the axis.
static AxisProfile profileAxis(const KindSearch &S, size_t D, bool Factor) {
  AxisProfile Out;
  const int64_t Size = S.dims()[D];
  for (size_t I = 0; I != S.dims().size(); ++I)
    (I < D ? Out.Outer : Out.Inner) *= I == D ? 1 : S.dims()[I];
  const int64_t Around = Out.Outer * Out.Inner;
  const int64_t Looks = std::min<int64_t>(
      Around, std::clamp<int64_t>(4'000'000 / Size, 8, 512));
  Out.Values.resize(size_t(Size));
  for (int64_t At = 0; At != Size; ++At) {
    double Top = 0, Bottom = 0;
    for (int64_t L = 0; L != Looks; ++L) {
      const int64_t Place = int64_t(double(L) / double(Looks) * double(Around));
      const int64_t Index = (Place / Out.Inner * Size + At) * Out.Inner +
                            Place % Out.Inner;
      const double R = S.ref(Index), O = S.ours(Index);
      Top += Factor ? R * O : O - R;
      Bottom += Factor ? R * R : 1;
    }
    Out.Values[size_t(At)] = Bottom != 0 ? Top / Bottom : 1;
  }
  return Out;
}

/// The dumped tensor of size \p Values.size() whose elements are \p Values
/// times \p Sign; empty if there is none.
static std::string dumpedAs(const KindSearch &S, ArrayRef<double> Values,
                            double Sign) {
  for (const NamedTensor &T : S.query().Others) {
    if (T.View.numel() != int64_t(Values.size()))
      continue;
    bool Same = true;
    for (size_t I = 0; I != Values.size() && Same; ++I)
      Same = std::fabs(T.View.at(int64_t(I)) - Sign * Values[I]) <=
             2 * S.absoluteTolerance();
    if (Same)
      return T.Name;
  }
  return "";
}

/// ours = ref + v[i] with i the index along one axis: a bias that one side
/// does not add. The bias is named if it was dumped.
MaybeKind findAxisOffset(const KindSearch &S) {
  for (size_t D = S.dims().size(); D-- != 0;) {
    const int64_t Size = S.dims()[D];
    if (S.numel() < 4 * Size || Size > 1'000'000)
      continue;
    AxisProfile V = profileAxis(S, D, /*Factor=*/false);
    Fit F = S.test([&](int64_t I) { return S.ref(I) + V.at(I); }, Size);
    if (!F.Good)
      continue;
    std::string Missing = dumpedAs(S, V.Values, -1);
    DifferenceKind Out = explained(
        "axis-offset", "bias-missing",
        "ours - ref depends on the index of dimension " + Twine(S.axis(D)) +
            " alone, as of a bias that one side does not add" +
            (Missing.empty() ? "" : ": it is -" + Missing),
        F);
    Out.Parameters["axis"] = S.axis(D);
    if (!Missing.empty())
      Out.Parameters["term"] = Missing;
    return Out;
  }
  return std::nullopt;
}

/// ours = s ref + v[i] with one s and i the index along one axis: a
/// normalisation of which s is the ratio of two variances, beside its bias,
/// which s does not change. With s unknown to any rule nothing is said.
MaybeKind findVariance(const KindSearch &S) {
  if (isWeight(S.query()) || S.dims().size() < 2)
    return std::nullopt;
  for (size_t D = S.dims().size(); D-- != 0;) {
    const int64_t Size = S.dims()[D];
    if (S.numel() < 4 * Size || Size > 65'536)
      continue;
    int64_t Inner = 1;
    for (size_t I = D + 1; I != S.dims().size(); ++I)
      Inner *= S.dims()[I];
    struct Sums {
      double N = 0, X = 0, Y = 0, XX = 0, XY = 0;
    };
    std::vector<Sums> At(static_cast<size_t>(Size));
    for (int64_t I : S.sample()) {
      Sums &T = At[size_t(I / Inner % Size)];
      const double X = S.ref(I), Y = S.ours(I) - X;
      T.N += 1;
      T.X += X;
      T.Y += Y;
      T.XX += X * X;
      T.XY += X * Y;
    }
    // Within each index, so that what is added there does not count.
    double Top = 0, Bottom = 0;
    for (const Sums &T : At)
      if (T.N > 0) {
        Top += T.XY - T.X * T.Y / T.N;
        Bottom += T.XX - T.X * T.X / T.N;
      }
    if (!(Bottom > 0) || !std::isfinite(Top))
      continue;
    const double Less = Top / Bottom;
    std::vector<double> Added;
    for (const Sums &T : At)
      Added.push_back(T.N > 0 ? (T.Y - Less * T.X) / T.N : 0);
    Fit F = S.test(
        [&](int64_t I) {
          return (1 + Less) * S.ref(I) + Added[size_t(I / Inner % Size)];
        },
        Size + 1);
    if (!F.Good)
      continue;
    std::vector<NamedConstant> Names = nameConstant(S.query(), 1 + Less);
    erase_if(Names, [](const NamedConstant &N) {
      return N.Class != "variance-estimator-mismatch";
    });
    if (Names.empty())
      continue;
    DifferenceKind Out =
        explained("scale", Names[0].Class,
                  "ours = " + shortNumber(1 + Less) +
                      " x ref beside a bias for each index of dimension " +
                      Twine(S.axis(D)) + constantText(Names, 1 + Less),
                  F);
    Out.Parameters["factor"] = 1 + Less;
    Out.Parameters["axis"] = S.axis(D);
    Out.Parameters["constant"] = Names[0].Text;
    Out.Parameters["constants"] = constantsJson(Names);
    return Out;
  }
  return std::nullopt;
}

/// ours = ref v[i] with i the index along one axis: a gain that one side does
/// not apply, or a scale of quantization a channel.
MaybeKind findAxisFactor(const KindSearch &S) {
  for (size_t D = S.dims().size(); D-- != 0;) {
    const int64_t Size = S.dims()[D];
    if (S.numel() < 4 * Size || Size > 1'000'000)
      continue;
    AxisProfile V = profileAxis(S, D, /*Factor=*/true);
    Fit F = S.test([&](int64_t I) { return S.ref(I) * V.at(I); }, Size);
    if (!F.Good)
      continue;
    DifferenceKind Out = explained(
        "axis-factor", "weight-scale-factor",
        "ours = ref x a factor for each index of dimension " +
            Twine(S.axis(D)) + ", as of a gain or a scale that one side " +
            "does not apply",
        F);
    Out.Parameters["axis"] = S.axis(D);
    return Out;
  }
  return std::nullopt;
}

} // namespace culprit
