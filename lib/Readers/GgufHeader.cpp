//===- GgufHeader.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/GgufHeader.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

std::optional<GgmlType> ggmlType(uint32_t Number) {
  // Numbers 4, 5, 31 to 33 and 36 to 38 were given up. See ggml-common.h.
  switch (Number) {
  case 0: return GgmlType{"float32", 1, 4};
  case 1: return GgmlType{"float16", 1, 2};
  case 2: return GgmlType{"q4_0", 32, 18};
  case 3: return GgmlType{"q4_1", 32, 20};
  case 6: return GgmlType{"q5_0", 32, 22};
  case 7: return GgmlType{"q5_1", 32, 24};
  case 8: return GgmlType{"q8_0", 32, 34};
  case 9: return GgmlType{"q8_1", 32, 36};
  case 10: return GgmlType{"q2_K", 256, 84};
  case 11: return GgmlType{"q3_K", 256, 110};
  case 12: return GgmlType{"q4_K", 256, 144};
  case 13: return GgmlType{"q5_K", 256, 176};
  case 14: return GgmlType{"q6_K", 256, 210};
  case 15: return GgmlType{"q8_K", 256, 292};
  case 16: return GgmlType{"iq2_xxs", 256, 66};
  case 17: return GgmlType{"iq2_xs", 256, 74};
  case 18: return GgmlType{"iq3_xxs", 256, 98};
  case 19: return GgmlType{"iq1_s", 256, 50};
  case 20: return GgmlType{"iq4_nl", 32, 18};
  case 21: return GgmlType{"iq3_s", 256, 110};
  case 22: return GgmlType{"iq2_s", 256, 82};
  case 23: return GgmlType{"iq4_xs", 256, 136};
  case 24: return GgmlType{"int8", 1, 1};
  case 25: return GgmlType{"int16", 1, 2};
  case 26: return GgmlType{"int32", 1, 4};
  case 27: return GgmlType{"int64", 1, 8};
  case 28: return GgmlType{"float64", 1, 8};
  case 29: return GgmlType{"iq1_m", 256, 56};
  case 30: return GgmlType{"bfloat16", 1, 2};
  case 34: return GgmlType{"tq1_0", 256, 54};
  case 35: return GgmlType{"tq2_0", 256, 66};
  case 39: return GgmlType{"mxfp4", 32, 17};
  case 40: return GgmlType{"nvfp4", 64, 36};
  case 41: return GgmlType{"q1_0", 128, 18};
  default: return std::nullopt;
  }
}

bool GgufCursor::room(uint64_t Wanted) {
  Good = Good && At <= Bytes.size() && Wanted <= Bytes.size() - At;
  return Good;
}

StringRef GgufCursor::text() {
  uint64_t Length = number<uint64_t>();
  if (!room(Length))
    return "";
  StringRef Out = Bytes.substr(At, Length);
  At += Length;
  return Out;
}

std::string GgufCursor::scalar(GgufType Type) {
  switch (Type) {
  case GgufType::UInt8: return utostr(number<uint8_t>());
  case GgufType::Int8: return itostr(number<int8_t>());
  case GgufType::UInt16: return utostr(number<uint16_t>());
  case GgufType::Int16: return itostr(number<int16_t>());
  case GgufType::UInt32: return utostr(number<uint32_t>());
  case GgufType::Int32: return itostr(number<int32_t>());
  case GgufType::UInt64: return utostr(number<uint64_t>());
  case GgufType::Int64: return itostr(number<int64_t>());
  // 7 digits tell a float apart, and 1e-05 should not print as 9.99999975e-06.
  case GgufType::Float32:
    return formatNumber(bit_cast<float>(number<uint32_t>()), 7);
  case GgufType::Float64:
    return formatNumber(bit_cast<double>(number<uint64_t>()), 15);
  case GgufType::Bool: return number<uint8_t>() ? "true" : "false";
  case GgufType::String: return text().str();
  case GgufType::Array: return "";
  }
  return "";
}

/// Bytes of a value; 0 where the value tells itself.
static unsigned widthOf(GgufType Type) {
  switch (Type) {
  case GgufType::UInt8:
  case GgufType::Int8:
  case GgufType::Bool: return 1;
  case GgufType::UInt16:
  case GgufType::Int16: return 2;
  case GgufType::UInt32:
  case GgufType::Int32:
  case GgufType::Float32: return 4;
  case GgufType::UInt64:
  case GgufType::Int64:
  case GgufType::Float64: return 8;
  case GgufType::String:
  case GgufType::Array: return 0;
  }
  return 0;
}

void GgufCursor::skip(GgufType Type, uint64_t Count, unsigned Depth) {
  constexpr unsigned MaxDepth = 4;
  if (unsigned Width = widthOf(Type)) {
    if (Count > (Bytes.size() - std::min(At, Bytes.size())) / Width)
      Good = false;
    if (Good)
      At += Count * Width;
    return;
  }
  if (Type == GgufType::Array && Depth == MaxDepth)
    Good = false;
  // Each element takes 8 bytes at least, so this ends with the file.
  for (uint64_t I = 0; I != Count && Good; ++I) {
    if (Type == GgufType::String) {
      (void)text();
      continue;
    }
    uint32_t Inner = number<uint32_t>();
    uint64_t Size = number<uint64_t>();
    if (Inner >= NumGgufTypes)
      Good = false;
    if (Good)
      skip(static_cast<GgufType>(Inner), Size, Depth + 1);
  }
}

bool forEachEntry(GgufCursor &In, uint64_t Count,
                  function_ref<bool(const GgufEntry &)> Each) {
  for (uint64_t I = 0; I != Count; ++I) {
    GgufEntry Entry;
    Entry.Key = In.text();
    uint32_t Type = In.number<uint32_t>();
    if (Type == static_cast<uint32_t>(GgufType::Array)) {
      Type = In.number<uint32_t>();
      Entry.Count = In.number<uint64_t>();
    }
    if (!In.ok() || Type >= NumGgufTypes)
      return false;
    Entry.Type = static_cast<GgufType>(Type);
    Entry.Offset = In.offset();
    In.skip(Entry.Type, Entry.Count.value_or(1));
    if (!In.ok() || !Each(Entry))
      return false;
  }
  return true;
}

} // namespace culprit
