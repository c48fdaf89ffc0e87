//===- MarkdownCell.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/MarkdownCell.h"

using namespace llvm;

namespace culprit {

std::string markdownCell(StringRef Text) {
  std::string Out;
  for (char C : Text) {
    if (StringRef("|<*_`\\[").contains(C))
      Out += '\\';
    Out += C == '\n' ? ' ' : C;
  }
  return Out;
}

} // namespace culprit
