//===- TensorTest.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Tensor/Tensor.h"
#include "Tensor/Convert.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace culprit;

namespace {

double valueOf(DType Type, std::vector<uint8_t> Bytes) {
  return TensorView{Type, {1}, Bytes}.at(0);
}

TEST(TensorTest, NamesAndSizes) {
  EXPECT_EQ(toString(DType::Float32), "float32");
  EXPECT_EQ(toString(DType::Float8E4M3), "float8_e4m3");
  EXPECT_EQ(toString(DType::Bool), "bool");
  EXPECT_EQ(sizeOf(DType::Float64), 8u);
  EXPECT_EQ(sizeOf(DType::BFloat16), 2u);
  EXPECT_EQ(sizeOf(DType::Float8E5M2), 1u);
  EXPECT_TRUE(isFloating(DType::Float8E5M2));
  EXPECT_FALSE(isFloating(DType::Int64));
}

TEST(TensorTest, Ranges) {
  EXPECT_EQ(largest(DType::Float16), 65504);
  EXPECT_EQ(largest(DType::Float8E4M3), 448);
  EXPECT_EQ(largest(DType::Float8E5M2), 57344);
  EXPECT_EQ(largest(DType::Float32), std::numeric_limits<float>::max());
  EXPECT_EQ(largest(DType::Float64), std::numeric_limits<double>::max());
  EXPECT_EQ(largest(DType::BFloat16), double(floatFromBFloat16(0x7f7f)));
  EXPECT_EQ(largest(DType::Int8), 127);
  EXPECT_EQ(smallestNormal(DType::Float16), double(floatFromFloat16(0x0400)));
  EXPECT_EQ(smallestNormal(DType::Float8E4M3), 0.015625);
  EXPECT_EQ(smallestNormal(DType::Int32), 0);
}

TEST(TensorTest, Float16Values) {
  EXPECT_EQ(floatFromFloat16(0x3c00), 1.0f);
  EXPECT_EQ(floatFromFloat16(0xc000), -2.0f);
  EXPECT_EQ(floatFromFloat16(0x7bff), 65504.0f);
  EXPECT_EQ(floatFromFloat16(0x0001), 0x1p-24f);
  EXPECT_EQ(floatFromFloat16(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(floatFromFloat16(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(floatFromFloat16(0x7e01)));
  EXPECT_TRUE(std::signbit(floatFromFloat16(0x8000)));
}

TEST(TensorTest, Float8Values) {
  EXPECT_EQ(floatFromFloat8E4M3(0x38), 1.0f);
  EXPECT_EQ(floatFromFloat8E4M3(0x7e), 448.0f);
  EXPECT_EQ(floatFromFloat8E4M3(0x01), 0x1p-9f);
  EXPECT_EQ(floatFromFloat8E4M3(0x87), -7 * 0x1p-9f);
  EXPECT_TRUE(std::isnan(floatFromFloat8E4M3(0x7f)));
  EXPECT_TRUE(std::isnan(floatFromFloat8E4M3(0xff)));
  EXPECT_EQ(floatFromFloat8E5M2(0x3c), 1.0f);
  EXPECT_EQ(floatFromFloat8E5M2(0x7b), 57344.0f);
  EXPECT_EQ(floatFromFloat8E5M2(0x01), 0x1p-16f);
  EXPECT_EQ(floatFromFloat8E5M2(0x7c), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(floatFromFloat8E5M2(0xfd)));
}

TEST(TensorTest, Float8WithoutNegativeZero) {
  // s eeee fff, bias 8: 0x40 is exponent 8, so 1; 0x7f is 1.875 * 2^7.
  EXPECT_EQ(floatFromFloat8E4M3FNUZ(0x40), 1.0f);
  EXPECT_EQ(floatFromFloat8E4M3FNUZ(0x7f), 240.0f);
  EXPECT_EQ(floatFromFloat8E4M3FNUZ(0x01), 0x1p-10f);
  EXPECT_EQ(floatFromFloat8E4M3FNUZ(0x08), 0x1p-7f);
  EXPECT_EQ(floatFromFloat8E4M3FNUZ(0xc0), -1.0f);
  EXPECT_TRUE(std::isnan(floatFromFloat8E4M3FNUZ(0x80)));
  // s eeeee ff, bias 16: 0x7f is 1.75 * 2^15.
  EXPECT_EQ(floatFromFloat8E5M2FNUZ(0x40), 1.0f);
  EXPECT_EQ(floatFromFloat8E5M2FNUZ(0x7f), 57344.0f);
  EXPECT_EQ(floatFromFloat8E5M2FNUZ(0x01), 0x1p-17f);
  EXPECT_EQ(floatFromFloat8E5M2FNUZ(0x04), 0x1p-15f);
  EXPECT_TRUE(std::isnan(floatFromFloat8E5M2FNUZ(0x80)));
  EXPECT_EQ(floatFromFloat8E8M0(127), 1.0f);
  EXPECT_EQ(floatFromFloat8E8M0(0), 0x1p-127f);
  EXPECT_EQ(floatFromFloat8E8M0(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(floatFromFloat8E8M0(255)));
  EXPECT_EQ(largest(DType::Float8E4M3FNUZ), 240);
  EXPECT_EQ(largest(DType::Float8E5M2FNUZ), 57344);
  EXPECT_EQ(largest(DType::Float8E8M0), 0x1p127);
  EXPECT_EQ(smallestNormal(DType::Float8E4M3FNUZ), 0x1p-7);
  EXPECT_EQ(smallestNormal(DType::Float8E5M2FNUZ), 0x1p-15);
}

TEST(TensorTest, ElementsOfEveryType) {
  EXPECT_EQ(valueOf(DType::Float64, {0, 0, 0, 0, 0, 0, 0xf8, 0xbf}), -1.5);
  EXPECT_EQ(valueOf(DType::Float32, {0, 0, 0xc0, 0x3f}), 1.5);
  EXPECT_EQ(valueOf(DType::BFloat16, {0xc0, 0x3f}), 1.5);
  EXPECT_EQ(valueOf(DType::Float16, {0x00, 0x3e}), 1.5);
  EXPECT_EQ(valueOf(DType::Int64, {254, 255, 255, 255, 255, 255, 255, 255}),
            -2);
  EXPECT_EQ(valueOf(DType::UInt64, {0, 0, 0, 0, 0, 0, 0, 0x80}), 0x1p63);
  EXPECT_EQ(valueOf(DType::Int32, {254, 255, 255, 255}), -2);
  EXPECT_EQ(valueOf(DType::UInt32, {254, 255, 255, 255}), 4294967294.0);
  EXPECT_EQ(valueOf(DType::Int16, {254, 255}), -2);
  EXPECT_EQ(valueOf(DType::UInt16, {254, 255}), 65534);
  EXPECT_EQ(valueOf(DType::Int8, {254}), -2);
  EXPECT_EQ(valueOf(DType::UInt8, {254}), 254);
  EXPECT_EQ(valueOf(DType::Bool, {1}), 1);
}

TEST(TensorTest, AnyAlignment) {
  uint8_t Bytes[] = {0, 0, 0, 0xc0, 0x3f, 0, 0, 0x20, 0x40};
  TensorView View{DType::Float32, {2}, ArrayRef(Bytes).drop_front(1)};
  EXPECT_EQ(View.at(1), 2.5);
  EXPECT_EQ(statisticsOf(View).Max, 2.5);
}

TEST(TensorTest, Unravel) {
  TensorView View{DType::UInt8, {2, 3, 4}, {}};
  EXPECT_EQ(View.numel(), 24);
  EXPECT_EQ(View.unravel(0), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(View.unravel(23), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(View.unravel(13), (std::vector<int64_t>{1, 0, 1}));
}

TEST(TensorTest, ScalarAndEmptyShapes) {
  TensorView Scalar{DType::UInt8, {}, {}};
  EXPECT_EQ(Scalar.numel(), 1);
  EXPECT_TRUE(Scalar.unravel(0).empty());
  int64_t Huge = int64_t(1) << 62;
  EXPECT_EQ((TensorView{DType::UInt8, {Huge, Huge, 0}, {}}).numel(), 0);
}

} // namespace
