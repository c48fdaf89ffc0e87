//===- FaultSupport.h - Faults made at many sizes ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The faults of ports and caches, made as a program makes them: in double
/// precision from the same inputs, both sides rounded to the dtype of the dump.
/// From 8 to 10^7 elements and in three dtypes each must be found with its
/// constant, or, where the dtype or the size hides it, be within the noise or
/// unexplained; never be taken for something else.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_UNIT_COMPARE_FAULTSUPPORT_H
#define CULPRIT_UNIT_COMPARE_FAULTSUPPORT_H

#include "TensorSupport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

namespace culprit::faults {

using llvm::StringRef;

/// Batch, positions and channels.
struct Sizes {
  int64_t B, T, C;
  int64_t numel() const { return B * T * C; }
};

inline constexpr Sizes Small[] = {{2, 2, 2},    {2, 4, 8},     {2, 16, 32},
                           {4, 33, 96},  {8, 128, 96},  {16, 256, 256}};
inline constexpr Sizes Large = {10, 1000, 1000};

struct Fault {
  StringRef Kinds;   ///< Right ones, separated by '|'.
  StringRef Classes; ///< Likewise; empty for any.
  /// Least elements from which the kind must be found.
  int64_t From = 64;
  /// Coarsest dtype in which it must be.
  DType To = DType::BFloat16;
};

inline bool among(StringRef List, StringRef Value) {
  llvm::SmallVector<StringRef, 4> Parts;
  List.split(Parts, '|');
  return llvm::is_contained(Parts, Value);
}

inline int coarseness(DType T) {
  return T == DType::Float32 ? 0 : T == DType::Float16 ? 1 : 2;
}

using Maker = llvm::function_ref<bool(MadePair &, Sizes)>;
using Check = llvm::function_ref<void(const Answer &, Sizes, DType)>;

inline void judge(const Fault &F, const MadePair &P, Sizes S, DType Type,
           Check Right) {
  const Answer A = ask(P, Type);
  const std::string Where = shapeText(P.RefShape) + " " +
                            toString(Type).str() + ": " + A.Kind.Kind + " (" +
                            A.Kind.Class + "): " + A.Kind.Says;
  const bool Must =
      S.numel() >= F.From && coarseness(Type) <= coarseness(F.To);
  if (A.Verdict != CompareVerdict::Different) {
    EXPECT_FALSE(Must) << F.Kinds.str() << " " << Where << " is not seen, "
                       << A.Sums.relL2() << " of " << A.Tolerance.RelL2;
    return;
  }
  if (among(F.Kinds, A.Kind.Kind)) {
    if (!F.Classes.empty()) {
      EXPECT_TRUE(among(F.Classes, A.Kind.Class)) << Where;
    }
    Right(A, S, Type);
    return;
  }
  EXPECT_FALSE(Must) << F.Kinds.str() << " " << Where;
  // Nothing is said, or only where it is.
  EXPECT_TRUE(A.Kind.Kind == "unexplained" ||
              (A.Kind.Confidence <= 0.5 && A.Kind.Class.empty()))
      << F.Kinds.str() << " " << Where << " " << A.Kind.Confidence;
}

/// Runs \p Make at all sizes, and at 10^7 elements in \p LargeType.
inline void sweep(const Fault &F, DType LargeType, Maker Make,
           Check Right = [](const Answer &, Sizes, DType) {}) {
  unsigned Made = 0;
  for (const Sizes &S : Small) {
    MadePair P;
    if (!Make(P, S))
      continue;
    ++Made;
    for (DType Type : {DType::Float32, DType::Float16, DType::BFloat16})
      // The largest of these in one dtype, for time.
      if (S.numel() < 1'000'000 || Type == LargeType)
        judge(F, P, S, Type, Right);
  }
  EXPECT_GE(Made, 3u) << F.Kinds.str();
  if (LargeType == DType::Float64)
    return;
  MadePair P;
  if (Make(P, Large))
    judge(F, P, Large, LargeType, Right);
}

inline constexpr DType NoLarge = DType::Float64;

inline std::vector<double> draw(Sizes S, uint64_t Seed, double Std = 1) {
  return normals(S.numel(), Seed + uint64_t(S.numel()), Std);
}

inline std::vector<double> times(std::vector<double> X, double Factor) {
  for (double &V : X)
    V *= Factor;
  return X;
}

inline void mapped(MadePair &P, llvm::function_ref<int64_t(int64_t)> From) {
  P.Ours.resize(P.Ref.size());
  for (size_t I = 0; I != P.Ref.size(); ++I)
    P.Ours[I] = P.Ref[size_t(From(int64_t(I)))];
}

} // namespace culprit::faults

#endif // CULPRIT_UNIT_COMPARE_FAULTSUPPORT_H
