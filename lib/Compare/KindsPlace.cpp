//===- KindsPlace.cpp - Differences that are somewhere ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Most of the tensor agrees: a few elements, a block that was never filled, or
// everything from a position on.
//
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <bit>

using namespace llvm;

namespace culprit {

static uint64_t bitsAt(const TensorView &V, int64_t I) {
  uint64_t Out = 0;
  std::memcpy(&Out, V.Bytes.data() + size_t(I) * sizeOf(V.Type),
              sizeOf(V.Type));
  return Out;
}

static std::string indexText(const TensorView &V, int64_t I) {
  std::string Out = "[";
  for (auto [At, Part] : enumerate(V.unravel(I)))
    Out += (At ? ", " : "") + std::to_string(Part);
  return Out + "]";
}

/// "the sign", "exponent bit 3", "fraction bit 20" of \p Type.
static std::string bitName(DType Type, unsigned Bit) {
  unsigned Fraction = 0;
  switch (Type) {
  case DType::Float64:
    Fraction = 52;
    break;
  case DType::Float32:
    Fraction = 23;
    break;
  case DType::Float16:
    Fraction = 10;
    break;
  case DType::BFloat16:
    Fraction = 7;
    break;
  case DType::Float8E4M3:
    Fraction = 3;
    break;
  case DType::Float8E5M2:
    Fraction = 2;
    break;
  default:
    return "bit " + std::to_string(Bit);
  }
  if (Bit + 1 == 8 * sizeOf(Type))
    return "the sign bit";
  return Bit >= Fraction ? "exponent bit " + std::to_string(Bit - Fraction)
                         : "fraction bit " + std::to_string(Bit);
}

/// At most 16 elements, and a thousandth of the tensor or one, are beyond the
/// tolerance; all others agree. Says so if each is one flipped bit.
MaybeKind findFewElements(const KindSearch &S) {
  const KindQuery &Q = S.query();
  const DifferenceSums &Sums = Q.Sums;
  if (Sums.Above == 0 || Sums.Above > 16 || S.numel() < 8 ||
      (Sums.Above > 1 && Sums.Above * 1000 > S.numel()))
    return std::nullopt;
  // Differences within the tolerance are noise; but with a handful of
  // elements none of them should be near it.
  std::vector<int64_t> Places;
  bool Clear = Sums.OursNonFinite + Sums.RefNonFinite > 0;
  const ElementTolerance T = Q.Tolerance.elements(Sums.refRms());
  for (int64_t I = *Sums.FirstAbove; I <= *Sums.LastAbove; ++I) {
    const double R = S.ref(I), O = S.ours(I);
    if (!(std::fabs(O - R) <= T.Absolute + T.Relative * std::fabs(R)) &&
        !(std::isnan(O) && std::isnan(R)) && O != R) {
      Places.push_back(I);
      Clear |= std::fabs(O - R) > 4 * (T.Absolute + T.Relative * std::fabs(R));
    }
  }
  // Where most elements differ a little, the largest of these is no event.
  if (Places.empty() || (!Clear && 4 * Sums.Different > S.numel()))
    return std::nullopt;
  bool Flips = Q.Ref.Type == Q.Ours.Type;
  int64_t Bit = -1;
  for (int64_t I : Places) {
    const uint64_t Changed =
        Flips ? bitsAt(Q.Ref, I) ^ bitsAt(Q.Ours, I) : 0;
    Flips &= std::has_single_bit(Changed);
    if (Flips && Bit < 0)
      Bit = std::countr_zero(Changed);
  }
  Fit F;
  F.Share = 1;
  F.Explained = Flips ? 1 : 0.95;
  const std::string Where = indexText(Q.Ours, Places[0]);
  std::string Says =
      Places.size() == 1
          ? formatv("one element differs, {0}: {1} in ref, {2} in ours", Where,
                    shortNumber(S.ref(Places[0])),
                    shortNumber(S.ours(Places[0])))
                .str()
          : formatv("{0} of {1} elements differ, {2} first", Places.size(),
                    S.numel(), Where)
                .str();
  if (Flips)
    Says += (Places.size() == 1 ? "; " : "; of the first ") +
            bitName(Q.Ref.Type, unsigned(Bit)) +
            (Places.size() == 1 ? " is flipped" : " is flipped, one of each");
  DifferenceKind Out =
      explained(Flips ? "bit-flip" : "few-elements",
                Flips ? "silent-data-corruption" : "", Says, F);
  Out.Residual = 0;
  if (Flips)
    Out.Parameters["bit"] = Bit;
  json::Array Indices;
  for (int64_t I : Places)
    Indices.push_back(I);
  Out.Parameters["elements"] = std::move(Indices);
  return Out;
}

namespace {
/// The indices along an axis at which elements of the sample differ.
struct AxisBand {
  int64_t First = -1, Last = -1, Size = 0, Inner = 1;
  size_t Axis = 0;
};
} // namespace

static bool differsAt(const KindSearch &S, int64_t I) {
  const double R = S.ref(I), O = S.ours(I);
  return !S.close(O, R) && !(std::isnan(R) && std::isnan(O)) && R != O;
}

Box differingBox(const KindSearch &S) {
  Box Out;
  const size_t Rank = S.dims().size();
  const auto Add = [&](int64_t I) {
    if (Out.empty()) {
      Out.First.assign(S.dims().begin(), S.dims().end());
      Out.Last.assign(Rank, -1);
    }
    for (size_t D = Rank; D-- != 0; I /= S.dims()[D]) {
      const int64_t At = I % S.dims()[D];
      Out.First[D] = std::min(Out.First[D], At);
      Out.Last[D] = std::max(Out.Last[D], At);
    }
  };
  SmallVector<int64_t, 8> Anchors;
  const auto Try = [&](int64_t I) {
    if (!differsAt(S, I))
      return;
    Add(I);
    if (Anchors.size() < 8)
      Anchors.push_back(I);
  };
  if (S.query().Sums.FirstAbove) {
    Try(*S.query().Sums.FirstAbove);
    Try(*S.query().Sums.LastAbove);
  }
  for (int64_t I : S.sample())
    Try(I);
  // A sample misses the rims of a box; lines through it do not.
  for (int64_t Anchor : Anchors) {
    int64_t Inner = 1;
    for (size_t D = Rank; D-- != 0; Inner *= S.dims()[D]) {
      const int64_t Size = S.dims()[D];
      const int64_t Start = Anchor - Anchor / Inner % Size * Inner;
      for (int64_t At = 0; At != std::min<int64_t>(Size, 65536); ++At)
        if (differsAt(S, Start + At * Inner))
          Add(Start + At * Inner);
    }
  }
  return Out;
}

/// The narrowest band of one axis that holds everything beyond the tolerance;
/// Size 0 if no axis is narrowed.
static AxisBand narrowestBand(const KindSearch &S) {
  AxisBand Best;
  const Box B = differingBox(S);
  double Least = 1;
  int64_t Inner = 1;
  for (size_t D = B.First.size(); D-- != 0; Inner *= S.dims()[D])
    if (B.share(S, D) < Least) {
      Least = B.share(S, D);
      Best = {B.First[D], B.Last[D], S.dims()[D], Inner, D};
    }
  return Best;
}

static StringRef zeroClass(const KindSearch &S) {
  return isWeight(S.query())  ? "weights-missing-or-extra"
         : isCache(S.query()) ? "kv-block-reset"
                              : "kernel-uninitialized-grad";
}

/// A stretch of ours is zero where ref is not, the rest agrees: a shard that
/// was not loaded, a part of a buffer that was not written.
MaybeKind findZeroBlock(const KindSearch &S) {
  const DifferenceSums &Sums = S.query().Sums;
  if (!Sums.FirstAbove)
    return std::nullopt;
  // Flat stretches hold those of the first axis; the others are bands.
  const int64_t Begin = *Sums.FirstAbove, End = *Sums.LastAbove + 1;
  if (End - Begin == S.numel() && Sums.oursSquares() != 0)
    ; // only a band can be right
  else if (Sums.oursSquares() != 0) {
    Fit F = S.test([&](int64_t I) {
      return I >= Begin && I < End ? 0.0 : S.ref(I);
    });
    if (F.Good) {
      DifferenceKind Out = explained(
          "zero-block",
          zeroClass(S),
          formatv("{0} of {1} elements of ours are zero, {2} to {3}; the "
                  "others agree",
                  End - Begin, S.numel(), indexText(S.query().Ours, Begin),
                  indexText(S.query().Ours, End - 1))
              .str(),
          F);
      Out.Parameters["begin"] = Begin;
      Out.Parameters["end"] = End;
      return Out;
    }
  } else {
    Fit F = S.test([](int64_t) { return 0.0; });
    if (F.Good) {
      DifferenceKind Out = explained(
          "all-zero", isWeight(S.query()) ? "weights-missing-or-extra" : "",
          isWeight(S.query()) ? "ours is all zero: the weight was not loaded"
                              : "ours is all zero",
          F);
      return Out;
    }
  }
  const Box B = differingBox(S);
  if (B.empty())
    return std::nullopt;
  std::string Where;
  json::Array Axes;
  for (size_t D = 0; D != B.First.size(); ++D) {
    if (B.share(S, D) == 1)
      continue;
    Where += formatv("{0}{1} to {2} of dimension {3}",
                     Where.empty() ? "" : " and ", B.First[D], B.Last[D],
                     S.axis(D));
    Axes.push_back(
        json::Array{S.axis(D), B.First[D], B.Last[D]});
  }
  if (Where.empty())
    return std::nullopt;
  Fit F =
      S.test([&](int64_t I) { return B.holds(S, I) ? 0.0 : S.ref(I); });
  if (!F.Good)
    return std::nullopt;
  DifferenceKind Out = explained(
      "zero-block", zeroClass(S),
      "ours is zero at indices " + Where + "; the rest agrees", F);
  Out.Parameters["box"] = std::move(Axes);
  return Out;
}

/// All finite pairs agree; the others are NaN or infinite on one side alone.
MaybeKind findNonFinite(const KindSearch &S) {
  const DifferenceSums &Sums = S.query().Sums;
  const int64_t One = Sums.OursNonFinite + Sums.RefNonFinite;
  if (One == 0 || Sums.Above != One)
    return std::nullopt;
  Fit F;
  F.Share = 1;
  F.Explained = 0.5; // that it is so, but not why
  DifferenceKind Out = explained(
      "nonfinite", "",
      formatv("{0} of {1} elements are NaN or infinite in {2} alone{3}", One,
              S.numel(),
              Sums.RefNonFinite == 0    ? "ours"
              : Sums.OursNonFinite == 0 ? "ref"
                                        : "one",
              Sums.Finite ? "; the others agree" : "")
          .str(),
      F);
  Out.Residual = 1;
  return Out;
}

/// Everything that differs lies in a band of one axis that is at most three
/// quarters of it: from a position on, one row of a batch, one shard. It says
/// where, not what.
MaybeKind findPartial(const KindSearch &S) {
  AxisBand B = narrowestBand(S);
  if (B.Size == 0 || 4 * (B.Last - B.First + 1) > 3 * B.Size)
    return std::nullopt;
  Fit Outside = S.test([&](int64_t I) {
    const int64_t At = I / B.Inner % B.Size;
    return At >= B.First && At <= B.Last ? NoPrediction : S.ref(I);
  });
  // All agree outside, so nothing is explained there: only count.
  if (Outside.Count < 4 || Outside.Share < 1)
    return std::nullopt;
  // Slots that nobody has filled agree in any case.
  if (none_of(S.sample(), [&](int64_t I) {
        const int64_t At = I / B.Inner % B.Size;
        return (At < B.First || At > B.Last) && (S.ref(I) != 0 || S.ours(I));
      }))
    return std::nullopt;
  Fit F;
  F.Share = 1;
  F.Explained = 0.5; // where, but not why
  const bool Tail = B.Last + 1 == B.Size;
  DifferenceKind Out = explained(
      Tail && B.First > 0 ? "from-position" : "partial", "",
      Tail && B.First != B.Last
          ? formatv("ours agrees up to index {0} of dimension {1} and differs "
                    "from there on",
                    B.First, S.axis(B.Axis))
                .str()
      : B.First == B.Last
          ? formatv("only index {0} of dimension {1} differs", B.First,
                    S.axis(B.Axis))
                .str()
          : formatv("only indices {0} to {1} of dimension {2} differ", B.First,
                    B.Last, S.axis(B.Axis))
                .str(),
      F);
  Out.Residual = 1;
  Out.Parameters["axis"] = S.axis(B.Axis);
  Out.Parameters["first"] = B.First;
  Out.Parameters["last"] = B.Last;
  return Out;
}

/// A weight whose values look like a fresh initialisation and have nothing to
/// do with those of the reference.
MaybeKind findNotLoaded(const KindSearch &S) {
  const KindQuery &Q = S.query();
  const double N = double(Q.Sums.Finite);
  if (!isWeight(Q) || N < 256 || Q.Ours.Shape.size() < 2)
    return std::nullopt;
  const double Mean = Q.Sums.oursSum() / N;
  const double Std =
      std::sqrt(std::max(0.0, Q.Sums.oursSquares() / N - Mean * Mean));
  if (std::fabs(Mean) > 5 * Std / std::sqrt(N) ||
      std::fabs(Q.Sums.cosine()) > 5 / std::sqrt(N))
    return std::nullopt;
  const double In = N / double(Q.Ours.Shape.front());
  const double Out0 = double(Q.Ours.Shape.front());
  struct Recipe {
    double Std;
    StringRef Name;
  };
  const Recipe Recipes[] = {{0.02, "a normal of 0.02"},
                            {1 / std::sqrt(3 * In), "nn.Linear's default"},
                            {1 / std::sqrt(In), "1/sqrt(fan in)"},
                            {std::sqrt(2 / In), "sqrt(2/fan in)"},
                            {std::sqrt(2 / (In + Out0)), "Xavier's rule"},
                            {1, "a standard normal, nn.Embedding's default"}};
  for (const Recipe &R : Recipes) {
    if (std::fabs(Std / R.Std - 1) > std::max(0.01, 4 / std::sqrt(2 * N)))
      continue;
    Fit F;
    F.Share = 1;
    F.Explained = 0.8; // a chance match of a deviation is possible
    DifferenceKind Out = explained(
        "not-loaded", "weights-missing-or-extra",
        formatv("ours has mean 0 and standard deviation {0}, as {1} gives, and "
                "nothing in common with ref: the weight was not loaded",
                shortNumber(Std), R.Name)
            .str(),
        F);
    Out.Residual = 1;
    Out.Parameters["std"] = Std;
    return Out;
  }
  return std::nullopt;
}

} // namespace culprit
