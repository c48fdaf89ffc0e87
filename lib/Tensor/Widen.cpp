//===- Widen.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Narrow numbers as the floats and doubles that the other kernels compute
// with. Every conversion but that of 64-bit integers is exact.
//
//===----------------------------------------------------------------------===//

#include "Tensor/Blocks.h"
#include "Tensor/Convert.h"
#include "Tensor/Dispatch.h"
#include "llvm/Support/ErrorHandling.h"

// As in Blocks.cpp.
#define HWY_DISABLED_TARGETS                                                   \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "Tensor/Widen.cpp"
#include "hwy/foreach_target.h" // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace culprit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void widenBFloat16(const uint8_t *From, size_t Count, float *To) {
  const hn::ScalableTag<float> D;
  const hn::Repartition<uint32_t, decltype(D)> D32;
  const hn::Rebind<uint16_t, decltype(D)> D16;
  const uint16_t *Half = reinterpret_cast<const uint16_t *>(From);
  size_t I = 0;
  for (; I + hn::Lanes(D) <= Count; I += hn::Lanes(D)) {
    const auto Bits = hn::PromoteTo(D32, hn::LoadU(D16, Half + I));
    hn::StoreU(hn::BitCast(D, hn::ShiftLeft<16>(Bits)), D, To + I);
  }
  for (; I < Count; ++I)
    To[I] = floatFromBFloat16(loadAs<uint16_t>(From + 2 * I));
}

void widenFloat16(const uint8_t *From, size_t Count, float *To) {
  const hn::ScalableTag<float> D;
  size_t I = 0;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, decltype(D)> D16;
  const hwy::float16_t *Half = reinterpret_cast<const hwy::float16_t *>(From);
  for (; I + hn::Lanes(D) <= Count; I += hn::Lanes(D))
    hn::StoreU(hn::PromoteTo(D, hn::LoadU(D16, Half + I)), D, To + I);
#else
  // Highway's own emulation takes infinity for a number. The exponent is
  // moved to its place and rebiased; all ones is moved on to all ones, and
  // with all zeros the subtraction of floats normalizes the fraction.
  const hn::Repartition<uint32_t, decltype(D)> D32;
  const hn::Rebind<uint16_t, decltype(D)> D16;
  const uint16_t *Half = reinterpret_cast<const uint16_t *>(From);
  const auto Exponents = hn::Set(D32, 0x7c00u << 13);
  for (; I + hn::Lanes(D) <= Count; I += hn::Lanes(D)) {
    const auto Bits = hn::PromoteTo(D32, hn::LoadU(D16, Half + I));
    const auto Sign = hn::ShiftLeft<16>(hn::And(Bits, hn::Set(D32, 0x8000u)));
    const auto Moved = hn::ShiftLeft<13>(hn::And(Bits, hn::Set(D32, 0x7fffu)));
    const auto Exponent = hn::And(Moved, Exponents);
    const auto Rebiased = hn::Add(Moved, hn::Set(D32, 112u << 23));
    const auto Special = hn::Add(Rebiased, hn::Set(D32, 112u << 23));
    const auto Small = hn::BitCast(
        D32, hn::Sub(hn::BitCast(D, hn::Add(Rebiased, hn::Set(D32, 1u << 23))),
                     hn::BitCast(D, hn::Set(D32, 113u << 23))));
    auto Out = hn::IfThenElse(hn::Eq(Exponent, Exponents), Special, Rebiased);
    Out = hn::IfThenElse(hn::Eq(Exponent, hn::Zero(D32)), Small, Out);
    hn::StoreU(hn::BitCast(D, hn::Or(Out, Sign)), D, To + I);
  }
#endif
  for (; I < Count; ++I)
    To[I] = floatFromFloat16(loadAs<uint16_t>(From + 2 * I));
}

} // namespace HWY_NAMESPACE
} // namespace culprit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

using namespace llvm;

namespace culprit {

HWY_EXPORT(widenBFloat16);
HWY_EXPORT(widenFloat16);

bool fitsFloat(DType Type) {
  return isFloating(Type) ? sizeOf(Type) <= 4 : sizeOf(Type) <= 2;
}

/// Integers go one by one: that is faster than memory already.
template <class From, class To>
static void convert(const uint8_t *Bytes, size_t Count, To *Out) {
  for (size_t I = 0; I != Count; ++I)
    Out[I] = To(loadAs<From>(Bytes + I * sizeof(From)));
}

void widen(DType Type, const uint8_t *From, size_t Count, float *To) {
  switch (Type) {
  case DType::Float32:
    std::memcpy(To, From, Count * sizeof(float));
    return;
  case DType::Float16:
    return HWY_DYNAMIC_DISPATCH(widenFloat16)(From, Count, To);
  case DType::BFloat16:
    return HWY_DYNAMIC_DISPATCH(widenBFloat16)(From, Count, To);
  case DType::Int16:
    return convert<int16_t>(From, Count, To);
  case DType::UInt16:
    return convert<uint16_t>(From, Count, To);
  default:
    llvm_unreachable("not a type that fits float");
  }
}

void widen(DType Type, const uint8_t *From, size_t Count, double *To) {
  switch (Type) {
  case DType::Float64:
    std::memcpy(To, From, Count * sizeof(double));
    return;
  case DType::Int64:
    return convert<int64_t>(From, Count, To);
  case DType::Int32:
    return convert<int32_t>(From, Count, To);
  case DType::UInt64:
    return convert<uint64_t>(From, Count, To);
  case DType::UInt32:
    return convert<uint32_t>(From, Count, To);
  default:
    llvm_unreachable("not a type that fits double");
  }
}

} // namespace culprit

#endif // HWY_ONCE
