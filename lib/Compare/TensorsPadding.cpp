//===- TensorsPadding.cpp - Filled-up vocabularies --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Embeddings and heads are filled up to a multiple of a power of two, 50,257
// rows to 50,304, so that matrix products are fast. What both sides have of
// such a tensor is compared; the rows beyond are never looked up.
//
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// The axis along which the longer of two shapes is the shorter one filled up
/// to a multiple of 8 or a larger power of two, as vocabularies are. Returns it
/// and that power; an axis but the first and the last is none.
static std::optional<std::pair<size_t, int64_t>>
paddedAxis(ArrayRef<int64_t> A, ArrayRef<int64_t> B) {
  if (A.size() != B.size())
    return std::nullopt;
  std::optional<size_t> Axis;
  for (size_t I = 0; I != A.size(); ++I) {
    if (A[I] == B[I])
      continue;
    if (Axis || (I != 0 && I + 1 != A.size()))
      return std::nullopt;
    Axis = I;
  }
  if (!Axis)
    return std::nullopt;
  const int64_t Less = std::min(A[*Axis], B[*Axis]);
  const int64_t More = std::max(A[*Axis], B[*Axis]);
  const int64_t Multiple = More & -More;
  if (Less < 8 || Multiple < 8 || More - Less >= Multiple)
    return std::nullopt;
  // 768 for 1024 is another width, no filling: vocabularies that are round
  // already are filled up by little.
  if (Less % 32 == 0 && 16 * (More - Less) > Less)
    return std::nullopt;
  return std::pair(*Axis, Multiple);
}

/// Takes the first \p Size indices along \p Axis, first or last, of \p E, whose
/// bytes are kept by \p Into if they must be copied.
static void cutAxis(TensorEntry &E, size_t Axis, int64_t Size,
                    TensorPair &Into) {
  const TensorView &Whole = *E.View;
  auto Cut = std::make_shared<TensorView>(Whole);
  Cut->Shape[Axis] = Size;
  const size_t Element = sizeOf(Whole.Type);
  if (Axis == 0) {
    Cut->Bytes = Whole.Bytes.take_front(size_t(Cut->numel()) * Element);
  } else {
    const size_t From = size_t(Whole.Shape[Axis]) * Element;
    const size_t To = size_t(Size) * Element;
    auto Copy = std::make_shared<std::vector<uint8_t>>();
    Copy->reserve(size_t(Cut->numel()) * Element);
    for (size_t At = 0; At + From <= Whole.Bytes.size(); At += From) {
      const ArrayRef<uint8_t> Line = Whole.Bytes.slice(At, To);
      Copy->insert(Copy->end(), Line.begin(), Line.end());
    }
    Cut->Bytes = *Copy;
    Into.Joined = std::move(Copy);
  }
  E.View = Cut.get();
  Into.JoinedView = std::move(Cut);
}

bool cutPadding(TensorPair &P, NameReport &Names,
                std::set<std::string> &Told) {
  const TensorView &R = *P.Ref.View, &O = *P.Ours.View;
  const auto Padded = paddedAxis(R.Shape, O.Shape);
  if (!Padded || P.Joined)
    return false;
  const auto [Axis, Multiple] = *Padded;
  const int64_t InRef = R.Shape[Axis], InOurs = O.Shape[Axis];
  if (Told.insert(P.Ref.Name).second)
    Names.Shapes.push_back(
        {P.Ref.Name, P.Ours.Name,
         shapeText(R.Shape) + " -> " + shapeText(O.Shape) +
             formatv(", dimension {0} filled up to a multiple of {1}; the "
                     "{2} that both have are compared",
                     Axis, Multiple, std::min(InRef, InOurs))
                 .str()});
  P.Noise.reset();
  if (InRef > InOurs)
    cutAxis(P.Ref, Axis, InOurs, P);
  else
    cutAxis(P.Ours, Axis, InRef, P);
  return true;
}

} // namespace culprit
