//===- TorchViews.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TorchViews.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <cstdlib>
#include <cstring>

using namespace llvm;

namespace culprit {

std::optional<uint64_t> StridedView::bytes() const {
  if (Shape.size() != Strides.size())
    return std::nullopt;
  int64_t Bytes = Type.size();
  bool Overflow = false, Empty = false;
  for (size_t I = 0; I != Shape.size(); ++I) {
    if (Shape[I] < 0 || Strides[I] < 0)
      return std::nullopt;
    Empty |= Shape[I] == 0;
    Overflow |= MulOverflow(Bytes, Shape[I], Bytes);
  }
  if (Empty)
    return 0;
  if (Overflow)
    return std::nullopt;
  return static_cast<uint64_t>(Bytes);
}

std::optional<uint64_t> StridedView::extent() const {
  if (is_contained(Shape, 0))
    return 0;
  if (Offset > uint64_t(INT64_MAX))
    return std::nullopt;
  int64_t Last = static_cast<int64_t>(Offset);
  for (size_t I = 0; I != Shape.size(); ++I) {
    int64_t Reach;
    if (MulOverflow(Shape[I] - 1, Strides[I], Reach) ||
        AddOverflow(Last, Reach, Last))
      return std::nullopt;
  }
  return static_cast<uint64_t>(Last) + 1;
}

bool StridedView::contiguous() const {
  if (is_contained(Shape, 0))
    return true;
  if (Negated || Conjugated)
    return false;
  int64_t Expected = 1;
  for (size_t I = Shape.size(); I-- != 0;) {
    if (Shape[I] == 1)
      continue; // its stride means nothing
    if (Strides[I] != Expected)
      return false;
    Expected *= Shape[I];
  }
  return true;
}

/// Copies \p Rows rows of \p Count elements of \p Size bytes. In a row each is
/// \p Stride elements after the one before; a row begins \p RowStride after
/// the one before. In tiles, so that a transposed matrix, whose columns lie in
/// a row, is read by the cache line.
template <size_t Size>
static void gatherRows(const uint8_t *From, int64_t Rows, int64_t RowStride,
                       int64_t Count, int64_t Stride, uint8_t *To) {
  constexpr int64_t Tile = 64, Bytes = Size;
  for (int64_t R0 = 0; R0 < Rows; R0 += Tile)
    for (int64_t C0 = 0; C0 < Count; C0 += Tile)
      for (int64_t R = R0, RE = std::min(R0 + Tile, Rows); R != RE; ++R)
        for (int64_t C = C0, CE = std::min(C0 + Tile, Count); C != CE; ++C)
          std::memcpy(To + (R * Count + C) * Bytes,
                      From + (R * RowStride + C * Stride) * Bytes, Size);
}

static void gather(const StridedView &View, const uint8_t *From, uint8_t *To) {
  const size_t Size = View.Type.size();
  const auto Gather = Size == 1   ? gatherRows<1>
                      : Size == 2 ? gatherRows<2>
                      : Size == 4 ? gatherRows<4>
                      : Size == 8 ? gatherRows<8>
                                  : gatherRows<16>;
  // Dimensions of one element turn no corner, and those that lie in a row
  // are one: a slice of rows is copied row by row, whatever its rank.
  SmallVector<int64_t, 4> Shape, Strides;
  for (size_t I = 0; I != View.Shape.size(); ++I) {
    if (View.Shape[I] == 1)
      continue;
    if (!Shape.empty() && Strides.back() == View.Strides[I] * View.Shape[I]) {
      Shape.back() *= View.Shape[I];
      Strides.back() = View.Strides[I];
      continue;
    }
    Shape.push_back(View.Shape[I]);
    Strides.push_back(View.Strides[I]);
  }
  if (Shape.empty()) {
    std::memcpy(To, From, Size);
    return;
  }
  const int64_t Count = Shape.pop_back_val(), Stride = Strides.pop_back_val();
  int64_t Rows = 1, RowStride = 0;
  if (Stride != 1 && !Shape.empty()) {
    Rows = Shape.pop_back_val();
    RowStride = Strides.pop_back_val();
  }
  SmallVector<int64_t, 4> At(Shape.size());
  for (;;) {
    if (Stride == 1)
      std::memcpy(To, From, Count * Size);
    else
      Gather(From, Rows, RowStride, Count, Stride, To);
    To += Rows * Count * Size;
    size_t I = Shape.size();
    for (;;) { // counts up, the last dimension fastest
      if (I-- == 0)
        return;
      From += Strides[I] * int64_t(Size);
      if (++At[I] != Shape[I])
        break;
      From -= At[I] * Strides[I] * int64_t(Size);
      At[I] = 0;
    }
  }
}

/// Gives every \p Step-th number from \p First on the other sign.
static void flipSigns(MutableArrayRef<uint8_t> Bytes, size_t Size, size_t First,
                      size_t Step) {
  for (size_t I = First; (I + 1) * Size <= Bytes.size(); I += Step)
    Bytes[(I + 1) * Size - 1] ^= 0x80;
}

Expected<TensorView> takeView(const StridedView &View, StringRef Storage,
                              Source &Into) {
  TensorView Out;
  Out.Type = View.Type.Type;
  Out.Shape = View.Shape;
  if (View.Type.Complex)
    Out.Shape.push_back(2);
  const uint64_t Bytes = *View.bytes();
  if (Bytes == 0)
    return Out;
  ArrayRef<uint8_t> All = arrayRefFromStringRef(Storage);
  ArrayRef<uint8_t> From = All.drop_front(View.Offset * View.Type.size());
  if (View.contiguous()) {
    Out.Bytes = From.take_front(Bytes);
    return Out;
  }
  auto *Copy = static_cast<uint8_t *>(std::malloc(Bytes));
  if (!Copy)
    return failure("does not fit into memory");
  Into.keepAlive(std::shared_ptr<void>(Copy, std::free));
  gather(View, From.data(), Copy);
  MutableArrayRef<uint8_t> Gathered(Copy, Bytes);
  const unsigned Size = sizeOf(View.Type.Type);
  if (View.Negated && isFloating(View.Type.Type))
    flipSigns(Gathered, Size, 0, 1);
  if (View.Conjugated && View.Type.Complex)
    flipSigns(Gathered, Size, 1, 2);
  Out.Bytes = Gathered;
  return Out;
}

} // namespace culprit
