//===- TorchViews.h - Strided views of storages -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A tensor of PyTorch is a view of a storage: an offset, sizes and strides.
/// One whose elements lie in a row is a slice of the file; of any other the
/// elements are gathered.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TORCHVIEWS_H
#define CULPRIT_READERS_TORCHVIEWS_H

#include "Case/Source.h"
#include "Readers/TorchArchive.h"

namespace culprit {

/// All in elements of Type.
struct StridedView {
  TorchType Type{DType::Float32};
  uint64_t Offset = 0;
  llvm::SmallVector<int64_t, 4> Shape, Strides;
  bool Negated = false;    ///< Every number has the other sign.
  bool Conjugated = false; ///< Every imaginary part has.

  /// Bytes of the elements; none when there are more than any file has, or
  /// when sizes and strides make no sense.
  std::optional<uint64_t> bytes() const;
  /// Elements from the beginning of the storage to the last one of the view.
  /// Of one whose bytes() is known.
  std::optional<uint64_t> extent() const;
  /// Whether the elements lie in a row, in row-major order, as they are.
  bool contiguous() const;
};

/// \p View of \p Storage, which reaches to its extent. Complex numbers are two
/// numbers each, the parts, along a last dimension that is added, as
/// torch.view_as_real has it. A copy, where one is needed, is given to \p Into.
llvm::Expected<TensorView> takeView(const StridedView &View,
                                    llvm::StringRef Storage, Source &Into);

} // namespace culprit

#endif // CULPRIT_READERS_TORCHVIEWS_H
