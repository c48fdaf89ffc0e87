//===- TextEncoding.h - Text as UTF-8 ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What Windows calls Unicode is UTF-16 with a byte-order mark: Excel's text,
/// and whatever PowerShell redirects to a file.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TEXTENCODING_H
#define CULPRIT_READERS_TEXTENCODING_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// \p Text as UTF-8 without a byte-order mark: a view of it, or of
/// \p Converted, which takes UTF-16 of either order. A text that breaks off
/// inside a character loses that; one that is no UTF-16 in spite of its mark is
/// empty.
llvm::StringRef asUtf8(llvm::StringRef Text, std::string &Converted);

} // namespace culprit

#endif // CULPRIT_READERS_TEXTENCODING_H
