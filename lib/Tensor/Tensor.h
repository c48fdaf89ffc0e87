//===- Tensor.h - Typed bytes with a shape ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A tensor of a dump: a dtype, a shape and bytes that somebody else owns,
/// usually a memory map. Contiguous, row-major, little-endian; readers of
/// other layouts make a contiguous copy first.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TENSOR_TENSOR_H
#define CULPRIT_TENSOR_TENSOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace culprit {

enum class DType : uint8_t {
  Float64,
  Float32,
  Float16,
  BFloat16,
  Float8E4M3,     ///< fn: no infinity, one NaN a sign, largest 448.
  Float8E5M2,     ///< IEEE-like, largest 57344.
  Float8E4M3FNUZ, ///< No infinity, no -0, which is the NaN; largest 240.
  Float8E5M2FNUZ, ///< Likewise, largest 57344.
  Float8E8M0,     ///< A power of two, for scales: no sign, no zero, one NaN.
  Int64,
  Int32,
  Int16,
  Int8,
  UInt64,
  UInt32,
  UInt16,
  UInt8,
  Bool,
};

/// float32, bfloat16, float8_e4m3, int64, bool, ...
llvm::StringRef toString(DType Type);
/// Bytes of an element.
unsigned sizeOf(DType Type);
bool isFloating(DType Type);
/// Half the distance of 1 to the next number of \p Type; 0 for integers.
double unitRoundoff(DType Type);
/// Largest finite value of a floating type (65504 for float16); of an integer
/// type, its largest value.
double largest(DType Type);
/// Smallest positive normal value of a floating type; 0 for an integer.
double smallestNormal(DType Type);

struct TensorView {
  DType Type = DType::Float32;
  llvm::SmallVector<int64_t, 4> Shape;
  llvm::ArrayRef<uint8_t> Bytes; ///< numel * sizeOf(Type) bytes.

  int64_t numel() const;
  /// Element \p Index as a double (int64 beyond 2^53 rounds).
  double at(int64_t Index) const;
  /// Element \p Index of an integer or bool tensor.
  int64_t intAt(int64_t Index) const;
  /// Flat index as a multi-index: [0, 3, 17, 40].
  std::vector<int64_t> unravel(int64_t Index) const;
};

/// Everything the `tensors` table knows of values. A NaN or an infinity is
/// counted and located and never spoils the others, which are over the finite
/// values alone.
struct TensorStatistics {
  int64_t NaN = 0;
  int64_t Inf = 0;
  int64_t Zero = 0;
  int64_t Subnormal = 0; ///< Nonzero and below the normal range.
  int64_t NearMax = 0;   ///< |x| > largest/2, floating types only.
  int64_t Finite = 0;
  std::optional<int64_t> FirstNonFinite; ///< Flat index.
  double Min = 0, Max = 0, Mean = 0;     ///< Of the finite values.
  double StdDev = 0, Rms = 0, L2 = 0, AbsMax = 0;
};

/// One pass over \p T with the widest vectors of this machine, on up to
/// \p Threads threads. Sums are in double precision and in a fixed order, so
/// the result is the same to the last bit on every machine and with any number
/// of threads. With no finite value, those from Min on are 0.
TensorStatistics statisticsOf(const TensorView &T, unsigned Threads = 1);

} // namespace culprit

#endif // CULPRIT_TENSOR_TENSOR_H
