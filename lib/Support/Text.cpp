//===- Text.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Text.h"
#include <cmath>

using namespace llvm;

namespace culprit {

StringRef wholeCharacters(StringRef Text, size_t Most) {
  if (Text.size() <= Most)
    return Text;
  size_t End = Most;
  // The first byte that is left out begins a character.
  while (End != 0 && Most - End < 4 && (uint8_t(Text[End]) & 0xc0) == 0x80)
    --End;
  return Text.take_front(End);
}

std::string shortened(StringRef Text, size_t Most) {
  if (Text.size() <= Most)
    return Text.str();
  return wholeCharacters(Text, Most - 3).str() + "...";
}

json::Value jsonText(StringRef Text) {
  return json::isUTF8(Text) ? Text.str() : json::fixUTF8(Text);
}

json::Value jsonNumber(double Value) {
  if (std::isfinite(Value))
    return Value;
  return std::isnan(Value) ? "nan" : Value > 0 ? "inf" : "-inf";
}

} // namespace culprit
