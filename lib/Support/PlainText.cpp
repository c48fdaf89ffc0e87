//===- PlainText.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/PlainText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Unicode.h"

using namespace llvm;

namespace culprit {

std::string printable(StringRef Text, bool KeepBreaks) {
  std::string Out;
  for (char C : Text) {
    if (KeepBreaks && (C == '\n' || C == '\t'))
      Out += C;
    else if (C == '\n')
      Out += "\\n";
    else if (C == '\t')
      Out += "\\t";
    else if (static_cast<unsigned char>(C) < 0x20 || C == 0x7f)
      Out += "\\x" + toHex(StringRef(&C, 1), /*LowerCase=*/true);
    else
      Out += C;
  }
  return json::isUTF8(Out) ? Out : json::fixUTF8(Out);
}

size_t widthOf(StringRef Text) {
  int Columns = sys::unicode::columnWidthUTF8(Text);
  return Columns < 0 ? Text.size() : static_cast<size_t>(Columns);
}

} // namespace culprit
