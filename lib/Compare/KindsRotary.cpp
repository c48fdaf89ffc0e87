//===- KindsRotary.cpp - Pairs turned by a position -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/KindsSearch.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numbers>

using namespace llvm;

namespace culprit {

namespace {
/// Pairs of elements that a rotary embedding turns, in heads of Width.
struct Pairing {
  int64_t Width;
  bool Halves; ///< (i, i + Width/2), else (2i, 2i + 1).

  int64_t pair(int64_t I) const {
    const int64_t At = I % Width;
    return Halves ? At % (Width / 2) : At / 2;
  }
  bool isFirst(int64_t I) const {
    return Halves ? I % Width < Width / 2 : I % 2 == 0;
  }
  int64_t partner(int64_t I) const {
    const int64_t By = Halves ? Width / 2 : 1;
    return isFirst(I) ? I + By : I - By;
  }
};
} // namespace

/// The length of each pair is kept, in the first elements of the sample.
static bool keepsLengths(const KindSearch &S, const Pairing &P) {
  for (int64_t I : S.sample().take_front(256)) {
    const int64_t J = P.partner(I);
    const double R = std::hypot(S.ref(I), S.ref(J));
    const double O = std::hypot(S.ours(I), S.ours(J));
    if (!S.close(O, R))
      return false;
  }
  return true;
}

/// Lengths agree much better than the elements do. Differences that are hardly
/// beyond the tolerance keep every length within it.
static bool turnsOnly(const KindSearch &S, const Pairing &P) {
  double Lengths = 0, Elements = 0;
  for (int64_t I : S.sample().take_front(4096)) {
    const int64_t J = P.partner(I);
    const double R = std::hypot(S.ref(I), S.ref(J));
    const double O = std::hypot(S.ours(I), S.ours(J));
    Lengths += (O - R) * (O - R);
    Elements += (S.ours(I) - S.ref(I)) * (S.ours(I) - S.ref(I));
  }
  return Lengths < 0.05 * Elements;
}

/// The number of positions and the base by which the angles of pairs are
/// those of a rotary embedding further on; nothing if there is none.
static std::optional<std::pair<int64_t, double>>
positionsOf(ArrayRef<double> Angles, double Precision) {
  for (double Base : {1e4, 5e5, 1e6, 1e5, 1e7})
    for (int64_t Step = 2; Step <= 65; ++Step) {
      const int64_t K = Step / 2 * (Step % 2 ? -1 : 1);
      bool Right = true;
      for (size_t I = 0; I != Angles.size() && Right; ++I) {
        const double Want =
            double(K) *
            std::pow(Base, -double(I) / double(Angles.size()));
        Right = std::fabs(std::remainder(Angles[I] - Want,
                                         2 * std::numbers::pi)) <= Precision;
      }
      if (Right)
        return std::pair(K, Base);
    }
  return std::nullopt;
}

/// By how many positions of a rotary embedding of base \p Base the angles of
/// pairs are off, if by a whole number of at most \p Most.
static std::optional<int64_t> positionsWith(ArrayRef<double> Angles,
                                            double Base, int64_t Most,
                                            double Precision) {
  for (int64_t Step = 1; Step <= 2 * Most + 1; ++Step) {
    const int64_t K = Step / 2 * (Step % 2 ? -1 : 1);
    bool Right = true;
    for (size_t I = 0; I != Angles.size() && Right; ++I)
      Right = std::fabs(std::remainder(
                  Angles[I] - double(K) * std::pow(Base, -double(I) /
                                                             Angles.size()),
                  2 * std::numbers::pi)) <= Precision;
    if (Right)
      return K;
  }
  return std::nullopt;
}

namespace {
/// Positions that are off by a number of their own at each index of an axis.
struct Offsets {
  std::vector<int64_t> By;
  double Base = 0;
  int64_t Inner = 1; ///< Elements of an index of the axis.
  size_t Dim = 0;    ///< Of S.dims().
};
} // namespace

/// Finds Offsets along dimension \p D; fails unless every index has them.
static std::optional<Offsets> offsetsAlong(const KindSearch &S,
                                           const Pairing &P, size_t D) {
  Offsets Out;
  Out.Dim = D;
  int64_t Outer = 1;
  for (size_t I = 0; I != S.dims().size(); ++I)
    if (I != D)
      (I < D ? Outer : Out.Inner) *= S.dims()[I];
  const int64_t Size = S.dims()[D];
  if (Size < 3 || Size > 4096)
    return std::nullopt;
  const int64_t Heads = Out.Inner / P.Width;
  const int64_t Looks = std::min<int64_t>(Outer * Heads, 8);
  const double Precision = 1e-3 + 12 * S.tolerance().RelL2;
  for (int64_t At = 0; At != Size; ++At) {
    std::vector<double> Dot(size_t(P.Width / 2)), Cross(Dot.size()), Angles;
    for (int64_t L = 0; L != Looks; ++L) {
      const int64_t Head = L * (Outer * Heads) / Looks;
      const int64_t Begin =
          (Head / Heads * Size + At) * Out.Inner + Head % Heads * P.Width;
      for (int64_t I = Begin; I != Begin + P.Width; ++I) {
        if (!P.isFirst(I))
          continue;
        const int64_t J = P.partner(I);
        Dot[size_t(P.pair(I))] += S.ref(I) * S.ours(I) + S.ref(J) * S.ours(J);
        Cross[size_t(P.pair(I))] +=
            S.ref(I) * S.ours(J) - S.ref(J) * S.ours(I);
      }
    }
    for (size_t I = 0; I != Dot.size(); ++I)
      Angles.push_back(std::atan2(Cross[I], Dot[I]));
    std::optional<int64_t> K;
    if (Out.Base != 0) {
      K = positionsWith(Angles, Out.Base, 2 * Size, Precision);
    } else {
      for (double Base : {1e4, 5e5, 1e6, 1e5, 1e7}) {
        K = positionsWith(Angles, Base, 2 * Size, Precision);
        // No turn fits every base.
        if (K && *K != 0)
          Out.Base = Base;
        if (K)
          break;
      }
    }
    if (!K)
      return std::nullopt;
    Out.By.push_back(*K);
  }
  if (Out.Base == 0)
    return std::nullopt;
  return Out;
}

/// Positions off by a number of their own at each index of an axis: those of
/// a cache that do not advance, or are off from some index on.
static MaybeKind offsetsKind(const KindSearch &S, const Pairing &P) {
  for (size_t D = S.dims().size() - 1; D-- != 0;) {
    std::optional<Offsets> O = offsetsAlong(S, P, D);
    if (!O)
      continue;
    const int64_t Size = S.dims()[D];
    std::vector<double> Frequencies;
    for (int64_t I = 0; I != P.Width / 2; ++I)
      Frequencies.push_back(
          std::pow(O->Base, -2 * double(I) / double(P.Width)));
    Fit F = S.test([&](int64_t I) {
      const double Angle = double(O->By[size_t(I / O->Inner % Size)]) *
                           Frequencies[size_t(P.pair(I))];
      const double Sin = std::sin(Angle);
      return std::cos(Angle) * S.ref(I) +
             (P.isFirst(I) ? -Sin : Sin) * S.ref(P.partner(I));
    });
    if (!F.Good)
      continue;
    int64_t From = 0;
    while (O->By[size_t(From)] == 0)
      ++From;
    bool Frozen = From + 1 < Size, Same = true;
    for (int64_t I = From; I != Size; ++I) {
      Frozen &= O->By[size_t(I)] - O->By[size_t(From)] == From - I;
      Same &= O->By[size_t(I)] == O->By[size_t(From)];
    }
    std::string How =
        Frozen ? formatv("positions do not advance from index {0} on",
                         From - (O->By[size_t(From)] == -1 ? 1 : 0))
                     .str()
        : Same ? formatv("positions are off by {0} from index {1} on",
                         O->By[size_t(From)], From)
                     .str()
               : formatv("positions are off from index {0} on, by {1} there",
                         From, O->By[size_t(From)])
                     .str();
    DifferenceKind Out = explained(
        "rotation",
        From > 0 || Frozen ? "kv-cache-stale-position"
                           : positionClass(S.query()),
        formatv("pairs of elements are turned as by a rotary embedding (base "
                "{0}): along dimension {1} {2}",
                shortNumber(O->Base), S.axis(D), How)
            .str(),
        F);
    Out.Parameters["axis"] = S.axis(D);
    Out.Parameters["from"] = From;
    Out.Parameters["positions"] = O->By[size_t(From)];
    Out.Parameters["base"] = O->Base;
    Out.Parameters["width"] = P.Width;
    return Out;
  }
  return std::nullopt;
}

/// The same positions of a rotary embedding, but pairs are neighbours on one
/// side and lie half a head apart on the other: what ref turned is turned back
/// and turned again in the other layout.
MaybeKind findRotaryLayout(const KindSearch &S) {
  if (S.dims().size() < 2 || isWeight(S.query()))
    return std::nullopt;
  const int64_t Last = S.dims().back();
  int64_t Inner = Last;
  for (size_t D = S.dims().size() - 1; D-- != 0; Inner *= S.dims()[D]) {
    const int64_t Size = S.dims()[D];
    if (Size < 3)
      continue;
    for (int64_t Width = Last; Width >= 4; --Width) {
      if (Last % Width || Width % 2 || (Width != Last && Width > 512))
        continue;
      for (double Base : {1e4, 5e5, 1e6, 1e5, 1e7})
        for (bool Halves : {true, false}) {
          const Pairing P{Width, Halves}, Other{Width, !Halves};
          const auto Turn = [&](const Pairing &By, int64_t I, double X,
                                double Y, double Sign) {
            const double Angle =
                double(I / Inner % Size) *
                std::pow(Base, -2 * double(By.pair(I)) / double(Width));
            const double Sin = Sign * std::sin(Angle);
            return std::cos(Angle) * X + (By.isFirst(I) ? -Sin : Sin) * Y;
          };
          const auto Before = [&](int64_t I) {
            return Turn(P, I, S.ref(I), S.ref(P.partner(I)), -1);
          };
          Fit F = S.test([&](int64_t I) {
            return Turn(Other, I, Before(I), Before(Other.partner(I)), 1);
          });
          if (!F.Good)
            continue;
          DifferenceKind Out = explained(
              "rotary-interleave", "rope-layout-permutation-missing",
              formatv("ref turns {0} of each head of {1} by their position "
                      "(base {2}), ours turns {3}: the two layouts of rotary "
                      "embeddings",
                      Halves ? "halves" : "neighbouring pairs", Width,
                      shortNumber(Base),
                      Halves ? "neighbouring pairs" : "halves")
                  .str(),
              F);
          Out.Parameters["axis"] = S.axis(D);
          Out.Parameters["base"] = Base;
          Out.Parameters["width"] = Width;
          return Out;
        }
    }
  }
  return std::nullopt;
}

/// Pairs of elements are turned: by one angle a pair, as of queries or keys
/// at another position of a rotary embedding, or by any angle, as of another
/// base.
MaybeKind findRotation(const KindSearch &S) {
  if (S.dims().empty() || isWeight(S.query()))
    return std::nullopt;
  const int64_t Last = S.dims().back();
  for (int64_t Width = Last; Width >= 4; --Width) {
    if (Last % Width || Width % 2 || S.numel() < 4 * Width ||
        (Width != Last && Width > 512))
      continue;
    for (bool Halves : {true, false}) {
      const Pairing P{Width, Halves};
      if (!keepsLengths(S, P))
        continue;
      std::vector<double> Dot(size_t(Width / 2)), Cross(size_t(Width / 2));
      for (int64_t I : S.sample()) {
        if (!P.isFirst(I))
          continue;
        const int64_t J = P.partner(I);
        const size_t At = size_t(P.pair(I));
        Dot[At] += S.ref(I) * S.ours(I) + S.ref(J) * S.ours(J);
        Cross[At] += S.ref(I) * S.ours(J) - S.ref(J) * S.ours(I);
      }
      std::vector<double> Angles, Cos, Sin;
      for (size_t I = 0; I != Dot.size(); ++I) {
        Angles.push_back(std::atan2(Cross[I], Dot[I]));
        Cos.push_back(std::cos(Angles[I]));
        Sin.push_back(std::sin(Angles[I]));
      }
      Fit F = S.test(
          [&](int64_t I) {
            const size_t At = size_t(P.pair(I));
            const double X = S.ref(I), Y = S.ref(P.partner(I));
            return Cos[At] * X + (P.isFirst(I) ? -Sin[At] : Sin[At]) * Y;
          },
          Width / 2);
      if (F.Good) {
        auto Turned = positionsOf(Angles, 1e-3 + 8 * S.tolerance().RelL2);
        DifferenceKind Out = explained(
            "rotation", Turned ? positionClass(S.query()) : "",
            Turned
                ? formatv("each pair of elements is turned as by {0} {1} of a "
                          "rotary embedding (base {2}): positions are off by "
                          "{0}",
                          Turned->first,
                          Turned->first == 1 ? "position" : "positions",
                          shortNumber(Turned->second))
                      .str()
                : "each pair of elements is turned by an angle of its own",
            F);
        if (Turned) {
          Out.Parameters["positions"] = Turned->first;
          Out.Parameters["base"] = Turned->second;
        }
        Out.Parameters["width"] = Width;
        return Out;
      }
      if (MaybeKind Found = offsetsKind(S, P))
        return Found;
      if (!turnsOnly(S, P))
        continue;
      F = Fit();
      F.Share = 1;
      F.Explained = 0.7; // lengths agree; the angles are not modelled
      DifferenceKind Out = explained(
          "rotary-angles", "rope-theta-default-fallback",
          formatv("pairs of elements keep their length but are turned "
                  "differently at every position, as of rotary embeddings "
                  "with another base (heads of {0}, {1})",
                  Width, Halves ? "halves" : "interleaved")
              .str(),
          F);
      Out.Residual = 0.5;
      Out.Parameters["width"] = Width;
      return Out;
    }
  }
  return std::nullopt;
}

} // namespace culprit
