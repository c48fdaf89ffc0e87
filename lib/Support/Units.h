//===- Units.h - Figures as people read them --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Formats durations, sizes and counts for sentences. All output is ASCII and
/// independent of the locale.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_UNITS_H
#define CULPRIT_SUPPORT_UNITS_H

#include <cstdint>
#include <string>

namespace culprit {

/// Nanoseconds in the largest unit that keeps three significant digits:
/// 950 ns, 11.2 us, 378 ms, 1.73 s, 2 min 5 s, 3 h 20 min.
std::string formatDuration(int64_t Nanoseconds);

/// Bytes in powers of 1024: 512 B, 1.50 KiB, 50.9 GiB.
std::string formatBytes(double Bytes);

/// Thousands separated by commas: 2,160,551.
std::string formatCount(int64_t Count);

/// A number in at most \p Digits significant digits, without a trailing zero
/// fraction; `nan`, `inf` and `-inf` for what is not finite.
std::string formatNumber(double Value, int Digits = 4);

} // namespace culprit

#endif // CULPRIT_SUPPORT_UNITS_H
