//===- TextEncoding.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/TextEncoding.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/ConvertUTF.h"

using namespace llvm;

namespace culprit {

StringRef asUtf8(StringRef Text, std::string &Converted) {
  if (Text.consume_front("\xEF\xBB\xBF") ||
      !hasUTF16ByteOrderMark(ArrayRef(Text.data(), Text.size())))
    return Text;
  // A head, or a file that breaks off, may end inside a character, or between
  // the halves of one.
  size_t Even = Text.size() / 2 * 2;
  for (size_t Cut : {0, 2}) {
    Converted.clear();
    if (Even >= 2 + Cut && convertUTF16ToUTF8String(
                               ArrayRef(Text.data(), Even - Cut), Converted))
      return Converted;
  }
  return "";
}

} // namespace culprit
