//===- Convert.h - Narrow floating point numbers as float -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// One element at a time, exactly: every number of these formats is a float.
/// Whole blocks are converted by the kernels in Blocks.cpp.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TENSOR_CONVERT_H
#define CULPRIT_TENSOR_CONVERT_H

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace culprit {

/// A value of type T at \p Bytes, aligned or not.
template <class T> T loadAs(const uint8_t *Bytes) {
  T Value;
  std::memcpy(&Value, Bytes, sizeof(T));
  return Value;
}

inline float floatFromBFloat16(uint16_t Bits) {
  return std::bit_cast<float>(uint32_t(Bits) << 16);
}

inline float floatFromFloat16(uint16_t Bits) {
  unsigned Exponent = Bits >> 10 & 31;
  unsigned Fraction = Bits & 1023;
  float Magnitude;
  if (Exponent == 0)
    Magnitude = std::ldexp(float(Fraction), -24);
  else if (Exponent == 31)
    Magnitude = Fraction ? std::numeric_limits<float>::quiet_NaN()
                         : std::numeric_limits<float>::infinity();
  else
    Magnitude = std::bit_cast<float>((Exponent + 112) << 23 | Fraction << 13);
  return Bits >> 15 ? -Magnitude : Magnitude;
}

/// e4m3fn: bias 7, no infinity; all ones is the one NaN of a sign.
inline float floatFromFloat8E4M3(uint8_t Bits) {
  unsigned Exponent = Bits >> 3 & 15;
  unsigned Fraction = Bits & 7;
  float Magnitude;
  if ((Bits & 0x7f) == 0x7f)
    Magnitude = std::numeric_limits<float>::quiet_NaN();
  else if (Exponent == 0)
    Magnitude = std::ldexp(float(Fraction), -9);
  else
    Magnitude = std::bit_cast<float>((Exponent + 120) << 23 | Fraction << 20);
  return Bits >> 7 ? -Magnitude : Magnitude;
}

/// e5m2 is float16 without its low byte.
inline float floatFromFloat8E5M2(uint8_t Bits) {
  return floatFromFloat16(uint16_t(Bits << 8));
}

/// The formats without infinity and negative zero, whose pattern is the one
/// NaN. \p FractionBits of fraction; the exponent's bias is one more than that
/// of the format with infinity.
inline float floatFromFloat8FNUZ(uint8_t Bits, unsigned FractionBits,
                                 int Bias) {
  if (Bits == 0x80)
    return std::numeric_limits<float>::quiet_NaN();
  int Exponent = (Bits & 0x7f) >> FractionBits;
  int Fraction = Bits & ((1 << FractionBits) - 1);
  int Scale = 1 - Bias - static_cast<int>(FractionBits);
  float Magnitude =
      Exponent == 0
          ? std::ldexp(float(Fraction), Scale)
          : std::ldexp(float(Fraction + (1 << FractionBits)),
                       Scale + Exponent - 1);
  return Bits >> 7 ? -Magnitude : Magnitude;
}

inline float floatFromFloat8E4M3FNUZ(uint8_t Bits) {
  return floatFromFloat8FNUZ(Bits, 3, 8);
}

inline float floatFromFloat8E5M2FNUZ(uint8_t Bits) {
  return floatFromFloat8FNUZ(Bits, 2, 16);
}

/// e8m0: 2^(Bits - 127).
inline float floatFromFloat8E8M0(uint8_t Bits) {
  return Bits == 0xff ? std::numeric_limits<float>::quiet_NaN()
                      : std::ldexp(1.0f, int(Bits) - 127);
}

} // namespace culprit

#endif // CULPRIT_TENSOR_CONVERT_H
