//===- Tensor.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Tensor/Tensor.h"
#include "Tensor/Convert.h"
#include "llvm/Support/ErrorHandling.h"
#include <cassert>

using namespace llvm;

namespace culprit {

namespace {
struct DTypeInfo {
  StringLiteral Name;
  unsigned Size;
  bool Floating;
  double Largest;
  double SmallestNormal;
  double Roundoff; ///< Half the distance of 1 to the next number.
};
} // namespace

// In the order of DType.
static constexpr DTypeInfo Infos[] = {
    {"float64", 8, true, 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-53},
    {"float32", 4, true, 0x1.fffffep127, 0x1p-126, 0x1p-24},
    {"float16", 2, true, 65504, 0x1p-14, 0x1p-11},
    {"bfloat16", 2, true, 0x1.fep127, 0x1p-126, 0x1p-8},
    {"float8_e4m3", 1, true, 448, 0x1p-6, 0x1p-4},
    {"float8_e5m2", 1, true, 57344, 0x1p-14, 0x1p-3},
    {"float8_e4m3fnuz", 1, true, 240, 0x1p-7, 0x1p-4},
    {"float8_e5m2fnuz", 1, true, 57344, 0x1p-15, 0x1p-3},
    {"float8_e8m0fnu", 1, true, 0x1p127, 0x1p-127, 0.5},
    {"int64", 8, false, 0x1p63, 0, 0},
    {"int32", 4, false, 2147483647.0, 0, 0},
    {"int16", 2, false, 32767, 0, 0},
    {"int8", 1, false, 127, 0, 0},
    {"uint64", 8, false, 0x1p64, 0, 0},
    {"uint32", 4, false, 4294967295.0, 0, 0},
    {"uint16", 2, false, 65535, 0, 0},
    {"uint8", 1, false, 255, 0, 0},
    {"bool", 1, false, 1, 0, 0},
};
static_assert(std::size(Infos) == static_cast<size_t>(DType::Bool) + 1);

static const DTypeInfo &infoOf(DType Type) {
  return Infos[static_cast<size_t>(Type)];
}

StringRef toString(DType Type) { return infoOf(Type).Name; }
unsigned sizeOf(DType Type) { return infoOf(Type).Size; }
bool isFloating(DType Type) { return infoOf(Type).Floating; }
double largest(DType Type) { return infoOf(Type).Largest; }
double smallestNormal(DType Type) { return infoOf(Type).SmallestNormal; }
double unitRoundoff(DType Type) { return infoOf(Type).Roundoff; }

int64_t TensorView::numel() const {
  // An empty dimension makes the tensor empty, however large the others are.
  if (is_contained(Shape, 0))
    return 0;
  int64_t Count = 1;
  for (int64_t Dim : Shape)
    Count *= Dim;
  return Count;
}

double TensorView::at(int64_t Index) const {
  assert(uint64_t(Index + 1) * sizeOf(Type) <= Bytes.size() && "out of range");
  const uint8_t *At = Bytes.data() + Index * sizeOf(Type);
  switch (Type) {
  case DType::Float64:
    return loadAs<double>(At);
  case DType::Float32:
    return loadAs<float>(At);
  case DType::Float16:
    return floatFromFloat16(loadAs<uint16_t>(At));
  case DType::BFloat16:
    return floatFromBFloat16(loadAs<uint16_t>(At));
  case DType::Float8E4M3:
    return floatFromFloat8E4M3(*At);
  case DType::Float8E5M2:
    return floatFromFloat8E5M2(*At);
  case DType::Float8E4M3FNUZ:
    return floatFromFloat8E4M3FNUZ(*At);
  case DType::Float8E5M2FNUZ:
    return floatFromFloat8E5M2FNUZ(*At);
  case DType::Float8E8M0:
    return floatFromFloat8E8M0(*At);
  case DType::UInt64:
    // As an int64 the upper half would turn negative.
    return double(loadAs<uint64_t>(At));
  default:
    return double(intAt(Index));
  }
}

int64_t TensorView::intAt(int64_t Index) const {
  assert(uint64_t(Index + 1) * sizeOf(Type) <= Bytes.size() && "out of range");
  const uint8_t *At = Bytes.data() + Index * sizeOf(Type);
  switch (Type) {
  case DType::Int64:
  case DType::UInt64:
    return loadAs<int64_t>(At);
  case DType::Int32:
    return loadAs<int32_t>(At);
  case DType::UInt32:
    return loadAs<uint32_t>(At);
  case DType::Int16:
    return loadAs<int16_t>(At);
  case DType::UInt16:
    return loadAs<uint16_t>(At);
  case DType::Int8:
    return loadAs<int8_t>(At);
  case DType::UInt8:
    return *At;
  case DType::Bool:
    return *At != 0;
  default:
    llvm_unreachable("not an integer tensor");
  }
}

std::vector<int64_t> TensorView::unravel(int64_t Index) const {
  assert(Index >= 0 && Index < numel() && "out of range");
  std::vector<int64_t> Out(Shape.size());
  for (size_t I = Shape.size(); I-- != 0;) {
    Out[I] = Index % Shape[I];
    Index /= Shape[I];
  }
  return Out;
}

} // namespace culprit
