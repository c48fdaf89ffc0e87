//===- Blocks.h - Statistics of a few thousand numbers ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The vector kernels under statisticsOf(): a block of a tensor is widened to
/// float or double in the first-level cache and summarized there. Compiled for
/// several instruction sets; the best of this machine is picked at run time.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TENSOR_BLOCKS_H
#define CULPRIT_TENSOR_BLOCKS_H

#include "Tensor/Tensor.h"

namespace culprit {

/// Elements of a block: 8 KiB of floats or 16 KiB of doubles. Fixed, since
/// the order of summation follows from it.
inline constexpr size_t BlockSize = 2048;

/// Bounds of a number format on the bits of |x|, which order as |x| does.
template <class T> struct Bounds;
template <> struct Bounds<float> {
  int32_t SmallestNormal;
  int32_t NearMax;
};
template <> struct Bounds<double> {
  int64_t SmallestNormal;
  int64_t NearMax;
};

/// What is known of a block.
struct BlockSummary {
  int64_t NaN = 0, Inf = 0, Zero = 0, Subnormal = 0, NearMax = 0;
  size_t FirstNonFinite = 0; ///< If NaN + Inf is not 0.
  double Min = 0, Max = 0, AbsMax = 0;
  /// Sums of x - Pivot and its square over the finite values. Pivot is the
  /// first of them, or 0 where that costs at most 10 of the 53 bits of a
  /// variance.
  double Pivot = 0, Sum = 0, SumOfSquares = 0;
};

/// What will be read next, to be brought into the cache meanwhile: elements of
/// Size bytes. They need not exist.
struct Ahead {
  const uint8_t *Bytes;
  size_t Size;
};

BlockSummary summarize(const float *X, size_t Count, const Bounds<float> &B,
                       Ahead Next);
BlockSummary summarize(const double *X, size_t Count, const Bounds<double> &B);

/// True for types whose every value is a float: they are widened to that, the
/// others to double.
bool fitsFloat(DType Type);

/// Converts \p Count elements at \p From, of a type of 16 bits or more.
void widen(DType Type, const uint8_t *From, size_t Count, float *To);
void widen(DType Type, const uint8_t *From, size_t Count, double *To);

} // namespace culprit

#endif // CULPRIT_TENSOR_BLOCKS_H
