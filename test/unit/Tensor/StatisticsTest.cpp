//===- StatisticsTest.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Tensor/Convert.h"
#include "Tensor/Dispatch.h"
#include "Tensor/Tensor.h"
#include "hwy/highway.h"
#include "llvm/ADT/Twine.h"
#include "gtest/gtest.h"
#include <sys/mman.h>

using namespace llvm;
using namespace culprit;

namespace {

constexpr float Infinity = std::numeric_limits<float>::infinity();
constexpr float NotANumber = std::numeric_limits<float>::quiet_NaN();

template <class T> TensorView view(DType Type, const std::vector<T> &Values) {
  return {Type,
          {int64_t(Values.size() * sizeof(T) / sizeOf(Type))},
          ArrayRef(reinterpret_cast<const uint8_t *>(Values.data()),
                   Values.size() * sizeof(T))};
}

template <class T> TensorStatistics of(DType Type, std::vector<T> Values) {
  return statisticsOf(view(Type, Values));
}

/// Deterministic bits that look random.
struct Random {
  uint64_t State = 42;
  uint64_t operator()() {
    State += 0x9e3779b97f4a7c15;
    uint64_t Z = (State ^ (State >> 30)) * 0xbf58476d1ce4e5b9;
    Z = (Z ^ (Z >> 27)) * 0x94d049bb133111eb;
    return Z ^ (Z >> 31);
  }
};

TEST(TensorStatisticsTest, ByHand) {
  TensorStatistics S = of<float>(DType::Float32, {1, -2, 3, 0, 6});
  EXPECT_EQ(S.Finite, 5);
  EXPECT_EQ(S.Zero, 1);
  EXPECT_EQ(S.NaN + S.Inf + S.Subnormal + S.NearMax, 0);
  EXPECT_EQ(S.FirstNonFinite, std::nullopt);
  EXPECT_EQ(S.Min, -2);
  EXPECT_EQ(S.Max, 6);
  EXPECT_EQ(S.AbsMax, 6);
  EXPECT_DOUBLE_EQ(S.Mean, 1.6);
  EXPECT_DOUBLE_EQ(S.StdDev, std::sqrt(7.44)); // (50 - 5 * 1.6^2) / 5
  EXPECT_DOUBLE_EQ(S.Rms, std::sqrt(10.0));
  EXPECT_DOUBLE_EQ(S.L2, std::sqrt(50.0));
}

TEST(TensorStatisticsTest, EmptyTensor) {
  TensorStatistics S = of<float>(DType::Float32, {});
  EXPECT_EQ(S.Finite, 0);
  EXPECT_EQ(S.L2, 0);
  EXPECT_EQ(S.FirstNonFinite, std::nullopt);
  EXPECT_EQ(of<uint8_t>(DType::Float8E4M3, {}).Finite, 0);
}

TEST(TensorStatisticsTest, Scalar) {
  float Value = 0.1f;
  TensorStatistics S = statisticsOf(
      {DType::Float32, {}, ArrayRef(reinterpret_cast<uint8_t *>(&Value), 4)});
  EXPECT_EQ(S.Finite, 1);
  EXPECT_EQ(S.Mean, double(Value));
  EXPECT_EQ(S.StdDev, 0);
  EXPECT_EQ(S.L2, double(Value));
}

TEST(TensorStatisticsTest, AllNaN) {
  TensorStatistics S =
      statisticsOf(view(DType::Float32, std::vector<float>(5000, NotANumber)));
  EXPECT_EQ(S.NaN, 5000);
  EXPECT_EQ(S.Finite, 0);
  EXPECT_EQ(S.FirstNonFinite, 0);
  EXPECT_EQ(S.Min, 0);
  EXPECT_EQ(S.Max, 0);
  EXPECT_EQ(S.Mean, 0);
}

TEST(TensorStatisticsTest, NonFiniteValuesSpoilNothing) {
  TensorStatistics S = of<float>(
      DType::Float32, {1, 2, NotANumber, 3, Infinity, -Infinity, -Infinity, 4});
  EXPECT_EQ(S.NaN, 1);
  EXPECT_EQ(S.Inf, 3);
  EXPECT_EQ(S.Finite, 4);
  EXPECT_EQ(S.FirstNonFinite, 2);
  EXPECT_EQ(S.Min, 1);
  EXPECT_EQ(S.Max, 4);
  EXPECT_EQ(S.AbsMax, 4);
  EXPECT_EQ(S.Mean, 2.5);
  EXPECT_DOUBLE_EQ(S.StdDev, std::sqrt(1.25));
  EXPECT_EQ(S.NearMax, 0);
}

TEST(TensorStatisticsTest, FirstNonFiniteInALaterBlock) {
  for (size_t At : {0u, 15u, 2047u, 2048u, 7000u, 9999u}) {
    std::vector<float> Values(10000, 1.5f);
    Values[At] = Infinity;
    Values.back() = Infinity;
    TensorStatistics S = statisticsOf(view(DType::Float32, Values));
    EXPECT_EQ(S.FirstNonFinite, int64_t(At));
    EXPECT_EQ(S.Inf, At == 9999 ? 1 : 2);
    EXPECT_EQ(S.Mean, 1.5);
    EXPECT_EQ(S.StdDev, 0);
  }
  std::vector<uint8_t> Codes(600000, 0x38);
  Codes[500001] = Codes[599999] = 0xff;
  TensorStatistics S = statisticsOf(view(DType::Float8E4M3, Codes));
  EXPECT_EQ(S.FirstNonFinite, 500001);
  EXPECT_EQ(S.NaN, 2);
}

TEST(TensorStatisticsTest, ZerosHaveNoSign) {
  TensorStatistics S = of<float>(DType::Float32, {-0.0f, -0.0f, 0.0f});
  EXPECT_EQ(S.Zero, 3);
  EXPECT_EQ(S.Subnormal, 0);
  EXPECT_FALSE(std::signbit(S.Min));
  EXPECT_FALSE(std::signbit(S.Max));
  EXPECT_FALSE(std::signbit(S.Mean));
}

TEST(TensorStatisticsTest, Subnormals) {
  TensorStatistics S = of<float>(
      DType::Float32, {0x1p-126f, -0x1p-126f, 0x1p-127f, -0x1p-149f, 0.0f});
  EXPECT_EQ(S.Subnormal, 2);
  EXPECT_EQ(S.Zero, 1);
  EXPECT_EQ(S.Min, -0x1p-126);
  // 0x0400 is the smallest normal float16, 0x03ff the largest below it.
  S = of<uint16_t>(DType::Float16, {0x0400, 0x03ff, 0x8001, 0x0000});
  EXPECT_EQ(S.Subnormal, 2);
  EXPECT_EQ(S.Min, -0x1p-24);
  S = of<uint16_t>(DType::BFloat16, {0x0080, 0x007f, 0x8001});
  EXPECT_EQ(S.Subnormal, 2);
  S = of<uint8_t>(DType::Float8E4M3, {0x08, 0x07, 0x81, 0});
  EXPECT_EQ(S.Subnormal, 2);
  S = of<double>(DType::Float64, {0x1p-1022, 0x1p-1023});
  EXPECT_EQ(S.Subnormal, 1);
}

TEST(TensorStatisticsTest, NearTheLargest) {
  // 0x7bff is 65504, 0x77ff 32752 = 65504 / 2, 0x7800 32768.
  TensorStatistics S =
      of<uint16_t>(DType::Float16, {0x7bff, 0x77ff, 0x7800, 0xfbff, 0x7c00});
  EXPECT_EQ(S.NearMax, 3);
  EXPECT_EQ(S.Inf, 1);
  EXPECT_EQ(S.AbsMax, 65504);
  // 448, 224, 240, -448, NaN.
  S = of<uint8_t>(DType::Float8E4M3, {0x7e, 0x76, 0x77, 0xfe, 0x7f});
  EXPECT_EQ(S.NearMax, 3);
  EXPECT_EQ(S.NaN, 1);
  EXPECT_EQ(S.Min, -448);
  float Largest = std::numeric_limits<float>::max();
  S = of<float>(DType::Float32, {Largest, -Largest, Largest / 2});
  EXPECT_EQ(S.NearMax, 2);
  EXPECT_EQ(S.Max, double(Largest));
  EXPECT_NEAR(S.StdDev / Largest, std::sqrt(2.25 / 3 - 1. / 36), 1e-7);
}

TEST(TensorStatisticsTest, HugeAndTinyDoubles) {
  TensorStatistics S = of<double>(DType::Float64, {3e300, -4e300, NotANumber});
  EXPECT_DOUBLE_EQ(S.L2, 5e300);
  EXPECT_DOUBLE_EQ(S.Mean, -5e299);
  EXPECT_DOUBLE_EQ(S.StdDev, 3.5e300);
  EXPECT_EQ(S.NearMax, 0);
  S = of<double>(DType::Float64, {3e-300, 4e-300});
  EXPECT_DOUBLE_EQ(S.L2, 5e-300);
  EXPECT_DOUBLE_EQ(S.StdDev, 5e-301);
  EXPECT_EQ(S.Min, 3e-300);
}

TEST(TensorStatisticsTest, FarFromZero) {
  // A textbook sum of squares loses every digit of this deviation.
  std::vector<double> Values;
  for (int I = 0; I != 100000; ++I)
    Values.push_back(1e9 + (I % 2 ? 1e-3 : -1e-3));
  TensorStatistics S = statisticsOf(view(DType::Float64, Values));
  EXPECT_NEAR(S.StdDev, 1e-3, 1e-7); // 1e9 + 1e-3 has ten digits of the 1e-3
  EXPECT_DOUBLE_EQ(S.Mean, 1e9);
  // Nor does an outlier as the pivot spoil it.
  std::vector<float> Floats(2048, 1.0f);
  Floats[0] = 1e6f;
  S = statisticsOf(view(DType::Float32, Floats));
  double P = 1.0 / 2048;
  EXPECT_NEAR(S.StdDev, 999999 * std::sqrt(P * (1 - P)), 1e-6);
}

TEST(TensorStatisticsTest, Integers) {
  TensorStatistics S = of<int64_t>(DType::Int64, {-5, 0, 5, 1 << 20});
  EXPECT_EQ(S.Min, -5);
  EXPECT_EQ(S.Max, 1048576);
  EXPECT_EQ(S.Zero, 1);
  EXPECT_EQ(S.Subnormal, 0);
  EXPECT_EQ(S.Mean, 262144);
  S = of<uint64_t>(DType::UInt64, {~uint64_t(0)});
  EXPECT_EQ(S.Max, 0x1p64);
  EXPECT_EQ(S.NearMax, 0);
  S = of<int32_t>(DType::Int32, {std::numeric_limits<int32_t>::min(), 1});
  EXPECT_EQ(S.AbsMax, 0x1p31);
  S = of<uint32_t>(DType::UInt32, {4294967295u});
  EXPECT_EQ(S.Max, 4294967295.0);
  S = of<int16_t>(DType::Int16, {-32768, 32767});
  EXPECT_EQ(S.Mean, -0.5);
  EXPECT_EQ(S.NearMax, 0);
  S = of<uint16_t>(DType::UInt16, {65535, 1});
  EXPECT_EQ(S.Mean, 32768);
  S = of<int8_t>(DType::Int8, {-128, 127, 0});
  EXPECT_EQ(S.Min, -128);
  EXPECT_EQ(S.AbsMax, 128);
  EXPECT_EQ(S.NearMax, 0);
  S = of<uint8_t>(DType::UInt8, {255, 1});
  EXPECT_EQ(S.Mean, 128);
  S = of<uint8_t>(DType::Bool, {1, 0, 1, 1});
  EXPECT_EQ(S.Mean, 0.75);
  EXPECT_EQ(S.Zero, 1);
}

TEST(TensorStatisticsTest, EveryHalfAgreesWithItsDecoding) {
  std::vector<uint16_t> Codes(65536);
  for (unsigned I = 0; I != 65536; ++I)
    Codes[I] = uint16_t(I);
  for (DType Type : {DType::Float16, DType::BFloat16}) {
    TensorView View = view(Type, Codes);
    TensorStatistics S = statisticsOf(View);
    int64_t NaN = 0, Inf = 0, Subnormal = 0, NearMax = 0;
    double Squares = 0;
    for (int64_t I = 0; I != View.numel(); ++I) {
      double Value = View.at(I), Abs = std::fabs(Value);
      NaN += std::isnan(Value);
      Inf += std::isinf(Value);
      if (!std::isfinite(Value))
        continue;
      Subnormal += Value != 0 && Abs < smallestNormal(Type);
      NearMax += Abs > largest(Type) / 2;
      Squares += Value * Value;
    }
    EXPECT_EQ(S.NaN, NaN);
    EXPECT_EQ(S.Inf, Inf);
    EXPECT_EQ(S.Subnormal, Subnormal);
    EXPECT_EQ(S.NearMax, NearMax);
    EXPECT_EQ(S.Zero, 2);
    EXPECT_EQ(S.AbsMax, largest(Type));
    EXPECT_NEAR(S.L2 / std::sqrt(Squares), 1, 1e-12);
  }
}

TEST(TensorStatisticsTest, SameBitsOnEveryInstructionSet) {
  Random Next;
  std::vector<uint64_t> Noise(5001);
  for (uint64_t &Word : Noise)
    Word = Next();
  std::vector<float> Numbers(10007);
  for (float &Number : Numbers)
    Number = float(double(Next()) * 0x1p-64 - 0.3);
  std::vector<int64_t> Targets = hwy::SupportedAndGeneratedTargets();
  for (unsigned Type = 0; Type <= unsigned(DType::Bool); ++Type)
    for (TensorView View :
         {view(DType(Type), Noise), view(DType(Type), Numbers)}) {
      std::optional<TensorStatistics> First;
      for (int64_t Target : Targets) {
        hwy::GetChosenTarget().Update(Target);
        TensorStatistics S = statisticsOf(View);
        if (!First)
          First = S;
        std::string Where = (Twine(toString(View.Type)) + " on ").str() +
                            hwy::TargetName(Target);
        EXPECT_EQ(S.NaN, First->NaN) << Where;
        EXPECT_EQ(S.Inf, First->Inf) << Where;
        EXPECT_EQ(S.Zero, First->Zero) << Where;
        EXPECT_EQ(S.Subnormal, First->Subnormal) << Where;
        EXPECT_EQ(S.NearMax, First->NearMax) << Where;
        EXPECT_EQ(S.FirstNonFinite, First->FirstNonFinite) << Where;
        EXPECT_EQ(S.Min, First->Min) << Where;
        EXPECT_EQ(S.Max, First->Max) << Where;
        EXPECT_EQ(S.AbsMax, First->AbsMax) << Where;
        EXPECT_EQ(S.Mean, First->Mean) << Where;
        EXPECT_EQ(S.StdDev, First->StdDev) << Where;
        EXPECT_EQ(S.L2, First->L2) << Where;
      }
    }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(TensorStatisticsTest, EveryLengthAroundABlock) {
  Random Next;
  std::vector<float> Numbers(4200);
  for (float &Number : Numbers)
    Number = float(double(Next()) * 0x1p-64 - 0.5);
  for (size_t Count : {1u, 15u, 16u, 17u, 2047u, 2048u, 2049u, 4111u}) {
    TensorView View = view(DType::Float32, Numbers);
    View.Shape = {int64_t(Count)};
    double Sum = 0, Squares = 0;
    for (size_t I = 0; I != Count; ++I) {
      Sum += Numbers[I];
      Squares += double(Numbers[I]) * Numbers[I];
    }
    TensorStatistics S = statisticsOf(View);
    EXPECT_NEAR(S.Mean, Sum / double(Count), 1e-14);
    EXPECT_NEAR(S.L2, std::sqrt(Squares), 1e-12);
  }
}

TEST(TensorStatisticsTest, SameBitsWithAnyNumberOfThreads) {
  // Two and a half pieces of 2^20 elements.
  Random Next;
  std::vector<float> Numbers((5 << 19) + 7);
  for (float &Number : Numbers)
    Number = float(double(Next()) * 0x1p-64 - 0.4);
  Numbers[3 << 19] = NotANumber;
  Numbers[(1 << 20) - 1] = Infinity;
  std::vector<uint8_t> Codes(Numbers.size(), 0x38);
  Codes[(2 << 20) + 5] = 0x7f;
  for (const TensorView &View :
       {view(DType::Float32, Numbers), view(DType::Float8E4M3, Codes)}) {
    const TensorStatistics One = statisticsOf(View, 1);
    EXPECT_EQ(One.FirstNonFinite, View.Type == DType::Float32 ? (1 << 20) - 1
                                                              : (2 << 20) + 5);
    EXPECT_EQ(One.NaN, 1);
    EXPECT_EQ(One.Finite, View.numel() - (View.Type == DType::Float32 ? 2 : 1));
    for (unsigned Threads : {2u, 3u, 16u}) {
      const TensorStatistics S = statisticsOf(View, Threads);
      EXPECT_EQ(S.FirstNonFinite, One.FirstNonFinite);
      EXPECT_EQ(S.Finite, One.Finite);
      EXPECT_EQ(S.Mean, One.Mean);
      EXPECT_EQ(S.StdDev, One.StdDev);
      EXPECT_EQ(S.L2, One.L2);
      EXPECT_EQ(S.Min, One.Min);
      EXPECT_EQ(S.AbsMax, One.AbsMax);
    }
  }
}

TEST(TensorStatisticsTest, FloatsFarFromZero) {
  // Alternately 2^20 - 1/8 and 2^20 + 1/8: x^2 and its mean agree to 46 bits.
  std::vector<float> Numbers;
  for (int I = 0; I != 6000; ++I)
    Numbers.push_back(0x1p20f + (I % 2 ? 0.125f : -0.125f));
  TensorStatistics S = statisticsOf(view(DType::Float32, Numbers));
  EXPECT_DOUBLE_EQ(S.Mean, 0x1p20);
  EXPECT_DOUBLE_EQ(S.StdDev, 0.125);
  // bfloat16 0x4480 is 1024 and 0x4481 is 1032.
  std::vector<uint16_t> Halves(6000, 0x4480);
  for (size_t I = 0; I < Halves.size(); I += 2)
    Halves[I] = 0x4481;
  S = statisticsOf(view(DType::BFloat16, Halves));
  EXPECT_DOUBLE_EQ(S.Mean, 1028);
  EXPECT_DOUBLE_EQ(S.StdDev, 4);
}

TEST(TensorStatisticsTest, ZerosAmongSubnormals) {
  // Half of the elements zero, as after a ReLU, and a few below 2^-126.
  std::vector<float> Numbers(5000, 1);
  for (size_t I = 0; I < Numbers.size(); I += 2)
    Numbers[I] = I % 1000 ? 0.0f : 0x1p-140f;
  TensorStatistics S = statisticsOf(view(DType::Float32, Numbers));
  EXPECT_EQ(S.Subnormal, 5);
  EXPECT_EQ(S.Zero, 2495);
  EXPECT_EQ(S.Min, 0);
}

TEST(TensorStatisticsTest, MoreThanTwoToThe31Elements) {
  // Untouched pages are one page of zeros, so that this takes no memory.
  const size_t Size = (size_t(1) << 31) + 4099;
  void *Map = mmap(nullptr, Size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(Map, MAP_FAILED);
  uint8_t *Bytes = static_cast<uint8_t *>(Map);
  Bytes[Size - 2] = 0x7f;
  Bytes[Size - 1] = 0x38; // 1
  TensorView View{DType::Float8E4M3, {int64_t(Size)}, ArrayRef(Bytes, Size)};
  TensorStatistics S = statisticsOf(View, 2);
  EXPECT_EQ(S.FirstNonFinite, int64_t(Size) - 2);
  EXPECT_EQ(S.Zero, int64_t(Size) - 2);
  EXPECT_EQ(S.Finite, int64_t(Size) - 1);
  EXPECT_EQ(S.Max, 1);
  EXPECT_DOUBLE_EQ(S.Mean, 1 / double(Size - 1));
  munmap(Map, Size);
}

} // namespace
