//===- DifferenceBlocks.h - Two blocks of numbers ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The vector kernels under differenceOf(), compiled for several instruction
/// sets; the best of this machine is picked at run time.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TENSOR_DIFFERENCEBLOCKS_H
#define CULPRIT_TENSOR_DIFFERENCEBLOCKS_H

#include "Tensor/Blocks.h"
#include "Tensor/Difference.h"

namespace culprit {

/// What is known of a block of pairs x, y with d = y - x.
struct DifferenceBlock {
  double MaxAbs = 0, Sum = 0, Squares = 0, DSum = 0, DAbs = 0, DSquares = 0,
         Product = 0;
  int64_t Different = 0, Above = 0;
  /// False when some value or difference is not finite; the rest is then of
  /// no use.
  bool Whole = true;
};

/// Of at most 2^31 pairs. MaxAbs and the counts are computed in the type of the
/// pairs, the sums in double precision. The elements that follow are brought
/// into the cache meanwhile.
DifferenceBlock differenceOfBlock(const float *X, const float *Y, size_t Count,
                                  ElementTolerance T, Ahead NextX,
                                  Ahead NextY);
DifferenceBlock differenceOfBlock(const double *X, const double *Y,
                                  size_t Count, ElementTolerance T,
                                  Ahead NextX, Ahead NextY);

} // namespace culprit

#endif // CULPRIT_TENSOR_DIFFERENCEBLOCKS_H
