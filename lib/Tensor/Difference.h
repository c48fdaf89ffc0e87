//===- Difference.h - Two tensors element by element ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One pass over two tensors of the same number of elements, which may differ
/// in dtype: how far they lie apart and where they first do. Below, x is an
/// element of the first tensor (the reference), y the one of the second, and
/// d = y - x.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TENSOR_DIFFERENCE_H
#define CULPRIT_TENSOR_DIFFERENCE_H

#include "Tensor/Tensor.h"

namespace culprit {

/// Up to here elements count as equal: |d| <= Absolute + Relative |x|.
struct ElementTolerance {
  double Absolute = 0;
  double Relative = 0;
};

/// What is known of some consecutive elements. Sums are over the pairs that
/// are finite on both sides.
struct DifferenceSums {
  int64_t Finite = 0;    ///< Pairs that are finite on both sides.
  int64_t Different = 0; ///< d != 0, or not finite on one side alone.
  int64_t Above = 0;     ///< Beyond the tolerance, or the latter.
  int64_t RefNonFinite = 0, OursNonFinite = 0; ///< On that side alone.
  int64_t BothNonFinite = 0;
  /// Flat indices in the whole tensor.
  std::optional<int64_t> FirstDifferent, FirstAbove, LastAbove, MaxAt;
  double MaxAbs = 0;            ///< Largest |d|.
  double Sum = 0, Squares = 0;  ///< Of x and of x^2.
  double DSum = 0, DAbs = 0, DSquares = 0; ///< Of d, |d| and d^2.
  double Product = 0;           ///< Of x d.

  /// Adds what is known of the elements that follow.
  void append(const DifferenceSums &Next);

  double meanAbs() const { return Finite ? DAbs / double(Finite) : 0; }
  double refRms() const;
  double oursRms() const;
  /// |d| / |x|, Euclidean norms; infinite against a zero reference.
  double relL2() const;
  /// Cosine of the angle between the tensors; 1 for equal ones, 0 when one of
  /// them is zero and the other is not.
  double cosine() const;
  /// Sum of y^2, from the others.
  double oursSquares() const;
  double oursSum() const { return Sum + DSum; }
};

/// Elements \p Begin to \p End of \p Ref and \p Ours. Sums are in double
/// precision, in an order that depends on \p Begin and \p End alone. Values
/// whose squares are no doubles give sums that are not finite.
DifferenceSums differenceOf(const TensorView &Ref, const TensorView &Ours,
                            int64_t Begin, int64_t End, ElementTolerance T);

/// Converts \p Count elements from \p Begin on of \p View to doubles.
void readElements(const TensorView &View, int64_t Begin, size_t Count,
                  double *To);

} // namespace culprit

#endif // CULPRIT_TENSOR_DIFFERENCE_H
