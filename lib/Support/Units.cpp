//===- Units.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Units.h"
#include <cmath>
#include <cstdio>

namespace culprit {

/// Three significant digits below 1000, as in 1.73, 17.3 and 173.
static std::string threeDigits(double Value, const char *Unit) {
  char Buffer[64];
  double Magnitude = std::fabs(Value);
  int Decimals = Magnitude < 9.995 ? 2 : Magnitude < 99.95 ? 1 : 0;
  std::snprintf(Buffer, sizeof(Buffer), "%.*f %s", Decimals, Value, Unit);
  return Buffer;
}

std::string formatDuration(int64_t Nanoseconds) {
  if (Nanoseconds < 0 && Nanoseconds != INT64_MIN)
    return "-" + formatDuration(-Nanoseconds);
  double Value = static_cast<double>(Nanoseconds);
  char Buffer[64];
  if (Value < 1e3) {
    std::snprintf(Buffer, sizeof(Buffer), "%d ns",
                  static_cast<int>(Nanoseconds));
    return Buffer;
  }
  if (Value < 999.5e3)
    return threeDigits(Value / 1e3, "us");
  if (Value < 999.5e6)
    return threeDigits(Value / 1e6, "ms");
  if (Value < 120e9)
    return threeDigits(Value / 1e9, "s");
  int64_t Seconds = Nanoseconds / 1000000000;
  if (Seconds < 7200)
    std::snprintf(Buffer, sizeof(Buffer), "%d min %d s",
                  static_cast<int>(Seconds / 60),
                  static_cast<int>(Seconds % 60));
  else
    std::snprintf(Buffer, sizeof(Buffer), "%lld h %d min",
                  static_cast<long long>(Seconds / 3600),
                  static_cast<int>(Seconds % 3600 / 60));
  return Buffer;
}

std::string formatBytes(double Bytes) {
  static const char *const Units[] = {"B",   "KiB", "MiB",
                                      "GiB", "TiB", "PiB"};
  unsigned Unit = 0;
  while (std::fabs(Bytes) >= 1023.5 && Unit < 5) {
    Bytes /= 1024;
    ++Unit;
  }
  if (Unit == 0) {
    char Buffer[64];
    std::snprintf(Buffer, sizeof(Buffer), "%.0f B", Bytes);
    return Buffer;
  }
  return threeDigits(Bytes, Units[Unit]);
}

std::string formatCount(int64_t Count) {
  std::string Digits = std::to_string(Count);
  size_t First = Digits[0] == '-' ? 1 : 0;
  for (size_t At = Digits.size(); At > First + 3; At -= 3)
    Digits.insert(At - 3, ",");
  return Digits;
}

std::string formatNumber(double Value, int Digits) {
  if (std::isnan(Value))
    return "nan";
  if (std::isinf(Value))
    return Value > 0 ? "inf" : "-inf";
  char Buffer[64];
  std::snprintf(Buffer, sizeof(Buffer), "%.*g", Digits, Value);
  return Buffer;
}

} // namespace culprit
