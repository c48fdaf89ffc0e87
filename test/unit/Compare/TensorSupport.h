//===- TensorSupport.h - Tensors made for tests -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_UNIT_COMPARE_TENSORSUPPORT_H
#define CULPRIT_UNIT_COMPARE_TENSORSUPPORT_H

#include "Compare/Tensors.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

namespace culprit {

using Shape = llvm::SmallVector<int64_t, 4>;

inline int64_t numelOf(const Shape &S) {
  int64_t N = 1;
  for (int64_t D : S)
    N *= D;
  return N;
}

/// \p X rounded to nearest even with \p Digits significant binary digits;
/// exponents below \p Least are subnormal.
inline double roundTo(double X, int Digits, int Least) {
  if (X == 0 || !std::isfinite(X))
    return X;
  int E;
  std::frexp(X, &E);
  int Last = std::max(E - 1, Least) - (Digits - 1);
  return std::ldexp(std::nearbyint(std::ldexp(X, -Last)), Last);
}

inline double roundTo(double X, DType T) {
  switch (T) {
  case DType::Float32:
    return float(X);
  case DType::Float16:
    return roundTo(X, 11, -14);
  case DType::BFloat16:
    return roundTo(X, 8, -126);
  default:
    return X;
  }
}

/// A tensor that owns its bytes.
class MadeTensor {
public:
  MadeTensor() = default;
  MadeTensor(DType Type, Shape S, llvm::ArrayRef<double> Values)
      : Bytes(std::make_shared<std::vector<uint8_t>>(Values.size() *
                                                     sizeOf(Type))) {
    View.Type = Type;
    View.Shape = S;
    for (size_t I = 0; I != Values.size(); ++I)
      store(Type, Values[I], Bytes->data() + I * sizeOf(Type));
    View.Bytes = *Bytes;
  }

  TensorView View;

  uint8_t *data() { return Bytes->data(); }

private:
  static void store(DType Type, double X, uint8_t *To) {
    switch (Type) {
    case DType::Float64:
      std::memcpy(To, &X, 8);
      return;
    case DType::Float32: {
      float F = float(X);
      std::memcpy(To, &F, 4);
      return;
    }
    case DType::BFloat16: {
      float F = float(roundTo(X, Type));
      uint16_t Half = uint16_t(std::bit_cast<uint32_t>(F) >> 16);
      std::memcpy(To, &Half, 2);
      return;
    }
    case DType::Float16: {
      uint16_t Half = halfOf(roundTo(X, Type));
      std::memcpy(To, &Half, 2);
      return;
    }
    case DType::Int64: {
      int64_t I = int64_t(X);
      std::memcpy(To, &I, 8);
      return;
    }
    case DType::Int8:
      *To = uint8_t(int8_t(X));
      return;
    default:
      *To = uint8_t(X);
      return;
    }
  }
  /// \p X is a float16.
  static uint16_t halfOf(double X) {
    uint16_t Sign = std::signbit(X) ? 0x8000 : 0;
    X = std::fabs(X);
    if (std::isnan(X))
      return 0x7e00;
    if (X > 65504)
      return Sign | 0x7c00;
    if (X < 0x1p-14)
      return Sign | uint16_t(std::ldexp(X, 24));
    int E;
    double F = std::frexp(X, &E);
    return uint16_t(Sign | (E + 14) << 10 |
                    (uint16_t(std::ldexp(F, 11)) & 1023));
  }

