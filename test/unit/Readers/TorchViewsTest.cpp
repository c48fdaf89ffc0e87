//===- TorchViewsTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TorchViews.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace llvm;
using namespace culprit;

namespace {

StridedView view(std::initializer_list<int64_t> Shape,
                 std::initializer_list<int64_t> Strides, uint64_t Offset = 0) {
  StridedView Out;
  Out.Shape = Shape;
  Out.Strides = Strides;
  Out.Offset = Offset;
  return Out;
}

class TorchViewsTest : public testing::Test {
protected:
  TorchViewsTest() : S("F", Pool) {
    Storage.resize(24 * sizeof(float));
    for (int I = 0; I != 24; ++I) {
      float Value = static_cast<float>(I);
      memcpy(Storage.data() + I * sizeof(float), &Value, sizeof(float));
    }
  }

  std::vector<double> values(const StridedView &View) {
    Expected<TensorView> Taken = takeView(View, Storage, S);
    EXPECT_TRUE(bool(Taken));
    Copied = Taken->Bytes.data() < reinterpret_cast<uint8_t *>(&Storage[0]) ||
             Taken->Bytes.data() >=
                 reinterpret_cast<uint8_t *>(&Storage[0]) + Storage.size();
    std::vector<double> Out;
    for (int64_t I = 0; I != Taken->numel(); ++I)
      Out.push_back(Taken->at(I));
    return Out;
  }

  StringPool Pool;
  Source S;
  std::string Storage; ///< 0 to 23 as floats.
  bool Copied = false;
};

using Values = std::vector<double>;

TEST_F(TorchViewsTest, WhatLiesInARowIsNotCopied) {
  EXPECT_EQ(values(view({2, 3}, {3, 1}, 6)), (Values{6, 7, 8, 9, 10, 11}));
  EXPECT_FALSE(Copied);
  // The stride of a single row means nothing.
  EXPECT_EQ(values(view({1, 2}, {99, 1}, 22)), (Values{22, 23}));
  EXPECT_FALSE(Copied);
  EXPECT_EQ(values(view({}, {}, 5)), (Values{5}));
  EXPECT_FALSE(Copied);
}

TEST_F(TorchViewsTest, StridesAreFollowed) {
  EXPECT_EQ(values(view({3, 2}, {1, 3})), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(Copied);
  EXPECT_EQ(values(view({2, 2}, {12, 1}, 1)), (Values{1, 2, 13, 14}));
  EXPECT_EQ(values(view({2, 2, 2}, {12, 0, 5}, 1)),
            (Values{1, 6, 1, 6, 13, 18, 13, 18}));
  // Rows that follow one another are one row, whatever the rank.
  EXPECT_EQ(values(view({2, 1, 2, 2}, {12, 7, 2, 1})),
            (Values{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(values(view({1, 3, 1}, {9, 8, 9}, 4)), (Values{4, 12, 20}));
}

TEST_F(TorchViewsTest, SignsOfLazyViews) {
  StridedView Negated = view({2}, {1}, 1);
  Negated.Negated = true;
  EXPECT_EQ(values(Negated), (Values{-1, -2}));
  StridedView Complex = view({2}, {1}, 1);
  Complex.Type = {DType::Float32, true};
  EXPECT_EQ(values(Complex), (Values{2, 3, 4, 5}));
  Complex.Conjugated = true;
  EXPECT_EQ(values(Complex), (Values{2, -3, 4, -5}));
}

TEST_F(TorchViewsTest, SizesThatNoFileHas) {
  constexpr int64_t Huge = int64_t(1) << 40;
  EXPECT_EQ(view({2, 3}, {3, 1}).bytes(), 24u);
  EXPECT_EQ(view({Huge, 0, Huge}, {1, 1, 1}).bytes(), 0u);
  EXPECT_FALSE(view({Huge, Huge}, {0, 0}).bytes());
  EXPECT_FALSE(view({-1}, {1}).bytes());
  EXPECT_FALSE(view({1}, {-1}).bytes());
  EXPECT_FALSE(view({1, 2}, {1}).bytes());
  EXPECT_EQ(view({2, 3}, {3, 1}, 4).extent(), 10u);
  EXPECT_EQ(view({}, {}, 4).extent(), 5u);
  EXPECT_EQ(view({0}, {1}, 4).extent(), 0u);
  EXPECT_FALSE(view({3}, {INT64_MAX / 2 + 1}).extent());
  EXPECT_FALSE(view({1}, {1}, UINT64_MAX).extent());
}

} // namespace