  std::shared_ptr<std::vector<uint8_t>> Bytes;
};

inline std::vector<double> normals(int64_t N, uint64_t Seed, double Std = 1) {
  std::mt19937_64 Engine(Seed);
  std::vector<double> Out(static_cast<size_t>(N));
  for (size_t I = 0; I < Out.size(); I += 2) {
    double U = (double(Engine() >> 11) + 0.5) * 0x1p-53;
    double V = double(Engine() >> 11) * 0x1p-53;
    double R = Std * std::sqrt(-2 * std::log(U));
    Out[I] = R * std::cos(6.283185307179586 * V);
    if (I + 1 < Out.size())
      Out[I + 1] = R * std::sin(6.283185307179586 * V);
  }
  return Out;
}

/// A reference and ours, to be asked for the kind of their difference.
struct MadePair {
  Shape RefShape, OursShape;
  std::vector<double> Ref, Ours;
  std::string Name = "block.0.out", Role = "output";
  std::vector<std::pair<std::string, std::vector<double>>> Others;
  std::vector<double> Input; ///< Of the shape of Ref; empty: not dumped.
  /// Weights of two dimensions with rows as long as the last axis.
  std::vector<std::pair<std::string, std::vector<double>>> Tables;
  std::optional<double> Sigma;
  int64_t WorldSize = 0;
};

struct Answer {
  CompareVerdict Verdict;
  DifferenceKind Kind;
  DifferenceSums Sums;
  TensorTolerance Tolerance;
};

/// The verdict on \p P stored as \p Type, and the kind if it differs.
inline Answer ask(const MadePair &P, DType RefType, DType OursType) {
  MadeTensor Ref(RefType, P.RefShape, P.Ref);
  MadeTensor Ours(OursType, P.OursShape.empty() ? P.RefShape : P.OursShape,
                  P.Ours);
  MadeTensor Input;
  std::vector<MadeTensor> Kept;
  KindQuery Q;
  Q.Ref = Ref.View;
  Q.Ours = Ours.View;
  Q.Name = P.Name;
  Q.Role = P.Role;
  Q.Threads = 2;
  for (int64_t D : P.RefShape)
    Q.Dims.push_back(D);
  for (const auto &[Name, Values] : P.Others) {
    Kept.emplace_back(RefType, Shape{int64_t(Values.size())}, Values);
    Q.Others.push_back({Name, Kept.back().View});
  }
  for (const auto &[Name, Values] : P.Tables) {
    const int64_t Width = P.RefShape.back();
    Kept.emplace_back(RefType, Shape{int64_t(Values.size()) / Width, Width},
                      Values);
    Q.Tables.push_back({Name, Kept.back().View});
  }
  Q.Sigma = P.Sigma;
  Q.WorldSize = P.WorldSize;
  if (!P.Input.empty()) {
    Input = MadeTensor(RefType, P.RefShape, P.Input);
    Q.Input = Input.View;
  }
  TensorPair Pair;
  Pair.Ref.Role = Pair.Ours.Role = P.Role;
  Pair.Ref.View = &Ref.View;
  Pair.Ours.View = &Ours.View;
  Q.Tolerance = toleranceOf(Pair, P.RefShape.back(), 1);
  double Squares = 0;
  for (double X : P.Ref)
    Squares += X * X;
  const ElementTolerance T =
      Q.Tolerance.elements(std::sqrt(Squares / double(P.Ref.size())));
  Answer Out;
  Q.Sums = differenceOf(Q.Ref, Q.Ours, 0, Ref.View.numel(), T);
  Out.Sums = Q.Sums;
  Out.Tolerance = Q.Tolerance;
  Out.Verdict = Q.Sums.Different == 0 ? CompareVerdict::Same
                : Q.Sums.Above > 0 || Q.Sums.relL2() > Q.Tolerance.RelL2
                    ? CompareVerdict::Different
                    : CompareVerdict::WithinNoise;
  if (Out.Verdict == CompareVerdict::Different) {
    Out.Kind = findKind(Q);
    if (Out.Kind.Benign)
      Out.Verdict = CompareVerdict::WithinNoise;
  }
  return Out;
}

inline Answer ask(const MadePair &P, DType Type) { return ask(P, Type, Type); }

} // namespace culprit

#endif // CULPRIT_UNIT_COMPARE_TENSORSUPPORT_H
